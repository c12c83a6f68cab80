"""A subscriber's stream of events over a connection that comes and goes (`core.gateway.Feed`).

The gateway begins a feed once for each connection, at the cursor up to which this end has handed everything out; what
comes twice because of that is passed over by its `rev`. Each beginning is a turn, and only the newest turn counts.
"""

from collections.abc import Callable
from typing import Final, Literal

from core.event_stream import EventStream
from core.model.events import Cursor, DurableEvent, Event, Gap, Reloaded

Wish = Literal["begin", "watch", "end"]
"""What a feed wants of its gateway: to be begun at its cursor, what it watches to be told, or to be ended."""


class RemoteFeed(EventStream[Event]):
    """One subscriber's stream, which has its gateway go on where it was full.

    Args:
        name: By which the gateway knows it.
        cursor: Everything after it is wanted; None for what happens from now on.
        wish: Told what is to be done, whenever something is.

    Attributes:
        turn: Counts its beginnings.
        store_id: Of the store that its cursor is from; None before its first beginning.
    """

    def __init__(
        self, name: str, cursor: Cursor | None, store_id: str | None, wish: Callable[["RemoteFeed", Wish], None]
    ) -> None:
        super().__init__(cursor or 0, lambda feed: wish(feed, "end"))
        self.name: Final = name
        self.turn = 0
        self.store_id = store_id
        self._wish = wish
        self._has_cursor = cursor is not None
        self._late = False
        self._begun = False
        self._early: list[Event] = []

    @property
    def after(self) -> Cursor | None:
        """Where it is to begin; None for now."""
        return self._cursor if self._has_cursor else None

    def watch(self, key: str | None) -> None:
        self.watched.add(key)
        self._wish(self, "watch")

    def unwatch(self, key: str | None) -> None:
        self.watched.discard(key)
        self._wish(self, "watch")

    # For the gateway it belongs to.

    def begin(self) -> int:
        """Note that it is being begun; return the turn. What comes before the answer waits for it."""
        self.turn += 1
        self._begun, self._early = False, []
        return self.turn

    def begun(self, turn: int, store_id: str, cursor: Cursor, *, reset: bool) -> None:
        """Take the gateway's answer to a beginning, then what came before it.

        Args:
            cursor: Where it begins.
            reset: The cursor that was asked for means nothing there: everything is to be read again.
        """
        if turn != self.turn:
            return
        is_first = not self._has_cursor
        if reset or (is_first and self._late):
            self._queue.clear()
            self.tell(Reloaded())
        if reset or is_first:
            self._cursor, self._has_cursor = cursor, True
        self.store_id, self._begun, self._late = store_id, True, False
        for event in self._early:
            self.put(event)
        self._early = []

    def missed(self) -> None:
        """Note that it could not be begun when it was wanted: whoever reads it does not know what happened since."""
        self._late = True

    def take(self, turn: int, events: list[Event]) -> None:
        """Take a batch from the gateway; one of an earlier turn is passed over."""
        if turn != self.turn:
            return
        if not self._begun:
            self._early += events
            return
        for event in events:
            self.put(event)

    def _overflow(self, entry: Event) -> None:  # noqa: ARG002 - it comes again with the next turn
        """Keep what is queued, so that each turn gets the reader on, however slow it is."""
        self._queue.append(Gap())
        self.behind = True
        self._wish(self, "end")

    def take_next(self) -> Event | None:
        """Take the oldest event, leaving out what was handed out already."""
        while self._queue:
            event = self._queue.popleft()
            if not isinstance(event, DurableEvent):
                return event
            if event.rev > self._cursor:
                self._cursor = event.rev
                return event
        return None

    async def _refill(self) -> bool:
        if self.behind:
            self.behind = False
            self._wish(self, "begin")
        return await super()._refill()
