"""W6, W7: what the announce step of a sub-agent says, where that goes, and when the sub-agent goes to the archive."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ToolEnded, Turn
from core.config.settings import Settings
from core.model.access import OPERATOR, Operator
from core.model.exchanges import Delivery, Exchange
from core.model.messages import Usage, text_block, tool_call_block
from core.model.runs import CUT_SHORT
from core.model.sessions import SessionPatch
from core.runtime.exchanges.announce import RESULT_CHARS
from core.runtime.gateway import Runtime
from tests.support.channel_sink import ChannelSink
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, begin, call, quiet, running, send, session, transcript, until, words

OPS = "agent:main:discord:group:ops"
MINUTE = 60.0
FORM = "Status: failed\nResult: three flags\nNotes: one host was silent"


def child(task: str = "found it", announce: str = "", *, tool: bool = False) -> Agent:
    """Return an agent that says one thing at the end of its task and another in the announce step.

    Args:
        announce: `fails` breaks the announce step.
        tool: Use a tool during the task.
    """

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "announce":
            if announce == "fails":
                yield TextDelta("half an announce")
                raise AgentFailure("the model hung up")
            yield Reply((text_block(announce),))
            return
        if tool and turn.kind == "subagent":
            yield Reply((text_block("let me look"), tool_call_block("c", "look", {})), stop_reason="toolUse")
            yield ToolEnded("c", "look", await turn.call_tool("c", "sessions_list", {}))
        yield Reply((text_block(task),), Usage(100, 20))

    return Agent(play)


async def spawn(runtime: Runtime, requester: str = MAIN, **more: object) -> dict[str, Any]:
    """Have a session spawn a sub-agent."""
    return await call(runtime, "sessions_spawn", Operator(requester), task="find it", **more)


async def ended(runtime: Runtime, answer: dict[str, Any]) -> tuple[Exchange, Delivery]:
    """Return the exchange of a spawn and its delivery when all is done."""
    await runtime.drained()
    found = await runtime.exchange(answer["runId"])
    assert found is not None
    exchange, delivery = found
    assert exchange.state == "ended"
    assert delivery is not None
    return exchange, delivery


async def posted(runtime: Runtime, key: str = MAIN) -> list[str]:
    """Return the results that were posted to a session, without their stats."""
    return [
        message.text.rpartition("\n\nStats:")[0].partition("\n\n")[2]
        for message in await transcript(runtime, key)
        if message.provenance is not None and message.provenance.source_tool == "sessions_spawn"
    ]


# What it says


@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("agent", "result"),
    [
        (child("found it", "All is well."), "All is well."),
        (child("found it", "  "), "found it"),
        (child("found it", "fails"), "found it"),
        (child("found it", "ANNOUNCE_SKIP."), "ANNOUNCE_SKIP."),
        (child("  ", "", tool=True), '{"status":"forbidden"'),
        (child("", ""), "(nothing was said)"),
    ],
    ids=["its words", "the final reply", "a failed step", "not exactly a skip", "the tool's answer", "nothing"],
)
async def test_the_result_is_the_announce_or_what_comes_nearest(state: Path, agent: Agent, result: str) -> None:
    async with running(state, backends=agent) as runtime:
        await send(runtime, MAIN, "hello")
        answer = await spawn(runtime)
        exchange, delivery = await ended(runtime, answer)
        (text,) = await posted(runtime)
        assert text.startswith(f"Status: done\nResult: {result}"), "the status is the task's, not the announce step's"
        assert exchange.outcome == "done"
        assert (delivery.state, delivery.channel, delivery.key) == ("sent", "webchat", MAIN)
        assert delivery.text == (await transcript(runtime, MAIN))[-1].text


@pytest.mark.spec("W6")
async def test_exactly_announce_skip_is_silent(state: Path) -> None:
    async with running(state, backends=child("found it", " ANNOUNCE_SKIP\n")) as runtime:
        await send(runtime, MAIN, "hello")
        before = await words(runtime, MAIN)
        answer = await spawn(runtime)
        _, delivery = await ended(runtime, answer)
        assert await words(runtime, MAIN) == before
        assert (delivery.state, delivery.reason, delivery.text) == ("skipped", "ANNOUNCE_SKIP", "")


@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (child("", FORM), "Result: three flags\nNotes: it calls its status: failed; one host was silent"),
        (child(FORM, ""), "Result: three flags\nNotes: it calls its status: failed; one host was silent"),
        (
            child(FORM, "Notes: late"),
            "Result: three flags\nNotes: it calls its status: failed; late; one host was silent",
        ),
    ],
    ids=["in the announce", "in the task", "in both"],
)
async def test_a_report_is_told_once_under_the_state_of_the_run(state: Path, agent: Agent, told: str) -> None:
    async with running(state, backends=agent) as runtime:
        await send(runtime, MAIN, "hello")
        await ended(runtime, await spawn(runtime))
        assert await posted(runtime) == [f"Status: done\n{told}"]


@pytest.mark.spec("W6")
@pytest.mark.parametrize("kind", ["subagent", "announce"])
async def test_a_result_that_the_models_limit_cut_says_so(state: Path, kind: str) -> None:
    async def cut(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((text_block("half of"),), stop_reason="length" if turn.kind == kind else "stop")

    async with running(state, backends=Agent(cut)) as runtime:
        await send(runtime, MAIN, "hello")
        await ended(runtime, await spawn(runtime))
        assert await posted(runtime) == [f"Status: done\nResult: half of\nNotes: {CUT_SHORT}"]


@pytest.mark.spec("W6")
async def test_the_question_of_the_announce_step_is_no_preview(state: Path) -> None:
    async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "announce":
            await asyncio.Event().wait()
        yield Reply((text_block(turn.kind),))

    agent = Agent(hangs)
    async with running(state, backends=agent) as runtime:
        await send(runtime, MAIN, "hello")
        key = (await spawn(runtime))["childSessionKey"]
        await until(lambda: agent.turns[-1].kind == "announce")
        assert (await session(runtime, key)).preview == "subagent"


@pytest.mark.spec("W6")
async def test_a_long_result_is_cut_and_says_so(state: Path) -> None:
    async with running(state, backends=child("short", "x" * (RESULT_CHARS + 1))) as runtime:
        await send(runtime, MAIN, "hello")
        await ended(runtime, await spawn(runtime))
        (text,) = await posted(runtime)
        assert f"Result: {'x' * RESULT_CHARS}…\nNotes: the result was cut after 20,000 characters" in text


@pytest.mark.spec("W6")
async def test_the_posting_starts_no_run_of_the_requester(state: Path) -> None:
    agent = child("found it", "All is well.")
    async with running(state, backends=agent) as runtime:
        await send(runtime, MAIN, "hello")
        answer = await spawn(runtime)
        await ended(runtime, answer)
        assert [turn.key for turn in agent.turns] == [MAIN, answer["childSessionKey"], answer["childSessionKey"]]
        await send(runtime, MAIN, "and?")
        assert any("All is well." in message.text for message in agent.turns[-1].transcript), "it reads it next time"


# Where it goes


@pytest.mark.spec("W6", "S11")
async def test_the_requesters_channel_gets_it(state: Path) -> None:
    async with (
        ChannelSink() as sink,
        running(state, backends=child("", "Done."), channels={"discord": sink.channel("discord")}) as runtime,
    ):
        await send(runtime, OPS, "hello")
        _, delivery = await ended(runtime, await spawn(runtime, OPS))
        assert (delivery.state, delivery.address) == ("sent", "discord:group:ops")
        assert await posted(runtime, OPS) == ["Status: done\nResult: Done."]
        assert sink.texts() == [(await transcript(runtime, OPS))[-1].text]


@pytest.mark.spec("W6", "P4")
async def test_a_denied_requester_reads_it_and_its_channel_gets_nothing(state: Path) -> None:
    async with (
        ChannelSink() as sink,
        running(state, backends=child("", "Done."), channels={"discord": sink.channel("discord")}) as runtime,
    ):
        await send(runtime, OPS, "hello")
        await runtime.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        _, delivery = await ended(runtime, await spawn(runtime, OPS))
        assert (delivery.state, delivery.reason) == ("skipped", "denied by override")
        assert sink.posts == []
        assert await posted(runtime, OPS) == ["Status: done\nResult: Done."]
        assert (await words(runtime, OPS))[-1] == ("system", "Nothing was announced: denied by override.")


@pytest.mark.spec("W6", "S11")
async def test_a_requester_without_a_channel_has_its_transcript(state: Path) -> None:
    async with running(state, backends=child("", "Done.")) as runtime:
        await send(runtime, "cron:nightly", "hello")
        _, delivery = await ended(runtime, await spawn(runtime, "cron:nightly"))
        assert delivery.state == "skipped"
        assert delivery.reason == "the session has no channel of its own (internal)"
        assert await posted(runtime, "cron:nightly") == ["Status: done\nResult: Done."]
        assert delivery.text == (await transcript(runtime, "cron:nightly"))[-1].text


# The archive


def keeps(minutes: int) -> Settings:
    """Return settings with `archiveAfterMinutes`."""
    return Settings(archive_after_ms=minutes * 60_000)


async def is_archived(runtime: Runtime, key: str) -> bool:
    """Whether a session is in the archive."""
    return (await session(runtime, key)).archived_at is not None


@pytest.mark.spec("W7")
async def test_cleanup_delete_archives_at_once_after_the_announce_and_keeps_the_transcript(state: Path) -> None:
    hold = asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "announce":
            await hold.wait()
        yield Reply((text_block(f"{turn.kind} says"),))

    agent = Agent(play)
    async with running(state, keeps(60), agent) as runtime:
        await send(runtime, MAIN, "hello")
        gone, kept = await spawn(runtime, cleanup="delete"), await spawn(runtime)
        await until(lambda: sum(turn.kind == "announce" for turn in agent.turns) == 2)
        assert not await is_archived(runtime, gone["childSessionKey"]), "not before the announce"
        hold.set()
        await ended(runtime, gone)
        assert await is_archived(runtime, gone["childSessionKey"])
        assert not await is_archived(runtime, kept["childSessionKey"])
        listed = await call(runtime, "sessions_list", spawnedBy="main")
        assert [row["key"] for row in listed["sessions"]] == [kept["childSessionKey"]]
        assert ("assistant", "announce says") in await words(runtime, gone["childSessionKey"])


@pytest.mark.spec("W7")
@pytest.mark.parametrize("announce", ["ANNOUNCE_SKIP", "fails"])
async def test_cleanup_delete_archives_whatever_the_announce_came_to(state: Path, announce: str) -> None:
    async with running(state, keeps(60), child("found it", announce)) as runtime:
        await send(runtime, MAIN, "hello")
        answer = await spawn(runtime, cleanup="delete")
        await ended(runtime, answer)
        assert await is_archived(runtime, answer["childSessionKey"])


@pytest.mark.spec("W7")
async def test_a_child_is_archived_when_its_time_has_come(state: Path) -> None:
    clock = FakeClock()
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        first = (await spawn(runtime))["childSessionKey"]
        await runtime.drained()
        await clock.advance(4 * MINUTE)
        second = (await spawn(runtime))["childSessionKey"]
        await runtime.drained()
        await clock.until_sleeping()
        await clock.advance(6 * MINUTE - 0.001)
        await quiet(runtime)
        assert not await is_archived(runtime, first)
        await clock.advance(0.001)
        await until(lambda: archived(runtime) == [first])
        await clock.until_sleeping()
        await clock.advance(4 * MINUTE)
        await until(lambda: archived(runtime) == [first, second])
        assert clock.sleeping == 0, "nothing is to come"
        assert not await is_archived(runtime, MAIN)


@pytest.mark.spec("W7")
@pytest.mark.parametrize("away", [3 * MINUTE, 3600 * MINUTE])
async def test_a_restart_does_not_forget_the_archive(state: Path, away: float) -> None:
    clock = FakeClock()
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        key = (await spawn(runtime))["childSessionKey"]
        await runtime.drained()
    await clock.advance(away)
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        if away < 10 * MINUTE:
            await clock.until_sleeping()
            await clock.advance(10 * MINUTE - away - 0.001)
            await quiet(runtime)
            assert archived(runtime) == []
            await clock.advance(0.001)
        await until(lambda: archived(runtime) == [key])


@pytest.mark.spec("W7")
async def test_zero_minutes_keeps_a_child_for_ever(state: Path) -> None:
    clock = FakeClock()
    async with running(state, keeps(0), child(), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        await spawn(runtime)
        await runtime.drained()
        await clock.advance(10_000 * MINUTE)
        await quiet(runtime)
        assert (archived(runtime), clock.sleeping) == ([], 0)


@pytest.mark.spec("W7")
async def test_a_message_brings_an_archived_child_back_and_it_is_archived_again_later(state: Path) -> None:
    clock = FakeClock()
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        key = (await spawn(runtime, cleanup="delete"))["childSessionKey"]
        await runtime.drained()
        assert archived(runtime) == [key]
        await clock.advance(90 * MINUTE)
        assert (await send(runtime, key, "one more thing"))["reply"] == "found it"
        await runtime.drained()
        assert archived(runtime) == []
        await clock.until_sleeping()
        await clock.advance(10 * MINUTE - 0.001)
        await quiet(runtime)
        assert archived(runtime) == [], "ten minutes from the end of its last run, not of its first"
        await clock.advance(0.001)
        await until(lambda: archived(runtime) == [key])


@pytest.mark.spec("W7")
async def test_a_child_that_was_reset_is_archived_too(state: Path) -> None:
    clock = FakeClock()
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        key = (await spawn(runtime))["childSessionKey"]
        await runtime.drained()
        await runtime.reset(key, OPERATOR)
    async with running(state, keeps(10), child(), clock=clock) as runtime:
        await clock.until_sleeping()
        await clock.advance(10 * MINUTE)
        await until(lambda: archived(runtime) == [key])


@pytest.mark.spec("W7")
async def test_a_child_that_still_works_is_not_archived(state: Path) -> None:
    clock, hold = FakeClock(), asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.transcript[-1].text == "work":
            await hold.wait()
        yield Reply((text_block("done"),))

    async with running(state, keeps(10), Agent(play), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        key = (await spawn(runtime))["childSessionKey"]
        await runtime.drained()
        await clock.advance(5 * MINUTE)
        await begin(runtime, key, "work")
        await until(lambda: runtime.active_runs)
        await clock.advance(60 * MINUTE)
        await quiet(runtime)
        assert archived(runtime) == []
        hold.set()
        await runtime.drained()
        await clock.until_sleeping()
        await clock.advance(10 * MINUTE)
        await until(lambda: archived(runtime) == [key])


def archived(runtime: Runtime) -> list[str]:
    """Return what is in the archive, in the order of creation."""
    return [key for (key,) in runtime.store.db.execute("SELECT key FROM sessions WHERE archived_at > 0 ORDER BY id")]
