"""Numbers, times and names as the console writes them: short, and straight when somebody aligns them."""

from typing import Final

from core.model.errors import Invalid
from core.model.keys import MAIN, main_key, parse, split
from core.model.money import dollars
from core.model.sessions import Session

LOCAL: Final = "local"
"""What the gateway without a name is called on the screen."""


def age(ms: int) -> str:
    """Return a time span in its largest unit: `now`, `12s`, `4m`, `3h`, `2d`."""
    seconds = max(0, ms // 1000)
    if seconds < 2:
        return "now"
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def ago(ms: int) -> str:
    """Return how long ago something was: `just now`, `12s ago`."""
    words = age(ms)
    return "just now" if words == "now" else f"{words} ago"


def clock_span(ms: int) -> str:
    """Return a running time as `0:42` or `1:02:03`."""
    seconds = max(0, ms // 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def seconds_span(ms: int) -> str:
    """Return how long something took: `0.1 s`, `12 s`, `3:20`."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 1000} s" if ms < 60_000 else clock_span(ms)


def tokens(count: int) -> str:
    """Return a number of tokens in at most five cells: `640`, `8.1k`, `96k`, `1.2M`."""
    if count < 1000:
        return str(count)
    if count < 10_000:
        return f"{count / 1000:.1f}k"
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def cost_cell(usd: float | None) -> str:
    """Return US dollars for a column, to the cent so that they stand straight; empty for a cost that is not known."""
    if usd is None:
        return ""
    return dollars(usd) if usd >= 0.01 or usd == 0 else "<$0.01"


def counted(count: int, noun: str) -> str:
    """Return a number with what it counts: `1 run`, `3 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size(characters: int) -> str:
    """Return a length of text: `640 chars`, `48 KB`, `5.0 MB`."""
    if characters < 10_000:
        return f"{characters:,} chars"
    return f"{characters / 1000:.0f} KB" if characters < 1_000_000 else f"{characters / 1_000_000:.1f} MB"


def session_name(session: Session, default_agent: str) -> str:
    """Return the name of a session for a list: its label, else its display name, else what its key says."""
    return session.label or session.display_name or key_name(session.key, default_agent)


def key_name(key: str, default_agent: str) -> str:
    """Return the short name that a key gives a session; the gateway's name is not part of it."""
    _, key = split(key)
    try:
        parsed = parse(key)
    except Invalid:
        return key
    if key in {MAIN, main_key(default_agent)}:
        return MAIN
    parts = key.split(":")
    if parsed.is_subagent:
        return f"sub-agent {parts[-1][:8]}"
    if parsed.kind == "main":
        return parts[1]
    if parsed.kind == "group":
        return ":".join(parts[4:])
    return ":".join(parts[2:]) if parts[0] == "agent" else key
