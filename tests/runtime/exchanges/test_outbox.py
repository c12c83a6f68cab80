"""S11, P4: every state of a delivery and every way from one to the next, against a channel with real sockets."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, TextDelta, ToolEnded, Turn
from core.channels import Channel, OutgoingText
from core.config.settings import Settings
from core.model.access import OPERATOR, Operator, SessionCaller
from core.model.errors import Conflict, Forbidden, NotFound, Unavailable
from core.model.exchanges import Delivery
from core.model.messages import text_block, tool_call_block
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import SessionPatch
from core.runtime.exchanges import outbox
from core.runtime.exchanges.outbox import ATTEMPTS, BROKEN_RETRY_SECONDS, STORE_RETRY_SECONDS
from core.runtime.gateway import Runtime
from core.store import deliveries
from tests.support.channel_sink import Accept, Busy, ChannelSink, Die, Hang, Hold, Refuse
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, begin, listening, quiet, running, send, until, words

OPS = "agent:main:discord:group:ops"
LAB = "agent:main:telegram:group:lab"
SETTINGS = Settings(max_ping_pong_turns=0)
FROM_MAIN = Operator(MAIN)


async def announces(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Announce the words of the request."""
    asked = turn.transcript[-1].text
    said = asked.partition("The request was:\n")[2].split("\n")[0] if turn.kind == "announce" else "yes"
    yield Reply((text_block(said),))


def started(state: Path, sink: ChannelSink, clock: FakeClock | None = None, *names: str):
    """Return a runtime with the sink's channels."""
    channels = {name: sink.channel(name) for name in names or ("discord",)}
    return running(state, SETTINGS, Agent(announces), clock=clock, channels=channels)


async def announce(runtime: Runtime, text: str, key: str = OPS) -> str:
    """Have a text announced in a group; return the id of its delivery as soon as there is one."""
    for each in (MAIN, key):
        if not runtime.store.db.execute("SELECT 1 FROM sessions WHERE key = ?", (each,)).fetchone():
            await send(runtime, each, "hello")
    ticket = await begin(runtime, key, text, FROM_MAIN)
    await until(lambda: deliveries.of_exchange(runtime.store.db, ticket.run_id))
    delivery = deliveries.of_exchange(runtime.store.db, ticket.run_id)
    assert delivery is not None
    return delivery.delivery_id


def now(runtime: Runtime, delivery_id: str) -> Delivery:
    """Return a delivery as it stands."""
    delivery = deliveries.by_id(runtime.store.db, delivery_id)
    assert delivery is not None
    return delivery


async def comes_to(runtime: Runtime, delivery_id: str, state: str, attempts: int = 1) -> Delivery:
    """Wait until a delivery is in a state after that many attempts."""

    def is_there() -> bool:
        delivery = now(runtime, delivery_id)
        return (delivery.state, delivery.attempts) == (state, attempts)

    await until(is_there)
    return now(runtime, delivery_id)


# What the channel answers


@pytest.mark.spec("S10", "S11")
async def test_what_the_channel_takes_is_sent_and_each_state_is_seen(state: Path) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, started(state, sink) as runtime, listening(runtime) as listener:
        sink.script(Hold(hold))
        found = await announce(runtime, "hello all")
        await until(lambda: sink.posts)
        assert (now(runtime, found).state, now(runtime, found).attempts) == ("sending", 1)
        hold.set()
        delivery = await comes_to(runtime, found, "sent")
        assert delivery.reason is None
        (post,) = sink.posts
        assert (post.delivery_id, post.to, post.text) == (found, "group:ops", "hello all")
        await until(lambda: listener.events and listener.events[-1].rev >= delivery.rev)
        states = [event.delivery.state for event in listener.events if hasattr(event, "delivery")]
        assert states == ["pending", "sending", "sent"]


@pytest.mark.spec("S11")
async def test_a_refused_connection_is_tried_again_with_longer_and_longer_waits(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        await sink.shut()
        found = await announce(runtime, "hello")
        for attempt in range(1, ATTEMPTS):
            delivery = await comes_to(runtime, found, "pending", attempt)
            assert delivery.reason == "discord refused the connection"
            assert delivery.due_at == clock.now_ms() + 1000 * 2 ** (attempt - 1)
            await clock.until_sleeping()
            await clock.advance(2 ** (attempt - 1) - 0.001)
            await quiet(runtime)
            assert now(runtime, found).attempts == attempt, "not before its time"
            await clock.advance(0.001)
        delivery = await comes_to(runtime, found, "failed", ATTEMPTS)
        assert delivery.reason == f"given up after {ATTEMPTS} attempts: discord refused the connection"
        await sink.listen()
        await runtime.retry_delivery(found, OPERATOR)
        await comes_to(runtime, found, "sent", ATTEMPTS + 1)
        assert sink.texts() == ["hello"]


@pytest.mark.spec("S11")
async def test_a_busy_channel_is_left_alone_as_long_as_it_asks(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Busy(retry_after=60), Busy(), Accept())
        found = await announce(runtime, "hello")
        delivery = await comes_to(runtime, found, "pending")
        assert (delivery.due_at - clock.now_ms(), delivery.reason) == (60_000, "discord is busy: slow down")
        await clock.until_sleeping()
        await clock.advance(59.999)
        await quiet(runtime)
        assert len(sink.posts) == 1
        await clock.advance(0.001)
        delivery = await comes_to(runtime, found, "pending", 2)
        assert delivery.due_at - clock.now_ms() == 2000, "without a wish, the own wait"
        await clock.until_sleeping()
        await clock.advance(2)
        await comes_to(runtime, found, "sent", 3)
        assert [post.delivery_id for post in sink.posts] == [found] * 3
        assert sink.texts() == ["hello"]


@pytest.mark.spec("S11")
async def test_what_the_channel_rejects_is_not_tried_again(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Refuse("too long"))
        found = await announce(runtime, "hello")
        delivery = await comes_to(runtime, found, "failed")
        assert delivery.reason == "discord refused the text: too long"
        await clock.advance(3600)
        await quiet(runtime)
        assert len(sink.posts) == 1
        assert clock.sleeping == 0, "nothing is to come"


@pytest.mark.spec("S11")
async def test_a_channel_that_dies_after_reading_is_not_asked_again(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Die())
        found = await announce(runtime, "hello")
        delivery = await comes_to(runtime, found, "unknown")
        assert delivery.reason == (
            "ConnectionResetError while it was being sent: only the channel knows whether it arrived"
        )
        await clock.advance(3600)
        await quiet(runtime)
        assert len(sink.posts) == 1
        await runtime.retry_delivery(found, OPERATOR)
        await comes_to(runtime, found, "sent", 2)


@pytest.mark.spec("S11")
async def test_a_channel_that_does_not_answer_in_time_is_unknown(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Hang())
        found = await announce(runtime, "hello")
        await until(lambda: sink.posts)
        await clock.advance(29.999)
        await quiet(runtime)
        assert now(runtime, found).state == "sending"
        await clock.advance(0.001)
        delivery = await comes_to(runtime, found, "unknown")
        assert delivery.reason == "no answer within 30 s"
        await clock.advance(3600)
        await quiet(runtime)
        assert len(sink.posts) == 1


# Policy, and channels that are not there


@pytest.mark.spec("P4", "S11")
async def test_a_session_that_was_denied_meanwhile_delivers_nothing_and_says_so(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Busy())
        found = await announce(runtime, "hello")
        await comes_to(runtime, found, "pending")
        await runtime.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await clock.until_sleeping()
        await clock.advance(1)
        delivery = await comes_to(runtime, found, "skipped")
        assert delivery.reason == "denied by override"
        assert len(sink.posts) == 1
        assert (await words(runtime, OPS))[-1] == ("system", "Nothing was announced: denied by override.")


@pytest.mark.spec("S11")
async def test_no_route_fails_until_the_channel_exists_and_the_operator_retries(state: Path) -> None:
    async with ChannelSink() as sink:
        async with started(state, sink, None, "telegram") as runtime:
            found = await announce(runtime, "hello")
            delivery = await comes_to(runtime, found, "failed", 0)
            assert delivery.reason == "no route to discord:group:ops: the channel is not configured"
            await runtime.retry_delivery(found, OPERATOR)
            await comes_to(runtime, found, "failed", 0)
        async with started(state, sink) as runtime:
            await runtime.drained()
            await quiet(runtime)
            assert now(runtime, found).state == "failed", "a restart alone sends nothing"
            assert sink.posts == []
            await runtime.retry_delivery(found, OPERATOR)
            await comes_to(runtime, found, "sent")
        assert sink.texts() == ["hello"]


# Side by side


@pytest.mark.spec("S11")
async def test_a_channel_that_hangs_does_not_hold_up_another(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "GRACE_SECONDS", 0.01)
    async with ChannelSink() as sink, started(state, sink, FakeClock(), "discord", "telegram") as runtime:
        sink.script(Hang())
        stuck = await announce(runtime, "one")
        await until(lambda: sink.posts)
        behind = await announce(runtime, "two")
        other = await announce(runtime, "three", LAB)
        await comes_to(runtime, other, "sent")
        assert [now(runtime, found).state for found in (stuck, behind)] == ["sending", "pending"]
        assert sink.texts("telegram") == ["three"]


@pytest.mark.spec("S11")
async def test_a_channel_gets_one_at_a_time_in_order(state: Path) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    async with ChannelSink() as sink, started(state, sink) as runtime:
        sink.script(*map(Hold, gates))
        found = [await announce(runtime, f"text {n}") for n in range(4)]
        for number, gate in enumerate(gates):
            await until(lambda number=number: len(sink.posts) == number + 1)
            assert [now(runtime, each).state for each in found[number:]] == ["sending", *["pending"] * (3 - number)]
            gate.set()
        await comes_to(runtime, found[-1], "sent")
        assert sink.texts() == [f"text {n}" for n in range(4)]
        assert sink.at_once == 1


@pytest.mark.spec("S11")
async def test_one_that_waits_for_its_time_does_not_hold_up_the_next(state: Path) -> None:
    async with ChannelSink() as sink, started(state, sink, FakeClock()) as runtime:
        sink.script(Busy(retry_after=60))
        waiting = await announce(runtime, "one")
        await comes_to(runtime, waiting, "pending")
        await comes_to(runtime, await announce(runtime, "two"), "sent")
        assert now(runtime, waiting).state == "pending"


# Restart


@pytest.mark.spec("S11")
async def test_what_was_being_sent_when_the_process_ended_is_unknown_and_not_sent_again(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "GRACE_SECONDS", 0.01)
    async with ChannelSink() as sink:
        sink.script(Hang())
        async with started(state, sink) as runtime:
            found = await announce(runtime, "hello")
            await until(lambda: sink.posts)
        async with started(state, sink) as runtime:
            await runtime.drained()
            await quiet(runtime)
            delivery = now(runtime, found)
            assert delivery.state == "unknown"
            assert delivery.reason == (
                "switchboard stopped while it was being sent: only the channel knows whether it arrived"
            )
            assert len(sink.posts) == 1
            await runtime.retry_delivery(found, OPERATOR)
            await comes_to(runtime, found, "sent", 2)
        assert [post.delivery_id for post in sink.posts] == [found] * 2, "the channel can tell a repetition"


@pytest.mark.spec("S11")
async def test_what_is_being_sent_at_a_clean_close_has_a_moment_to_end(state: Path) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink:
        sink.script(Hold(hold))
        async with started(state, sink) as runtime:
            found = await announce(runtime, "one")
            await until(lambda: sink.posts)
            behind = await announce(runtime, "two")
            closing = asyncio.create_task(runtime.close())
            await asyncio.sleep(0)
            hold.set()
            await closing
        async with started(state, sink) as runtime:
            assert (now(runtime, found).state, now(runtime, behind).attempts) == ("sent", 0)
            await comes_to(runtime, behind, "sent")
        assert sink.texts() == ["one", "two"], "each once; what had not begun waits for the next start"


@pytest.mark.spec("S11")
async def test_due_times_survive_a_restart(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink:
        sink.script(Busy(retry_after=60))
        async with started(state, sink, clock) as runtime:
            found = await announce(runtime, "hello")
            await comes_to(runtime, found, "pending")
        await clock.advance(20)
        async with started(state, sink, clock) as runtime:
            await runtime.drained()
            await clock.until_sleeping()
            await clock.advance(39.999)
            await quiet(runtime)
            assert (len(sink.posts), now(runtime, found).state) == (1, "pending")
            await clock.advance(0.001)
            await comes_to(runtime, found, "sent", 2)


@pytest.mark.spec("S11")
async def test_what_came_due_while_nothing_ran_goes_out_at_the_start(state: Path) -> None:
    clock = FakeClock()
    async with ChannelSink() as sink:
        sink.script(Busy(retry_after=60))
        async with started(state, sink, clock) as runtime:
            found = await announce(runtime, "hello")
            await comes_to(runtime, found, "pending")
        await clock.advance(3600)
        async with started(state, sink, clock) as runtime:
            await comes_to(runtime, found, "sent", 2)


async def test_a_store_that_cannot_be_written_holds_a_delivery_up_and_loses_nothing(state: Path) -> None:
    clock, hold = FakeClock(), asyncio.Event()
    async with ChannelSink() as sink, started(state, sink, clock) as runtime:
        sink.script(Hold(hold))
        found = await announce(runtime, "hello")
        await until(lambda: sink.posts)
        db = await runtime.store.write(lambda tx: tx.db)
        db.execute("PRAGMA query_only = ON")
        with pytest.raises(Unavailable):
            await begin(runtime, MAIN, "hello")
        hold.set()
        await until(lambda: clock.slept[-1] == STORE_RETRY_SECONDS)
        assert now(runtime, found).state == "sending"
        db.execute("PRAGMA query_only = OFF")
        await clock.advance(STORE_RETRY_SECONDS)
        await comes_to(runtime, found, "sent")
        assert len(sink.posts) == 1, "the channel is not asked a second time"


@pytest.mark.spec("S11")
async def test_a_delivery_that_breaks_inside_is_not_tried_again_at_once(state: Path) -> None:
    class Channels(dict[str, Channel]):
        asked = 0

        def get(self, key: str, default: object = None) -> Any:
            self.asked += 1
            if self.asked == 1:
                raise RuntimeError("no channel can be named")
            return super().get(key, default)

    clock = FakeClock()
    async with ChannelSink() as sink:
        channels = Channels(discord=sink.channel("discord"))
        async with running(state, SETTINGS, Agent(announces), clock=clock, channels=channels) as runtime:
            found = await announce(runtime, "hello")
            await until(lambda: channels.asked)
            await until(lambda: BROKEN_RETRY_SECONDS in clock.slept)
            assert (now(runtime, found).state, now(runtime, found).attempts) == ("pending", 0)
            await asyncio.wait_for(runtime.drained(), 5.0)  # a command that is done does not stay for it
            await clock.advance(BROKEN_RETRY_SECONDS)
            await comes_to(runtime, found, "sent")
            assert len(sink.posts) == 1


# The operator


@pytest.mark.spec("S11")
async def test_only_the_operator_retries_and_drops_and_only_what_is_open(state: Path) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, started(state, sink) as runtime:
        sink.script(Refuse("no"), Die(), Hold(hold))
        failed = await announce(runtime, "one")
        await comes_to(runtime, failed, "failed")
        unknown = await announce(runtime, "two")
        await comes_to(runtime, unknown, "unknown")
        for act in (runtime.retry_delivery, runtime.drop_delivery):
            with pytest.raises(Forbidden, match="only the owner"):
                await act(failed, SessionCaller(MAIN))
            with pytest.raises(NotFound, match='no delivery has the id "nothing"'):
                await act("nothing", OPERATOR)
        assert now(runtime, failed).state == "failed"
        sending = await announce(runtime, "three")
        await until(lambda: len(sink.posts) == 3)
        waiting = await announce(runtime, "four")
        for delivery_id in (waiting, unknown, failed):
            dropped = await runtime.drop_delivery(delivery_id, OPERATOR)
            assert (dropped.state, dropped.reason) == ("skipped", "dropped by the operator")
        assert now(runtime, sending).state == "sending"
        for act in (runtime.retry_delivery, runtime.drop_delivery):
            with pytest.raises(Conflict, match="is sending"):
                await act(sending, OPERATOR)
            with pytest.raises(Conflict, match="is skipped"):
                await act(failed, OPERATOR)
        hold.set()
        await comes_to(runtime, sending, "sent")
        for act in (runtime.retry_delivery, runtime.drop_delivery):
            with pytest.raises(Conflict, match="is sent"):
                await act(sending, OPERATOR)
        await runtime.drained()
        assert sink.texts() == ["two", "three"], "what was dropped is not sent"


@pytest.mark.spec("S11")
async def test_the_operator_may_send_what_waits_for_its_time_at_once(state: Path) -> None:
    async with ChannelSink() as sink, started(state, sink, FakeClock()) as runtime:
        sink.script(Busy(retry_after=3600))
        found = await announce(runtime, "hello")
        await comes_to(runtime, found, "pending")
        await runtime.retry_delivery(found, OPERATOR)
        await comes_to(runtime, found, "sent", 2)


@pytest.mark.spec("S10", "S11")
async def test_a_channel_that_breaks_in_an_unforeseen_way_is_unknown(state: Path) -> None:
    class Broken:
        async def deliver(self, outgoing: OutgoingText) -> None:
            raise ValueError(outgoing.text)

    async with running(state, SETTINGS, Agent(announces), channels={"discord": Broken()}) as runtime:
        delivery = await comes_to(runtime, await announce(runtime, "sk-secret"), "unknown")
        assert delivery.reason is not None
        assert delivery.reason.startswith("ValueError while it was being sent")
        assert "sk-secret" not in delivery.reason


@pytest.mark.spec("S11", "W6")
async def test_what_only_came_up_while_switchboard_was_closed_goes_out_at_the_next_start(state: Path) -> None:
    async def looks_and_hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "subagent":
            yield Reply((text_block("let me look"), tool_call_block("c", "look", {})), stop_reason="toolUse")
            yield ToolEnded("c", "look", await turn.call_tool("c", "look", {}))
            yield TextDelta("half of it")
            await asyncio.Event().wait()
        yield Reply((text_block("yes"),))

    async with ChannelSink() as sink:
        channels = {"discord": sink.channel("discord")}
        async with running(state, SETTINGS, Agent(looks_and_hangs), channels=channels) as runtime:
            await send(runtime, OPS, "hello")
            request = RunRequest("", "look", spawn=SpawnSpec(OPS, "main"))
            ticket = await runtime.start_run(request, Operator(OPS))
            await until(lambda: runtime.reply_under_way(ticket.key))
        async with started(state, sink) as runtime:
            await runtime.drained()
            found = deliveries.of_exchange(runtime.store.db, ticket.run_id)
            assert found is not None
            assert (found.state, found.attempts) == ("sent", 1)
            (text,) = sink.texts()
            assert "Status: interrupted\nResult: half of it" in text
