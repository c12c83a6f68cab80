"""A subscriber's stream of events over a connection that comes and goes (`core.gateway.Feed`).

The gateway begins a feed once for each connection, at the cursor up to which this end has handed everything out; what
comes twice because of that is passed over by its `rev`. Each beginning is a turn, and only the newest turn counts.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core.model.events import Cursor, DurableEvent, Event, Gap, Reloaded

QUEUE_EVENTS: Final = 4096

Wish = Literal["begin", "watch", "end"]
"""What a feed wants of its gateway: to be begun at its cursor, what it watches to be told, or to be ended."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The gateway's answer to the beginning of a feed.

    Attributes:
        cursor: Where it begins.
        reset: The cursor that was asked for means nothing there: everything is to be read again.
    """

    store_id: str
    cursor: Cursor
    reset: bool


class RemoteFeed:
    """One subscriber's stream.

    Args:
        name: By which the gateway knows it.
        cursor: Everything after it is wanted; None for what happens from now on.
        wish: Told what is to be done, whenever something is.

    Attributes:
        turn: Counts its beginnings.
        store_id: Of the store that its cursor is from; None before its first beginning.
        watched: The sessions it watches by name; None for every one.
        behind: It is full, and to be begun anew once it has been read.
        closed: It has ended.
    """

    def __init__(
        self, name: str, cursor: Cursor | None, store_id: str | None, wish: Callable[["RemoteFeed", Wish], None]
    ) -> None:
        self.name: Final = name
        self.turn = 0
        self.store_id = store_id
        self.watched: set[str | None] = set()
        self.behind = False
        self.closed = False
        self._wish = wish
        self._cursor = cursor
        self._late = False
        self._begun = False
        self._early: list[list[Event]] = []
        self._queue: deque[Event] = deque()
        self._filled = asyncio.Event()

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which everything durable has been handed out; 0 before the feed has begun."""
        return self._cursor or 0

    @property
    def after(self) -> Cursor | None:
        """Where it is to begin; None for now."""
        return self._cursor

    def watch(self, key: str | None) -> None:
        """Want a session's messages, deltas and tool progress, or those of all."""
        self.watched.add(key)
        self._wish(self, "watch")

    def unwatch(self, key: str | None) -> None:
        """Want them no longer; None ends only what None began."""
        self.watched.discard(key)
        self._wish(self, "watch")

    def close(self) -> None:
        """End the stream; what is queued is dropped."""
        if not self.closed:
            self.closed = True
            self._wish(self, "end")
            self._filled.set()

    # For the gateway it belongs to.

    def begin(self) -> int:
        """Note that it is being begun; return the turn. What comes before the answer waits for it."""
        self.turn += 1
        self._begun, self._early = False, []
        return self.turn

    def begun(self, turn: int, answer: Begun) -> None:
        """Take the answer, then what came before it."""
        if turn != self.turn:
            return
        is_first = self._cursor is None
        if answer.reset or (is_first and self._late):
            self._queue.clear()
            self.tell(Reloaded())
        if answer.reset or is_first:
            self._cursor = answer.cursor
        self.store_id, self._begun, self._late = answer.store_id, True, False
        for events in self._early:
            self._put(events)
        self._early = []

    def missed(self) -> None:
        """Note that it could not be begun when it was wanted: whoever reads it does not know what happened since."""
        self._late = True

    def take(self, turn: int, events: list[Event]) -> None:
        """Take a batch from the gateway; one of an earlier turn is passed over."""
        if turn != self.turn:
            return
        if self._begun:
            self._put(events)
        else:
            self._early.append(events)

    def tell(self, event: Event) -> None:
        """Put in what this end knows by itself, in its place among the others."""
        self._queue.append(event)
        self._filled.set()

    def _put(self, events: Sequence[Event]) -> None:
        if self.behind:
            return
        room = QUEUE_EVENTS - len(self._queue)
        self._queue.extend(events[:room])
        if len(events) > room:  # what is queued stays, so that each turn gets the reader on, however slow it is
            self._queue.append(Gap())
            self.behind = True
            self._wish(self, "end")
        self._filled.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over events until the feed is closed; a second iteration goes on where the first one left off."""
        while not self.closed:
            event = self._next()
            if event is not None:
                yield event
                continue
            if self.behind:
                self.behind = False
                self._wish(self, "begin")
            self._filled.clear()
            await self._filled.wait()

    def _next(self) -> Event | None:
        """Take the oldest event, leaving out what was handed out already."""
        while self._queue:
            event = self._queue.popleft()
            if not isinstance(event, DurableEvent):
                return event
            if event.rev > self.cursor:
                self._cursor = event.rev
                return event
        return None
