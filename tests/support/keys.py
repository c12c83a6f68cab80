"""Session keys drawn by hypothesis, each with what can be read off it by construction."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_@+äöüßçñ漢字🙂 "


@dataclass(frozen=True)
class Made:
    """A canonical key and the facts that its construction gives."""

    text: str
    kind: str
    agent_id: str | None = None
    channel: str | None = None
    chat_type: str = "direct"
    depth: int = 0


def ids(most: int = 12) -> st.SearchStrategy[str]:
    """Return parts of keys: no colon, not blank, no spaces at the ends."""
    text = st.text(_PLAIN, min_size=1, max_size=most)
    return text.filter(lambda part: part == part.strip() and part.lower() not in {"thread", "subagent", "main"})


AGENTS = st.sampled_from(["main", "ops", "research", "subagent", "a-1"])
CHANNELS = st.sampled_from(["discord", "telegram", "slack", "whatsapp", "matrix"])


@st.composite
def unthreaded(draw: Any) -> Made:
    """Return a canonical key that is no thread."""
    agent = draw(AGENTS)
    match draw(st.sampled_from(["main", "room", "subagent", "nested", "acp", "dm", "free", "cron", "hook", "node"])):
        case "main":
            return Made(f"agent:{agent}:main", "main", agent)
        case "room":
            room, channel = draw(st.sampled_from(["group", "channel"])), draw(CHANNELS)
            return Made(f"agent:{agent}:{channel}:{room}:{draw(ids())}", "group", agent, channel, room)
        case "subagent":
            return Made(f"agent:{agent}:subagent:{draw(st.uuids())}", "other", agent, depth=1)
        case "nested":
            text = f"agent:{agent}:subagent:{draw(st.uuids())}:subagent:{draw(st.uuids())}"
            return Made(text, "other", agent, depth=2)
        case "acp":
            return Made(f"agent:{agent}:acp:{draw(st.uuids())}", "other", agent)
        case "dm":
            channel = draw(CHANNELS)
            return Made(f"agent:{agent}:{channel}:direct:{draw(ids())}", "other", agent, channel)
        case "free":
            return Made(f"agent:{agent}:{draw(ids())}", "other", agent)
        case "cron":
            return Made(f"cron:{draw(ids())}", "cron")
        case "hook":
            return Made(f"hook:{draw(st.uuids())}", "hook")
        case _:
            return Made(f"node-{draw(ids())}", "node")


@st.composite
def canonical(draw: Any) -> Made:
    """Return any canonical key; of those below an agent, some are threads."""
    made: Made = draw(unthreaded())
    if not draw(st.booleans()):
        return made
    return Made(f"{made.text}:thread:{draw(ids())}", "other", made.agent_id, made.channel, made.chat_type, made.depth)
