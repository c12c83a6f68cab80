"""W1-W4: `sessions_spawn` and `agents_list` through the one door."""

from pathlib import Path

import pytest

from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import OPERATOR, Caller, Operator, SessionCaller
from core.model.errors import Invalid, NotFound
from core.rules.limits import ToolFilter
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import VisibilityRules
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, Agent, call, running, send, session, words

OPS, LAB = "agent:ops:main", "agent:lab:main"


def fleet(*, boxed: bool = False, **more: object) -> Settings:
    """Return three agents; ops may spawn lab's sub-agents, main anybody's; lab may be sandboxed."""
    agents = {
        "main": AgentRules("main", allow_agents=("*",)),
        "ops": AgentRules("ops", "Operations", allow_agents=("la*",)),
        "lab": AgentRules("lab", sandboxed=boxed),
    }
    return Settings(
        rules=RuleSet(agents=agents, **more),  # type: ignore[arg-type] - rules by name
        agents={agent: AgentSettings(agent, name=rules.name) for agent, rules in agents.items()},
        models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")},
    )


@pytest.mark.spec("W1", "W2", "W7", "W8", "W9")
async def test_everything_that_a_spawn_may_be_given(state: Path) -> None:
    agent = Agent()
    async with running(state, fleet(boxed=True), agent) as runtime:
        answer = await call(
            runtime,
            "sessions_spawn",
            task="look",
            label="scout",
            runtime="subagent",
            agentId="Lab",
            model="p/m",
            thinking="high",
            runTimeoutSeconds=2.0005,
            timeoutSeconds=3,
            thread=False,
            mode="run",
            cleanup="delete",
            sandbox="require",
            attachments=[{"name": "notes.txt", "content": "copper"}],
            attachAs={"mountPath": "/in"},
        )
        await runtime.drained()
        assert answer["childSessionKey"].startswith("agent:lab:subagent:")
        row = await session(runtime, answer["childSessionKey"])
        assert (row.label, row.model, row.thinking_level, row.agent_id) == ("scout", "p/m", "high", "lab")
        announce, run = await runtime.runs(row.key, runtime.rules.grant(OPERATOR).scope, limit=5)
        assert announce.kind == "announce"
        assert (run.kind, run.requester, run.timeout_ms, run.thinking) == ("subagent", MAIN, 2001, "high")
        assert (agent.turns[0].model, agent.turns[0].thinking) == (fleet().models["p/m"], "high")
        assert row.archived_at is not None, "cleanup: delete archives it at once"
        folder = Path(answer["attachments"]["directory"])
        assert (folder / "notes.txt").read_text() == "copper"
        assert "meant to be mounted at /in" in agent.turns[0].transcript[-1].text


@pytest.mark.spec("W1", "W7")
@pytest.mark.parametrize("said", [{}, {"runtime": "subagent", "thread": False, "mode": "run", "sandbox": "inherit"}])
@pytest.mark.parametrize("cleanup", [None, "keep", "delete"])
async def test_the_defaults_may_be_said_aloud(state: Path, said: dict[str, object], cleanup: str | None) -> None:
    agent = Agent()
    async with running(state, fleet(), agent) as runtime:
        answer = await call(runtime, "sessions_spawn", task="look", cleanup=cleanup, **said)
        assert answer["status"] == "accepted"
        await runtime.drained()
        row = await session(runtime, answer["childSessionKey"])
        assert (row.agent_id, row.model, row.thinking_level, row.label) == ("main", None, None, None)
        assert (row.archived_at is not None) == (cleanup == "delete")
        _, run = await runtime.runs(row.key, runtime.rules.grant(OPERATOR).scope, limit=5)
        assert (run.kind, run.timeout_ms) == ("subagent", 0)


@pytest.mark.spec("W1", "W9")
async def test_require_is_kept(state: Path) -> None:
    async with running(state, fleet(boxed=True)) as runtime:
        refused = await call(runtime, "sessions_spawn", task="look", agentId="ops", sandbox="require")
        assert (refused["status"], refused["decidedBy"]) == ("forbidden", ["agents.list[].sandbox.mode"])
        assert (await call(runtime, "sessions_spawn", task="look", agentId="ops"))["status"] == "accepted"
        await runtime.drained()


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "sessions_spawn needs task"),
        ({"task": "x", "thinking": "lots"}, 'thinking cannot be "lots"'),
        ({"task": "x", "label": "y" * 121}, "label cannot be"),
        ({"task": "x", "runTimeoutSeconds": -1}, "runTimeoutSeconds cannot be"),
        ({"task": "x", "runTimeoutSeconds": 1e300}, "runTimeoutSeconds cannot be"),
        ({"task": " "}, 'task cannot be " ": say what the sub-agent is to do'),
        (
            {"task": "x", "runtime": "acp"},
            "nothing here runs harnesses over the Agent Client Protocol yet; use subagent",
        ),
        ({"task": "x", "runtime": "other"}, 'runtime cannot be "other": it must be "subagent"'),
        ({"task": "x", "thread": True}, "no channel here has threads yet; leave it out, and use sessions_send"),
        ({"task": "x", "mode": "session"}, "that needs a thread, and no channel here has threads yet; use run"),
        ({"task": "x", "mode": "session", "thread": True}, "no channel here has threads yet"),
        ({"task": "x", "mode": "other"}, 'mode cannot be "other": it must be "run"'),
    ],
)
async def test_bad_arguments_give_one_sentence(runtime: Runtime, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(Invalid) as caught:
        await call(runtime, "sessions_spawn", **arguments)
    assert error in caught.value.message
    assert (await call(runtime, "sessions_list"))["count"] == 0


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"model": "p/x"}, 'model "p/x" is not configured: use one of p/m, builtin'),
        ({"agentId": "nobody"}, 'agent "nobody" is not configured'),
        ({"label": "half \ud83d", "model": "\ud83d"}, "is not configured"),
    ],
)
async def test_what_is_not_configured_is_named(state: Path, arguments: dict[str, object], error: str) -> None:
    async with running(state, fleet()) as runtime:
        with pytest.raises(NotFound) as caught:
            await call(runtime, "sessions_spawn", task="look", **arguments)
        assert error in caught.value.message
        caught.value.message.encode()
        assert (await call(runtime, "sessions_list"))["count"] == 0


async def test_a_label_that_utf8_cannot_hold(runtime: Runtime) -> None:
    answer = await call(runtime, "sessions_spawn", task="say hi", label="half \ud83d")
    assert (await session(runtime, answer["childSessionKey"])).label == "half \ufffd"
    assert (await call(runtime, "sessions_list", label="half \ud83d", search="\ud83d"))["count"] == 1
    assert (await call(runtime, "sessions_list", search="qz\0x"))["count"] == 0


@pytest.mark.spec("W4")
@pytest.mark.parametrize(
    ("caller", "allowed"),
    [
        (OPERATOR, ["main", "lab", "ops"]),
        (SessionCaller(MAIN), ["main", "lab", "ops"]),
        (SessionCaller(OPS), ["lab", "ops"]),
        (SessionCaller(LAB), ["lab"]),
        (Operator(LAB), ["lab"]),
    ],
)
async def test_allow_agents_limits_and_agents_list_shows_it(state: Path, caller: Caller, allowed: list[str]) -> None:
    async with running(state, fleet()) as runtime:
        for key in (MAIN, OPS, LAB):
            await send(runtime, key, "hello")
        listed = await call(runtime, "agents_list", caller)
        assert [agent["id"] for agent in listed["agents"]] == allowed
        for agent_id in ("main", "ops", "lab"):
            answer = await call(runtime, "sessions_spawn", caller, task="say hi", agentId=agent_id)
            if agent_id in allowed:
                assert answer["status"] == "accepted"
            else:
                assert set(answer) == {"status", "error", "decidedBy"}
                assert answer["status"] == "forbidden"
                assert answer["decidedBy"] == ["agents.list[].subagents.allowAgents"]
                assert all(name in answer["error"].split("allowed are")[1] for name in allowed)
        await runtime.drained()


@pytest.mark.spec("W4")
async def test_agents_list_has_exactly_this_shape(state: Path) -> None:
    async with running(state, fleet()) as runtime:
        assert await call(runtime, "agents_list") == {
            "requester": "main",
            "agents": [
                {"id": "main", "model": "builtin", "default": True},
                {"id": "lab", "model": "builtin", "default": False},
                {"id": "ops", "name": "Operations", "model": "builtin", "default": False},
            ],
        }
        with pytest.raises(Invalid, match='agents_list has no parameter "x"'):
            await call(runtime, "agents_list", x=1)


@pytest.mark.spec("W2", "S13")
async def test_who_the_requester_is(state: Path) -> None:
    async with running(state, fleet()) as runtime:
        await send(runtime, OPS, "hello")
        for caller, requester in ((OPERATOR, MAIN), (Operator(OPS), OPS), (SessionCaller(OPS), OPS)):
            answer = await call(runtime, "sessions_spawn", caller, task="say hi")
            row = await session(runtime, answer["childSessionKey"])
            assert (row.spawned_by, row.agent_id) == (requester, requester.split(":")[1])
        await runtime.drained()


@pytest.mark.spec("W3")
async def test_a_subagent_cannot_spawn(runtime: Runtime) -> None:
    child = (await call(runtime, "sessions_spawn", task="say hi"))["childSessionKey"]
    await runtime.drained()
    refused = await call(runtime, "sessions_spawn", SessionCaller(child), task="say hi")
    assert (refused["status"], refused["decidedBy"]) == ("forbidden", ["agents.defaults.subagents.maxSpawnDepth"])


@pytest.mark.spec("W3")
@pytest.mark.parametrize("listed", [False, True])
async def test_a_subagent_has_session_tools_only_by_its_lists(state: Path, listed: bool) -> None:
    lists = ToolFilter(allow=("sessions_list",)) if listed else ToolFilter()
    async with running(state, fleet(subagent_tools=lists, visibility=VisibilityRules("agent"))) as runtime:
        child = (await call(runtime, "sessions_spawn", task="list sessions"))["childSessionKey"]
        await runtime.drained()
        last = (await words(runtime, child))[-1][1]
        if listed:
            assert f"- `{child}`" in last
        else:
            assert 'forbidden: this session does not have the tool "sessions_list": tools.subagents.tools' in last


async def test_a_requester_that_does_not_exist(runtime: Runtime) -> None:
    with pytest.raises(NotFound, match="agent:main:ghost"):
        await call(runtime, "sessions_spawn", SessionCaller("agent:main:ghost"), task="x")
