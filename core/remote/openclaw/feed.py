"""Who hears what of an OpenClaw gateway; the order (`rev`) is made here, because those gateways have none."""

from collections.abc import Callable, Iterable

from core.event_stream import EventStream
from core.model.events import Cursor, Delta, DurableEvent, Event, Gap, MessageAppended, Reloaded, ToolProgress


class OpenClawHub:
    """All subscribers.

    Args:
        first: Where the order begins; later than any earlier process of this client has come.
        partial: Returns the reply under way in a session, so far; of all sessions for None.
        watched: Told of every session that somebody begins to watch.
    """

    def __init__(
        self, first: Cursor, partial: Callable[[str | None], Iterable[Delta]], watched: Callable[[str], None]
    ) -> None:
        self.rev = first
        self.partial = partial
        self.watched = watched
        self._feeds: list[HubFeed] = []

    def next(self) -> Cursor:
        """Return the place of the next durable change."""
        self.rev += 1
        return self.rev

    def tell(self, event: Event) -> None:
        """Hand an event to everybody who wants it."""
        for feed in self._feeds:
            if not isinstance(event, MessageAppended | Delta | ToolProgress) or feed.wants(event.key):
                feed.put(event)

    def wants(self, key: str) -> bool:
        """Whether anybody watches a session."""
        return any(feed.wants(key) for feed in self._feeds)

    def watched_keys(self) -> frozenset[str]:
        """Return the sessions that are watched by name."""
        return frozenset(key for feed in self._feeds for key in feed.watched if key is not None)

    def subscribe(self, after: Cursor | None) -> "HubFeed":
        """Add a subscriber; one that comes from an earlier place reads everything again."""
        feed = HubFeed(self, self._feeds.remove)
        self._feeds.append(feed)
        if after is not None and after != self.rev:
            feed.put(Reloaded())
        return feed

    def close(self) -> None:
        """End all streams."""
        for feed in list(self._feeds):
            feed.close()


class HubFeed(EventStream[Event]):
    """One subscriber's stream, which has everything read again when it has missed something."""

    def __init__(self, hub: OpenClawHub, leave: Callable[["HubFeed"], None]) -> None:
        super().__init__(hub.rev, leave)
        self._hub = hub

    def watch(self, key: str | None) -> None:
        """Want messages, deltas and tool progress of a session or of all; replies under way come first."""
        told = [delta for delta in self._hub.partial(key) if not self.wants(delta.key)]
        is_new = key not in self.watched
        self.watched.add(key)
        if key is not None and is_new:
            self._hub.watched(key)
        for delta in told:
            self.put(delta)

    def unwatch(self, key: str | None) -> None:
        self.watched.discard(key)

    def _overflow(self, entry: Event) -> None:
        self._queue.clear()
        self._queue.extend((Gap(), Reloaded(), entry))

    def take_next(self) -> Event | None:
        if not self._queue:
            return None
        event = self._queue.popleft()
        if isinstance(event, DurableEvent):
            self._cursor = event.rev
        return event
