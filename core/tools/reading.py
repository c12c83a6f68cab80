"""What a caller is given of messages: the operator all of it, an agent what is bounded and redacted (H5)."""

from collections.abc import Sequence
from typing import Any

from core.model.access import Caller, Operator
from core.model.messages import Message
from core.rules.redact import Allowance


def readable(caller: Caller, messages: Sequence[Message], allowance: Allowance) -> tuple[list[dict[str, Any]], int]:
    """Return the wire forms that a caller may read, and how many of the oldest messages did not fit.

    Args:
        allowance: What the whole answer may hold; for the operator it has no meaning.
    """
    if isinstance(caller, Operator):
        return [message.as_json() for message in messages], 0
    bounded = allowance.take(messages)
    return list(bounded.messages), bounded.left_out
