"""The feed: bounded, in order, nothing durable missed or repeated (architecture#feeds)."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core import event_stream
from core.agents.port import AgentEvent, Reply, TextDelta, ThinkingDelta, Turn
from core.event_stream import QUEUE_EVENTS
from core.model.access import OPERATOR
from core.model.events import (
    Activity,
    ConnectionChanged,
    Delta,
    DurableEvent,
    Gap,
    MessageAppended,
    Reloaded,
    SessionChanged,
    SessionGone,
    ToolProgress,
)
from core.model.messages import Message, text_block, thinking_block, tool_call_block
from core.runtime.feed import EventHub, RuntimeFeed
from core.runtime.gateway import Runtime
from core.store.database import last_rev
from tests.model.test_sessions import FULL
from tests.support.runtimes import MAIN, Agent, begin, listening, running, send, session, transcript, until
from tests.support.stores import create, say

OTHER = "agent:main:other"


async def test_a_subscriber_that_falls_behind_catches_up(runtime: Runtime) -> None:
    feed = runtime.subscribe()
    feed.watch(MAIN)
    await runtime.store.write(lambda tx: create(tx, MAIN))
    count = QUEUE_EVENTS
    await asyncio.gather(*(runtime.store.write(lambda tx: say(tx, MAIN, "hi")) for _ in range(count)))
    seen: list[Any] = []

    async def listen() -> None:
        async for event in feed:
            seen.append(event)  # noqa: PERF401 - the test looks on while it grows

    task = asyncio.create_task(listen())
    await until(lambda: len(seen) >= count)
    await runtime.store.write(lambda tx: say(tx, MAIN, "after"))
    await until(lambda: isinstance(seen[-1], MessageAppended) and seen[-1].message.text == "after")
    assert isinstance(seen[0], Gap)
    assert sum(isinstance(event, Gap) for event in seen) == 1
    seqs = [event.message.seq for event in seen if isinstance(event, MessageAppended)]
    assert seqs == list(range(1, count + 2)), "nothing missed, nothing twice, in order"
    assert feed.cursor == last_rev(runtime.store.db)
    feed.close()
    await task


class Paused:
    """An agent's play that says some words, waits, and goes on."""

    def __init__(self, *parts: AgentEvent) -> None:
        self.parts = parts
        self.said = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        for part in self.parts:
            yield part
        self.said.set()
        await self.go.wait()
        yield TextDelta(" and the rest")
        yield Reply((thinking_block("hm"), text_block("half and the rest")))


def joined(deltas: Iterable[Delta]) -> dict[int, str]:
    """Put deltas together as a screen does: each stands at its offset of its block."""
    blocks: dict[int, str] = {}
    for delta in deltas:
        before = blocks.get(delta.block, "")
        assert delta.offset <= len(before), "no hole"
        blocks[delta.block] = before[: delta.offset] + delta.text
    return blocks


async def test_a_late_watcher_gets_the_words_so_far_first(state: Path) -> None:
    play = Paused(ThinkingDelta("hm"), TextDelta("ha"), TextDelta("lf"))
    async with running(state, backends=Agent(play)) as runtime:
        await begin(runtime, MAIN, "go")
        await play.said.wait()
        async with listening(runtime) as listener:
            await until(lambda: runtime.active_runs)
            listener.feed.watch(MAIN)
            await until(lambda: len(listener.of(Delta)) == 2)
            first, second = listener.of(Delta)
            assert (first.block, first.kind, first.offset, first.text) == (0, "thinking", 0, "hm")
            assert (second.block, second.kind, second.offset, second.text) == (1, "text", 0, "half")
            play.go.set()
            await until(lambda: listener.of(MessageAppended))
            assert joined(listener.of(Delta))[1] in {"half", "half and the rest"}
            assert [event.message.text for event in listener.of(MessageAppended)] == ["half and the rest"]


async def stream(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say 300 words, one after the other, with a tool call in between."""
    for number in range(150):
        yield TextDelta(f"{number} ")
        await asyncio.sleep(0.001)
    yield Reply((text_block("first"), tool_call_block("c1", "sessions_list", {})), stop_reason="toolUse")
    for number in range(150):
        yield ThinkingDelta("t") if number < 10 else TextDelta(f"{number} ")
        await asyncio.sleep(0.001)
    yield Reply((text_block("".join(f"{number} " for number in range(10, 150))),))


async def test_deltas_are_few_whole_and_end_with_their_message(state: Path) -> None:
    async with running(state, backends=Agent(stream)) as runtime, listening(runtime, MAIN) as listener:
        await send(runtime, MAIN, "go")
        await until(lambda: len(listener.of(MessageAppended)) >= 3)
        parts: list[list[Delta]] = [[]]
        for event in listener.events:
            if isinstance(event, Delta):
                parts[-1].append(event)
            elif isinstance(event, MessageAppended) and event.message.role == "assistant":
                parts.append([])
        first, second, after = parts
        assert "".join(f"{number} " for number in range(150)).startswith(joined(first)[0])
        assert joined(second)[0] == "t" * 10
        assert "".join(f"{number} " for number in range(10, 150)).startswith(joined(second)[1])
        assert after == [], "a committed message ends its words"
        assert len(first) + len(second) < 60, "told at most 30 times a second"


async def test_activity_is_told_to_everybody_and_is_short(state: Path) -> None:
    async def long(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("word\n" * 200)
        await asyncio.sleep(0.06)
        yield Reply((text_block("done"),))

    async with running(state, backends=Agent(long)) as runtime, listening(runtime) as listener:
        await send(runtime, MAIN, "go")
        await until(lambda: listener.of(Activity))
        (activity,) = listener.of(Activity)
        assert activity.key == MAIN
        assert len(activity.words) <= 160
        assert "\n" not in activity.words
        assert not listener.of(Delta)


async def test_closing_a_feed_or_the_runtime_ends_the_stream(state: Path) -> None:
    async with running(state) as runtime:
        async with listening(runtime) as listener:
            pass
        assert listener.feed not in runtime.hub.feeds
        left = runtime.subscribe()
    assert [event async for event in left] == []


async def test_reading_goes_on_where_it_was_left(runtime: Runtime) -> None:
    feed = runtime.subscribe()
    feed.watch(MAIN)
    await send(runtime, MAIN, "hello")
    seen: list[Any] = [await anext(aiter(feed)) for _ in range(4)]
    await send(runtime, MAIN, "more")
    async for event in feed:
        seen.append(event)
        if isinstance(event, MessageAppended) and event.message.seq == 4:
            break
    revs = [event.rev for event in seen if isinstance(event, DurableEvent)]
    assert revs == sorted(set(revs))
    assert [event.message.seq for event in seen if isinstance(event, MessageAppended)] == [1, 2, 3, 4]
    feed.close()


# Everything at once: any order of changes, watching, reading and falling behind


KEYS = ("a", "b")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["row", "message", "message", "message", "passing", "watch", "unwatch", "watch all", "unwatch all"],
                *["read", "hold", "let", "stop"],
            ]
        ),
        st.sampled_from(KEYS),
    ),
    max_size=60,
)


def so_far(key: str | None) -> list[Delta]:
    """Return the words so far of one session or of all."""
    return [Delta(each, "r", 0, "text", 0, "so far") for each in (KEYS if key is None else (key,))]


class World:
    """A log of rows and messages, a hub over it, and one subscriber."""

    def __init__(self) -> None:
        self.rev = 0
        self.rows: dict[str, SessionChanged] = {}
        self.messages: list[MessageAppended] = []
        self.hub = EventHub(self.catch_up, so_far)
        self.feed: RuntimeFeed = self.hub.subscribe(0, None)
        self.free = asyncio.Event()
        self.free.set()
        self.seen: list[Any] = []
        self.watched_since: dict[str, int] = {}
        self.all_since: int | None = None
        self.reader: asyncio.Task[None] | None = None

    async def catch_up(self, cursor: int, watched: frozenset[str] | None) -> list[DurableEvent]:
        """Read what changed, before or after a pause."""
        await self.free.wait()
        found: list[DurableEvent] = [row for row in self.rows.values() if row.rev > cursor]
        wanted = KEYS if watched is None else watched
        found += [message for message in self.messages if message.rev > cursor and message.key in wanted]
        await asyncio.sleep(0)
        return sorted(found, key=lambda event: event.rev)

    def row(self, key: str) -> None:
        """Change a session."""
        self.rev += 1
        self.rows[key] = SessionChanged(self.rev, FULL._replace(key=key, rev=self.rev))
        self.hub.publish([self.rows[key]])

    def message(self, key: str) -> None:
        """Append a message."""
        self.rev += 1
        message = MessageAppended(self.rev, key, "s", Message(str(self.rev), self.rev, 0, "user", ()))
        self.messages.append(message)
        self.hub.publish([message])

    async def listen(self) -> None:
        """Read until cancelled."""
        async for event in self.feed:
            self.seen.append(event)

    async def settle(self) -> None:
        """Let everybody do what they can."""
        for _ in range(12):
            await asyncio.sleep(0)

    async def step(self, what: str, key: str) -> None:
        """Take one step."""
        match what:
            case "row":
                self.row(key)
            case "message":
                self.message(key)
            case "passing":
                self.hub.passing(Delta(key, "r", 0, "text", 0, "x"))
            case "watch":
                self.watched_since.setdefault(key, self.rev)
                self.feed.watch(key)
            case "unwatch":
                self.watched_since.pop(key, None)
                self.feed.unwatch(key)
            case "watch all":
                self.all_since = self.rev if self.all_since is None else self.all_since
                self.feed.watch(None)
            case "unwatch all":
                self.all_since = None
                self.feed.unwatch(None)
            case "hold":
                self.free.clear()
            case "let":
                self.free.set()
            case "stop":
                await self.stop()
            case _:
                self.reader = self.reader or asyncio.create_task(self.listen())
                await self.settle()

    async def stop(self) -> None:
        """Cancel the reader in whatever it does."""
        if self.reader is not None:
            self.reader.cancel()
            await asyncio.gather(self.reader, return_exceptions=True)
            self.reader = None


async def play(steps: list[tuple[str, str]]) -> World:
    """Take the steps, then read to the end."""
    world = World()
    for what, key in steps:
        await world.step(what, key)
    await world.step("let", "")
    for _ in range(6):
        await world.step("read", "")
    world.feed.close()
    await world.stop()
    return world


def check(world: World) -> None:
    """Compare what was read with what happened."""
    durable = [event for event in world.seen if isinstance(event, DurableEvent)]
    assert [event.rev for event in durable] == sorted({event.rev for event in durable}), "in order, nothing twice"
    rows = {event.session.key: event for event in durable if isinstance(event, SessionChanged)}
    assert rows == world.rows, "the newest row of everything"
    wanted = dict(world.watched_since)
    if world.all_since is not None:
        wanted = {key: min(world.all_since, wanted.get(key, world.all_since)) for key in KEYS}
    for key, since in wanted.items():
        heard = {event.rev for event in durable if isinstance(event, MessageAppended) and event.key == key}
        assert heard >= {m.rev for m in world.messages if m.key == key and m.rev > since}, "no message missed"


BEHIND = [*[("row", "a")] * 4, ("hold", "a"), ("read", "a")]
"""With room for up to three events: the subscriber has fallen behind, and is catching up."""


@settings(max_examples=400)
@given(STEPS, st.integers(1, 6))
@example([*BEHIND, ("watch", "b"), ("message", "b"), ("row", "a"), ("let", "a")], 3)
@example([("watch", "a"), *BEHIND, ("message", "a"), ("let", "a")], 1)
@example([*BEHIND, ("stop", "a"), ("let", "a")], 1)
@example([*BEHIND, ("watch all", "a"), ("message", "b"), ("row", "a"), ("let", "a")], 3)
@example([("watch all", "a"), *BEHIND, ("unwatch all", "a"), ("watch", "b"), ("message", "b"), ("let", "a")], 3)
@example([*BEHIND, ("row", "b"), ("stop", "a"), ("let", "a")], 1)
def test_whatever_happens_nothing_durable_is_missed_or_repeated(steps: list[tuple[str, str]], room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "QUEUE_EVENTS", room)
        check(asyncio.run(play(steps)))


def test_words_from_before_a_catch_up_never_come_after_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "QUEUE_EVENTS", 1)
        world = asyncio.run(
            play([("watch", "a"), *BEHIND, ("passing", "a"), ("let", "a"), ("read", "a"), ("row", "a")])
        )
    check(world)
    assert [event.text for event in world.seen if isinstance(event, Delta)] == ["so far"]


def test_who_watches_everything_hears_what_is_under_way_once_and_keeps_what_it_watched_before() -> None:
    world = asyncio.run(play([("watch", "a"), ("read", ""), ("watch all", ""), ("watch all", ""), ("watch", "b")]))
    check(world)
    assert [event.key for event in world.seen if isinstance(event, Delta)] == ["a", "b"]
    world = asyncio.run(
        play([("watch", "a"), ("watch all", ""), ("unwatch all", ""), ("message", "b"), ("message", "a")])
    )
    assert [event.key for event in world.seen if isinstance(event, MessageAppended)] == ["a"]


async def test_who_watches_everything_hears_every_message_of_every_session(runtime: Runtime) -> None:
    async with listening(runtime) as listener:
        listener.feed.watch(None)
        await send(runtime, MAIN, "hello")
        await send(runtime, OTHER, "list sessions")
        await until(lambda: len(listener.of(MessageAppended)) == 6)
        assert {event.key for event in listener.of(ToolProgress)} == {OTHER}
        for key in (MAIN, OTHER):
            told = [event.message for event in listener.of(MessageAppended) if event.key == key]
            assert told == await transcript(runtime, key)


async def test_a_watcher_of_everything_that_falls_behind_misses_nothing(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "QUEUE_EVENTS", 8)
    feed = runtime.subscribe()
    feed.watch(None)
    keys = [f"agent:main:s{number}" for number in range(5)]
    for key in keys:
        await runtime.store.write(lambda tx, key=key: create(tx, key))
    for number in range(4):
        for key in keys:
            await runtime.store.write(lambda tx, key=key, number=number: say(tx, key, str(number)))
    seen: list[Any] = []
    async for event in feed:
        seen.append(event)
        if feed.cursor == last_rev(runtime.store.db):
            break
    assert isinstance(seen[0], Gap)
    for key in keys:
        told = [event.message for event in seen if isinstance(event, MessageAppended) and event.key == key]
        assert told == await transcript(runtime, key)
    feed.close()


async def test_a_cursor_between_a_row_and_its_message_loses_no_message(runtime: Runtime) -> None:
    await runtime.store.write(lambda tx: create(tx, MAIN))
    await runtime.store.write(lambda tx: say(tx, MAIN, "one"))
    between = (await session(runtime, MAIN)).rev
    assert between == last_rev(runtime.store.db) - 1
    async with listening(runtime, after=between) as listener:
        listener.feed.watch(None)
        await until(lambda: listener.of(MessageAppended))


async def test_a_deleted_session_is_told_to_everybody_and_to_whoever_catches_up(runtime: Runtime) -> None:
    await send(runtime, OTHER, "hello")
    cursor, row = runtime.last_rev, await session(runtime, OTHER)
    async with listening(runtime) as listener:
        await runtime.delete(OTHER, OPERATOR)
        gone = SessionGone(runtime.last_rev, OTHER, row.session_id)
        await until(lambda: listener.of(SessionGone) == [gone])
    await send(runtime, OTHER, "again")
    async with listening(runtime, after=cursor) as late:
        await until(lambda: late.of(SessionChanged))
        assert late.events[0] == gone, "it went before one with its key was made again"
        assert [event.session.key for event in late.of(SessionChanged)] == [OTHER]
    async with listening(runtime, after=gone.rev) as later:
        await until(lambda: later.of(SessionChanged))
        assert not later.of(SessionGone)


async def test_what_concerns_the_gateway_as_a_whole_is_told_to_everybody(runtime: Runtime) -> None:
    async with listening(runtime) as listener:
        told = [ConnectionChanged(runtime.connection), Reloaded()]
        for event in told:
            runtime.hub.passing(event)
        await until(lambda: listener.events == told)


async def test_the_transcript_has_what_was_told(runtime: Runtime) -> None:
    async with listening(runtime, MAIN) as listener:
        await send(runtime, "main", "list sessions")
        await until(lambda: len(listener.of(MessageAppended)) == 4)
        assert [event.message for event in listener.of(MessageAppended)] == await transcript(runtime, MAIN)
