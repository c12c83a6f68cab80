"""Who hears what: bounded queues, gap marks, and catching up from a `rev` (architecture#feeds).

A subscriber that falls behind loses what was queued for it and gets a `Gap`; then the rows that changed since its
cursor are read from the store and handed out, so that it misses nothing durable. Passing events are not replayed.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from core.event_stream import EventStream
from core.model.events import (
    Activity,
    Configured,
    ConnectionChanged,
    Cursor,
    Delta,
    DurableEvent,
    Event,
    Gap,
    MessageAppended,
    PassingEvent,
    Reloaded,
)

Watched = frozenset[str] | None
"""Sessions that are watched, by key; None for every session."""

CatchUp = Callable[[Cursor, Watched], Awaitable[list[DurableEvent]]]
"""Reads what changed after a cursor, in order; messages of the watched sessions only."""

Partial = Callable[[str | None], Iterable[Delta]]
"""Returns the reply under way in a session, or in every session for None, so far."""


class EventHub:
    """All subscribers of a runtime.

    Args:
        published: The newest change that nobody has to be told of.

    Attributes:
        feeds: Those who listen.
        published: The `rev` up to which everything was published.
    """

    def __init__(self, catch_up: CatchUp, partial: Partial, published: Cursor = 0) -> None:
        self._catch_up = catch_up
        self._partial = partial
        self.published = published
        self.feeds: list[RuntimeFeed] = []

    def subscribe(self, now: Cursor, after: Cursor | None) -> "RuntimeFeed":
        """Add a subscriber that hears everything after `now`, or first everything since `after`."""
        feed = RuntimeFeed(self._catch_up, self._partial, self.feeds.remove, now if after is None else after)
        feed.behind = after is not None and after < now
        self.feeds.append(feed)
        return feed

    def publish(self, events: Sequence[DurableEvent]) -> None:
        """Hand durable changes to everybody who wants them."""
        for feed in self.feeds:
            for event in events:
                if not isinstance(event, MessageAppended) or feed.wants(event.key):
                    feed.put(event)
        if events:
            self.published = max(self.published, events[-1].rev)

    async def unpublished(self) -> list[DurableEvent]:
        """Read what was stored since the newest change that was published."""
        return await self._catch_up(self.published, self.all_watched())

    def watched(self, key: str) -> bool:
        """Whether anybody watches a session."""
        return any(feed.wants(key) for feed in self.feeds)

    def all_watched(self) -> Watched:
        """Return the sessions that anybody watches."""
        watched = [feed.wanted for feed in self.feeds]
        return None if None in watched else frozenset(key for keys in watched for key in keys or ())

    def passing(self, event: PassingEvent) -> None:
        """Hand on what is not stored: what concerns a watched session to those who watch it, the rest to everybody."""
        for feed in self.feeds:
            if isinstance(event, Activity | Configured | ConnectionChanged | Reloaded) or feed.wants(event.key):
                feed.put(event)

    def close(self) -> None:
        """End all streams."""
        for feed in list(self.feeds):
            feed.close()


class RuntimeFeed(EventStream[Event]):
    """One subscriber's stream, which reads from the store what it has missed."""

    def __init__(
        self, catch_up: CatchUp, partial: Partial, leave: Callable[["RuntimeFeed"], None], cursor: Cursor
    ) -> None:
        super().__init__(cursor, leave)
        self._catch_up = catch_up
        self._partial = partial
        self._missed: deque[DurableEvent] = deque()

    @property
    def wanted(self) -> Watched:
        """The sessions whose messages are wanted."""
        return None if None in self.watched else frozenset(key for key in self.watched if key is not None)

    @property
    def pending(self) -> int:
        """How many events wait to be handed out."""
        return len(self._missed) + super().pending

    def watch(self, key: str | None) -> None:
        told = [delta for delta in self._partial(key) if not self.wants(delta.key)]
        self.watched.add(key)
        for delta in told:
            self.put(delta)

    def unwatch(self, key: str | None) -> None:
        self.watched.discard(key)

    def _overflow(self, entry: Event) -> None:  # noqa: ARG002 - it is lost like what is queued
        self._queue.clear()
        self._queue.append(Gap())
        self.behind = True

    def take_next(self) -> Event | None:
        """Take the oldest event, leaving out what a catch-up has handed out already."""
        while self._missed or self._queue:
            event = self._missed.popleft() if self._missed else self._queue.popleft()
            if not isinstance(event, DurableEvent):
                return event
            if event.rev > self._cursor:
                self._cursor = event.rev
                return event
        return None

    async def _refill(self) -> bool:
        """Read what changed since the cursor, if something was missed; what is published meanwhile follows it."""
        if not self.behind:
            return await super()._refill()
        self.behind = False
        asked: Watched = frozenset()
        is_read = False
        try:
            while not is_read or not _covers(asked, self.wanted):  # one watched since then would lose messages
                asked, is_read = self.wanted, True
                self._missed = deque(await self._catch_up(self._cursor, asked))
        except BaseException:
            self._queue.clear()  # it is newer than what is still to be read
            self.behind = True
            raise
        self._queue = deque(event for event in self._queue if not isinstance(event, PassingEvent))
        if not self.behind:
            for key in [None] if self.wanted is None else sorted(self.wanted):
                self._queue.extend(self._partial(key))
        return True


def _covers(these: Watched, others: Watched) -> bool:
    """Whether all the other sessions are among these."""
    return these is None or (others is not None and others <= these)
