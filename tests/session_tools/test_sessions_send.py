"""S1-S8, S12, S13, P1, P2, P4, K6: `sessions_send` through the one door."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, Turn
from core.config.settings import AgentSettings, Settings
from core.model.access import OPERATOR, Operator, SessionCaller
from core.model.errors import Invalid, NotFound
from core.model.messages import text_block
from core.model.runs import CUT_SHORT, RunOutcome, RunRequest
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import VisibilityRules
from core.runtime.gateway import Runtime
from core.store.database import last_rev
from core.wire.codec import codec_of
from tests.model.test_keys import MALFORMED
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, call, running, send, session, transcript, until, words

GROUP = "agent:main:discord:group:ops"
OTHER = "agent:main:other"
AGENT_WIDE = RuleSet(visibility=VisibilityRules("agent"))
DISCORD_DENIED = SendPolicy((Rule("allow"), Rule("deny", Match("discord", "group"))))


def settings(rules: RuleSet) -> Settings:
    """Return settings with these rules."""
    return Settings(rules=rules, agents={agent: AgentSettings(agent) for agent in rules.agents})


@pytest.mark.spec("S1", "S3")
async def test_a_reply(runtime: Runtime) -> None:
    answer = await send(runtime, "main", "say hi")
    assert answer == {"runId": answer["runId"], "status": "ok", "reply": "hi"}


@pytest.mark.spec("S3")
async def test_a_reply_that_the_models_limit_cut_says_so(state: Path) -> None:
    async def cut(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((text_block("half of"),), stop_reason="length")

    async with running(state, backends=Agent(cut)) as runtime:
        answer = await send(runtime, "main", "go")
        assert answer == {
            "runId": answer["runId"],
            "status": "ok",
            "reply": "half of",
            "stopReason": "length",
            "note": CUT_SHORT,
        }
        outcome = await runtime.wait_run(answer["runId"], 0)
        assert codec_of(RunOutcome).read(codec_of(RunOutcome).write(outcome)) == outcome, "far away too"


@pytest.mark.spec("S2")
async def test_no_wait(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        answer = await send(runtime, "main", "go", timeoutSeconds=0)
        assert answer == {"runId": answer["runId"], "status": "accepted"}
        assert await words(runtime, MAIN) == [("user", "go")], "what is accepted is on disk"
        agent.release()
        assert (await runtime.wait_run(answer["runId"], 10)).reply == "echo go"


@pytest.mark.spec("S1", "S4")
@pytest.mark.parametrize(("more", "seconds"), [({}, 30), ({"timeoutSeconds": 2.5}, 2.5)])
async def test_a_wait_that_runs_out(state: Path, more: dict[str, Any], seconds: float) -> None:
    clock, agent = FakeClock(), Agent(held=True)
    async with running(state, backends=agent, clock=clock) as runtime:
        sending = asyncio.create_task(send(runtime, "main", "go", **more))
        await clock.until_sleeping()
        await clock.advance(seconds - 0.1)
        assert not sending.done()
        await clock.advance(0.1)
        await until(sending.done, seconds=5)  # else it waits for longer than it should
        answer = await sending
        assert set(answer) == {"runId", "status", "error"}
        assert answer["status"] == "timeout"
        assert "the run goes on and its reply will be in sessions_history" in answer["error"]
        agent.release()
        await runtime.drained()
        assert (await words(runtime, MAIN))[-1] == ("assistant", "echo go")


@pytest.mark.spec("S5")
async def test_a_run_that_fails(runtime: Runtime) -> None:
    answer = await send(runtime, "main", "fail: on purpose")
    assert answer == {
        "runId": answer["runId"],
        "status": "error",
        "error": "the builtin agent failed as asked: on purpose",
    }


@pytest.mark.spec("S5")
async def test_a_run_that_is_aborted(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        sending = asyncio.create_task(send(runtime, "main", "go"))
        await until(lambda: agent.turns)
        await runtime.abort(MAIN, OPERATOR)
        assert (await sending)["error"] == "The run was aborted."


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    ("asked", "key", "channel"),
    [
        ("main", MAIN, "webchat"),
        ("Discord:group:Ops", "agent:main:discord:group:Ops", "discord"),
        ("agent:MAIN:slack:channel:c", "agent:main:slack:channel:c", "slack"),
        ("agent:main:anna", "agent:main:anna", "unknown"),
        ("cron:nightly", "cron:nightly", "internal"),
        ("hook:1", "hook:1", "internal"),
        ("node-laptop", "node-laptop", "internal"),
        (f"{GROUP}:thread:7", f"{GROUP}:thread:7", "discord"),
    ],
)
async def test_the_operator_creates_what_a_channel_would(runtime: Runtime, asked: str, key: str, channel: str) -> None:
    assert (await send(runtime, asked, "say hi"))["status"] == "ok"
    row = await session(runtime, key)
    assert (row.channel, row.agent_id) == (channel, "main")
    assert (await send(runtime, row.session_id, "say ho"))["status"] == "ok"
    assert len(await transcript(runtime, key)) == 4


@pytest.mark.spec("K6", "S12")
@pytest.mark.parametrize(
    "asked",
    [
        "anna",
        "0b9cf1f0-5b1e-4c53-8f0a-3c6f8b2d7a11",
        "agent:nobody:main",
        "agent:main:subagent:1",
        "subagent:1",
        "agent:main:subagent:1:thread:2",
    ],
)
async def test_what_nobody_can_create_is_not_found(runtime: Runtime, asked: str) -> None:
    with pytest.raises(NotFound) as caught:
        await send(runtime, asked, "hello")
    assert asked.split(":")[1 if "nobody" in asked else 0] in caught.value.message
    assert (await call(runtime, "sessions_list"))["count"] == 0


@pytest.mark.spec("K6", "S12")
async def test_an_agent_creates_nothing(state: Path) -> None:
    async with running(state, settings(AGENT_WIDE)) as runtime:
        await send(runtime, "main", "hello")
        with pytest.raises(NotFound, match="agent:main:discord:group:ops"):
            await send(runtime, GROUP, "hello", SessionCaller(MAIN))
        assert (await call(runtime, "sessions_list"))["count"] == 1


@pytest.mark.spec("K7")
@pytest.mark.parametrize("text", MALFORMED)
async def test_a_malformed_key_never_touches_store_or_disk(runtime: Runtime, text: str) -> None:
    def files() -> set[Path]:
        return set(runtime.store.directory.rglob("*"))

    before, rev = files(), last_rev(runtime.store.db)
    for tool, arguments in (
        ("sessions_send", {"sessionKey": text, "message": "hello"}),
        ("sessions_history", {"sessionKey": text}),
        ("sessions_search", {"query": "x", "sessionKey": text}),
        ("sessions_list", {"spawnedBy": text}),
    ):
        if tool in {"sessions_search", "sessions_list"} and not text:
            continue  # an absent filter
        with pytest.raises(Invalid):
            await call(runtime, tool, **arguments)
    assert (files(), last_rev(runtime.store.db)) == (before, rev)


@pytest.mark.spec("S12")
@pytest.mark.parametrize("message", ["", "   ", "\n\t"])
async def test_an_empty_message_is_refused(runtime: Runtime, message: str) -> None:
    with pytest.raises(Invalid, match="the message is empty"):
        await send(runtime, "main", message)
    assert (await call(runtime, "sessions_list"))["count"] == 0


@pytest.mark.spec("S12")
async def test_a_session_cannot_send_to_itself(state: Path) -> None:
    async with running(state, settings(AGENT_WIDE)) as runtime:
        await send(runtime, "main", "hello")
        row = await session(runtime, MAIN)
        for spelled in ("main", MAIN, "Agent:main:MAIN", row.session_id):
            for caller in (SessionCaller(MAIN), Operator(MAIN), Operator("main")):
                with pytest.raises(Invalid, match="cannot send to itself"):
                    await send(runtime, spelled, "hello", caller)
        for caller in (SessionCaller(MAIN), Operator(MAIN)):
            with pytest.raises(Invalid, match="cannot send to itself"):
                await runtime.start_run(RunRequest(MAIN, "hello"), caller)
        assert len(await transcript(runtime, MAIN)) == 2


@pytest.mark.spec("S12", "V5")
async def test_an_invisible_target_is_forbidden_and_an_absent_one_not_found(runtime: Runtime) -> None:
    await send(runtime, "main", "hello")
    await send(runtime, OTHER, "hello")
    refused = await send(runtime, OTHER, "hello", SessionCaller(MAIN))
    assert refused == {
        "status": "forbidden",
        "error": f"session {OTHER} is not visible from here: tools.sessions.visibility=tree limits what this session"
        " may see; name one that is",
        "decidedBy": ["tools.sessions.visibility=tree"],
    }
    assert len(await transcript(runtime, OTHER)) == 2
    with pytest.raises(NotFound, match="agent:main:nobody"):
        await send(runtime, "agent:main:nobody", "hello", SessionCaller(MAIN))


@pytest.mark.spec("S12", "P1", "P4")
async def test_a_denied_target_is_forbidden_and_nothing_is_stored(state: Path) -> None:
    rules = RuleSet(send_policy=DISCORD_DENIED, visibility=VisibilityRules("agent"))
    async with running(state, settings(rules)) as runtime:
        await send(runtime, "main", "hello")
        for caller in (OPERATOR, SessionCaller(MAIN), Operator(MAIN)):
            if isinstance(caller, SessionCaller):
                with pytest.raises(NotFound):
                    await send(runtime, GROUP, "hello", caller)
                continue
            refused = await send(runtime, GROUP, "hello", caller)
            assert set(refused) == {"status", "error", "decidedBy"}
            assert refused["status"] == "forbidden"
            assert refused["decidedBy"] == ["session.sendPolicy.rules[1]"]
            assert "rule 2: discord · group" in refused["error"]
        assert (await call(runtime, "sessions_list"))["count"] == 1, "not even the session was made"
        await send(runtime, GROUP, "/send on")
        assert (await send(runtime, GROUP, "hello"))["status"] == "ok"
        await send(runtime, GROUP, "/send off")
        for caller in (OPERATOR, SessionCaller(MAIN), Operator(MAIN)):
            refused = await send(runtime, GROUP, "hello", caller)
            assert refused["decidedBy"] == ["sendPolicy override"]
        users = [text for role, text in await words(runtime, GROUP) if role == "user"]
        assert users == ["hello"]


@pytest.mark.spec("P1")
async def test_the_policy_reads_the_recorded_channel_of_a_direct_chat(state: Path) -> None:
    rules = RuleSet(send_policy=SendPolicy((Rule("deny", Match("webchat", "direct")),)))
    async with running(state, settings(rules)) as runtime:
        assert (await send(runtime, "main", "hello"))["status"] == "forbidden"
        assert (await send(runtime, OTHER, "hello"))["status"] == "ok"


@pytest.mark.spec("S8", "S13")
async def test_the_operator_sends_from_a_session_with_an_authority_of_its_own(state: Path) -> None:
    rules = RuleSet(agents={"main": AgentRules("main"), "ops": AgentRules("ops")}, visibility=VisibilityRules("self"))
    async with running(state, settings(rules)) as runtime:
        await send(runtime, "main", "hello")
        answer = await send(runtime, "agent:ops:main", "hello", Operator("main"))
        assert answer["status"] == "ok", "a session that sees nobody could not have done that"
        message = (await transcript(runtime, "agent:ops:main"))[0]
        assert message.provenance is not None
        assert message.provenance.source_session_key == MAIN
        with pytest.raises(NotFound, match="agent:main:nobody"):
            await send(runtime, "main", "hello", Operator("agent:main:nobody"))


@pytest.mark.spec("K1")
async def test_main_means_the_callers_own_agent(state: Path) -> None:
    rules = RuleSet(agents={"main": AgentRules("main"), "ops": AgentRules("ops")}, visibility=VisibilityRules("agent"))
    async with running(state, settings(rules)) as runtime:
        await send(runtime, "agent:ops:main", "hello")
        await send(runtime, "agent:ops:other", "hello")
        answer = await send(runtime, "main", "say to ops", SessionCaller("agent:ops:other"))
        assert answer["status"] == "ok"
        assert len(await transcript(runtime, "agent:ops:main")) == 4
        listed = await call(runtime, "sessions_list", SessionCaller("agent:ops:other"))
        assert {row["key"] for row in listed["sessions"]} == {"main", "agent:ops:other"}
        history = await call(runtime, "sessions_history", SessionCaller("agent:ops:other"), sessionKey="main")
        assert history["sessionKey"] == "main"


@pytest.mark.spec("T1", "S1")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "sessions_send needs sessionKey"),
        ({"sessionKey": "main"}, "sessions_send needs message"),
        ({"sessionKey": "main", "message": "x", "timeoutSeconds": -1}, "timeoutSeconds cannot be"),
        ({"sessionKey": "main", "message": "x", "timeoutSeconds": 1e9}, "timeoutSeconds cannot be"),
        ({"sessionKey": "main", "message": "x", "timeoutSeconds": float("nan")}, "timeoutSeconds cannot be"),
        ({"sessionKey": "main", "message": ["x"]}, "message cannot be"),
        ({"sessionKey": "main", "message": "x", "timeout": 3}, 'sessions_send has no parameter "timeout"'),
    ],
)
async def test_bad_arguments_give_one_sentence(runtime: Runtime, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(Invalid) as caught:
        await call(runtime, "sessions_send", **arguments)
    assert error in caught.value.message
    assert caught.value.message.isprintable()
    assert (await call(runtime, "sessions_list"))["count"] == 0


@pytest.mark.spec("T1")
async def test_an_unknown_tool_is_an_error_that_lists_those_there_are(runtime: Runtime) -> None:
    with pytest.raises(Invalid, match='there is no tool "sessions_delete": use one of sessions_list, sessions_history'):
        await call(runtime, "sessions_delete")
