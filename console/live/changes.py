"""What changed since somebody drew last."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Changes:
    """What must be drawn again.

    Attributes:
        rows: Keys of sessions whose row changed.
        transcripts: Keys of open transcripts that changed.
        deliveries: Some delivery changed.
        exchanges: An exchange of an open session, or of a sub-agent below one, or its announce.
        gone: Keys of sessions that were deleted.
        connections: The way to some gateway changed its state.
        all: Everything, after a reload.
    """

    rows: set[str] = field(default_factory=set[str])
    transcripts: set[str] = field(default_factory=set[str])
    deliveries: bool = False
    exchanges: bool = False
    gone: set[str] = field(default_factory=set[str])
    connections: bool = False
    all: bool = False


class PendingChanges:
    """Gathers what changed until somebody draws it.

    Attributes:
        noted: What changed since the last call of `take`.
        on_changes: Called by the first `note` after it.
        is_told: It was.
    """

    def __init__(self) -> None:
        self.noted = Changes()
        self.on_changes: Callable[[], None] = lambda: None
        self.is_told = False

    def take(self) -> Changes:
        """Return what changed since the last call."""
        noted, self.noted, self.is_told = self.noted, Changes(), False
        return noted

    def note(self) -> Changes:
        """Return what is to be drawn, for something to be added; it will be drawn soon, but not at once."""
        if not self.is_told:
            self.is_told = True
            self.on_changes()
        return self.noted
