"""DESIGN 5: the feed: bounded, in order, nothing durable missed or repeated."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.agents.port import AgentEvent, Reply, TextDelta, ThinkingDelta, Turn
from core.model.events import (
    Activity,
    Delta,
    DurableEvent,
    Gap,
    MessageAppended,
    RunChanged,
    SessionChanged,
    ToolProgress,
)
from core.model.messages import Message, text_block, thinking_block, tool_call_block
from core.runtime import feed as feeds
from core.runtime.feed import QUEUE_EVENTS, Hub, RuntimeFeed
from core.runtime.gateway import Runtime
from core.store.database import last_rev
from tests.model.test_sessions import FULL
from tests.support.runtimes import MAIN, Agent, begin, listening, running, send, transcript, until
from tests.support.stores import create, say

OTHER = "agent:main:other"


async def test_only_watched_sessions_give_messages(runtime: Runtime) -> None:
    async with listening(runtime, MAIN) as listener:
        await send(runtime, "main", "hello")
        await send(runtime, OTHER, "hello")
        await until(lambda: len([run for run in listener.of(RunChanged) if run.run.state == "done"]) == 2)
        assert {event.key for event in listener.of(MessageAppended)} == {MAIN}
        assert [event.message.role for event in listener.of(MessageAppended)] == ["user", "assistant"]
        assert {event.session.key for event in listener.of(SessionChanged)} == {MAIN, OTHER}
        assert {event.key for event in listener.of(Delta)} <= {MAIN}
        assert {event.key for event in listener.of(Activity)} <= {MAIN, OTHER}
        listener.feed.unwatch(MAIN)
        await send(runtime, "main", "again")
        await until(lambda: len([run for run in listener.of(RunChanged) if run.run.state == "done"]) == 3)
        assert len(listener.of(MessageAppended)) == 2


async def test_events_of_a_run_come_in_their_order(runtime: Runtime) -> None:
    async with listening(runtime, MAIN) as listener:
        await send(runtime, "main", "list sessions")
        await until(lambda: any(run.run.state == "done" for run in listener.of(RunChanged)))
        assert [event.run.state for event in listener.of(RunChanged)] == ["queued", "running", "done"]
        assert [event.message.role for event in listener.of(MessageAppended)] == [
            "user",
            "assistant",
            "toolResult",
            "assistant",
        ]
        assert [event.name for event in listener.of(ToolProgress)] == ["sessions_list"]
        revs = [event.rev for event in listener.events if isinstance(event, DurableEvent)]
        assert revs == sorted(set(revs))


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


async def test_a_cursor_gives_everything_since_and_then_what_happens(runtime: Runtime) -> None:
    await send(runtime, "main", "one")
    cursor = last_rev(runtime.store.db)
    await send(runtime, "main", "two")
    async with listening(runtime, MAIN, after=cursor) as listener:
        await until(lambda: len(listener.of(MessageAppended)) == 2)
        await send(runtime, "main", "three")
        await until(lambda: len(listener.of(MessageAppended)) == 4)
        assert [event.message.seq for event in listener.of(MessageAppended)] == [3, 4, 5, 6]
        assert not listener.of(Gap)


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
        assert listener.feed not in runtime._hub._feeds
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
            ["row", "message", "message", "message", "passing", "watch", "unwatch", "read", "hold", "let", "stop"]
        ),
        st.sampled_from(KEYS),
    ),
    max_size=60,
)


class World:
    """A log of rows and messages, a hub over it, and one subscriber."""

    def __init__(self) -> None:
        self.rev = 0
        self.rows: dict[str, SessionChanged] = {}
        self.messages: list[MessageAppended] = []
        self.hub = Hub(self.catch_up, lambda key: [Delta(key, "r", 0, "text", 0, "so far")])
        self.feed: RuntimeFeed = self.hub.subscribe(0, None)
        self.free = asyncio.Event()
        self.free.set()
        self.seen: list[Any] = []
        self.watched_since: dict[str, int] = {}
        self.reader: asyncio.Task[None] | None = None

    async def catch_up(self, cursor: int, watched: frozenset[str]) -> list[DurableEvent]:
        """Read what changed, before or after a pause."""
        await self.free.wait()
        found: list[DurableEvent] = [row for row in self.rows.values() if row.rev > cursor]
        found += [message for message in self.messages if message.rev > cursor and message.key in watched]
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
    for key, since in world.watched_since.items():
        heard = {event.rev for event in durable if isinstance(event, MessageAppended) and event.key == key}
        assert heard >= {m.rev for m in world.messages if m.key == key and m.rev > since}, "no message missed"


BEHIND = [*[("row", "a")] * 4, ("hold", "a"), ("read", "a")]
"""With room for up to three events: the subscriber has fallen behind, and is catching up."""


@settings(max_examples=400)
@given(STEPS, st.integers(1, 6))
@example([*BEHIND, ("watch", "b"), ("message", "b"), ("row", "a"), ("let", "a")], 3)
@example([("watch", "a"), *BEHIND, ("message", "a"), ("let", "a")], 1)
@example([*BEHIND, ("stop", "a"), ("let", "a")], 1)
@example([*BEHIND, ("row", "b"), ("stop", "a"), ("let", "a")], 1)
def test_whatever_happens_nothing_durable_is_missed_or_repeated(steps: list[tuple[str, str]], room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "QUEUE_EVENTS", room)
        check(asyncio.run(play(steps)))


def test_words_from_before_a_catch_up_never_come_after_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "QUEUE_EVENTS", 1)
        world = asyncio.run(
            play([("watch", "a"), *BEHIND, ("passing", "a"), ("let", "a"), ("read", "a"), ("row", "a")])
        )
    check(world)
    assert [event.text for event in world.seen if isinstance(event, Delta)] == ["so far"]


async def test_the_transcript_has_what_was_told(runtime: Runtime) -> None:
    async with listening(runtime, MAIN) as listener:
        await send(runtime, "main", "list sessions")
        await until(lambda: len(listener.of(MessageAppended)) == 4)
        assert [event.message for event in listener.of(MessageAppended)] == await transcript(runtime, MAIN)
