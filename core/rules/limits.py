"""Limits on spawning: whose sub-agents a session may start, and which tools they get (W3, W4)."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from core.model.keys import Key

SESSION_TOOLS = frozenset(
    {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "sessions_search", "agents_list"}
)
ALLOW_AGENTS_CONTROL = "agents.list[].subagents.allowAgents"
SUBAGENT_TOOLS_CONTROL = "tools.subagents.tools"


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


def may_use(tool: str, key: Key, subagent_tools: ToolFilter) -> bool:
    """Whether a session has a tool: a sub-agent has all but the session tools, unless its lists say otherwise (W3)."""
    if not key.is_subagent:
        return True
    if subagent_tools.denies(tool) or tool == "sessions_spawn":
        return False
    return (
        subagent_tools.allows(tool)
        if tool in SESSION_TOOLS
        else subagent_tools.allow is None or subagent_tools.allows(tool)
    )


def spawn_targets(requester_agent: str, allow_agents: tuple[str, ...], agent_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the agents whose sub-agents a session of that agent may start: its own, and those allowed (W4)."""
    return tuple(
        agent
        for agent in agent_ids
        if agent == requester_agent or any(fnmatchcase(agent, pattern) for pattern in allow_agents)
    )
