"""Messages of a transcript, made short."""

import itertools
from collections.abc import Mapping
from typing import Any

from core.model.messages import Block, Message, Provenance, text_block, tool_call_block

_numbers = itertools.count(1)


def user(text: str, *blocks: Block, source: Provenance | None = None) -> Message:
    """Return what a user said, or another session when there is a source."""
    return _message("user", text_block(text), *blocks, provenance=source)


def assistant(*content: str | Block, model: str | None = None) -> Message:
    """Return a reply; plain text is something said."""
    return _message("assistant", *content, model=model)


def call(call_id: str, name: str = "look", arguments: Mapping[str, Any] | None = None) -> Block:
    """Return a tool call for a reply."""
    return tool_call_block(call_id, name, arguments or {})


def result(call_id: str, text: str = "found", *, is_error: bool = False) -> Message:
    """Return what a tool answered."""
    return _message("toolResult", text, tool_call_id=call_id, tool_name="look", is_error=is_error)


def note(text: str) -> Message:
    """Return a system note, which is for people."""
    return _message("system", text)


def _message(role: Any, *content: str | Block, **fields: Any) -> Message:
    blocks = tuple(text_block(item) if isinstance(item, str) else item for item in content)
    seq = next(_numbers)
    return Message(f"message-{seq}", seq, 1_700_000_000_000 + seq, role, blocks, **fields)
