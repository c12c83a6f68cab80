"""Visibility: which sessions a caller may see, and which control decided (V1-V5)."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from core.model.access import ALL, Agents, Caller, One, Operator, Scope, Tree

Visibility = Literal["self", "tree", "agent", "all"]
SandboxVisibility = Literal["spawned", "all"]

VISIBILITY_CONTROL = "tools.sessions.visibility"
SANDBOX_CONTROL = "agents.defaults.sandbox.sessionToolsVisibility"
AGENT_SANDBOX_CONTROL = "agents.list[].sandbox.sessionToolsVisibility"
AGENT_TO_AGENT_CONTROL = "tools.agentToAgent"


@dataclass(frozen=True, slots=True)
class AgentToAgent:
    """`tools.agentToAgent`: which agents may reach each other's sessions (V2).

    `allow` has agent ids or patterns; both ends must match. None means any agent.
    """

    enabled: bool = False
    allow: tuple[str, ...] | None = None

    def lists(self, agent_id: str) -> bool:
        """Whether the agent is on the list."""
        return self.allow is None or any(fnmatchcase(agent_id, pattern) for pattern in self.allow)


@dataclass(frozen=True, slots=True)
class VisibilityRules:
    """The three settings that decide (V1-V3)."""

    visibility: Visibility = "tree"
    agent_to_agent: AgentToAgent = AgentToAgent()
    sandbox: SandboxVisibility = "spawned"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a caller may see, and the controls, with their values, that keep it from seeing everything."""

    scope: Scope
    limited_by: tuple[str, ...]

    @property
    def words(self) -> str:
        """The limit for an error sentence."""
        return " and ".join(self.limited_by) or "nothing"


def grant(
    caller: Caller,
    rules: VisibilityRules,
    *,
    agent_id: str,
    sandboxed: bool,
    agent_ids: frozenset[str],
    sandbox: SandboxVisibility | None = None,
) -> Grant:
    """Return what a caller may see.

    Args:
        agent_id: The agent that owns the caller's session; of no meaning for the operator.
        sandboxed: Whether that agent is sandboxed.
        sandbox: What that agent itself says of `sessionToolsVisibility`; None for what all agents have.
        agent_ids: All configured agents, to turn `tools.agentToAgent.allow` into ids.
    """
    if isinstance(caller, Operator):
        return Grant(ALL, ())
    setting = f"{VISIBILITY_CONTROL}={rules.visibility}"
    if rules.visibility == "self":
        return Grant(One(caller.key), (setting,))
    if rules.visibility == "tree":
        return Grant(Tree(caller.key), (setting,))
    if sandboxed and (sandbox or rules.sandbox) == "spawned":
        control = SANDBOX_CONTROL if sandbox is None else AGENT_SANDBOX_CONTROL
        return Grant(Tree(caller.key), (f"{control}=spawned",))
    if rules.visibility == "agent":
        return Grant(Agents(frozenset({agent_id}), caller.key), (setting,))
    return _across_agents(caller.key, rules.agent_to_agent, agent_id, agent_ids)


def _across_agents(key: str, peers: AgentToAgent, agent_id: str, agent_ids: frozenset[str]) -> Grant:
    """Return what a session may see where visibility is `all`; its own descendants whatever the rest says (V1, V2)."""
    own = frozenset({agent_id})
    if not peers.enabled:
        return Grant(Agents(own, key), (f"{AGENT_TO_AGENT_CONTROL}.enabled=false",))
    if peers.allow is None or "*" in peers.allow:
        return Grant(ALL, ())
    reachable = (
        frozenset(peer for peer in agent_ids if peers.lists(peer)) if peers.lists(agent_id) else frozenset[str]()
    )
    return Grant(Agents(own | reachable, key), (f"{AGENT_TO_AGENT_CONTROL}.allow",))
