"""Keeps what the console shows true: reads it once, then follows the one stream of events of its gateways.

What is lost on the way, by a gap, a reload or a connection that breaks, is read again. Plain asyncio.
"""

import logging
from typing import TYPE_CHECKING

from console.live.subject import waiting_overrides
from console.live.view_model import ViewModel
from core.model.access import ALL
from core.model.connection import REACHED
from core.model.errors import SwitchboardError
from core.model.events import (
    Configured,
    ConnectionChanged,
    DeliveryChanged,
    Delta,
    Event,
    ExchangeChanged,
    Gap,
    MessageAppended,
    Reloaded,
    RunChanged,
    SessionChanged,
    SessionGone,
    ToolProgress,
)
from core.model.exchanges import Exchange
from core.model.keys import joined, split
from core.model.sessions import SessionQuery
from core.tasks import Tasks

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from core.gateway import Feed

_log = logging.getLogger("switchboard.console")


class Synchronizer:
    """Keeps a view model true.

    Attributes:
        on_configured: Called when the configuration here was read again, with what is wrong with it or nothing.
        void: The gateways of which nothing is known for certain until they have been read again.
    """

    def __init__(self, view_model: ViewModel) -> None:
        self.on_configured: Callable[[str], None] = lambda _: None
        self._view_model = view_model
        self._gateway = view_model.gateway
        self._book = view_model.book
        self._transcripts = view_model.transcripts
        self._exchanges = view_model.exchanges
        self._deliveries = view_model.deliveries
        self._changes = view_model.changes
        self._feed: Feed | None = None
        self.void: set[str] = set()
        self._reading = Tasks(lambda error: _log.error("a gateway was not read again", exc_info=error))
        self._reloads: dict[str, asyncio.Task[None]] = {}

    async def load(self) -> None:
        """Read all sessions."""
        feed = self._feed
        self._feed = self._gateway.subscribe()
        if feed is not None:
            feed.close()
        self._transcripts.follow(self._feed)
        self._note_connections()
        reached = self._gateway.reached()
        page = await self._gateway.list_sessions(SessionQuery(archived=None), ALL)
        self._book.listed = reached
        self._book.overrides = await waiting_overrides(self._gateway)
        self._book.load(page.sessions, self._view_model.memory.seen)
        self._exchanges.forget()
        await self._transcripts.read_exchanges()
        self._changes.note().all = True

    async def load_deliveries(self) -> None:
        """Read what was announced; what is heard meanwhile is kept."""
        await self._deliveries.load(self._gateway)
        self._changes.note().deliveries = True

    def configure(self) -> None:
        """Take over the gateway's rules."""
        gateway = self._gateway
        agents = {name: gateway.of(joined(name, "")).rules.default_agent for name in gateway.names}
        self._book.configure(self._view_model.main_key, agents)
        for name in gateway.names:  # the list may have been read before anybody knew which they are
            for key in gateway.of(joined(name, "")).rules.unlisted:
                self._book.remove(joined(name, key))
        self._changes.note().all = True

    async def follow(self) -> None:
        """Apply events until the gateway closes."""
        assert self._feed is not None, "sessions are loaded before events are followed"
        async for event in self._feed:
            try:
                await self.apply(event)
            except SwitchboardError:
                continue  # of a session that was deleted, or a gateway that was lost: what follows tells of it

    def unseen(self) -> dict[str, int]:
        """Return up to where sessions with something new were looked at, also those of gateways that are not shown."""
        shown = set(self._gateway.names) - self.void
        others = {key: seq for key, seq in self._view_model.memory.seen.items() if split(key)[0] not in shown}
        return others | self._book.unseen()

    async def apply(self, event: Event) -> None:
        """Take in what happened to a session that is looked at, or have a row, a gateway or a delivery follow it."""
        transcripts = self._transcripts
        match event:
            case Gap(gateway):
                transcripts.resume(gateway)
            case MessageAppended(_, key, session_id, message):
                await transcripts.append(key, session_id, message)
            case Delta(key):
                for transcript in transcripts.changing(key):
                    transcript.apply_delta(event)
            case ToolProgress(key):
                for transcript in transcripts.changing(key):
                    transcript.apply_tool(event, self._view_model.now_ms(key))
            case DeliveryChanged(_, delivery):
                self._deliveries.take([delivery])
                self._changes.note().deliveries = True
                exchange = self._exchanges.get(delivery.exchange_id)
                if exchange is not None and self._exchanges.take_announce(delivery):
                    self._note_exchange(exchange)
            case ExchangeChanged(_, exchange):
                sides = (exchange.requester, exchange.target)
                is_shown = any(self._book.is_below(key, transcripts.opened) for key in sides)
                if is_shown and self._exchanges.take(exchange):
                    self._note_exchange(exchange)
            case Reloaded() | ConnectionChanged() | Configured():
                self._apply_news(event)
            case _:
                await self._apply_row(event)

    async def _apply_row(self, event: Event) -> None:
        """Take in what concerns the row of a session."""
        match event:
            case SessionGone(_, key):
                self._transcripts.close(key)
                if self._book.remove(key):
                    changes = self._changes.note()
                    changes.rows.discard(key)
                    changes.gone.add(key)
                return
            case RunChanged(_, run):
                if not run.live:
                    self._view_model.rates.add(run)
                self._exchanges.take_run(run)
                for transcript in self._transcripts.changing(run.key):
                    transcript.take_run(run)
            case SessionChanged(_, session):
                await self._transcripts.follow_session(session)
            case _:
                pass
        key = self._book.apply(event)
        if key is not None:
            self._changes.note().rows.add(key)

    # Gateways

    def _apply_news(self, event: Reloaded | ConnectionChanged | Configured) -> None:
        """Take in what concerns a gateway as a whole."""
        match event:
            case Reloaded(name):
                self._note_connections()
                self._reload_soon(name)
            case ConnectionChanged(connection):
                self._note_connections()
                if connection.name in self.void and connection.state in REACHED:
                    self._reload_soon(connection.name)
            case Configured(notice, name):
                self.configure()
                if name == "":
                    self.on_configured(notice)

    def _reload_soon(self, name: str) -> None:
        """Read everything of a gateway again: what was known is void. It may take its time, and nobody waits for it."""
        if (task := self._reloads.pop(name, None)) is not None:
            task.cancel()
        if self._gateway.member(name) is None:
            self._drop(name)
            return
        self.void.add(name)
        self._book.void(name)
        self._reloads[name] = self._reading.spawn(self._reload(name))

    async def _reload(self, name: str) -> None:
        gateway = self._gateway.member(name)
        if gateway is None or gateway.connection.state not in REACHED:
            return  # it tells when it is reached
        try:
            page = await gateway.list_sessions(SessionQuery(archived=None), ALL)
            self.configure()
            self._book.load_one(name, page.sessions, self._view_model.memory.seen)
            self._exchanges.forget(name)
            self._deliveries.forget(name)
            self.void.discard(name)
            changes = self._changes.note()
            changes.all = changes.deliveries = True
            await self._transcripts.read_again(name)
            await self._deliveries.load(gateway)
            self._changes.note().deliveries = True
        except SwitchboardError:
            return  # not allowed, or lost again: its connection says so

    def _drop(self, name: str) -> None:
        """Take a gateway out that is not shown any more; what was looked at is remembered."""
        self._view_model.memory.seen = self.unseen()
        self.void.discard(name)
        self._transcripts.close_all(name)
        for key in self._book.of(name):
            self._book.remove(key)
        self._exchanges.forget(name)
        self._deliveries.forget(name)
        self.configure()

    # What is to be drawn

    def _note_connections(self) -> None:
        self._view_model.note_connections()
        self._changes.note().connections = True

    def _note_exchange(self, exchange: Exchange) -> None:
        for transcript in self._transcripts.changing(exchange.requester, exchange.target):
            transcript.touch(exchange)
        self._changes.note().exchanges = True
