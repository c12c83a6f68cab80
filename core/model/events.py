"""What a subscriber hears: durable changes after their commit, each with its `rev`, and passing ones (DESIGN 5)."""

from dataclasses import dataclass
from typing import Literal

from core.model.messages import Message
from core.model.runs import Run
from core.model.sessions import Session

Cursor = int
"""A `rev`: everything up to it has been seen."""

BlockKind = Literal["text", "thinking"]


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A session was created or any of its fields changed."""

    rev: int
    session: Session


@dataclass(frozen=True, slots=True)
class MessageAppended:
    """A message was appended to a watched session."""

    rev: int
    key: str
    session_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class RunChanged:
    """A run was accepted, started or ended."""

    rev: int
    run: Run


@dataclass(frozen=True, slots=True)
class Gap:
    """This subscriber fell behind and events were dropped: catch up from your cursor."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Words of a running reply in a watched session; never stored, never replayed.

    Attributes:
        block: Counts the blocks of the reply under way from 0; a committed message ends them all.
        offset: Characters of the block that came before.
        text: What follows them. A late watcher gets everything so far at offset 0.
    """

    key: str
    run_id: str
    block: int
    kind: BlockKind
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A tool of a running reply in a watched session started or is at work.

    Attributes:
        note: What it says of its progress, at most 200 characters; empty at the start.
    """

    key: str
    run_id: str
    call_id: str
    name: str
    note: str


@dataclass(frozen=True, slots=True)
class Activity:
    """The last words of any running session, at most twice a second: the second line of its row.

    Attributes:
        words: At most 160 characters, without line breaks.
    """

    key: str
    run_id: str
    words: str


DurableEvent = SessionChanged | MessageAppended | RunChanged
PassingEvent = Delta | ToolProgress | Activity
Event = DurableEvent | PassingEvent | Gap
