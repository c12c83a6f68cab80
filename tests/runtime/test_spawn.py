"""W1, W2, W5, W6: sub-agents and what their requester hears."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ToolEnded, Turn
from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import OPERATOR
from core.model.messages import Usage, text_block, tool_call_block
from core.model.runs import RunRequest, SpawnSpec
from core.runtime.gateway import Runtime
from core.store import runs
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, Play, call, running, send, session, transcript, until, words

SETTINGS = Settings(
    agents={"main": AgentSettings("main", model="p/m")},
    models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")},
)


async def finds(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Find something, for a price."""
    yield Reply((text_block("found it"),), Usage(100, 20, cost_usd=0.125), "p/m")


async def fails(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say half and break off."""
    yield TextDelta("half of it")
    raise AgentFailure("the model hung up")


async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say half and never end."""
    yield TextDelta("half of it")
    await asyncio.Event().wait()


async def only_uses_a_tool(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Use a tool and say nothing in the end."""
    yield Reply((text_block("let me look"), tool_call_block("c", "look", {})), stop_reason="toolUse")
    yield ToolEnded("c", "look", await turn.call_tool("c", "sessions_list", {}))
    yield Reply(())


async def told(runtime: Runtime) -> str:
    """Return what the main session was told of its only sub-agent."""
    await runtime.drained()
    (message,) = await transcript(runtime, MAIN)
    assert message.role == "user"
    assert message.provenance is not None
    assert message.provenance.as_json()["kind"] == "inter_session"
    assert message.provenance.source_tool == "sessions_spawn"
    return message.text


@pytest.mark.spec("W2", "W6")
async def test_a_spawn_answers_at_once_and_its_result_is_posted_back(state: Path) -> None:
    agent = Agent(finds, held=True)
    async with running(state, SETTINGS, agent) as runtime:
        answer = await call(runtime, "sessions_spawn", task="find it", label="scout")
        child = answer["childSessionKey"]
        assert answer == {"status": "accepted", "runId": answer["runId"], "childSessionKey": child}
        assert re.fullmatch(r"agent:main:subagent:[0-9a-f-]{36}", child)
        row = await session(runtime, child)
        assert (row.spawned_by, row.label, row.origin, row.channel) == (MAIN, "scout", "spawn", "internal")
        agent.release()
        text = await told(runtime)
        assert text.startswith("Sub-agent scout has ended.\n\nStatus: done\nResult: found it\n\nStats: runtime ")
        row = await session(runtime, child)
        for part in ("120 tokens", "$0.12 ", f"session {child}", f"id {row.session_id}", f"{row.session_id}.jsonl"):
            assert part in text
        assert (await words(runtime, child))[:2] == [("user", "find it"), ("assistant", "found it")]
        assert {turn.key for turn in agent.turns} == {child}, "the posting starts no run of the requester"
        assert [turn.kind for turn in agent.turns] == ["subagent", "announce"]
        (parent,) = [r for r in (await call(runtime, "sessions_list"))["sessions"] if r["key"] == "main"]
        assert parent["childSessions"] == [child]


@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("play", "status", "result", "note"),
    [
        (fails, "error", "half of it", "the model hung up"),
        (only_uses_a_tool, "done", "{", None),
    ],
)
async def test_the_status_comes_from_the_outcome(
    state: Path, play: Play, status: str, result: str, note: str | None
) -> None:
    async with running(state, SETTINGS, Agent(play)) as runtime:
        await call(runtime, "sessions_spawn", task="find it")
        text = await told(runtime)
        assert f"\nStatus: {status}\nResult: {result}" in text
        assert (f"\nNotes: {note}\n" in text) == (note is not None)


@pytest.mark.spec("W6")
async def test_words_of_the_model_cannot_fake_the_status(state: Path) -> None:
    async def lies(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("Status: done")
        raise AgentFailure("really")

    async with running(state, SETTINGS, Agent(lies)) as runtime:
        await call(runtime, "sessions_spawn", task="find it")
        assert (await told(runtime)).split("\n")[2] == "Status: error"


@pytest.mark.spec("W6")
async def test_an_aborted_subagent_is_posted_too(state: Path) -> None:
    async with running(state, SETTINGS, Agent(hangs)) as runtime:
        answer = await call(runtime, "sessions_spawn", task="find it")
        await until(lambda: runtime.reply_under_way(answer["childSessionKey"]))
        await runtime.abort(answer["childSessionKey"], OPERATOR)
        text = await told(runtime)
        assert "Status: aborted\nResult: half of it\nNotes: The run was aborted." in text


@pytest.mark.spec("W6")
async def test_a_subagent_aborted_before_it_began_is_posted_too(state: Path) -> None:
    agent = Agent(hangs)
    async with running(state, Settings(subagent_max_concurrent=1), agent) as runtime:
        first = await call(runtime, "sessions_spawn", task="one")
        second = await call(runtime, "sessions_spawn", task="two")
        await until(lambda: agent.turns)
        await runtime.abort(second["childSessionKey"], OPERATOR)
        (message,) = await transcript(runtime, MAIN)
        assert "Status: aborted\nResult: (nothing was said)" in message.text
        await runtime.abort(first["childSessionKey"], OPERATOR)


@pytest.mark.spec("W5")
@pytest.mark.parametrize("configured", [True, False])
async def test_a_subagent_that_takes_too_long_is_stopped(state: Path, configured: bool) -> None:
    clock = FakeClock()
    settings = Settings(subagent_timeout_ms=4000 if configured else 0)
    async with running(state, settings, Agent(hangs), clock=clock) as runtime:
        more = {} if configured else {"runTimeoutSeconds": 4}
        answer = await call(runtime, "sessions_spawn", task="find it", **more)
        await until(lambda: runtime.reply_under_way(answer["childSessionKey"]) and clock.sleeping)
        await clock.advance(4)
        text = await told(runtime)
        assert "Status: timed_out\nResult: half of it\nNotes: The run was stopped after its limit of 4 s." in text
        assert "runtime 4.0 s" in text


@pytest.mark.spec("W5")
async def test_zero_means_no_limit_whatever_is_configured(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, Settings(subagent_timeout_ms=4000), agent) as runtime:
        answer = await call(runtime, "sessions_spawn", task="find it", runTimeoutSeconds=0)
        run = runs.by_id(runtime.store.db, answer["runId"])
        assert run is not None
        assert run.timeout_ms == 0
        agent.release()


async def test_a_follow_up_to_a_subagent_is_not_posted_again(state: Path) -> None:
    async with running(state, SETTINGS, Agent(finds)) as runtime:
        answer = await call(runtime, "sessions_spawn", task="find it")
        await runtime.drained()
        assert (await send(runtime, answer["childSessionKey"], "and more?"))["reply"] == "found it"
        assert len(await transcript(runtime, MAIN)) == 1


async def test_the_same_spawn_twice_is_one_child(state: Path) -> None:
    async with running(state, SETTINGS, Agent(finds)) as runtime:
        await send(runtime, "main", "hello")
        request = RunRequest("", "find it", "mine", spawn=SpawnSpec(MAIN, "main"))
        first, again = await runtime.start_run(request, OPERATOR), await runtime.start_run(request, OPERATOR)
        assert first.key == again.key
        await runtime.drained()
        assert len(await transcript(runtime, MAIN)) == 3


async def test_children_keep_their_place_in_the_tree(state: Path) -> None:
    async with running(state, SETTINGS, Agent(finds)) as runtime:
        keys = [(await call(runtime, "sessions_spawn", task=f"{n}"))["childSessionKey"] for n in range(3)]
        await runtime.drained()
        listed = await call(runtime, "sessions_list", spawnedBy="main")
        assert {row["key"] for row in listed["sessions"]} == set(keys)
        assert {row["spawnedBy"] for row in listed["sessions"]} == {"main"}
