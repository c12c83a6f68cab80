"""Limits on sending and spawning: to whom, how deep, how many, and which tools a session gets (S1, W3, W4, W9, W12)."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from core.model.keys import Key

SESSION_TOOLS = frozenset(
    {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "sessions_search", "agents_list"}
)
ALLOW_AGENTS_CONTROL = "agents.list[].subagents.allowAgents"
SUBAGENT_TOOLS_CONTROL = "tools.subagents.tools"
AGENT_TOOLS_CONTROL = "agents.list[].tools"
DEPTH_CONTROL = "agents.defaults.subagents.maxSpawnDepth"
CHILDREN_CONTROL = "agents.defaults.subagents.maxChildrenPerAgent"
SANDBOX_CONTROL = "agents.list[].sandbox.mode"


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """An allow and a deny list of tool names or patterns; deny wins, an allow of None means the usual set."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def denies(self, name: str) -> bool:
        """Whether the deny list names the tool."""
        return any(fnmatchcase(name, pattern) for pattern in self.deny)

    def allows(self, name: str) -> bool:
        """Whether the allow list names the tool."""
        return self.allow is not None and any(fnmatchcase(name, pattern) for pattern in self.allow)


@dataclass(frozen=True, slots=True)
class SpawnLimits:
    """`agents.defaults.subagents`, as far as it limits.

    Attributes:
        max_depth: Levels of sub-agents, 1 to 5; those above the last may spawn (W3).
        max_children: Sub-agents of one session that may live at once (W12).
    """

    max_depth: int = 1
    max_children: int = 5


def withheld(tool: str, key: Key, *, agent_tools: ToolFilter, subagent_tools: ToolFilter, max_depth: int) -> str | None:
    """Return the control that keeps a tool from a session, None when it has the tool.

    A sub-agent has all tools but the session tools, unless its lists say otherwise; one above the last level may
    spawn (W3). The lists of the agent bind all its sessions.
    """
    if agent_tools.denies(tool) or (agent_tools.allow is not None and not agent_tools.allows(tool)):
        return AGENT_TOOLS_CONTROL
    if not key.is_subagent:
        return None
    if subagent_tools.denies(tool):
        return SUBAGENT_TOOLS_CONTROL
    if tool == "sessions_spawn":
        return None if key.spawn_depth < max_depth else DEPTH_CONTROL
    has = subagent_tools.allows(tool) or (subagent_tools.allow is None and tool not in SESSION_TOOLS)
    return None if has else SUBAGENT_TOOLS_CONTROL


def self_send(requester: str | None, target: str) -> str | None:
    """Return why a message is refused that a session sends to itself, None for any other (S1)."""
    return f"a session cannot send to itself: name another one than {target}" if requester == target else None


def spawn_targets(requester_agent: str, allow_agents: tuple[str, ...], agent_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the agents whose sub-agents a session of that agent may start: its own, and those allowed (W4)."""
    return tuple(
        agent
        for agent in agent_ids
        if agent == requester_agent or any(fnmatchcase(agent, pattern) for pattern in allow_agents)
    )
