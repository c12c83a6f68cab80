"""What a caller is given of what others said: the operator all of it, an agent what is bounded and redacted (H5)."""

from collections.abc import Sequence
from typing import Any, Final, cast

from core.model.access import Caller, Operator
from core.model.messages import Message
from core.rules.redact import Allowance, bounded_text

_SAID: Final = ("reply", "error", "reason")
"""Fields of a result that hold what another session, its model or its channel said."""


def readable(caller: Caller, messages: Sequence[Message], allowance: Allowance) -> tuple[list[dict[str, Any]], int]:
    """Return the wire forms that a caller may read, and how many of the oldest messages did not fit.

    Args:
        allowance: What the whole answer may hold; for the operator it has no meaning.
    """
    if isinstance(caller, Operator):
        return [message.as_json() for message in messages], 0
    bounded = allowance.take(messages)
    return list(bounded.messages), bounded.left_out


def readable_text(caller: Caller, text: str) -> str:
    """Return a short text as a caller may read it."""
    return text if isinstance(caller, Operator) else bounded_text(text)[0]


def readable_result(caller: Caller, result: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's result as a caller may read it; `cut` counts the characters that were left out of its words."""
    if isinstance(caller, Operator):
        return result
    shown = dict(result)
    for name, value in result.items():
        if name in _SAID and isinstance(value, str):
            shown[name], cut = bounded_text(value)
            shown |= {"cut": cut} if cut else {}
        elif name in {"exchange", "delivery"} and isinstance(value, dict):
            shown[name] = readable_result(caller, cast("dict[str, Any]", value))
    return shown
