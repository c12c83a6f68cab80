"""What every feed has in common (architecture#feeds): a bounded queue that is read by one and that nobody waits for."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, Self, TypeVar

from core.model.events import Cursor, Event

T = TypeVar("T")
QUEUE_EVENTS: Final = 4096


class EventStream(ABC, Generic[T]):
    """One subscriber's stream; see `core.gateway.Feed`. A kind of feed says what becomes of an entry of its queue, and
    what happens when it is full or empty.

    Args:
        cursor: The `rev` up to which everything durable has been handed out.
        leave: Told once, when the stream is closed.

    Attributes:
        watched: The sessions that are watched by name; None for every one.
        behind: The queue was full: nothing more is taken before what is missing was asked for.
        closed: The stream has ended.
    """

    def __init__(self, cursor: Cursor, leave: Callable[[Self], None]) -> None:
        self.watched: set[str | None] = set()
        self.behind = False
        self.closed = False
        self._cursor = cursor
        self._leave = leave
        self._queue: deque[T] = deque()
        self._filled = asyncio.Event()

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which everything durable has been handed out."""
        return self._cursor

    @property
    def pending(self) -> int:
        """How many entries wait to be handed out."""
        return len(self._queue)

    def wants(self, key: str) -> bool:
        """Whether a session is watched."""
        return None in self.watched or key in self.watched

    def put(self, entry: T) -> None:
        """Queue an entry, or note that there is no room for it."""
        if self.behind:
            return
        if len(self._queue) < QUEUE_EVENTS:
            self._queue.append(entry)
        else:
            self._overflow(entry)
        self._filled.set()

    def tell(self, entry: T) -> None:
        """Queue an entry, also when there is no room."""
        self._queue.append(entry)
        self._filled.set()

    def close(self) -> None:
        """End the stream; what is queued is dropped."""
        if not self.closed:
            self.closed = True
            self._leave(self)
            self._filled.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over events until the feed is closed; a second iteration goes on where the first one left off."""
        while not self.closed:
            event = self.take_next()
            if event is not None:
                yield event
            elif not await self._refill():
                return

    @abstractmethod
    def take_next(self) -> Event | None:
        """Take the oldest event, None when there is none."""

    def _overflow(self, entry: T) -> None:
        """Make of the queue what a subscriber gets that has fallen too far behind."""

    async def _refill(self) -> bool:
        """Wait until there may be more; whether there will be."""
        self._filled.clear()
        await self._filled.wait()
        return True
