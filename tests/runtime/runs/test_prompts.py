"""S7, S8: what an agent is told, and how a message of another session is kept."""

from pathlib import Path

import pytest

from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import Operator, SessionCaller
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.tools.dispatch import TOOL_NAMES
from tests.support.runtimes import MAIN, Agent, call, running, send, transcript

GROUP = "agent:main:discord:group:ops"
MODEL = ModelSettings("p", "m", "openai-completions", "http://localhost:1")
SETTINGS = Settings(
    rules=RuleSet(
        agents={"main": AgentRules("main"), "lab": AgentRules("lab")},
        visibility=VisibilityRules("all", AgentToAgent(enabled=True)),
    ),
    agents={
        "main": AgentSettings("main", model="p/m", name="The boss", system_prompt="Be brief.", thinking="low"),
        "lab": AgentSettings("lab"),
    },
    models={"p/m": MODEL},
)


@pytest.mark.spec("S7", "S8")
@pytest.mark.parametrize("caller", [SessionCaller(GROUP), Operator(GROUP)])
async def test_the_target_is_told_who_asks(state: Path, caller: SessionCaller | Operator) -> None:
    agent = Agent()
    async with running(state, SETTINGS, agent) as runtime:
        await send(runtime, GROUP, "hello")
        await send(runtime, "agent:lab:main", "hello")
        answer = await send(runtime, "agent:lab:main", "what is it?", caller)
        assert answer["status"] == "ok"
        asked, turn = (await transcript(runtime, "agent:lab:main"))[2], agent.turns[2]
        for told in (
            f"requester: session {GROUP}, channel discord",
            "target: your session agent:lab:main, channel webchat",
        ):
            assert told in turn.system
        assert "not from the user" in turn.system
        assert asked.role == "user"
        assert asked.as_json()["provenance"] == {
            "kind": "inter_session",
            "sourceSessionKey": GROUP,
            "sourceChannel": "discord",
            "sourceTool": "sessions_send",
        }
        assert turn.transcript[-1] == asked


@pytest.mark.spec("S13")
async def test_the_operators_own_message_is_a_plain_one(state: Path) -> None:
    agent = Agent()
    async with running(state, SETTINGS, agent) as runtime:
        await send(runtime, "main", "hello")
        assert "requester" not in agent.turns[0].system
        assert "provenance" not in (await transcript(runtime, MAIN))[0].as_json()


async def test_an_agent_is_told_who_and_where_it_is(state: Path) -> None:
    agent = Agent()
    async with running(state, SETTINGS, agent) as runtime:
        await send(runtime, GROUP, "hello")
        turn = agent.turns[0]
        assert turn.system.startswith("Be brief.")
        assert f"You are the agent The boss of an operator's fleet. You act in the session {GROUP}" in turn.system
        assert (turn.key, turn.model, turn.thinking) == (GROUP, MODEL, "low")
        assert {tool.name for tool in turn.tools} == set(TOOL_NAMES)
        assert all(tool.parameters["type"] == "object" and tool.description for tool in turn.tools)


@pytest.mark.spec("W3")
async def test_a_subagent_is_told_its_task_is_all_and_has_no_session_tools(state: Path) -> None:
    agent = Agent()
    async with running(state, SETTINGS, agent) as runtime:
        answer = await call(runtime, "sessions_spawn", task="look around", thinking="high")
        await runtime.drained()
        turn = agent.turns[0]
        assert turn.key == answer["childSessionKey"]
        assert f"sub-agent that {MAIN} started for one task" in turn.system
        assert "Agent-to-agent" not in turn.system, "a task is no message from somebody who waits for an answer"
        assert (turn.tools, turn.thinking) == ((), "high")
        assert [message.text for message in turn.transcript] == ["look around"]
        refused = await turn.call_tool("c", "sessions_list", {})
        assert refused.is_error
        assert "this session does not have the tool" in refused.text
