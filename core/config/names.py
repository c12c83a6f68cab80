"""How a place in the configuration is written, and names in its lists that nothing has: somebody meant them."""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from core.config.schema import AgentEntry, ConfigFile, ToolLists
from core.model.keys import quoted
from core.rules.limits import SESSION_TOOLS

PathInFile = tuple[str | int, ...]


def dotted(path: PathInFile) -> str:
    """Return a path as people write it: `session.sendPolicy.rules[0].action`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text if text.isprintable() else quoted(text)


def unknown_names(file: ConfigFile, agents: Iterable[tuple[str, AgentEntry]], agent_ids: Sequence[str]) -> list[str]:
    """Return a sentence for each list that names a tool or an agent that there is not.

    `agents` are where each stands in the file, and what it says.
    """
    found = _tools("tools.subagents.tools", file.tools.subagents.tools)
    if file.agent is not None:
        found += _tools("agent.subagents.tools", file.agent.subagents.tools)
    for path, entry in agents:
        found += _tools(f"{path}.tools", entry.tools)
        found += _notice(f"{path}.subagents.allowAgents", entry.subagents.allow_agents, agent_ids, "agent")
    return found + _notice("tools.agentToAgent.allow", file.tools.agent_to_agent.allow or (), agent_ids, "agent")


def _tools(path: str, lists: ToolLists) -> list[str]:
    return [
        notice
        for name, patterns in (("allow", lists.allow or ()), ("deny", lists.deny))
        for notice in _notice(f"{path}.{name}", patterns, sorted(SESSION_TOOLS), "tool")
    ]


def _notice(path: str, patterns: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    """Return a sentence about the patterns that match nothing; none where all match something."""
    wanted = {pattern.lower() if what == "agent" else pattern: pattern for pattern in patterns}
    unknown = [name for name in wanted if not any(fnmatchcase(each, name) for each in known)]
    if not unknown:
        return []
    names = ", ".join(quoted(wanted[name]) for name in unknown)
    nearest = next((near for name in unknown for near in difflib.get_close_matches(name, known, 1)), None)
    hint = f"did you mean {quoted(nearest)}?" if nearest else f"there are {', '.join(known)}"
    return [f"{path} names {names}, and no {what} here is called that: {hint}"]
