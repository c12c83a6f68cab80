"""K1-K7: the grammar of session keys."""

import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from core.model.errors import Invalid
from core.model.keys import KINDS, MAIN, MAX_KEY_BYTES, kind_of, main_key, parse, quoted, resolve, shown
from tests.support.keys import AGENTS, CHANNELS, Made, canonical, ids

UUID = "0b9cf1f0-5b1e-4c53-8f0a-3c6f8b2d7a11"


def any_case(text: str, flips: list[bool]) -> str:
    """Change the case of some letters."""
    return "".join(c.upper() if flip else c for c, flip in zip(text, flips, strict=False))


def respelled(made: Made, flips: list[bool]) -> str:
    """Spell agent id and channel, where the key has them, in another case."""
    parts = made.text.split(":")
    if made.agent_id is not None:
        parts[0], parts[1] = any_case(parts[0], flips), any_case(parts[1], flips)
    if made.channel is not None:
        parts[2] = any_case(parts[2], flips)
    return ":".join(parts)


PARTS = st.sampled_from(
    ["agent", "Agent", "main", "Main", "thread", "group", "Discord", "subagent", "cron", "node-1", "İ", "\u212a", " x"]
)
FLIPS = st.lists(st.booleans(), min_size=12, max_size=12)


@pytest.mark.spec("K2", "K3", "K4", "K7")
@given(canonical())
@example(Made("agent:subagent:main", "main", "subagent"))
@example(Made("cron:group:nightly", "cron"))
def test_a_canonical_key_is_read_as_it_was_made(made: Made) -> None:
    key = parse(made.text)
    assert key.text == made.text
    assert (key.kind, key.agent_id, key.chat_type) == (made.kind, made.agent_id, made.chat_type)
    assert key.channel == made.channel
    assert (key.spawn_depth, key.is_subagent) == (made.depth, made.depth > 0)
    assert key.structured


@pytest.mark.spec("K7")
@given(canonical(), FLIPS, AGENTS)
def test_agent_and_channel_in_any_case_mean_the_same_key(made: Made, flips: list[bool], viewer: str) -> None:
    assert resolve(f"  {respelled(made, flips)} ", viewer) == made.text


@pytest.mark.spec("K7")
def test_ids_keep_their_case() -> None:
    assert parse("Agent:Ops:Discord:group:DevOps").text == "agent:ops:discord:group:DevOps"
    assert parse("agent:ops:discord:group:devops").text != parse("agent:ops:discord:group:DevOps").text


@pytest.mark.spec("K2", "K4", "K7")
@given(ids(), ids(), AGENTS, CHANNELS, FLIPS)
@example("ops", "t", "main", "discord", [True] * 12)
def test_the_words_of_every_form_are_read_in_any_case(
    one: str, two: str, agent: str, channel: str, flips: list[bool]
) -> None:
    forms = {
        f"{channel}:group:{one}": "group",
        f"{channel}:channel:{one}": "group",
        f"{channel}:direct:{one}": "other",
        f"{channel}:group:{one}:thread:{two}": "other",
        f"subagent:{one}": "other",
        f"subagent:{one}:subagent:{two}": "other",
        f"acp:{one}": "other",
        f"main:thread:{two}": "other",
    }
    for rest, kind in forms.items():
        words = [word if word in {one, two} else any_case(word, flips) for word in rest.split(":")]
        spelled, plain = f"agent:{agent}:{':'.join(words)}", f"agent:{agent}:{rest}"
        assert parse(spelled) == parse(plain), rest
        assert (parse(spelled).text, parse(spelled).kind) == (plain, kind)
        if rest.startswith((f"{channel}:group", f"{channel}:channel", "subagent:")):
            assert resolve(":".join(words), agent) == plain, "the short form too"


@pytest.mark.spec("K7")
@given(st.lists(PARTS, min_size=1, max_size=8).map(":".join))
@example("agent:" + "İ" * 200 + ":x" + "y" * 100)
def test_canonicalising_twice_changes_nothing(text: str) -> None:
    try:
        once = parse(text).text
    except Invalid:
        assume(False)
        raise
    assert parse(once).text == once
    assert parse(once) == parse(text)


@pytest.mark.spec("K1", "K2", "K4")
@given(st.one_of(canonical().map(lambda made: made.text), st.just("main"), st.uuids().map(str)), AGENTS, st.booleans())
def test_resolving_twice_changes_nothing(text: str, viewer: str, is_global: bool) -> None:
    once = resolve(text, viewer, global_agent="main" if is_global else None)
    assert resolve(once, viewer, global_agent="main" if is_global else None) == once


@pytest.mark.spec("K1", "K5")
@given(canonical(), AGENTS, st.booleans())
@example(Made("cron:channel:x", "cron"), "main", False)
def test_what_is_shown_can_be_given_back(made: Made, viewer: str, is_global: bool) -> None:
    back = resolve(shown(made.text, None if is_global else viewer), viewer, global_agent="main" if is_global else None)
    assert back == (MAIN if is_global and made.text == main_key("main") else made.text)


@pytest.mark.spec("K1")
@given(AGENTS, st.sampled_from(["main", "MAIN", " Main "]))
def test_main_is_the_main_session_of_the_current_agent(agent: str, spelled: str) -> None:
    assert resolve(spelled, agent) == f"agent:{agent}:main"
    assert shown(f"agent:{agent}:main", agent) == "main"
    assert shown(f"agent:{agent}:main", agent + "x") == f"agent:{agent}:main"


@pytest.mark.spec("K5")
@given(AGENTS, AGENTS)
def test_with_global_scope_main_is_the_one_session_and_every_key_means_one_thing(viewer: str, agent: str) -> None:
    for name in ("main", "Main", "global", "agent:main:main"):
        assert resolve(name, viewer, global_agent="main") == MAIN
    own = f"agent:{agent}:main"
    assert resolve(own, viewer, global_agent="main") == (MAIN if agent == "main" else own)
    assert shown(own, None) == own
    assert parse(MAIN).kind == "main"


@pytest.mark.spec("K2")
@given(CHANNELS, st.sampled_from(["group", "channel"]), ids(), AGENTS, FLIPS)
def test_the_older_room_form_belongs_to_the_current_agent(
    channel: str, room: str, name: str, agent: str, flips: list[bool]
) -> None:
    assert resolve(f"{any_case(channel, flips)}:{room}:{name}", agent) == f"agent:{agent}:{channel}:{room}:{name}"


@pytest.mark.spec("K4")
@given(st.uuids(), AGENTS)
def test_the_older_subagent_form_belongs_to_the_current_agent(uuid: object, agent: str) -> None:
    assert resolve(f"subagent:{uuid}", agent) == f"agent:{agent}:subagent:{uuid}"


@pytest.mark.spec("K5")
@pytest.mark.parametrize(("reserved", "is_global"), [("global", False), ("unknown", False), ("unknown", True)])
def test_reserved_keys_cannot_be_named(reserved: str, is_global: bool) -> None:
    with pytest.raises(Invalid, match=reserved):
        resolve(reserved, "main", global_agent="main" if is_global else None)


@pytest.mark.spec("K6")
@given(st.uuids(), AGENTS)
def test_a_session_id_comes_back_unchanged(uuid: object, agent: str) -> None:
    assert resolve(str(uuid), agent) == str(uuid)
    assert not parse(str(uuid)).structured


MALFORMED = (
    "",
    "   ",
    ":",
    "agent:main:",
    "agent::main",
    ":main",
    "agent: :main",
    "agent",
    "agent:main",
    "discord::group:x",
    "agent:main:a..b",
    "..",
    "agent:main:../../etc/passwd",
    "agent:main:a\nb",
    "agent:main:a\x00b",
    "agent:main:\x1b[2J",
    "agent:main:a\x85b",
    "agent:main:a\u2028b",
    "agent:main:a\u202eb",
    "agent:main:\ud800",
    "agent:main:" + "x" * MAX_KEY_BYTES,
    "agent:main:" + "漢" * 170,
)


@pytest.mark.spec("K7")
@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_keys_are_refused_in_one_clear_sentence(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        resolve(text, "main")
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 250


@pytest.mark.spec("K7")
@given(
    canonical(),
    st.integers(0, 40),
    st.sampled_from([*map(chr, range(32)), "\x7f", "\x80", "\x9f", "\u200f", "\u2066", "\ud834"]),
)
def test_a_control_character_anywhere_is_refused(made: Made, at: int, bad: str) -> None:
    text = made.text[:at] + bad + made.text[at:]
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert caught.value.message.isprintable()


@pytest.mark.spec("K7")
def test_512_bytes_fit_and_513_do_not() -> None:
    fits = "cron:" + "x" * (MAX_KEY_BYTES - 5)
    assert parse(fits).text == fits
    with pytest.raises(Invalid, match="512 bytes"):
        parse(fits + "x")


@pytest.mark.spec("K7")
@given(canonical(), st.sampled_from([None, "operator", "spawn", "cron", "hook", "node", "discord"]))
def test_the_kind_comes_from_the_key_else_from_the_origin(made: Made, origin: str | None) -> None:
    expected = origin if made.kind == "other" and origin in {"cron", "hook", "node"} else made.kind
    assert kind_of(made.text, origin) == expected
    assert kind_of(made.text, origin) in KINDS


@pytest.mark.spec("K6")
@given(st.text(string.ascii_letters + string.digits, min_size=1, max_size=20))
def test_a_free_word_is_no_key_that_a_message_may_create(word: str) -> None:
    assume(word.lower() not in {"main", "global", "unknown", "agent"})
    assert not parse(word).structured


@given(st.text(max_size=200))
def test_quoted_text_is_always_fit_for_a_sentence(text: str) -> None:
    assert quoted(text).isprintable()
    quoted(text).encode()


def test_all_documented_forms() -> None:
    forms = {
        "agent:main:main": "main",
        "agent:main:discord:group:1": "group",
        "agent:main:slack:channel:c": "group",
        f"agent:main:subagent:{UUID}": "other",
        f"agent:main:acp:{UUID}": "other",
        "agent:main:main:thread:7": "other",
        "agent:main:discord:group:1:thread:7": "other",
        "cron:nightly": "cron",
        f"hook:{UUID}": "hook",
        "node-laptop": "node",
        "main": "main",
    }
    assert {text: parse(text).kind for text in forms} == forms
