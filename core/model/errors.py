"""Every error that reaches a person or a client.

Each has a stable `code`, one clear sentence, and the exit code of the command line (architecture#errors). What a tool
refuses by policy or visibility is a result with a `status`, not an error.
"""

from typing import ClassVar


class SwitchboardError(Exception):
    """Base of all errors that are shown to a person as one sentence."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Invalid(SwitchboardError):
    """The request cannot be meant: a wrong value, a malformed key, an empty message."""

    code = "invalid"
    exit_code = 2


class Unauthorized(SwitchboardError):
    """The gateway does not know who asks; the sentence says which credential is missing or wrong."""

    code = "unauthorized"


class Forbidden(SwitchboardError):
    """A rule refuses the request; `decided_by` names every control that caused it, as the configuration does."""

    code = "forbidden"
    exit_code = 4

    def __init__(self, message: str, decided_by: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.decided_by = decided_by


class NotFound(SwitchboardError):
    """The session, run, agent or model that was named does not exist."""

    code = "not_found"
    exit_code = 3


class Conflict(SwitchboardError):
    """The thing changed since it was looked at, or another process owns it."""

    code = "conflict"


class Unavailable(SwitchboardError):
    """It cannot be done now; nothing was changed and it may be tried again."""

    code = "unavailable"
