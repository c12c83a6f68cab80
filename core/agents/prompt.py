"""The words of a user message as a model reads them: what came from another session says so (S8,
architecture#threats)."""

from typing import Final

from core.agents.lookalike import bracket_of
from core.model.messages import INTER_SESSION, Message

MARKER: Final = "[Inter-session message"
_MARKER_SKELETON: Final = "intersessionmessage"


def prompt_text(message: Message) -> str:
    """Return the words of a user message for a model.

    A message that another session sent gets one line in front that says where it came from. Lines that only pretend to
    be such a line get a backslash before their bracket, in every message.
    """
    text = "".join(_escaped(line) for line in message.text.splitlines(keepends=True))
    source = message.provenance
    if source is None or source.kind != INTER_SESSION:
        return text
    named = (source.source_session_key, source.source_tool, source.source_channel)
    key, tool, channel = map(_field, named)
    return f"{MARKER} from {key} via {tool} on {channel}; not from the user]\n{text}"


def _field(value: str) -> str:
    """Return a value that cannot end the marker's line or its bracket."""
    plain = "".join(c if c.isprintable() else " " for c in value).strip()
    return plain.replace("[", "\\[").replace("]", "\\]") or "unknown"


def _escaped(line: str) -> str:
    at = bracket_of(line, _MARKER_SKELETON)
    return line if at is None else f"{line[:at]}\\{line[at:]}"
