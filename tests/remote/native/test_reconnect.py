"""A lost connection loses nothing, repeats nothing, and is told (architecture#remote)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.event_stream import QUEUE_EVENTS
from core.model.access import ALL, OPERATOR
from core.model.errors import Conflict, Unavailable
from core.model.events import ConnectionChanged, DurableEvent, MessageAppended, Reloaded, RunChanged, SessionChanged
from core.model.messages import user_draft
from core.model.runs import RunRequest
from core.model.sessions import SessionQuery
from core.remote.native.gateway import NativeGateway
from core.remote.native.local import attach
from core.runtime.gateway import Runtime
from core.server.local import SocketListener as LocalListener
from core.server.local import listen
from tests.contract.ways import own_context
from tests.remote.cuts import Way, reached
from tests.support.owner import process
from tests.support.runtimes import MAIN, Agent, Listener, running, send, until, words
from tests.support.stores import create, say


@contextlib.asynccontextmanager
async def answered(runtime: Runtime, state: Path) -> AsyncGenerator[LocalListener]:
    """Have a runtime answer on its socket."""
    listener = await listen(own_context(runtime, state), state)
    try:
        yield listener
    finally:
        await listener.close()


def states(listener: Listener) -> list[str]:
    """Return the states of the connection that were told, each once."""
    told = [event.connection.state for event in listener.of(ConnectionChanged)]
    return [state for before, state in zip([None, *told], told, strict=False) if state != before]


def durable(listener: Listener) -> list[Any]:
    """Return everything durable that was told."""
    return [event for event in listener.events if isinstance(event, DurableEvent)]


async def until_live(gateway: NativeGateway) -> None:
    """Wait until there is a connection."""
    gateway.link.retry()
    await until(lambda: gateway.connection.state == "live")


async def test_an_owner_that_is_killed_in_mid_stream_and_started_again(state: Path) -> None:
    async with process("own", state, 0.02) as first:
        gateway = await attach(state)
        listener = Listener(gateway.subscribe())
        listener.feed.watch(None)
        ticket = await gateway.start_run(RunRequest(MAIN, "say " + "word " * 400, create=True), OPERATOR)
        waiting = asyncio.create_task(gateway.wait_run(ticket.run_id, None))
        await until(lambda: any(type(event).__name__ == "Delta" for event in listener.events))
        first.kill()
        await until(lambda: states(listener)[-1:] == ["lost"])
    async with process("own", state, 0):
        gateway.link.retry()
        outcome = await waiting
        assert (outcome.status, outcome.state) == ("error", "interrupted"), "the wait went on"
        again = await gateway.start_run(RunRequest(MAIN, "say hi"), OPERATOR)
        assert (await gateway.wait_run(again.run_id, 10)).reply == "hi"
        await until(lambda: any(e.run.run_id == again.run_id and not e.run.live for e in listener.of(RunChanged)))
        assert states(listener) == ["lost", "live"]
        revs = [event.rev for event in durable(listener)]
        assert revs == sorted(set(revs)), "in order, and nothing twice"
        history = await gateway.history(MAIN, ALL, limit=100)
        assert [event.message for event in listener.of(MessageAppended)] == list(history.messages), "nothing is lost"
        newest = {event.session.key: event.session for event in listener.of(SessionChanged)}
        page = await gateway.list_sessions(SessionQuery(), ALL)
        await until(
            lambda: (
                newest | {e.session.key: e.session for e in listener.of(SessionChanged)}
                == {session.key: session for session in page.sessions}
            )
        )
        assert not listener.of(Reloaded)
        await listener.close()
        await gateway.close()


async def test_ten_thousand_events_while_there_was_no_connection(state: Path) -> None:
    count = 10_000
    async with running(state) as runtime:
        await runtime.store.write(lambda tx: create(tx, MAIN))
        way = Way(state)
        async with answered(runtime, state), reached(way) as gateway:
            listener = Listener(gateway.subscribe())
            listener.feed.watch(MAIN)
            await gateway.models()
            await runtime.store.write(lambda tx: say(tx, MAIN, "before"))
            await until(lambda: listener.of(MessageAppended))
            await way.cut()
            await until(lambda: gateway.connection.state == "lost")
            for start in range(0, count, 1000):
                await asyncio.gather(
                    *(runtime.store.write(lambda tx, n=n: say(tx, MAIN, str(n))) for n in range(start, start + 1000))
                )
            way.open.set()
            await until_live(gateway)
            await until(lambda: len(listener.of(MessageAppended)) > count, seconds=30)
            await gateway.append(MAIN, user_draft("after"), OPERATOR)
            await until(lambda: listener.of(MessageAppended)[-1].message.text == "after")
            assert [event.message.seq for event in listener.of(MessageAppended)] == list(range(1, count + 3))
            assert listener.feed.cursor == runtime.last_rev
            await listener.close()
    assert count > 2 * QUEUE_EVENTS, "more than the feed holds"


@pytest.mark.parametrize("method", ["reset", "append", "create", "delete", "patch", "archive", "start_run", "tool"])
async def test_a_change_whose_answer_was_lost_is_done_once_and_answered(state: Path, method: str) -> None:
    from core.model.sessions import NewSession, SessionPatch

    key = "agent:main:other"
    changes: dict[str, Callable[[NativeGateway], Awaitable[Any]]] = {
        "reset": lambda g: g.reset(key, OPERATOR),
        "append": lambda g: g.append(key, user_draft("once"), OPERATOR),
        "create": lambda g: g.create(NewSession(), OPERATOR),
        "delete": lambda g: g.delete(key, OPERATOR),
        "patch": lambda g: g.patch(key, SessionPatch({"label": "x"}), OPERATOR),
        "archive": lambda g: g.archive(key, OPERATOR, archived=True),
        "start_run": lambda g: g.start_run(RunRequest(key, "say once"), OPERATOR),
        "tool": lambda g: _call(g, key),
    }
    async with running(state) as runtime, answered(runtime, state):
        await send(runtime, key, "hello")
        way = Way(state)
        async with reached(way) as gateway:
            revs: list[int] = []
            feed = runtime.subscribe()
            listener = Listener(feed)
            way.cut_answer_of = {f"port.{method}"}
            answer = await changes[method](gateway)
            assert way.asked.count(f"port.{method}") == 2, "it was asked again"
            await runtime.drained()
            revs = [event.rev for event in durable(listener)]
            await listener.close()
            if method == "reset":
                assert answer == await runtime.get_session(key, ALL), "the first reset is the last one"
            if method == "append":
                assert [text for _, text in await words(runtime, key)].count("once") == 1
            if method == "create":
                assert answer.key.startswith("agent:main:dashboard:")
                assert len((await runtime.list_sessions(SessionQuery(), ALL)).sessions) == 2
            if method == "delete":
                assert answer is None
            if method in {"start_run", "tool"}:
                assert (await words(runtime, key))[2:] == [("user", "say once"), ("assistant", "once")]
            assert revs


async def _call(gateway: NativeGateway, key: str) -> None:
    run = gateway.native_tool("sessions_send")
    assert run is not None
    answer = await run({"sessionKey": key, "message": "say once"}, OPERATOR)
    assert (answer["status"], answer["reply"]) == ("ok", "once")


async def test_a_change_that_may_have_been_done_before_a_restart_says_so(state: Path) -> None:
    way = Way(state)
    async with running(state) as runtime:
        await send(runtime, MAIN, "hello")
        async with answered(runtime, state) as first, reached(way) as gateway:
            way.cut_answer_of = {"port.append"}
            adding = asyncio.create_task(gateway.append(MAIN, user_draft("once"), OPERATOR))
            await until(lambda: "port.append" in way.asked)
            way.open.clear()
            await first.close()
            async with answered(runtime, state):
                way.open.set()
                gateway.link.retry()
                with pytest.raises(Conflict, match="started anew before it answered: look whether it was done"):
                    await adding
                await gateway.append(MAIN, user_draft("twice"), OPERATOR)
        assert [text for role, text in await words(runtime, MAIN) if role == "user"] == ["hello", "once", "twice"]


async def test_two_consoles_with_one_idempotency_key_run_once(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state):
        one, two = await attach(state), await attach(state)
        request = RunRequest(MAIN, "say hi", run_id="mine", create=True)
        tickets = await asyncio.gather(one.start_run(request, OPERATOR), two.start_run(request, OPERATOR))
        assert {ticket.run_id for ticket in tickets} == {"mine"}
        outcomes = await asyncio.gather(one.wait_run("mine", 10), two.wait_run("mine", 10))
        assert [outcome.reply for outcome in outcomes] == ["hi", "hi"]
        assert await words(runtime, MAIN) == [("user", "say hi"), ("assistant", "hi")]
        params: dict[str, Any] = {
            "ref": MAIN,
            "draft": {"role": "user", "content": []},
            "caller": {"type": "Operator"},
            "once": "k",
        }
        answers = await asyncio.gather(*(each.link.request("port.append", params) for each in (one, two)))
        assert answers[0] == answers[1]
        with pytest.raises(Conflict, match="idempotency key stands for another request"):
            await two.link.request("port.append", {**params, "ref": "agent:main:other"})
        assert len(await words(runtime, MAIN)) == 3
        await one.close()
        await two.close()


@pytest.mark.spec("S6")
async def test_a_wait_goes_on_after_a_lost_connection(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime, answered(runtime, state):
        way = Way(state)
        async with reached(way) as gateway:
            ticket = await gateway.start_run(RunRequest(MAIN, "go", create=True), OPERATOR)
            waiting = [asyncio.create_task(gateway.wait_run(ticket.run_id, timeout)) for timeout in (None, 60)]
            await until(lambda: way.asked.count("port.wait_run") == 2)
            await way.cut()
            await until(lambda: gateway.connection.state == "lost")
            agent.release()
            await until(lambda: not runtime.active_runs)
            way.open.set()
            gateway.link.retry()
            assert [outcome.reply for outcome in await asyncio.gather(*waiting)] == ["echo go", "echo go"]


@pytest.mark.spec("S6")
async def test_a_wait_that_begins_without_a_connection_is_made_when_there_is_one(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state):
        way = Way(state)
        async with reached(way) as gateway:
            ticket = await gateway.start_run(RunRequest(MAIN, "say hi", create=True), OPERATOR)
            await way.cut()
            await until(lambda: gateway.connection.state == "lost")
            waiting = asyncio.create_task(gateway.wait_run(ticket.run_id, 60))
            with pytest.raises(Unavailable):
                await gateway.wait_run(ticket.run_id, 0)
            way.open.set()
            gateway.link.retry()
            assert (await waiting).reply == "hi"


async def test_a_read_that_follows_a_subscription_waits_for_it(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state):
        await send(runtime, MAIN, "hello")
        way = Way(state)
        async with reached(way) as gateway:
            before = len(way.asked)
            feed = gateway.subscribe()
            feed.watch(MAIN)
            await gateway.get_session(MAIN, ALL)
            assert way.asked[before:].index("port.subscribe") < way.asked[before:].index("port.get_session")
            assert feed.cursor == runtime.last_rev
            feed.close()


async def test_without_a_connection_everything_is_refused_at_once_and_told(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state):
        await send(runtime, MAIN, "hello")
        way = Way(state)
        async with reached(way) as gateway:
            listener = Listener(gateway.subscribe())
            session = await gateway.get_session(MAIN, ALL)
            await way.cut()
            await until(lambda: gateway.connection.state == "lost")
            for action in ("send", "delete"):
                assert (gateway.refusal(action) or "").startswith("not connected to local: next try in ")
            with pytest.raises(Unavailable, match="not connected to local: next try in"):
                await gateway.get_session(MAIN, ALL)
            with pytest.raises(Unavailable, match="not connected to local"):
                await gateway.start_run(RunRequest(MAIN, "hi"), OPERATOR)
            with pytest.raises(Unavailable, match="not connected to local"):
                await gateway.wait_run("x", 0.01)
            assert gateway.policy_of(session) is not None, "what it said of itself is still known"
            late = Listener(gateway.subscribe())
            way.open.set()
            await until_live(gateway)
            await until(lambda: states(listener) == ["lost", "live"])
            await until(lambda: late.of(Reloaded))
            assert not listener.of(Reloaded), "it knows where it was"
            assert gateway.refusal("send") is None
            await send(runtime, MAIN, "again")
            await until(lambda: late.of(RunChanged) and listener.of(RunChanged))
            await late.close()
            await listener.close()


async def test_another_store_voids_everything_that_was_known(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with running(here) as old, running(there) as new:
        for _ in range(3):
            await send(old, MAIN, "hello")
        await send(new, MAIN, "hello")
        way = Way(here)
        async with answered(old, here), reached(way) as gateway:
            listener = Listener(gateway.subscribe())
            listener.feed.watch(MAIN)
            await gateway.models()
            await way.cut()
            await until(lambda: gateway.connection.state == "lost")
            async with answered(new, there):
                way.state = there
                way.open.set()
                await until_live(gateway)
                await until(lambda: listener.of(Reloaded))
                assert gateway.store_id == new.store_id
                await send(new, MAIN, "news")
                await until(lambda: listener.of(MessageAppended))
                texts = [event.message.text for event in listener.of(MessageAppended)]
                assert "hello" not in texts
                assert texts[0] == "news"
                await listener.close()
                await way.cut()


async def test_a_cursor_from_the_future_voids_everything_that_was_known(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state):
        gateway = await attach(state)
        listener = Listener(gateway.subscribe(10**9))
        await until(lambda: listener.of(Reloaded))
        assert listener.feed.cursor == runtime.last_rev
        await send(runtime, MAIN, "hello")
        await until(lambda: listener.of(RunChanged))
        await listener.close()
        await gateway.close()


class Yesterday(SystemClock):
    """A clock that is wrong by a day."""

    def now_ms(self) -> int:
        """Return the time of yesterday."""
        return super().now_ms() - 86_400_000


async def test_a_clock_that_is_wrong_by_a_day_tells_the_gateways_time(state: Path) -> None:
    async with running(state) as runtime, answered(runtime, state), reached(Way(state), Yesterday()) as gateway:
        assert abs(gateway.now_ms() - runtime.now_ms()) < 2_000
