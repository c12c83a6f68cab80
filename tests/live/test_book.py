"""The rows of the sessions: any order of events, with gaps, duplicates and reloads, ends in the same picture."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.book import Book
from console.live.placement import ORDERS, Placed
from core.model.events import Activity, RunChanged, SessionChanged
from core.model.sessions import Session
from tests.live.samples import make_run, make_session

KEYS = [f"agent:main:s{number}" for number in range(6)]
STATES = st.sampled_from([None, "queued", "running", "done", "error", "aborted", "interrupted"])


@st.composite
def histories(draw: st.DrawFn) -> list[Session]:
    """Draw versions of some sessions in the order in which they were written; parents may be absent."""
    versions: list[Session] = []
    parents = {key: draw(st.sampled_from([None, "agent:main:gone", *KEYS[:number]])) for number, key in enumerate(KEYS)}
    for rev in range(1, draw(st.integers(1, 20))):
        key = draw(st.sampled_from(KEYS))
        fields: dict[str, Any] = {
            "status": draw(STATES),
            "label": draw(st.sampled_from([None, "alpha", "beta"])),
            "archived_at": draw(st.sampled_from([None, None, None, 5])),
            "updated_at": rev,
            "last_seq": rev,
            "spawned_by": parents[key],
            "cost_usd": draw(st.sampled_from([None, 0.5])),
        }
        versions.append(make_session(key, rev=rev, **fields))
    return versions


def newest(versions: list[Session]) -> dict[str, Session]:
    return {session.key: session for session in versions}


def picture(book: Book) -> list[Placed]:
    book.placement.reset()
    return book.placement.placed()


@given(
    histories(),
    st.randoms(use_true_random=False),
    st.sampled_from(ORDERS),
    st.booleans(),
    st.sampled_from(["", "alpha", "S1 other"]),
)
def test_any_order_of_events_ends_in_the_same_rows(
    versions: list[Session], random: Any, order: Any, archived: bool, needle: str
) -> None:
    expected = Book()
    expected.load(newest(versions).values(), dict.fromkeys(KEYS, 0))
    events = versions + random.sample(versions, len(versions) // 2)
    random.shuffle(events)
    book = Book()
    book.load((), {})
    book.listed.add("")
    for at, session in enumerate(events):
        book.apply(SessionChanged(session.rev, session))
        if at % 3 == 0:
            book.placement.placed()
    for session in newest(versions).values():
        book.apply(SessionChanged(session.rev, session))
    for one in (book, expected):
        one.placement.order, one.placement.archived, one.placement.needle = order, archived, needle
    assert picture(book) == picture(expected)
    assert book.rows == expected.rows
    assert book.counts == expected.counts
    assert book.costs or not expected.costs


@given(histories(), st.integers(0, 20), st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3)))
def test_what_is_heard_before_the_list_of_a_gateway_does_not_make_old_messages_new(
    versions: list[Session], listed: int, seen: dict[str, int]
) -> None:
    before, after = versions[:listed], versions[listed:]
    known = newest(before)
    book = Book()
    for session in versions:  # the list was asked for before some of it, and comes behind all of it
        book.apply(SessionChanged(session.rev, session))
    book.load_one("", known.values(), seen)
    for key, session in newest(versions).items():
        looked_at = seen.get(key, known[key].last_seq) if key in known else 0
        assert book.rows[key].session == session
        assert book.rows[key].unread == max(0, session.last_seq - looked_at), after
    for session in after:
        assert book.apply(SessionChanged(session.rev, session)) is None


@given(histories(), st.sampled_from(ORDERS), st.booleans(), st.lists(st.sampled_from(KEYS), min_size=1))
def test_what_is_placed_step_by_step_is_what_is_placed_at_once(
    versions: list[Session], order: Any, archived: bool, selected: list[str]
) -> None:
    book = Book()
    book.placement.order, book.placement.archived = order, archived
    book.placement.placed()
    for number, session in enumerate(versions):
        book.placement.select(selected[number % len(selected)])
        book.apply(SessionChanged(session.rev, session))
        stepwise = book.placement.placed()
        assert stepwise == picture(book)


@given(histories())
def test_every_session_is_shown_once_or_for_a_reason_not(versions: list[Session]) -> None:
    book = Book()
    book.load(newest(versions).values(), {})
    shown = [placed.key for placed in picture(book)]
    book.placement.archived = True
    shown += [placed.key for placed in picture(book)]
    assert len(shown) == len(set(shown))
    hidden = set(book.rows) - set(shown)
    assert all(book.rows[key].look == "done" and book.rows[key].session.spawned_by in book.rows for key in hidden)


def test_a_book_loaded_in_the_middle_goes_on_from_there() -> None:
    old = [make_session(key, rev=1) for key in KEYS]
    book = Book()
    book.load(old, {})
    book.apply(SessionChanged(9, make_session(KEYS[0], rev=9, label="new")))
    book.load([make_session(key, rev=10, label="newest") for key in KEYS[:2]], {})
    assert {row.name for row in book.rows.values()} == {"newest"}
    assert len(book.placement.placed()) == 2


def test_branches_of_sub_agents() -> None:
    book = Book()
    sub: dict[str, Any] = {"status": "running", "spawned_by": "agent:main:a"}
    book.load(
        [
            make_session("agent:main:a", label="a"),
            make_session("agent:main:b", created_at=2, **sub),
            make_session("agent:main:c", created_at=1, **sub),
            make_session("agent:main:d", status="running", spawned_by="agent:main:b"),
            make_session("agent:main:orphan", status="running", spawned_by="agent:main:gone", updated_at=0),
        ],
        {},
    )
    assert [(placed.key[-1], placed.branch) for placed in picture(book)[:4]] == [
        ("a", ""),
        ("b", "├"),
        ("d", "│ └"),
        ("c", "└"),
    ]
    assert picture(book)[4] == Placed("agent:main:orphan")


def test_a_sub_agent_that_is_done_stays_while_the_operator_is_at_it() -> None:
    book = Book()
    child = make_session("agent:main:b", status="running", spawned_by="agent:main:a", label="b")
    book.load([make_session("agent:main:a", label="a"), child], {})
    book.placement.select(child.key)
    book.apply(SessionChanged(child.rev + 1, child._replace(rev=child.rev + 1, status="done")))
    assert [placed.key for placed in book.placement.placed()] == ["agent:main:a", child.key]
    book.placement.select("agent:main:a")
    assert [placed.key for placed in book.placement.placed()] == ["agent:main:a"]


@pytest.mark.parametrize("ring", [["a"], ["a", "b"], ["a", "b", "c"]], ids=len)
def test_sessions_that_spawned_each_other_do_no_harm(ring: list[str]) -> None:
    book = Book()
    for number, name in enumerate(ring):
        parent = f"agent:main:{ring[(number + 1) % len(ring)]}"
        book.apply(SessionChanged(1, make_session(f"agent:main:{name}", status="running", spawned_by=parent)))
        book.placement.placed()
    assert len(picture(book)) <= len(ring)


def test_words_of_a_run_go_when_it_ends_and_unread_is_counted() -> None:
    book = Book()
    book.load([make_session("key", status="running", last_seq=3)], {})
    assert book.rows["key"].unread == 0
    assert book.apply(Activity("key", "run", "two\nwords")) == "key"
    assert book.rows["key"].words == "two words"
    assert book.apply(RunChanged(2, make_run("key"))) == "key"
    assert book.rows["key"].words == ""
    book.apply(SessionChanged(3, make_session("key", rev=3, last_seq=5)))
    assert book.rows["key"].unread == 2
    assert book.unseen() == {"key": 3}
    assert book.mark_seen("key")
    assert not book.mark_seen("key")
    assert book.apply(Activity("nobody", "run", "words")) is None
