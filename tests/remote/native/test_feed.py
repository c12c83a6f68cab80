"""A feed whose connection comes and goes: nothing durable missed or repeated, and never more than it may hold."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.event_stream import QUEUE_EVENTS
from core.model.connection import Connection
from core.model.events import ConnectionChanged, Event, Gap, Reloaded, SessionGone
from core.remote.native.feed import RemoteFeed, Wish


def gone(rev: int) -> Event:
    """Return something durable."""
    return SessionGone(rev, "agent:main:x", "id")


def feed_at(cursor: int | None, wish: Callable[[RemoteFeed, Wish], None] = lambda feed, wish: None) -> RemoteFeed:
    """Return a feed that wants everything after a cursor."""
    return RemoteFeed("1", cursor, None, wish)


def handed_out(feed: RemoteFeed) -> list[Event]:
    """Take everything that is there."""
    found: list[Event] = []
    while (event := feed.take_next()) is not None:
        found.append(event)
    return found


def test_what_comes_before_the_answer_waits_for_it() -> None:
    feed = feed_at(50)
    turn = feed.begin()
    feed.take(turn, [gone(3)])
    assert handed_out(feed) == []
    feed.begun(turn, "other store", 2, reset=True)
    assert handed_out(feed) == [Reloaded(), gone(3)]
    assert (feed.cursor, feed.store_id) == (3, "other store")


def test_only_the_newest_turn_counts() -> None:
    feed = feed_at(1)
    old, new = feed.begin(), feed.begin()
    feed.begun(old, "s", 99, reset=True)
    feed.take(old, [gone(2)])
    feed.begun(new, "s", 1, reset=False)
    feed.take(old, [gone(3)])
    feed.take(new, [gone(4)])
    assert handed_out(feed) == [gone(4)]


def test_what_was_queued_and_comes_again_is_handed_out_once() -> None:
    feed = feed_at(0)
    turn = feed.begin()
    feed.begun(turn, "s", 0, reset=False)
    feed.take(turn, [gone(1), gone(2)])
    feed.tell(ConnectionChanged(Connection("lost")))
    again = feed.begin()
    assert feed.after == 0, "nothing was handed out yet"
    feed.begun(again, "s", 0, reset=False)
    feed.take(again, [gone(1), gone(2), gone(3)])
    assert handed_out(feed) == [gone(1), gone(2), ConnectionChanged(Connection("lost")), gone(3)]


def test_a_feed_that_could_not_begin_has_everything_read_again() -> None:
    feed = feed_at(None)
    feed.missed()
    feed.begun(feed.begin(), "s", 7, reset=False)
    assert handed_out(feed) == [Reloaded()]
    prompt = feed_at(None)
    prompt.begun(prompt.begin(), "s", 7, reset=False)
    assert (handed_out(prompt), prompt.cursor) == ([], 7)


async def test_a_full_feed_ends_at_a_gap_and_begins_again_when_it_was_read() -> None:
    wishes: list[Wish] = []
    feed = feed_at(0, lambda _, wish: wishes.append(wish))
    turn = feed.begin()
    feed.begun(turn, "s", 0, reset=False)
    for start in range(1, 3 * QUEUE_EVENTS, 64):
        feed.take(turn, [gone(rev) for rev in range(start, start + 64)])
    assert feed.pending == QUEUE_EVENTS + 1
    assert wishes == ["end"]
    seen: list[Any] = []

    async def listen() -> None:
        async for event in feed:
            seen.append(event)  # noqa: PERF401 - the test looks on while it grows

    task = asyncio.create_task(listen())
    while len(wishes) < 2:
        await asyncio.sleep(0)
    assert wishes == ["end", "begin"]
    assert (seen[-1], feed.cursor) == (Gap(), QUEUE_EVENTS)
    turn = feed.begin()
    feed.begun(turn, "s", feed.cursor, reset=False)
    feed.take(turn, [gone(QUEUE_EVENTS + 1)])
    while seen[-1] != gone(QUEUE_EVENTS + 1):
        await asyncio.sleep(0)
    feed.close()
    await task
    assert wishes[-1] == "end"


@given(steps=st.lists(st.sampled_from(["write", "send", "read", "cut"]), max_size=60))
def test_whatever_happens_nothing_durable_is_missed_or_repeated(steps: list[str]) -> None:
    """A gateway writes, sends what it has to a feed that is begun, and the connection is lost at any moment."""
    feed = feed_at(0)
    newest, sent, seen = 0, 0, list[int]()
    turn = feed.begin()
    feed.begun(turn, "s", 0, reset=False)
    for step in [*steps, "send", "read"]:
        if step == "write":
            newest += 1
        elif step == "send":
            feed.take(turn, [gone(rev) for rev in range(sent + 1, newest + 1)])
            sent = newest
        elif step == "read":
            seen += [event.rev for event in handed_out(feed) if isinstance(event, SessionGone)]
        else:
            feed.take(turn, [gone(rev) for rev in range(sent + 1, newest + 1)][:1])
            turn = feed.begin()
            sent = feed.after or 0
            feed.begun(turn, "s", sent, reset=False)
    assert seen == list(range(1, newest + 1))
