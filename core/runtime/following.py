"""The side of a runtime whose state directory another process owns: it hears what the owner does, and asks it to do
what is wanted here (architecture#ownership).

What is stored is read here, from the same database. Changes come from the owner itself while it answers; from an owner
that does not answer they are found by looking whether the database has changed, without words of running replies.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from core.gateway import Feed, Gateway
from core.model.connection import Connection
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged, DurableEvent, Event, Gap, Reloaded
from core.runtime.feed import EventHub
from core.store.database import Store, data_version

LOOK_SECONDS: Final = 0.5
"""How often the database of an owner that does not answer is looked at."""
PATIENCE_SECONDS: Final = 5.0
"""How long a message waits for the next owner when the one that was asked has died."""

_log = logging.getLogger("switchboard.runtime")


class Following:
    """What a process that does not own the state directory has of the one that does.

    Args:
        publish: Publishes what the owner tells of or has stored, in its order.

    Attributes:
        owner: The owner's port while it answers, else None.
    """

    def __init__(self, store: Store, hub: EventHub, publish: Callable[[list[DurableEvent]], None]) -> None:
        self.owner: Gateway | None = None
        self._store = store
        self._hub = hub
        self._publish = publish
        self._feed: Feed | None = None
        self._watched: set[str | None] = set()
        self._is_ours = False
        self._detail = ""
        self._turned = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def catch_up(self) -> None:
        """Publish what another process has stored."""
        self._publish(await self._hub.unpublished())

    def look(self) -> None:
        """Publish what appears in the database, from now on."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def look_no_more(self) -> None:
        """Leave the database alone, because there is a better way to hear, or nobody to tell."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def ask(self, owner: Gateway) -> None:
        """Ask this owner from now on, and hear from it what was not published yet."""
        self._feed = owner.subscribe(self._hub.published)
        for key in self._wanted():
            self._watch(key)
        self.owner = owner
        self._turn()

    async def hear(self) -> None:
        """Publish what the owner tells of, until it has left."""
        feed = self._feed
        assert feed is not None, "an owner is asked"
        try:
            async for event in feed:
                if not await self._take(event):
                    return
        finally:
            self.owner = self._feed = None
            self._watched.clear()
            self._turn()
            feed.close()

    def want(self, key: str | None) -> None:
        """Have the owner tell of a session, None for all, beginning with the reply under way."""
        if self._feed is not None:
            for other in self._watched - self._wanted() - {key}:
                self._feed.unwatch(other)
                self._watched.discard(other)
            self._watch(key)

    def taken_over(self) -> None:
        """Note that this process owns the directory from now on."""
        self._is_ours = True
        self._turn()

    async def changed_hands(self, asked: Gateway | None) -> bool:
        """Wait for whoever comes after an owner that did not answer; whether somebody has come."""
        if asked is None or (asked is self.owner and asked.connection.state == "live"):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not self._is_ours and self.owner in {asked, None}:
                    await self._turned.wait()
        return self._is_ours or self.owner not in {asked, None}

    async def _look(self) -> None:
        seen: int | None = None
        while True:
            try:
                if (version := self._store.read(data_version)) != seen:
                    await self.catch_up()
                    seen = version
            except Unavailable as error:
                if seen is not None:  # said once
                    _log.warning("cannot look what the owner does: %s", error.message)
                seen = None
            await self._store.clock.sleep(LOOK_SECONDS)

    async def _take(self, event: Event) -> bool:
        """Publish an event; whether the owner is still there."""
        if isinstance(event, DurableEvent):
            self._publish([event])
        elif isinstance(event, Gap | Reloaded):
            await self.catch_up()
        elif isinstance(event, ConnectionChanged):
            told = event.connection
            if told.state == "live" and told.detail != self._detail:
                self._detail = told.detail
                self._hub.passing(ConnectionChanged(Connection("live", told.detail)))
            return told.state in {"live", "connecting"}
        else:
            self._hub.passing(event)
        return True

    def _turn(self) -> None:
        """Tell whoever waits that somebody else may answer now."""
        self._turned.set()
        self._turned = asyncio.Event()

    def _watch(self, key: str | None) -> None:
        assert self._feed is not None, "there is an owner to ask"
        if key in self._watched:  # again, for the words of the reply so far
            self._feed.unwatch(key)
        self._watched.add(key)
        self._feed.watch(key)

    def _wanted(self) -> set[str | None]:
        watched = self._hub.all_watched()
        return {None} if watched is None else set(watched)
