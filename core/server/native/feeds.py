"""The feeds of one conversation in dialect `port-v1`: what happens, in batches, as fast as the client takes it.

Nobody waits for a slow client: what is not taken stays in the gateway's own bounded queue, which overflows into a `Gap`
and a catch-up from the store.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

from core.gateway import Feed
from core.model.errors import Invalid, NotFound
from core.model.events import Configured, ConnectionChanged, Event
from core.model.keys import quoted
from core.server.conversation.sender import FrameSender
from core.tasks import Tasks
from core.wire.codec import EVENT
from core.wire.frames import RawJson, encode
from core.wire.port import DESCRIBED, EVENTS, Described

BATCH: Final = 64 * 1024
"""Characters of one batch; an event that is longer goes alone."""
AHEAD: Final = 4 * BATCH
"""Characters that are made ready for a client before it has taken what came before."""
MAX_FEEDS: Final = 16
"""Of one conversation."""

Describe = Callable[[], Awaitable[Described]]


class Feeds:
    """All feeds of one conversation, by the name that the client gave them.

    Args:
        tasks: Those of the conversation.
        most_watched: Sessions that one feed may watch by name.
    """

    def __init__(self, out: FrameSender, tasks: Tasks, most_watched: int) -> None:
        self._out = out
        self._tasks = tasks
        self._most_watched = most_watched
        self._open: dict[str, _Pump] = {}

    def begin(self, name: str, turn: int, feed: Feed, describe: Describe) -> None:
        """Begin a feed; one that had the name ends.

        Args:
            turn: Stands in each batch, so that the client knows which beginning it belongs to.

        Raises `Invalid` when the conversation has too many.
        """
        self.end(name)
        if len(self._open) >= MAX_FEEDS:
            feed.close()
            raise Invalid(f"one connection may have {MAX_FEEDS} feeds: end one first")
        self._open[name] = pump = _Pump(feed, {"feed": name, "turn": turn}, describe)
        task = self._tasks.spawn(pump.run(self._out))
        task.add_done_callback(lambda _: feed.close())  # also when the conversation ends before it begins

    def watch(self, name: str, keys: Collection[str], *, every: bool) -> None:
        """Have a feed watch these sessions and no others.

        Raises `NotFound` when there is no such feed, `Invalid` when they are too many.
        """
        pump = self._open.get(name)
        if pump is None:
            raise NotFound(f"there is no feed {quoted(name)}: begin it first")
        if len(keys) > self._most_watched:
            raise Invalid(f"one feed may watch {self._most_watched} sessions, or all")
        pump.watch(frozenset(keys), every=every)

    def end(self, name: str) -> None:
        """End a feed; one that is not there has ended already."""
        pump = self._open.pop(name, None)
        if pump is not None:
            pump.feed.close()


class _Pump:
    """One feed on its way to the client."""

    def __init__(self, feed: Feed, head: dict[str, object], describe: Describe) -> None:
        self.feed = feed
        self._head = encode(head)[:-1]
        self._describe = describe
        self._watched: set[str | None] = set()  # None: every session
        self._ready: deque[str] = deque()
        self._size = 0
        self._described = ""
        self._changed = asyncio.Event()
        self._ended = False

    def watch(self, keys: frozenset[str], *, every: bool) -> None:
        """Watch these sessions and no others."""
        wanted = {*keys, None} if every else set[str | None](keys)
        for key in wanted - self._watched:
            self.feed.watch(key)
        for key in self._watched - wanted:
            self.feed.unwatch(key)
        self._watched = wanted

    async def run(self, out: FrameSender) -> None:
        """Tell the client what happens, until the feed is closed or the conversation ends."""
        taking = asyncio.ensure_future(self._take(aiter(self.feed)))
        try:
            while not self._ended or self._ready:
                if self._ready:
                    await out.event(EVENTS, self._batch())
                else:
                    await self._change()
            taking.result()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take(self, events: AsyncIterator[Event]) -> None:
        """Make events ready, some way ahead of the client."""
        try:
            async for event in events:
                if isinstance(event, Configured | ConnectionChanged):
                    self._described = encode(DESCRIBED.write(await self._describe()))
                text = encode(EVENT.write(event))
                self._ready.append(text)
                self._size += len(text)
                self._changed.set()
                while self._size > AHEAD:
                    await self._change()
        finally:
            self._ended = True
            self._changed.set()

    def _batch(self) -> RawJson:
        texts = [self._ready.popleft()]
        size = len(texts[0])
        while self._ready and size + len(self._ready[0]) <= BATCH:
            texts.append(self._ready.popleft())
            size += len(texts[-1])
        self._size -= size
        self._changed.set()
        more = f',"described":{self._described}' if self._described else ""
        self._described = ""
        return RawJson(f'{self._head},"events":[{",".join(texts)}]{more}}}')

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
