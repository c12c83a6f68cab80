"""The streams of several gateways as one: a task for each, and nobody's silence holds the others up.

A stream is only read on while there is room, so a reader that falls behind fills the queues of the gateways, and each
of them tells its own gap.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from core.event_stream import EventStream
from core.gateway import Feed
from core.model.events import DurableEvent, Event

QUEUE_EVENTS: Final = 1024

Owner = Callable[[str], str]
"""Returns the name of the gateway that a key belongs to."""
Follow = Callable[[str, Event], Iterable[Event]]
"""Returns what else is to be told after an event of a gateway."""


class MergedFeed(EventStream[tuple[str, Event]]):
    """One subscriber's stream, each entry with the name of its gateway; its cursor is that of the gateway `home`."""

    def __init__(self, home: str, owner: Owner, follow: Follow, leave: Callable[["MergedFeed"], None]) -> None:
        super().__init__(0, leave)
        self._home = home
        self._owner = owner
        self._follow = follow
        self._feeds: dict[str, Feed] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._iterated = False
        self._error: BaseException | None = None

    def watch(self, key: str | None) -> None:
        self.watched.add(key)
        for feed in self._meant(key):
            feed.watch(key)

    def unwatch(self, key: str | None) -> None:
        self.watched.discard(key)
        for feed in self._meant(key):
            feed.unwatch(key)

    def add(self, name: str, feed: Feed) -> None:
        """Read a gateway's stream too."""
        if name == self._home:
            self._cursor = feed.cursor
        self._feeds[name] = feed
        for key in self.watched:
            if key is None or self._owner(key) == name:
                feed.watch(key)
        if self._iterated:
            self._begin(name)

    def remove(self, name: str) -> None:
        """Read a gateway's stream no longer; what was heard of it already is dropped."""
        feed, pump = self._feeds.pop(name, None), self._pumps.pop(name, None)
        if pump is not None:
            pump.cancel()
        if feed is not None:
            feed.close()
        self._queue = deque(entry for entry in self._queue if entry[0] != name)
        self._room.set()

    def close(self) -> None:
        """End the stream; what is queued is dropped."""
        if not self.closed:
            super().close()
            for name in list(self._feeds):
                self.remove(name)

    def take_next(self) -> Event | None:
        if not self._queue:
            return None
        name, event = self._queue.popleft()
        if len(self._queue) < QUEUE_EVENTS:
            self._room.set()
        if name == self._home and isinstance(event, DurableEvent):
            self._cursor = event.rev
        return event

    async def _refill(self) -> bool:
        """Wait until there may be more; whether there will be, because a gateway has not ended its stream."""
        if not self._iterated:
            self._iterated = True
            for name in self._feeds:
                self._begin(name)
        if self._error is not None:
            raise self._error
        return not all(pump.done() for pump in self._pumps.values()) and await super()._refill()

    def _begin(self, name: str) -> None:
        self._pumps[name] = pump = asyncio.get_running_loop().create_task(self._pump(name), name=f"feed {name}")
        pump.add_done_callback(self._ended)

    async def _pump(self, name: str) -> None:
        async for event in self._feeds[name]:
            while len(self._queue) >= QUEUE_EVENTS:
                self._room.clear()
                await self._room.wait()
            self.tell((name, event))
            for more in self._follow(name, event):
                self.tell((name, more))

    def _ended(self, pump: asyncio.Task[None]) -> None:
        if not pump.cancelled():
            self._error = self._error or pump.exception()
        self._filled.set()

    def _meant(self, key: str | None) -> list[Feed]:
        if key is None:
            return list(self._feeds.values())
        feed = self._feeds.get(self._owner(key))
        return [feed] if feed is not None else []
