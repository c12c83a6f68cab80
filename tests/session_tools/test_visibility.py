"""V1-V5: one visibility for list, history, send and search, in a real world of sessions."""

import itertools
from pathlib import Path

import pytest

from core.config.settings import AgentSettings, Settings
from core.model.access import OPERATOR, Caller, SessionCaller
from core.rules.limits import ToolFilter
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.runtime.gateway import Runtime
from core.store.database import Tx
from tests.rules.test_visibility import PARENTS, agent_of, oracle
from tests.support.runtimes import Agent, call, running
from tests.support.stores import create, say

PEERS = [AgentToAgent(), AgentToAgent(enabled=True), AgentToAgent(enabled=True, allow=("main", "ops"))]
RULES = [
    VisibilityRules(visibility, peers, sandbox)
    for visibility, peers, sandbox in itertools.product(("self", "tree", "agent", "all"), PEERS, ("spawned", "all"))
]


def rules_for(rules: VisibilityRules, sandboxed: bool) -> RuleSet:
    """Return the rules of three agents, all of them sandboxed or none."""
    agents = {agent: AgentRules(agent, sandboxed=sandboxed) for agent in ("main", "ops", "lab")}
    return RuleSet(agents=agents, visibility=rules, subagent_tools=ToolFilter(allow=("sessions_*",)))


async def shown(runtime: Runtime, caller: Caller, agent_id: str) -> set[str]:
    """Return what a list shows, by full keys."""
    rows = (await call(runtime, "sessions_list", caller))["sessions"]
    return {f"agent:{agent_id}:main" if row["key"] == "main" else row["key"] for row in rows}


async def searched(runtime: Runtime, caller: Caller, agent_id: str) -> set[str]:
    """Return where a search finds what every session says."""
    hits = (await call(runtime, "sessions_search", caller, query="copper", limit=100))["results"]
    return {f"agent:{agent_id}:main" if hit["sessionKey"] == "main" else hit["sessionKey"] for hit in hits}


async def readable(runtime: Runtime, caller: Caller, tool: str, **more: object) -> set[str]:
    """Return the sessions for which a tool is not refused."""
    found: set[str] = set()
    for key in PARENTS:
        if isinstance(caller, SessionCaller) and key == caller.key and tool == "sessions_send":
            found.add(key)  # it cannot send to itself, which is not a matter of visibility
            continue
        answer = await call(runtime, tool, caller, sessionKey=key, **more)
        if answer.get("status") != "forbidden":
            found.add(key)
        else:
            assert answer["decidedBy"]
            assert key in answer["error"]
    return found


@pytest.mark.spec("V1", "V2", "V3", "V5")
@pytest.mark.parametrize("sandboxed", [False, True])
async def test_every_tool_shows_the_same_sessions(state: Path, sandboxed: bool) -> None:
    def fill(tx: Tx) -> None:
        for key, parent in PARENTS.items():
            create(tx, key, spawned_by=parent)
            say(tx, key, "copper")

    settings = Settings(agents={agent: AgentSettings(agent) for agent in ("main", "ops", "lab")})
    agent = Agent(held=True)
    async with running(state, settings, agent) as runtime:
        await runtime.store.write(fill)
        for rules, key in itertools.product(RULES, PARENTS):
            runtime.settings = Settings(rules=rules_for(rules, sandboxed), agents=settings.agents)
            caller, agent_id = SessionCaller(key), agent_of(key)
            expected = oracle(key, rules.visibility, sandboxed, rules.sandbox, rules.agent_to_agent)
            assert await shown(runtime, caller, agent_id) == expected, (rules, key)
            assert await searched(runtime, caller, agent_id) == expected, (rules, key)
            assert await readable(runtime, caller, "sessions_history") == expected, (rules, key)
            if rules.sandbox == "spawned" or sandboxed:
                sent = await readable(runtime, caller, "sessions_send", message="/nothing", timeoutSeconds=0)
                assert sent == expected, (rules, key)


@pytest.mark.spec("V4")
async def test_the_operator_sees_all(state: Path) -> None:
    def fill(tx: Tx) -> None:
        for key, parent in PARENTS.items():
            create(tx, key, spawned_by=parent)
            say(tx, key, "copper")

    for rules in RULES:
        async with running(state, Settings(rules=rules_for(rules, sandboxed=True)), Agent()) as runtime:
            if not (await call(runtime, "sessions_list"))["count"]:
                await runtime.store.write(fill)
            assert await shown(runtime, OPERATOR, "main") == set(PARENTS)
            assert await searched(runtime, OPERATOR, "main") == set(PARENTS)
            assert await readable(runtime, OPERATOR, "sessions_history") == set(PARENTS)
