"""Runs from acceptance to their end, whatever the agent does (architecture#runs)."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ThinkingDelta, ToolEnded, ToolStarted, Turn
from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import ALL, OPERATOR, SessionCaller
from core.model.errors import Conflict, Invalid, NotFound, Unavailable
from core.model.messages import Usage, text_block, thinking_block, tool_call_block
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch
from core.runtime.feed import EventHub
from core.runtime.gateway import Runtime
from core.runtime.runs.live_reply import RunningReply
from core.store import jsonl, runs
from tests.support.clock import FakeClock
from tests.support.runtimes import (
    MAIN,
    Agent,
    begin,
    call,
    listening,
    running,
    send,
    session,
    transcript,
    until,
    until_async,
    words,
)

MODEL = ModelSettings("p", "m", "openai-completions", "http://localhost:1", context_window=1000)
WITH_MODEL = Settings(agents={"main": AgentSettings("main", model="p/m")}, models={"p/m": MODEL})


async def says_half(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say something and never end."""
    yield ThinkingDelta("hm")
    yield TextDelta("half of it")
    await asyncio.Event().wait()


def run_of(runtime: Runtime, run_id: str) -> runs.Run:
    """Return a run."""
    found = runs.by_id(runtime.store.db, run_id)
    assert found is not None
    return found


# How a run ends


async def test_done(runtime: Runtime) -> None:
    ticket = await begin(runtime, MAIN, "say hi")
    assert (ticket.key, ticket.state, ticket.created) == (MAIN, "queued", True)
    outcome = await runtime.wait_run(ticket.run_id, 10)
    assert (outcome.status, outcome.state, outcome.reply, outcome.error) == ("ok", "done", "hi", None)
    run, row = run_of(runtime, ticket.run_id), await session(runtime, MAIN)
    assert (run.input_seq, run.reply_seq, run.kind, run.session_id) == (1, 2, "turn", ticket.session_id)
    assert run.started_at is not None
    assert run.accepted_at <= run.started_at <= (run.ended_at or 0)
    assert (row.status, row.queued, row.error, row.aborted_last_run, row.system_sent) == ("done", 0, None, False, True)
    assert (row.preview, row.used_model) == ("hi", "builtin")
    assert await words(runtime, MAIN) == [("user", "say hi"), ("assistant", "hi")]


async def fails(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Break off in the middle of a sentence."""
    yield TextDelta("I was just")
    raise AgentFailure("the model hung up")


async def breaks(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Have a mistake in it."""
    yield TextDelta("I was just")
    raise KeyError("a secret detail")


async def says_nothing(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """End without a reply."""
    return
    yield


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("play", "error", "partial"),
    [
        (fails, "the model hung up", True),
        (breaks, "the agent failed inside switchboard: KeyError (see the log)", True),
        (says_nothing, "the agent ended its turn without a reply", False),
    ],
)
async def test_error_keeps_what_was_said(state: Path, play: object, error: str, partial: bool) -> None:
    async with running(state, backends=Agent(play)) as runtime:  # type: ignore[arg-type] - each is a play
        answer = await send(runtime, "main", "go")
        assert answer == {"runId": answer["runId"], "status": "error", "error": error}
        said = [("assistant", "I was just")] if partial else []
        assert await words(runtime, MAIN) == [("user", "go"), *said, ("system", error)]
        row = await session(runtime, MAIN)
        assert (row.status, row.error, row.aborted_last_run) == ("error", error, False)
        if partial:
            assert (await transcript(runtime, MAIN))[1].stop_reason == "error"


async def test_the_next_run_is_not_harmed_by_a_failed_one(state: Path) -> None:
    async with running(state) as runtime:
        assert (await send(runtime, "main", "fail: once"))["status"] == "error"
        assert (await send(runtime, "main", "say fine"))["reply"] == "fine"
        assert (await session(runtime, MAIN)).error is None


async def test_an_agent_or_model_that_is_gone_fails_the_run_in_one_sentence(state: Path) -> None:
    both = Settings(agents={"main": AgentSettings("main"), "ops": AgentSettings("ops")})
    async with running(state, both) as runtime:
        await send(runtime, "agent:ops:main", "hello")
    async with running(state) as runtime:
        answer = await send(runtime, "agent:ops:main", "hello")
        assert (answer["status"], answer["error"]) == ("error", 'agent "ops" is not configured: use one of main')


async def test_aborting_a_running_run_keeps_its_words(state: Path) -> None:
    async with running(state, WITH_MODEL, Agent(says_half)) as runtime, listening(runtime, MAIN) as listener:
        ticket = await begin(runtime, MAIN, "go")
        await until(lambda: len(runtime.reply_under_way(MAIN)) == 2)
        assert await runtime.abort(MAIN, OPERATOR) == [ticket.run_id]
        outcome = await runtime.wait_run(ticket.run_id, 10)
        assert (outcome.status, outcome.state, outcome.reply) == ("error", "aborted", "half of it")
        _user, partial, note = await transcript(runtime, MAIN)
        assert (partial.role, partial.stop_reason, partial.model) == ("assistant", "aborted", "p/m")
        assert partial.content == (thinking_block("hm"), text_block("half of it"))
        assert (note.role, note.stop_reason, note.text) == ("system", "aborted", "The run was aborted.")
        row = await session(runtime, MAIN)
        assert (row.status, row.aborted_last_run) == ("aborted", True)
        assert runtime.active_runs == []
        await until(lambda: any(not event.run.live for event in listener.of(runs.RunChanged)))


async def test_aborting_drops_the_queued_runs_too(state: Path) -> None:
    agent = Agent(says_half)
    async with running(state, backends=agent) as runtime:
        tickets = [await begin(runtime, MAIN, f"go {n}") for n in range(3)]
        other = await begin(runtime, "agent:main:other", "go")
        await until(lambda: len(agent.turns) == 2)
        assert await runtime.abort(MAIN, OPERATOR) == [ticket.run_id for ticket in tickets]
        assert [run_of(runtime, ticket.run_id).state for ticket in tickets] == ["aborted"] * 3
        assert run_of(runtime, other.run_id).state == "running"
        assert len(agent.turns) == 2, "no queued run was started on the way"
        assert run_of(runtime, tickets[1].run_id).started_at is None
        row = await session(runtime, MAIN)
        assert (row.status, row.queued) == ("aborted", 0)
        assert await runtime.abort(MAIN, OPERATOR) == []


async def test_aborting_one_queued_run_leaves_the_others(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        first, second, third = [await begin(runtime, MAIN, f"go {n}") for n in range(3)]
        await until(lambda: agent.turns)
        assert await runtime.abort(MAIN, OPERATOR, run_id=second.run_id) == [second.run_id]
        agent.release()
        assert (await runtime.wait_run(third.run_id, 10)).status == "ok"
        assert (await runtime.wait_run(first.run_id, 10)).status == "ok"
        assert [turn.transcript[-1].text for turn in agent.turns] == ["go 0", "go 2"]
        row = await session(runtime, MAIN)
        assert not row.aborted_last_run


async def test_a_queued_run_that_was_aborted_sent_no_system_prompt(state: Path) -> None:
    agent = Agent(held=True)
    one_place = Settings(max_concurrent=1)
    async with running(state, one_place, agent) as runtime:
        await begin(runtime, "agent:main:first", "go")
        await begin(runtime, MAIN, "go")
        await runtime.abort(MAIN, OPERATOR)
        assert not (await session(runtime, MAIN)).system_sent
        agent.release()


async def test_a_run_that_takes_too_long_is_stopped(state: Path) -> None:
    clock = FakeClock()
    async with running(state, backends=Agent(says_half), clock=clock) as runtime:
        ticket = await begin(runtime, MAIN, "go", timeout_ms=2500)
        await until(lambda: len(runtime.reply_under_way(MAIN)) == 2 and clock.sleeping)
        await clock.advance(2.4)
        assert run_of(runtime, ticket.run_id).state == "running"
        await clock.advance(0.1)
        outcome = await runtime.wait_run(ticket.run_id, None)
        assert (outcome.state, outcome.reply) == ("timed_out", "half of it")
        assert outcome.error == "The run was stopped after its limit of 2.5 s."
        row = await session(runtime, MAIN)
        assert (row.status, row.runtime_ms, row.aborted_last_run) == ("timed_out", 2500, False)


async def test_closing_interrupts_what_is_at_work_and_keeps_what_is_queued(state: Path) -> None:
    agent = Agent(says_half)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, MAIN, "one")
        await begin(runtime, MAIN, "two")
        await until(lambda: len(runtime.reply_under_way(MAIN)) == 2)
    async with running(state, backends=Agent()) as runtime:
        await runtime.drained()
        assert await words(runtime, MAIN) == [
            ("user", "one"),
            ("user", "two"),
            ("assistant", "half of it"),
            ("system", "The run was interrupted: switchboard was closed while it was at work."),
            ("assistant", "echo two"),
        ]


async def uses_a_tool(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Ask for two tools, run the first, and wait for ever."""
    calls = (tool_call_block("c1", "sessions_list", {}), tool_call_block("c2", "agents_list", {}))
    yield TextDelta("let me look")
    yield Reply((text_block("let me look"), *calls), Usage(10, 1), "p/m", "toolUse")
    yield ToolStarted("c1", "sessions_list")
    yield ToolEnded("c1", "sessions_list", await turn.call_tool("c1", "sessions_list", {}))
    yield TextDelta("and now")
    await asyncio.Event().wait()


async def test_a_call_without_an_answer_is_answered_at_the_end(state: Path) -> None:
    async with running(state, backends=Agent(uses_a_tool)) as runtime:
        await begin(runtime, MAIN, "go")
        await until(lambda: any(delta.text == "and now" for delta in runtime.reply_under_way(MAIN)))
        await runtime.abort(MAIN, OPERATOR)
        _user, asked, first, second, partial, note = await transcript(runtime, MAIN)
        assert asked.stop_reason == "toolUse"
        assert (first.tool_call_id, first.is_error) == ("c1", False)
        assert json.loads(first.text)["count"] == 1
        assert (second.tool_call_id, second.tool_name, second.is_error) == ("c2", "agents_list", True)
        assert second.text == "no answer: the run ended (aborted) before the tool did"
        assert (partial.text, partial.stop_reason, note.role) == ("and now", "aborted", "system")


# What it cost


async def costs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Use the model twice."""
    yield Reply((tool_call_block("c", "agents_list", {}),), Usage(100, 10, 5, 2, 0.25), "p/m", "toolUse")
    yield ToolEnded("c", "agents_list", await turn.call_tool("c", "agents_list", {}))
    yield Reply((text_block("done"),), Usage(200, 20, 7, 0, 0.5), "p/m")


@pytest.mark.spec("L4")
async def test_usage_and_cost_add_up(state: Path) -> None:
    async with running(state, WITH_MODEL, Agent(costs)) as runtime:
        first = await send(runtime, MAIN, "go")
        run = run_of(runtime, first["runId"])
        assert run.usage == Usage(300, 30, 12, 2, 0.75)
        assert run.model == "p/m"
        await send(runtime, MAIN, "again")
        row = await session(runtime, MAIN)
        assert row.total_tokens == 227, "the context after the last call"
        assert (row.context_tokens, row.spent_tokens, row.cost_usd) == (1000, 688, 1.5)
        assert (await transcript(runtime, MAIN))[1].usage == Usage(100, 10, 5, 2, 0.25)


async def test_what_a_failed_run_used_is_counted(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((tool_call_block("c", "agents_list", {}),), Usage(100, 10, cost_usd=0.5), "p/m", "toolUse")
        raise AgentFailure("no")

    async with running(state, WITH_MODEL, Agent(play)) as runtime:
        answer = await send(runtime, MAIN, "go")
        assert run_of(runtime, answer["runId"]).usage == Usage(100, 10, cost_usd=0.5)
        row = await session(runtime, MAIN)
        assert (row.spent_tokens, row.total_tokens, row.cost_usd) == (110, 110, 0.5)


async def test_numbers_that_cannot_be_stored_end_the_run_too(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((text_block("huge"),), Usage(10**30, 1))

    async with running(state, backends=Agent(play)) as runtime:
        answer = await send(runtime, MAIN, "go")
        assert answer["status"] == "error"
        assert "cannot be stored" in answer["error"]
        assert (await session(runtime, MAIN)).status == "error"


# Order and places


async def test_one_run_a_session_in_the_order_of_acceptance(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        tickets = await asyncio.gather(*(begin(runtime, f"agent:main:s{n % 3}", f"{n}") for n in range(30)))
        for ticket in tickets:
            assert (await runtime.wait_run(ticket.run_id, 10)).status == "ok"
        for number in range(3):
            mine = [turn.transcript[-1].text for turn in agent.turns if turn.key == f"agent:main:s{number}"]
            assert mine == [str(n) for n in range(30) if n % 3 == number]
            said = [text for role, text in await words(runtime, f"agent:main:s{number}") if role == "user"]
            assert said == mine
        assert agent.most_at_work <= 3


async def test_no_more_runs_than_places(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, Settings(max_concurrent=2, subagent_max_concurrent=1), agent) as runtime:
        await begin(runtime, MAIN, "go")
        for number in range(4):
            await begin(runtime, f"agent:main:s{number}", "go")
            await call(runtime, "sessions_spawn", task=f"task {number}")
        await until(lambda: len(agent.at_work) == 3)
        assert sum(":subagent:" in key for key in agent.at_work) == 1
        assert (await session(runtime, "agent:main:s3")).status == "queued"
        agent.release()
        await runtime.drained()
        assert agent.most_at_work == 3
        assert len([turn for turn in agent.turns if turn.kind != "announce"]) == 9


async def test_the_prompt_leaves_out_inputs_queued_behind(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        for number in range(3):
            await begin(runtime, MAIN, f"{number}")
        await until(lambda: agent.turns)
        agent.release()
        await runtime.drained()
        seen = [[message.text for message in turn.transcript] for turn in agent.turns]
        assert seen == [["0"], ["0", "echo 0", "1"], ["0", "1", "echo 0", "echo 1", "2"]]


async def test_a_message_whose_sender_went_away_still_runs(runtime: Runtime) -> None:
    task = asyncio.ensure_future(begin(runtime, MAIN, "say hi"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def answered() -> bool:
        return (await words(runtime, MAIN))[-1:] == [("assistant", "hi")]

    async def exists() -> bool:
        return bool((await call(runtime, "sessions_list"))["count"])

    await until_async(exists)
    await until_async(answered)


async def asks(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """In the main session ask another one; there, answer."""
    if turn.key == MAIN:
        arguments = {"sessionKey": "agent:main:other", "message": "what is it?"}
        yield Reply((tool_call_block("c", "sessions_send", arguments),), stop_reason="toolUse")
        result = await turn.call_tool("c", "sessions_send", arguments)
        yield ToolEnded("c", "sessions_send", result)
        yield Reply((text_block(json.loads(result.text).get("reply", "nothing")),))
    else:
        yield Reply((text_block("forty-two"),))


async def test_a_run_that_waits_for_another_session_gives_its_place_back(state: Path) -> None:
    settings = Settings(max_concurrent=1)
    settings = replace(
        settings, rules=replace(settings.rules, visibility=replace(settings.rules.visibility, visibility="agent"))
    )
    agent = Agent(asks)
    async with running(state, settings, agent) as runtime:
        await send(runtime, "agent:main:other", "hello")
        answer = await send(runtime, MAIN, "go", timeoutSeconds=5)
        assert (answer["status"], answer["reply"]) == ("ok", "forty-two")
        assert [turn.key for turn in agent.turns] == ["agent:main:other", MAIN, "agent:main:other"]
        await runtime.drained()


# Waiting


async def test_a_wait_that_runs_out_leaves_the_run_alone(state: Path) -> None:
    clock, agent = FakeClock(), Agent(held=True)
    async with running(state, backends=agent, clock=clock) as runtime:
        ticket = await begin(runtime, MAIN, "go")
        wait = asyncio.create_task(runtime.wait_run(ticket.run_id, 3))
        await clock.until_sleeping()
        await clock.advance(3)
        outcome = await wait
        assert (outcome.status, outcome.reply) == ("timeout", None)
        assert "sessions_history" in (outcome.error or "")
        waits = [asyncio.create_task(runtime.wait_run(ticket.run_id, None)) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        agent.release()
        assert [(await wait).reply for wait in waits[1:]] == ["echo go"] * 2
        assert (await runtime.wait_run(ticket.run_id, 0)).reply == "echo go"


# Identity of requests and of transcripts


async def test_a_reset_waits_for_no_run_and_keeps_the_old_transcript(runtime: Runtime) -> None:
    first = await begin(runtime, MAIN, "say one")
    await runtime.drained()
    fresh = await runtime.reset(MAIN, OPERATOR)
    assert fresh.session_id != first.session_id
    assert (fresh.status, fresh.total_tokens, fresh.preview) == (None, None, None)
    assert await words(runtime, MAIN) == []
    old = await runtime.history(first.session_id, ALL, limit=10)
    assert (old.session_id, [message.text for message in old.messages]) == (first.session_id, ["say one", "one"])
    await send(runtime, "main", "say two")
    assert [message.seq for message in await transcript(runtime, MAIN)] == [3, 4]


async def test_nothing_can_be_changed_through_the_id_of_an_ended_transcript(runtime: Runtime) -> None:
    first = await begin(runtime, MAIN, "say one")
    await runtime.drained()
    await runtime.reset(MAIN, OPERATOR)
    old = first.session_id
    for change in (
        begin(runtime, old, "hello"),
        begin(runtime, old, "/label x"),
        runtime.patch(old, SessionPatch({"label": "x"}), OPERATOR),
        runtime.reset(old, OPERATOR),
        runtime.archive(old, OPERATOR, archived=True),
        runtime.abort(old, OPERATOR),
    ):
        with pytest.raises(Conflict, match="was reset meanwhile: look at it again"):
            await change
    fresh = await session(runtime, MAIN)
    assert (await begin(runtime, fresh.session_id, "say two")).key == MAIN


async def test_a_session_at_work_cannot_be_reset(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, MAIN, "go")
        for _ in range(2):
            with pytest.raises(Conflict, match="is at work: abort it first, or wait"):
                await runtime.reset(MAIN, OPERATOR)
            await until(lambda: agent.turns)
        agent.release()
        await runtime.drained()
        await runtime.reset(MAIN, OPERATOR)


async def test_a_session_with_a_queued_run_cannot_be_reset(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, Settings(max_concurrent=1), agent) as runtime:
        await begin(runtime, "agent:main:first", "go")
        await begin(runtime, MAIN, "go")
        with pytest.raises(Conflict, match="is at work"):
            await runtime.reset(MAIN, OPERATOR)
        agent.release()


async def test_a_wait_for_a_queued_run_ends_when_switchboard_is_closed(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, MAIN, "first")
        queued = await begin(runtime, MAIN, "second")
        wait = asyncio.create_task(runtime.wait_run(queued.run_id, None))
        await until(lambda: agent.at_work)
    with pytest.raises(Unavailable, match="goes on at the next start"):
        await wait
    async with running(state) as runtime:
        assert (await runtime.wait_run(queued.run_id, 10)).status == "ok"


@pytest.mark.spec("S4", "S6")
async def test_a_wait_for_a_queued_run_ends_when_no_more_runs_are_to_start(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, MAIN, "first")
        await until(lambda: agent.at_work)
        waiting = asyncio.create_task(send(runtime, MAIN, "second", timeoutSeconds=60))
        await until(lambda: [run for run in runs.live(runtime.store.db, MAIN) if run.state == "queued"])
        runtime.hold()
        for answer in (await waiting, await send(runtime, MAIN, "third", timeoutSeconds=60)):
            assert answer["status"] == "timeout"
            assert "begins at its next start" in answer["error"]
        agent.release()
        await runtime.drained()
    async with running(state, backends=agent) as runtime:
        await runtime.drained()
        assert [text for role, text in await words(runtime, MAIN) if role == "user"] == ["first", "second", "third"]


async def test_a_message_brings_an_archived_session_back(runtime: Runtime) -> None:
    await send(runtime, "main", "say hi")
    await runtime.archive(MAIN, OPERATOR, archived=True)
    assert (await call(runtime, "sessions_list"))["count"] == 0
    assert (await call(runtime, "sessions_list", archived=True))["count"] == 1
    await send(runtime, "main", "/label old")
    assert (await call(runtime, "sessions_list"))["count"] == 0, "a note is not a message"
    await send(runtime, "main", "say ho")
    assert (await call(runtime, "sessions_list"))["count"] == 1
    await runtime.archive(MAIN, OPERATOR, archived=True)
    await runtime.archive(MAIN, OPERATOR, archived=False)
    assert (await call(runtime, "sessions_list"))["count"] == 1


async def test_the_file_has_the_whole_transcript_also_when_a_reset_follows_at_once(runtime: Runtime) -> None:
    first = await begin(runtime, MAIN, "say one")
    await runtime.wait_run(first.run_id, 10)
    await runtime.reset(MAIN, OPERATOR)
    await send(runtime, "main", "say two")
    await runtime.drained()
    for session_id, text in ((first.session_id, "one"), ((await session(runtime, MAIN)).session_id, "two")):
        lines = jsonl.transcript_path(runtime.store.directory, session_id).read_text().splitlines()
        assert [json.loads(line)["message"]["content"][0]["text"] for line in lines[1:]] == [f"say {text}", text]


# Sizes


@pytest.mark.spec("S12")
async def test_half_a_megabyte_fits_and_more_does_not(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        fits = "ä" * 262_144
        await begin(runtime, MAIN, fits)
        await runtime.drained()
        assert agent.turns[0].transcript[-1].text == fits
        for message in (fits + "x", "x" * 1_000_000):
            with pytest.raises(Invalid, match=r"bytes long and at most 524,288 fit: put it in a file"):
                await begin(runtime, MAIN, message)
        for message in ("", "  \n "):
            with pytest.raises(Invalid, match="the message is empty"):
                await begin(runtime, MAIN, message)
        assert len(agent.turns) == 1


async def test_text_that_utf8_cannot_hold(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        answer = await send(runtime, MAIN, "half \ud83d and a null \0")
        assert answer["reply"] == "echo half \ufffd and a null \0"


async def test_a_request_that_names_a_session_id(runtime: Runtime) -> None:
    first = await begin(runtime, MAIN, "say hi")
    second = await runtime.start_run(RunRequest(first.session_id, "say ho"), OPERATOR)
    assert second.key == MAIN


# Waiting


@pytest.mark.spec("S4", "S6")
async def test_whoever_comes_back_waits_on_the_same_run(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        ticket = await begin(runtime, MAIN, "hello")
        outcome = await runtime.wait_run(ticket.run_id, 0.01)
        assert (outcome.status, outcome.state) in {("timeout", "queued"), ("timeout", "running")}
        lost = asyncio.create_task(runtime.wait_run(ticket.run_id, None))
        again = asyncio.create_task(runtime.wait_run(ticket.run_id, None))
        await until(lambda: agent.at_work)
        lost.cancel()
        agent.release()
        assert (await again).reply == "echo hello", (
            "a wait that is given up takes neither the run nor other waits along"
        )
        assert (await runtime.wait_run(ticket.run_id, 0)).reply == "echo hello", "a run that has ended answers at once"
    async with running(state) as runtime:
        assert (await runtime.wait_run(ticket.run_id, 0)).reply == "echo hello"
    assert len(agent.turns) == 1


@pytest.mark.spec("K6")
async def test_an_agent_never_creates_a_session_whatever_it_asks_the_port(runtime: Runtime) -> None:
    await send(runtime, MAIN, "hello")
    with pytest.raises(NotFound, match="agent:main:new"):
        await runtime.start_run(RunRequest("agent:main:new", "hi", create=True), SessionCaller(MAIN))
    assert (await call(runtime, "sessions_list"))["count"] == 1


@pytest.mark.spec("L4")
async def test_a_row_has_no_send_policy_unless_the_session_has_one_of_its_own(runtime: Runtime) -> None:
    await send(runtime, MAIN, "hello")
    (row,) = (await call(runtime, "sessions_list"))["sessions"]
    assert "sendPolicy" not in row
    await runtime.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
    (row,) = (await call(runtime, "sessions_list"))["sessions"]
    assert row["sendPolicy"] == "deny"


async def test_a_long_reply_in_small_pieces_takes_no_long_time() -> None:
    async def nothing(cursor: int, watched: object) -> list[Any]:
        return []

    reply = RunningReply(MAIN, "run", EventHub(nothing, lambda key: []))
    started = time.process_time()
    for _ in range(300_000):
        reply.add("text", "word ")
    assert time.process_time() - started < 5, "each word costs the same, however long the reply is"
    assert reply.content() == (text_block("word " * 300_000),)
    assert [len(delta.text) for delta in reply.so_far()] == [1_500_000]
    reply.clear()
