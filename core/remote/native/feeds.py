"""All feeds of one of our own gateways: begun after each connection, and told what they watch (architecture#feeds)."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from core.model.errors import SwitchboardError, Unavailable
from core.model.events import ConnectionChanged, Cursor
from core.model.json_codec import mapping
from core.remote.link import Link
from core.remote.native.feed import RemoteFeed, Wish
from core.tasks import Tasks
from core.wire import port
from core.wire.codec import read_events

_log: Final = logging.getLogger("switchboard.remote")


class RemoteFeeds:
    """The feeds over one link.

    Args:
        changed: Returns how the gateway is reached, as this end tells it: how the gateway fares is a part of that.
    """

    def __init__(self, link: Link, changed: Callable[[], ConnectionChanged]) -> None:
        self._link = link
        self._changed = changed
        self._feeds: dict[str, RemoteFeed] = {}
        self._names = 0
        self._opening = Tasks(_failed)
        self._telling = Tasks(_failed)

    def add(self, after: Cursor | None, store_id: str | None, *, begin: bool) -> RemoteFeed:
        """Add a feed, and begin it now or, where that is not possible yet, with the next connection."""
        self._names += 1
        feed = RemoteFeed(str(self._names), after, store_id, self._do)
        self._feeds[feed.name] = feed
        if begin:
            self._do(feed, "begin")
        else:
            feed.missed()
        return feed

    async def opened(self) -> None:
        """Wait for the feeds that are being begun: what is read after that is not older than what they tell."""
        await self._opening.wait()

    async def begin_each(self) -> None:
        """Begin all feeds, one after the other: there is a new connection."""
        for feed in list(self._feeds.values()):
            if not feed.behind:
                await self._begin(feed)

    def begin_again(self) -> None:
        """Begin all feeds anew: frames were lost between here and there."""
        for feed in self._feeds.values():
            if not feed.behind:
                self._do(feed, "begin")

    def take(self, batch: Mapping[str, Any]) -> None:
        """Take a batch of events; they are for one of the feeds."""
        feed, turn = self._feeds.get(str(batch.get("feed"))), batch.get("turn")
        if feed is not None and isinstance(turn, int):
            events = read_events(batch.get("events"))
            feed.take(turn, [self._changed() if isinstance(event, ConnectionChanged) else event for event in events])

    def tell_connection(self) -> None:
        """Tell everybody how the gateway is reached now."""
        for feed in self._feeds.values():
            feed.tell(self._changed())

    def close(self) -> None:
        """End all feeds; the gateway is told, while there is a connection."""
        for feed in list(self._feeds.values()):
            feed.close()

    async def stop(self) -> None:
        """Give up what the gateway is being told; to be called when the connection has ended."""
        await self._opening.stop()
        await self._telling.stop()

    def _do(self, feed: RemoteFeed, wish: Wish) -> None:
        """Do what a feed wants; without a connection there is nothing to do, `begin_each` sees to it."""
        if feed.closed:
            self._feeds.pop(feed.name, None)
        if not self._link.live:
            return
        if wish == "begin":
            self._opening.spawn(self._begin(feed))
        elif wish == "watch":
            self._telling.spawn(self._tell(feed, port.WATCH, _watched(feed)))
        else:
            self._telling.spawn(self._tell(feed, port.UNSUBSCRIBE, {}))

    async def _begin(self, feed: RemoteFeed) -> None:
        turn = feed.begin()
        params: dict[str, Any] = {"feed": feed.name, "turn": turn, **_watched(feed)}
        if feed.after is not None:
            params |= {"after": feed.after} | ({"storeId": feed.store_id} if feed.store_id is not None else {})
        try:
            answer = mapping(await self._link.request(port.SUBSCRIBE, params))
            cursor, store_id = answer.get("cursor"), answer.get("storeId")
            if not isinstance(cursor, int) or not isinstance(store_id, str):
                raise Unavailable("the gateway does not say where a feed begins")
        except SwitchboardError as error:
            feed.missed()
            _log.warning("a feed could not be begun: %s", error.message)
            return
        feed.begun(turn, store_id, cursor, reset=answer.get("reset") is True)
        if {**_watched(feed)} != {"watch": params["watch"], "all": params["all"]}:
            self._do(feed, "watch")

    async def _tell(self, feed: RemoteFeed, method: str, params: Mapping[str, Any]) -> None:
        """Tell the gateway about a feed; when that fails, the next beginning tells it."""
        try:
            await self._link.request(method, {"feed": feed.name, **params})
        except SwitchboardError as error:
            _log.info("%s was not heard: %s", method, error.message)


def _failed(error: BaseException) -> None:
    _log.error("a feed was not begun, or not told what is watched", exc_info=error)


def _watched(feed: RemoteFeed) -> dict[str, Any]:
    return {"watch": sorted(key for key in feed.watched if key is not None), "all": None in feed.watched}
