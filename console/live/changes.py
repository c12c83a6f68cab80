"""What changed since somebody drew last."""

from dataclasses import dataclass, field


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
