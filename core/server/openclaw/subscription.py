"""What one client of OpenClaw wants to hear of, and the feed that brings it (protocol#watchers)."""

from core.gateway import Feed, Gateway
from core.model.errors import Invalid
from core.model.events import Cursor


class Subscription:
    """The list of sessions, and the sessions that a client follows by name.

    Args:
        scoped: The client hears only of what it asked for.
        most_keys: Sessions that it may follow by name.

    Attributes:
        feed: Brings the events; taking the list up at a cursor replaces it.
        lists: The client follows the list of sessions.
        since: When it began to, in ms since the Unix epoch.
    """

    def __init__(self, gateway: Gateway, *, scoped: bool, most_keys: int) -> None:
        self.feed: Feed = gateway.subscribe()
        self.lists = False
        self.since = 0
        self._gateway = gateway
        self._scoped = scoped
        self._most_keys = most_keys
        self._keys: set[str] = set()
        self._watch()

    def list_sessions(self, after: Cursor | None) -> tuple[bool, bool]:
        """Follow the list from now on, or since a cursor; whether that cursor is known, and whether older rows come."""
        self.lists, self.since = True, self._gateway.now_ms()
        fresh = self._gateway.subscribe()
        known = after is None or after <= fresh.cursor
        older = after is not None and after < fresh.cursor
        fresh.close()
        if older:
            self.feed.close()
            self.feed = self._gateway.subscribe(after)
        self._watch()
        return known, older

    def unlist_sessions(self) -> None:
        """Follow the list no longer."""
        self.lists = False
        if self._scoped:
            self.feed.unwatch(None)

    def follow(self, key: str) -> None:
        """Follow the messages of a session; raises `Invalid` when the client follows too many."""
        if key not in self._keys and len(self._keys) >= self._most_keys:
            words = f"this connection follows {self._most_keys} sessions, which is the limit: use sessions.subscribe"
            raise Invalid(words)
        self._keys.add(key)
        self.feed.watch(key)

    def unfollow(self, key: str) -> None:
        """Follow them no longer."""
        self._keys.discard(key)
        self.feed.unwatch(key)

    def hears_messages(self, key: str) -> bool:
        """Whether the client is told of the messages of a session."""
        return self.lists or key in self._keys

    def hears_runs(self, key: str) -> bool:
        """Whether the client is told of the runs of a session."""
        return not self._scoped or key in self._keys

    def _watch(self) -> None:
        if self.lists or not self._scoped:
            self.feed.watch(None)
        for key in self._keys:
            self.feed.watch(key)
