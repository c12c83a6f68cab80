"""What a subscriber hears is the same whichever way it listens: in order, nothing missed, nothing twice."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.config.settings import Settings
from core.gateway import Gateway
from core.model.access import ALL, OPERATOR, Operator
from core.model.events import (
    Activity,
    Configured,
    ConnectionChanged,
    DeliveryChanged,
    Delta,
    DurableEvent,
    ExchangeChanged,
    Gap,
    MessageAppended,
    Reloaded,
    RunChanged,
    SessionChanged,
    SessionGone,
    ToolProgress,
)
from core.model.messages import text_block, user_draft
from core.rules.ruleset import RuleSet
from tests.contract.ways import REMOTE, Way, way
from tests.support.runtimes import MAIN, Agent, Listener, begin, call, send, until
from tests.support.stores import create, say

OTHER = "agent:main:other"


@contextlib.asynccontextmanager
async def hearing(gateway: Gateway, *keys: str | None, after: int | None = None) -> AsyncGenerator[Listener]:
    """Subscribe, watch, and make sure that it has arrived: a read waits for it."""
    feed = gateway.subscribe(after)
    for key in keys:
        feed.watch(key)
    listener = Listener(feed)
    await gateway.models()
    try:
        yield listener
    finally:
        await listener.close()


def ended(listener: Listener, count: int = 1) -> bool:
    """Whether so many runs have been told to be over."""
    return sum(not event.run.live for event in listener.of(RunChanged)) >= count


def revs(listener: Listener) -> list[int]:
    """Return the revs of everything durable that was told."""
    return [event.rev for event in listener.events if isinstance(event, DurableEvent)]


async def test_only_watched_sessions_give_messages(port: Way) -> None:
    async with hearing(port.gateway, MAIN) as listener:
        await send(port.gateway, "main", "hello")
        await send(port.gateway, OTHER, "hello")
        await until(lambda: ended(listener, 2))
        assert {event.key for event in listener.of(MessageAppended)} == {MAIN}
        assert [event.message.role for event in listener.of(MessageAppended)] == ["user", "assistant"]
        assert {event.session.key for event in listener.of(SessionChanged)} == {MAIN, OTHER}
        assert {event.key for event in listener.of(Delta)} <= {MAIN}
        assert {event.key for event in listener.of(Activity)} <= {MAIN, OTHER}
        listener.feed.unwatch(MAIN)
        listener.feed.watch(OTHER)
        await port.gateway.models()
        await send(port.runtime, "main", "again")
        await send(port.runtime, OTHER, "again")
        await until(lambda: ended(listener, 4))
        assert [event.key for event in listener.of(MessageAppended)] == [MAIN, MAIN, OTHER, OTHER]
        assert revs(listener) == sorted(set(revs(listener)))
        assert listener.feed.cursor == revs(listener)[-1]


async def test_events_of_a_run_come_in_their_order_and_whole(port: Way) -> None:
    async with hearing(port.gateway, MAIN) as listener, hearing(port.runtime, MAIN) as beside:
        await send(port.runtime, "main", "list sessions")
        await until(lambda: ended(listener) and ended(beside))
        assert [event.run.state for event in listener.of(RunChanged)] == ["queued", "running", "done"]
        roles = [event.message.role for event in listener.of(MessageAppended)]
        assert roles == ["user", "assistant", "toolResult", "assistant"]
        assert [event.name for event in listener.of(ToolProgress)] == ["sessions_list"]
        last = revs(beside)[-1]
        await until(lambda: revs(listener)[-1] == last)
        durable = [event for event in listener.events if isinstance(event, DurableEvent)]
        assert durable == [event for event in beside.events if isinstance(event, DurableEvent)]


async def test_a_subscriber_hears_nothing_from_before(port: Way) -> None:
    await send(port.runtime, "main", "before")
    async with hearing(port.gateway, None) as listener:
        await send(port.runtime, "main", "after")
        await until(lambda: ended(listener))
        assert [event.message.text for event in listener.of(MessageAppended)][:1] == ["after"]
        assert not listener.of(Reloaded)


async def test_a_cursor_gives_everything_since_and_then_what_happens(port: Way) -> None:
    await send(port.runtime, "main", "one")
    cursor = port.runtime.last_rev
    await send(port.runtime, "main", "two")
    async with hearing(port.gateway, MAIN, after=cursor) as listener:
        await until(lambda: len(listener.of(MessageAppended)) == 2)
        await send(port.runtime, "main", "three")
        await until(lambda: len(listener.of(MessageAppended)) == 4)
        assert [event.message.seq for event in listener.of(MessageAppended)] == [3, 4, 5, 6]
        assert not listener.of(Gap)


async def test_who_watches_everything_hears_every_session_there_is_and_will_be(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    async with hearing(port.gateway, None) as listener:
        await send(port.runtime, OTHER, "hello")
        await send(port.runtime, "main", "hello")
        await until(lambda: len(listener.of(MessageAppended)) == 4)
        for key in (MAIN, OTHER):
            told = [event.message for event in listener.of(MessageAppended) if event.key == key]
            assert told[-2:] == list((await port.gateway.history(key, ALL, limit=2)).messages)
        listener.feed.watch(MAIN)
        listener.feed.unwatch(None)
        await port.gateway.models()
        await send(port.runtime, OTHER, "hello")
        await send(port.runtime, "main", "hello")
        await until(lambda: ended(listener, 4))
        assert [event.key for event in listener.of(MessageAppended)][4:] == [MAIN, MAIN]


class Paused:
    """An agent's play that says some words, waits, and goes on."""

    def __init__(self) -> None:
        self.said = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("half")
        self.said.set()
        await self.go.wait()
        yield TextDelta(" and the rest")
        yield Reply((text_block("half and the rest"),))


async def test_a_late_watcher_gets_the_words_so_far_first(how: str, state: Path) -> None:
    play = Paused()
    async with way(how, state, backends=Agent(play)) as port, hearing(port.gateway) as listener:
        await begin(port.runtime, MAIN, "go")
        await play.said.wait()
        await until(lambda: any(event.run.state == "running" for event in listener.of(RunChanged)))
        listener.feed.watch(MAIN)
        await until(lambda: listener.of(Delta))
        assert (listener.of(Delta)[0].offset, listener.of(Delta)[0].text) == (0, "half")
        play.go.set()
        await until(lambda: listener.of(MessageAppended))
        assert listener.of(MessageAppended)[0].message.text == "half and the rest"
        assert all("half and the rest".startswith(event.text, event.offset) for event in listener.of(Delta))


async def test_exchanges_and_deliveries_are_told(port: Way) -> None:
    for key in ("main", OTHER):
        await send(port.runtime, key, "hello")
    async with hearing(port.gateway) as listener:
        await call(port.gateway, "sessions_send", Operator(MAIN), sessionKey=OTHER, message="say hi")
        await until(lambda: any(event.exchange.state == "ended" for event in listener.of(ExchangeChanged)))
        await until(lambda: listener.of(DeliveryChanged))
        assert listener.of(DeliveryChanged)[-1].delivery in await port.gateway.deliveries(limit=5)


async def test_a_deleted_session_is_told_to_everybody_and_to_whoever_catches_up(port: Way) -> None:
    await send(port.runtime, OTHER, "hello")
    cursor, session = port.runtime.last_rev, await port.runtime.get_session(OTHER, ALL)
    async with hearing(port.gateway) as listener:
        await port.gateway.delete(OTHER, OPERATOR)
        await until(lambda: listener.of(SessionGone))
    async with hearing(port.gateway, after=cursor) as late:
        await until(lambda: late.of(SessionGone))
        for found in (listener, late):
            (gone,) = found.of(SessionGone)
            assert (gone.key, gone.session_id) == (OTHER, session.session_id)


async def test_new_rules_are_in_force_when_their_event_comes(how: str, state: Path) -> None:
    async with way(how, state, backends=Agent()) as port:
        feed = port.gateway.subscribe()
        await port.gateway.models()
        port.runtime.configure(Settings(rules=replace(RuleSet(), global_scope=True)))
        async for event in feed:
            if isinstance(event, Configured):
                break
        assert port.gateway.rules.global_scope
        port.runtime.complain("line 3 is wrong")
        async for event in feed:
            if isinstance(event, Configured):
                assert event.notice == "line 3 is wrong"
                break
        assert port.gateway.connection.detail == "line 3 is wrong"
        feed.close()


@pytest.mark.parametrize("how", REMOTE)
async def test_how_the_gateway_itself_fares_is_told_from_this_end(how: str, state: Path) -> None:
    async with way(how, state, backends=Agent()) as port, hearing(port.gateway) as listener:
        port.runtime.hub.passing(ConnectionChanged(port.runtime.connection))
        await until(lambda: listener.of(ConnectionChanged))
        told = listener.of(ConnectionChanged)[0].connection
        assert (told.state, told.address, told.version) == ("live", port.native.link.connection.address, told.version)
        assert told.version.startswith("switchboard")


async def test_closing_a_feed_ends_its_stream(port: Way) -> None:
    feed = port.gateway.subscribe()
    listener = Listener(feed)
    await port.gateway.models()
    async with asyncio.timeout(10):
        await listener.close()
    feed.close()


async def test_several_feeds_hear_each_for_itself(port: Way) -> None:
    async with hearing(port.gateway, MAIN) as one, hearing(port.gateway, OTHER) as other:
        for key in (MAIN, OTHER):
            await send(port.runtime, key, "hello")
        await until(lambda: ended(one, 2) and ended(other, 2))
        assert {event.key for event in one.of(MessageAppended)} == {MAIN}
        assert {event.key for event in other.of(MessageAppended)} == {OTHER}
        assert revs(one) == sorted(set(revs(one)))


@pytest.mark.parametrize("count", [5_000])
async def test_a_subscriber_that_falls_behind_catches_up(port: Way, count: int) -> None:
    await port.runtime.store.write(lambda tx: create(tx, MAIN))
    feed = port.gateway.subscribe()
    feed.watch(MAIN)
    await port.gateway.models()
    await asyncio.gather(*(port.runtime.store.write(lambda tx: say(tx, MAIN, "hi")) for _ in range(count)))
    await port.gateway.models()
    seen: list[Any] = []

    async def listen() -> None:
        async for event in feed:
            seen.append(event)  # noqa: PERF401 - the test looks on while it grows

    task = asyncio.create_task(listen())
    await port.gateway.append(MAIN, user_draft("after"), OPERATOR)
    await until(lambda: seen and isinstance(seen[-1], MessageAppended) and seen[-1].message.text == "after")
    seqs = [event.message.seq for event in seen if isinstance(event, MessageAppended)]
    assert seqs == list(range(1, count + 2)), "nothing missed, nothing twice, in order"
    assert any(isinstance(event, Gap) for event in seen)
    feed.close()
    await task
