"""Agents as the configuration file has them, each setting through a real turn or a real tool call."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.config.load import load
from core.config.paths import Places
from core.model.access import OPERATOR, SessionCaller
from core.model.sessions import SessionPatch
from core.runtime.gateway import Runtime
from core.tools.dispatch import schemas
from tests.support.runtimes import Agent, call, running, send

CONFIG = """{
  models: { providers: { p: { baseUrl: "http://127.0.0.1:9/v1", models: [{ id: "big" }, { id: "small" }] } } },
  tools: { sessions: { visibility: "all" }, agentToAgent: { enabled: true } },
  agents: {
    defaults: { model: "p/small", thinkingDefault: "low", workspace: "WORK/shared" },
    list: [
      { id: "main", default: true },
      { id: "lab", name: "Laboratory", model: { primary: "p/big" }, thinkingDefault: "high",
        systemPrompt: "Measure twice.", workspace: "WORK/lab" },
      { id: "deny", tools: { deny: ["sessions_spawn", "sessions_s*"] } },
      { id: "allow", tools: { allow: ["sessions_l*", "agents_list"] } },
      { id: "lead", subagents: { allowAgents: ["lab"] } },
      { id: "boxed", sandbox: { mode: "non-main" }, subagents: { allowAgents: ["*"] } },
    ],
  },
}"""

FILE = {"name": "a", "content": "b"}
SESSION_TOOLS = {tool.name for tool in schemas()}


class Fleet:
    """The fleet at work.

    Attributes:
        agent: The backend that stands in for every model.
        folder: The folder with the workspaces.
    """

    def __init__(self, runtime: Runtime, agent: Agent, folder: Path) -> None:
        self.runtime, self.agent, self.folder = runtime, agent, folder

    async def turn(self, agent_id: str) -> Any:
        """Send a message to an agent's main session and return the turn that came of it."""
        await send(self.runtime, f"agent:{agent_id}:main", "hello")
        return self.agent.turns[-1]

    async def spawn(self, agent_id: str, **arguments: Any) -> dict[str, Any]:
        """Spawn from an agent's main session, as that session."""
        await send(self.runtime, f"agent:{agent_id}:main", "hello")
        caller = SessionCaller(f"agent:{agent_id}:main")
        return await call(self.runtime, "sessions_spawn", caller, task="look", **arguments)


@pytest.fixture
async def fleet(state: Path, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Run the fleet."""
    config = tmp_path / "config.json5"
    config.write_text(CONFIG.replace("WORK", str(tmp_path)))
    agent = Agent()
    async with running(state, load(Places(state, config, "", "", config_required=True)), agent) as runtime:
        yield Fleet(runtime, agent, tmp_path)
        await runtime.drained()


async def test_model_thinking_and_prompt_are_the_agents_own_or_the_defaults(fleet: Fleet) -> None:
    main, lab = await fleet.turn("main"), await fleet.turn("lab")
    assert (main.model.ref, main.thinking) == ("p/small", "low")
    assert main.system.startswith("You are the agent main of")
    assert (lab.model.ref, lab.thinking) == ("p/big", "high")
    assert lab.system.startswith("Measure twice.\n\nYou are the agent Laboratory of")


async def test_a_sessions_override_wins_over_the_agent(fleet: Fleet) -> None:
    await fleet.turn("lab")
    await fleet.runtime.patch("agent:lab:main", SessionPatch({"model": "p/small", "thinkingLevel": "off"}), OPERATOR)
    turn = await fleet.turn("lab")
    assert (turn.model.ref, turn.thinking) == ("p/small", "off")


@pytest.mark.spec("T1", "W3")
@pytest.mark.parametrize(
    ("agent_id", "tools"),
    [
        ("main", SESSION_TOOLS),
        ("deny", {"sessions_list", "sessions_history", "agents_list"}),
        ("allow", {"sessions_list", "agents_list"}),
    ],
)
async def test_tools_are_withheld_from_the_model_and_refused(fleet: Fleet, agent_id: str, tools: set[str]) -> None:
    turn = await fleet.turn(agent_id)
    assert {tool.name for tool in turn.tools} == tools
    for tool, arguments in (("sessions_search", {"query": "x"}), ("sessions_list", {})):
        result = await call(fleet.runtime, tool, SessionCaller(f"agent:{agent_id}:main"), **arguments)
        assert result.get("decidedBy", []) == ([] if tool in tools else ["agents.list[].tools"])
    assert (await call(fleet.runtime, "sessions_search", query="x"))["count"] >= 0


@pytest.mark.spec("W4", "W9")
@pytest.mark.parametrize(
    ("agent_id", "arguments", "control"),
    [
        ("lead", {"agentId": "lab"}, None),
        ("lead", {"agentId": "main"}, "agents.list[].subagents.allowAgents"),
        ("main", {"agentId": "lab"}, "agents.list[].subagents.allowAgents"),
        ("main", {"sandbox": "require"}, "agents.list[].sandbox.mode"),
        ("boxed", {"sandbox": "require"}, None),
        ("boxed", {"agentId": "lab"}, "agents.list[].sandbox.mode"),
    ],
)
async def test_spawning_is_limited_per_agent(
    fleet: Fleet, agent_id: str, arguments: dict[str, Any], control: str | None
) -> None:
    answer = await fleet.spawn(agent_id, **arguments)
    assert answer.get("decidedBy", []) == ([control] if control else [])
    assert answer["status"] == ("forbidden" if control else "accepted")


@pytest.mark.spec("V3")
async def test_a_sandboxed_agent_sees_its_tree_only(fleet: Fleet) -> None:
    for agent_id in ("main", "boxed"):
        await fleet.turn(agent_id)
    listed = await call(fleet.runtime, "sessions_list", SessionCaller("agent:boxed:main"))
    assert [row["key"] for row in listed["sessions"]] == ["main"]
    assert (await call(fleet.runtime, "sessions_list", SessionCaller("agent:main:main")))["count"] == 2


@pytest.mark.spec("W8")
@pytest.mark.parametrize(("agent_id", "folder"), [("lab", "lab"), ("main", "shared")])
async def test_files_go_to_the_workspace_of_the_child(fleet: Fleet, agent_id: str, folder: str) -> None:
    answer = await fleet.spawn("lead" if agent_id == "lab" else "main", agentId=agent_id, attachments=[FILE])
    directory = Path(answer["attachments"]["directory"])
    assert directory.parent == fleet.folder / folder / ".openclaw/attachments"
    assert (directory / "a").read_text() == "b"
