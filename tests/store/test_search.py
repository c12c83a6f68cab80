"""T1, L6: words in transcripts, and parts of names."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.model.access import ALL, Agents, One, Scope, Tree
from core.model.messages import note_draft, thinking_block, tool_call_block
from core.model.sessions import SearchHit, SessionQuery
from core.store import messages, search, sessions
from core.store.database import Store, Tx
from core.store.messages import Draft
from tests.support.stores import create, opened, say, tool_draft

ROOT, CHILD, OTHER = "agent:main:main", "agent:ops:subagent:1", "agent:lab:main"


def texts(store: Store, text: str, scope: Scope = ALL, **more: object) -> list[str]:
    """Return what is found, as session and place."""
    hits = search.messages(store.db, text, scope, limit=int(str(more.pop("limit", 50))), **more)  # type: ignore[arg-type] - the rest are its own
    return [f"{hit.key} {hit.seq}" for hit in hits]


async def filled(store: Store, *said: tuple[str, str]) -> None:
    """Create three sessions of three agents, one spawned by another, and let them speak."""

    def fill(tx: Tx) -> None:
        create(tx, ROOT)
        create(tx, CHILD, spawned_by=ROOT)
        create(tx, OTHER)
        for key, text in said:
            say(tx, key, text)

    await store.write(fill)


async def test_every_word_must_be_there_and_the_last_may_be_a_start(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "the price of copper"), (ROOT, "copper prices"), (OTHER, "the weather"))
        assert texts(store, "copper") == [f"{ROOT} 2", f"{ROOT} 1"]
        assert texts(store, "copper the") == [f"{ROOT} 1"]
        assert texts(store, "the pri") == [f"{ROOT} 1"]
        assert texts(store, "pri copper") == [], "only the last word may be a start"
        assert texts(store, "COPPER Pric") == [f"{ROOT} 2", f"{ROOT} 1"]
        assert texts(store, "silver") == []


async def test_newest_first_and_no_more_than_asked_for(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, *((ROOT if n % 2 else OTHER, f"copper {n}") for n in range(10)))
        assert texts(store, "copper", limit=3) == [f"{ROOT} 5", f"{OTHER} 5", f"{ROOT} 4"]


@pytest.mark.spec("V5")
async def test_only_what_the_scope_shows_is_found(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "copper"), (CHILD, "copper"), (OTHER, "copper"))
        assert texts(store, "copper", One(CHILD)) == [f"{CHILD} 1"]
        assert texts(store, "copper", Tree(ROOT)) == [f"{CHILD} 1", f"{ROOT} 1"]
        assert texts(store, "copper", Agents(frozenset({"lab"}))) == [f"{OTHER} 1"]
        assert texts(store, "copper", ALL, key=ROOT) == [f"{ROOT} 1"]
        assert texts(store, "copper", One(OTHER), key=ROOT) == []


async def test_what_tools_answered_is_found_and_what_was_thought_is_not(state: Path) -> None:
    async with opened(state) as store:
        await filled(store)

        def fill(tx: Tx) -> None:
            messages.append(tx, ROOT, tool_draft("a copper answer"))
            messages.append(tx, ROOT, note_draft("a copper note"))
            messages.append(tx, ROOT, Draft("assistant", (thinking_block("copper thought"),)))
            messages.append(tx, ROOT, Draft("assistant", (tool_call_block("c", "t", {"q": "copper"}),)))

        await store.write(fill)
        assert texts(store, "copper") == [f"{ROOT} 2", f"{ROOT} 1"]


async def test_other_scripts_and_accents(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "Café crème"), (ROOT, "Жук летит"), (ROOT, "e\u0301te\u0301 indien"))
        assert texts(store, "cafe") == texts(store, "CAFÉ") == texts(store, "cafe\u0301") == [f"{ROOT} 1"]
        assert texts(store, "жук") == [f"{ROOT} 2"]
        assert texts(store, "été") == texts(store, "e\u0301te\u0301") == [f"{ROOT} 3"]


async def test_old_transcripts_are_found_with_their_own_id(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "old copper"))
        before = sessions.by_key(store.db, ROOT)
        assert before is not None
        await store.write(lambda tx: sessions.new_transcript(tx, before))
        await store.write(lambda tx: say(tx, ROOT, "new copper"))
        new, old = search.messages(store.db, "copper", ALL, limit=5)
        assert old.session_id == before.session_id
        assert new.session_id != before.session_id
        assert (old.seq, new.seq) == (1, 2)


def check_snippet(hit: SearchHit) -> None:
    """Check that what is marked in a snippet is what was looked for."""
    assert len(hit.snippet) <= search.SNIPPET_CHARS
    assert "\n" not in hit.snippet
    for start, end in hit.spans:
        assert hit.snippet[start:end].lower() == "copper"


async def test_the_snippet_shows_the_words_and_where_they_stand(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "x " * 500 + "so\nCopper it is, copper " + "y " * 500), (ROOT, "copper"))
        short, long = search.messages(store.db, "copper", ALL, limit=5)
        for hit in (short, long):
            check_snippet(hit)
        assert len(long.spans) == 2
        assert short.spans == ((0, 6),)


async def test_only_the_start_of_a_huge_message_is_searched(state: Path) -> None:
    async with opened(state) as store:
        await filled(store, (ROOT, "x " * 40_000 + "copper"), (ROOT, "copper " + "x " * 40_000))
        assert texts(store, "copper") == [f"{ROOT} 2"]


HOSTILE = st.text(
    st.one_of(st.sampled_from("\"'*()^:-+{}.,;%_\\/ \0\n"), st.sampled_from("ANDORNEAT"), st.characters()),
    max_size=30,
)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return an empty store; what matters is that no query is a mistake."""
    store = Store.open(tmp_path_factory.mktemp("searched"), SystemClock())
    yield store
    store.close()


@settings(max_examples=300)
@given(HOSTILE)
def test_no_text_is_a_query_of_its_own(searched: Store, text: str) -> None:
    search.messages(searched.db, text, ALL, limit=5)
    searchable = text.encode("utf-8", "ignore").decode()
    sessions.select(searched.db, SessionQuery(search=searchable or None), ALL)


@pytest.mark.spec("L6")
@pytest.mark.parametrize("needle", ["ops", "OPS", "p", "roc", "rocket team", "fuel is", "50%", "a_b", 'say "hi"', "é"])
async def test_names_and_the_newest_message_are_searched_for_any_part(state: Path, needle: str) -> None:
    async with opened(state) as store:

        def fill(tx: Tx) -> None:
            create(tx, "agent:main:discord:group:devops", display_name="Rocket Team", label="50% done")
            say(tx, "agent:main:discord:group:devops", 'the fuel is low, a_b, say "hi" café')
            create(tx, "agent:main:x", label="nothing like it")
            say(tx, "agent:main:x", "500 axb")

        await store.write(fill)
        found = sessions.select(store.db, SessionQuery(search=needle), ALL).sessions
        assert [row.key for row in found] == ["agent:main:discord:group:devops"]


@pytest.mark.spec("L6")
async def test_a_changed_label_is_found_and_the_old_one_is_not(state: Path) -> None:
    async with opened(state) as store:
        await filled(store)
        await store.write(lambda tx: sessions.update(tx, ROOT, label="rocket"))
        await store.write(lambda tx: sessions.update(tx, ROOT, label="submarine"))
        assert not sessions.select(store.db, SessionQuery(search="rocket"), ALL).sessions
        assert len(sessions.select(store.db, SessionQuery(search="submar"), ALL).sessions) == 1
        await store.write(lambda tx: sessions.update(tx, ROOT, label=None))
        assert not sessions.select(store.db, SessionQuery(search="submar"), ALL).sessions


@given(st.text(st.sampled_from("ab_%\\\"' "), min_size=1, max_size=6))
def test_like_means_the_characters_themselves(text: str) -> None:
    condition, needles = sessions.search_condition(text)
    assert condition.count("?") == len(needles)
    pattern = needles[-1]
    assert pattern.startswith("%")
    assert re.sub(r"\\(.)", r"\1", pattern[1:-1]) == text
