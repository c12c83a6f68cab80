"""What a subscriber hears: durable changes after their commit, each with its `rev`, and passing ones
(architecture#feeds).

They are named tuples: a busy fleet makes a thousand a second, and a frozen dataclass takes four times as long to make.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from core.model.connection import Connection
from core.model.exchanges import Delivery, Exchange
from core.model.messages import Message
from core.model.runs import Run
from core.model.sessions import Session

Cursor = int
"""A `rev`: everything up to it has been seen."""

BlockKind = Literal["text", "thinking"]


class SessionChanged(NamedTuple):
    """A session was created or any of its fields changed."""

    rev: int
    session: Session


class MessageAppended(NamedTuple):
    """A message was appended to a watched session."""

    rev: int
    key: str
    session_id: str
    message: Message


class RunChanged(NamedTuple):
    """A run was accepted, started or ended."""

    rev: int
    run: Run


class ExchangeChanged(NamedTuple):
    """An exchange began, advanced or ended."""

    rev: int
    exchange: Exchange


class DeliveryChanged(NamedTuple):
    """A delivery was recorded or changed its state."""

    rev: int
    delivery: Delivery


class SessionGone(NamedTuple):
    """A session was deleted with its transcripts; nothing of it can be read any more."""

    rev: int
    key: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Gap:
    """This subscriber fell behind and events were dropped: catch up from your cursor.

    `gateway` says whose events, where several are shown as one.
    """

    gateway: str = ""


class Delta(NamedTuple):
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


class ToolProgress(NamedTuple):
    """A tool of a running reply in a watched session started or is at work.

    `note` is what it says of its progress, at most 200 characters; empty at the start.
    """

    key: str
    run_id: str
    call_id: str
    name: str
    note: str


class Activity(NamedTuple):
    """The last words of any running session, at most twice a second: the second line of its row.

    These are at most 160 characters, without line breaks.
    """

    key: str
    run_id: str
    words: str


class Configured(NamedTuple):
    """The configuration was read again.

    `notice` is why the new one cannot be used and the old one stays, in one sentence; empty when it is in use.
    `gateway` says whose configuration, where several are shown as one.
    """

    notice: str
    gateway: str = ""


class ConnectionChanged(NamedTuple):
    """The way to a gateway changed its state."""

    connection: Connection


class Reloaded(NamedTuple):
    """What was known of the gateway is void, because it is another store or too much changed: read everything again."""

    gateway: str = ""


DurableEvent = SessionChanged | MessageAppended | RunChanged | ExchangeChanged | DeliveryChanged | SessionGone
PassingEvent = Delta | ToolProgress | Activity | Configured | ConnectionChanged | Reloaded
Event = DurableEvent | PassingEvent | Gap
