"""The errors of `core.model.errors` on the wires: one row each (architecture#errors, protocol#our-send-policy), read
back by the same row.

The WebSocket's code is a family; `details.code` tells the kind within it, so that our own client gets the error back
that the gateway raised. Other gateways leave it out, and some kinds are only known by their sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from core.model.errors import Conflict, Forbidden, Invalid, NotFound, SwitchboardError, Unauthorized, Unavailable
from core.model.json_codec import mapping
from core.rules.policy import DEFAULT_CONTROL, OVERRIDE_CONTROL

RETRY_AFTER_MS: Final = 1000
"""When something that is unavailable may be asked for again."""
SEND_BLOCKED: Final = "send blocked by session policy"
"""The sentence that clients of OpenClaw know for a denied send; ours stands beside it, as `details.reason`."""
SEND_POLICY_DENIED: Final = "SEND_POLICY_DENIED"
MISSING_SCOPE: Final = "MISSING_SCOPE"
MAX_SENTENCE: Final = 2_000
"""Characters of a sentence that are read from another gateway."""


@dataclass(frozen=True, slots=True)
class _Row:
    """How one kind of error is written.

    Attributes:
        code: The WebSocket's.
        detail: Its `details.code`.
    """

    error: type[SwitchboardError]
    status: int
    http_type: str
    code: str
    detail: str


_ROWS: Final = (
    _Row(Invalid, 400, "invalid_request", "INVALID_REQUEST", "INVALID"),
    _Row(Unauthorized, 401, "unauthorized", "INVALID_REQUEST", "AUTH_UNAUTHORIZED"),
    _Row(Forbidden, 403, "forbidden", "FORBIDDEN", "FORBIDDEN"),
    _Row(NotFound, 404, "not_found", "INVALID_REQUEST", "NOT_FOUND"),
    _Row(Conflict, 409, "conflict", "INVALID_REQUEST", "CONFLICT"),
    _Row(Unavailable, 503, "unavailable", "UNAVAILABLE", "UNAVAILABLE"),
)
_BY_DETAIL: Final = {row.detail: row.error for row in _ROWS} | {
    MISSING_SCOPE: Forbidden,
    "CONTROL_UI_ORIGIN_NOT_ALLOWED": Forbidden,
    "PAIRING_REQUIRED": Unauthorized,
    "CONTROL_UI_DEVICE_IDENTITY_REQUIRED": Unauthorized,
}
_BY_CODE: Final = {
    "FORBIDDEN": Forbidden,
    "NOT_PAIRED": Unauthorized,
    "UNAVAILABLE": Unavailable,
    "AGENT_TIMEOUT": Unavailable,
}
_BY_SENTENCE: Final = (
    ("missing scope", Forbidden),
    (SEND_BLOCKED, Forbidden),
    ("session not found", NotFound),
    ("no session found", NotFound),
    ("unknown agent id", NotFound),
    ("label already in use", Conflict),
    ("cannot archive a session with an active run", Conflict),
)


def http_status(error: SwitchboardError) -> int:
    """Return the HTTP status of an error."""
    return _row(error).status


def http_type(error: SwitchboardError) -> str:
    """Return the `error.type` of an HTTP answer."""
    return _row(error).http_type


def to_wire(error: SwitchboardError, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `error` of a refused request.

    Args:
        details: More for `details`, such as the `code` that an OpenClaw client acts on; it wins.
    """
    row = _row(error)
    found: dict[str, Any] = {"code": row.detail}
    code, message = row.code, error.message
    if isinstance(error, Forbidden) and error.decided_by:
        found["decidedBy"] = list(error.decided_by)
        policy = (OVERRIDE_CONTROL, DEFAULT_CONTROL)
        if any(each in policy or each.startswith("session.sendPolicy.rules[") for each in error.decided_by):
            found |= {"code": SEND_POLICY_DENIED, "reason": error.message}
            code, message = "INVALID_REQUEST", SEND_BLOCKED
    wire: dict[str, Any] = {"code": code, "message": message, "details": found | dict(details or {})}
    if row.error is Unavailable:
        wire |= {"retryable": True, "retryAfterMs": RETRY_AFTER_MS}
    return wire


def missing_scope(scope: str) -> dict[str, Any]:
    """Return the `error` for a request that the connection's scopes do not cover."""
    return to_wire(
        Forbidden(f"missing scope: {scope}"), {"code": MISSING_SCOPE, "missingScope": scope, "requiredScopes": [scope]}
    )


def from_wire(error: object) -> SwitchboardError:
    """Return the error that a refused request stands for, whatever a gateway sends."""
    wire = mapping(error)
    details = mapping(wire.get("details"))
    code, kind = wire.get("code"), details.get("code")
    said = _sentence(details.get("reason")) if kind == SEND_POLICY_DENIED else ""
    message = said or _sentence(wire.get("message")) or "the gateway refused it without saying why"
    found = _kind(code, kind, message)
    if found is not Forbidden:
        return found(message)
    controls = details.get("decidedBy")
    names = cast("list[object]", controls) if isinstance(controls, list) else []
    return Forbidden(message, tuple(name for name in names if isinstance(name, str)))


def _kind(code: object, detail: object, message: str) -> type[SwitchboardError]:
    if isinstance(detail, str):
        if detail in _BY_DETAIL:
            return _BY_DETAIL[detail]
        if detail == SEND_POLICY_DENIED:
            return Forbidden
        if detail.startswith(("AUTH_", "DEVICE_")):
            return Unauthorized
    if isinstance(code, str) and code in _BY_CODE:
        return _BY_CODE[code]
    lowered = message.lower()
    for start, error in _BY_SENTENCE:
        if lowered.startswith(start):
            return error
    return Invalid if code == "INVALID_REQUEST" else Unavailable


def _row(error: SwitchboardError) -> _Row:
    """Return the row of an error; what is of no known kind counts as unavailable."""
    return next((row for row in _ROWS if isinstance(error, row.error)), _ROWS[-1])


def _sentence(value: object) -> str:
    return value[:MAX_SENTENCE] if isinstance(value, str) else ""
