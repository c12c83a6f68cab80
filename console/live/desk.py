"""The console's side of a gateway: the book, the open transcripts, and the one stream of events that keeps them true.

Plain asyncio. Whoever draws is told at most once per batch that something is dirty, and takes what changed from here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from console.live.book import Book
from console.live.clean import clean_line
from console.live.deliveries import Deliveries
from console.live.exchanges import Exchanges
from console.live.memory import Memory
from console.live.rates import Rates
from console.live.transcript import PAGE, Transcript
from console.live.words import key_name
from core.gateway import Feed, Gateway
from core.model.access import ALL, Operator
from core.model.errors import NotFound
from core.model.events import (
    Configured,
    DeliveryChanged,
    Delta,
    Event,
    ExchangeChanged,
    Gap,
    MessageAppended,
    RunChanged,
    SessionChanged,
    ToolProgress,
)
from core.model.exchanges import Delivery, Exchange
from core.model.messages import Message
from core.model.runs import Run
from core.model.sessions import Session, SessionQuery

RUNS: Final = 200
"""How many runs of a session are read when it is opened, to know which messages are steps of exchanges."""


@dataclass(slots=True)
class Dirty:
    """What must be drawn again.

    Attributes:
        rows: Keys of sessions whose row changed.
        transcripts: Keys of open transcripts that changed.
        deliveries: Some delivery changed.
        exchanges: An exchange of an open session, or of a sub-agent below one, or its announce.
        all: Everything, after a reload.
    """

    rows: set[str] = field(default_factory=set[str])
    transcripts: set[str] = field(default_factory=set[str])
    deliveries: bool = False
    exchanges: bool = False
    all: bool = False


class Desk:
    """What the operator works with.

    Attributes:
        on_dirty: Called once when something became dirty after `take_dirty`.
        on_configured: Called when the configuration was read again, with what is wrong with it or nothing.
        transcripts: The open ones, by key.
        exchanges: Those of the open sessions and of the sub-agents below them.
    """

    def __init__(self, gateway: Gateway, memory: Memory) -> None:
        self.gateway = gateway
        self.memory = memory
        self.book = Book()
        self.deliveries = Deliveries()
        self.rates = Rates()
        self.exchanges = Exchanges()
        self.transcripts: dict[str, Transcript] = {}
        self.on_dirty: Callable[[], None] = _nobody_draws
        self.on_configured: Callable[[str], None] = _nobody_reads
        self._dirty = Dirty()
        self._told = False
        self._feed: Feed | None = None
        self._fetching: set[str] = set()
        self._fetches: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read all sessions."""
        feed = self._feed
        self._feed = self.gateway.subscribe()
        if feed is not None:
            feed.close()
        for key in self.transcripts:
            self._feed.watch(key)
        page = await self.gateway.list_sessions(SessionQuery(archived=None), ALL)
        self.book.load(page.sessions, self.memory.seen)
        self.exchanges.clear()
        for key in list(self.transcripts):
            await self._read_exchanges(key)
        self._dirty.all = True
        self._tell()

    async def load_deliveries(self) -> None:
        """Read what was announced; what is heard meanwhile is kept."""
        await self.deliveries.load(self.gateway)
        self._mark_deliveries()

    def configure(self) -> None:
        """Take over the gateway's rules."""
        rules = self.gateway.rules
        self.book.configure(rules.default_agent, rules.send_policy)
        self._dirty.all = True
        self._tell()

    async def follow(self) -> None:
        """Apply events until the gateway closes."""
        assert self._feed is not None, "sessions are loaded before events are followed"
        async for event in self._feed:
            await self._apply(event)

    def take_dirty(self) -> Dirty:
        """Return what changed since the last call."""
        dirty, self._dirty, self._told = self._dirty, Dirty(), False
        return dirty

    async def open(self, key: str) -> Transcript:
        """Open a session's transcript at its end and keep it live.

        Raises:
            NotFound: The session is not there any more.
        """
        known = self.transcripts.get(key)
        if known is not None:
            return known
        if self._feed is not None:
            self._feed.watch(key)
        session = await self.gateway.get_session(key, ALL)
        transcript = Transcript(key, session.session_id, session.first_seq, session.last_seq)
        self.transcripts[key] = transcript
        try:
            await self._read_exchanges(key)
            for run in reversed(await self.gateway.runs(key, ALL, limit=RUNS)):
                transcript.take_run(run)
            if session.last_seq >= session.first_seq:
                await self._fetch(transcript, session.last_seq + 1, PAGE)
        except BaseException:
            self.close(key)  # one that was cut off is not open
            raise
        return transcript

    def close(self, key: str) -> None:
        """Give an open transcript up."""
        if self.transcripts.pop(key, None) is not None and self._feed is not None:
            self._feed.unwatch(key)

    def fetch_wanted(self, transcript: Transcript) -> None:
        """Start reading the pages that somebody looked for and did not find."""
        if transcript.key in self._fetching or not transcript.wanted:
            return
        self._fetching.add(transcript.key)
        task = asyncio.get_running_loop().create_task(self._fetch_all(transcript))
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    async def whole(self, key: str, seq: int) -> Message | None:
        """Read one message without anything cut."""
        page = await self.gateway.history(key, ALL, limit=1, before=seq + 1)
        return page.messages[0] if page.messages and page.messages[0].seq == seq else None

    async def call(self, tool: str, arguments: Mapping[str, Any], acting_for: str | None = None) -> dict[str, Any]:
        """Call a session tool as the operator, or for a session."""
        dispatch = await asyncio.to_thread(_load_dispatch)  # 60 ms of imports, once
        return await dispatch(self.gateway, Operator(acting_for), tool, arguments)

    def name_of(self, key: str) -> str:
        """Return the name of a session for the screen."""
        row = self.book.rows.get(key)
        return row.name if row is not None else clean_line(key_name(key, self.book.default_agent), 60)

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        return self.gateway.now_ms()

    async def _apply(self, event: Event) -> None:
        match event:
            case Gap():
                await self._resume()
            case MessageAppended(_, key, session_id, message):
                await self._append(key, session_id, message)
            case Delta(key):
                if (transcript := self.transcripts.get(key)) is not None:
                    transcript.apply_delta(event)
                    self._mark_transcript(key)
            case ToolProgress(key):
                if (transcript := self.transcripts.get(key)) is not None:
                    transcript.apply_tool(event, self.now_ms())
                    self._mark_transcript(key)
            case DeliveryChanged(_, delivery):
                self.deliveries.take([delivery])
                self._mark_deliveries()
                self._follow_announce(delivery)
            case ExchangeChanged(_, exchange):
                self._follow_exchange(exchange)
            case Configured(notice):
                self.configure()
                self.on_configured(notice)
            case _:
                await self._apply_row(event)

    async def _apply_row(self, event: Event) -> None:
        if isinstance(event, RunChanged):
            self._follow_run(event.run)
        if isinstance(event, SessionChanged):
            await self._follow_session(event.session)
        key = self.book.apply(event)
        if key is not None:
            self._dirty.rows.add(key)
            self._tell()

    def _follow_run(self, run: Run) -> None:
        if not run.live:
            self.rates.add(run)
        self.exchanges.take_run(run)
        if (transcript := self.transcripts.get(run.key)) is not None:
            transcript.take_run(run)
            if not run.live:
                transcript.run_ended(run.run_id)
            self._mark_transcript(run.key)

    def _follow_exchange(self, exchange: Exchange) -> None:
        sides = (exchange.requester, exchange.target)
        if any(self.book.is_below(key, self.transcripts) for key in sides) and self.exchanges.take(exchange):
            self._mark_exchange(exchange)

    def _follow_announce(self, delivery: Delivery) -> None:
        exchange = self.exchanges.get(delivery.exchange_id)
        if exchange is not None and self.exchanges.take_announce(delivery):
            self._mark_exchange(exchange)

    def _mark_exchange(self, exchange: Exchange) -> None:
        for key in (exchange.requester, exchange.target):
            if (transcript := self.transcripts.get(key)) is not None:
                transcript.touch(exchange)
                self._mark_transcript(key)
        self._dirty.exchanges = True
        self._tell()

    async def _read_exchanges(self, key: str) -> None:
        """Read the exchanges of a session and of those of its sub-agents that have some of their own."""
        await self.exchanges.read(self.gateway, key)
        for _, row in self.book.below(key):
            if self.book.children(row.session.key):
                await self.exchanges.read(self.gateway, row.session.key)

    async def _append(self, key: str, session_id: str, message: Message) -> None:
        transcript = self.transcripts.get(key)
        if transcript is None or transcript.session_id != session_id:
            return
        if not transcript.append(message) and message.seq > transcript.last:
            await self._catch_up(transcript, message.seq)
        self._mark_transcript(key)

    async def _catch_up(self, transcript: Transcript, last: int) -> None:
        """Fill the hole before a message that came too early."""
        while transcript.last < last:
            upto = min(transcript.last + PAGE, last)
            page = await self.gateway.history(
                transcript.key, ALL, limit=upto - transcript.last, before=upto + 1, in_brief=True
            )
            before = transcript.last
            for message in page.messages:
                transcript.append(message)
            if transcript.last == before:
                return

    async def _resume(self) -> None:
        """After a gap: what is under way is told again by the feed, what is stored too."""
        for transcript in self.transcripts.values():
            transcript.live = None
            transcript.version += 1
            self._mark_transcript(transcript.key)

    async def _follow_session(self, session: Session) -> None:
        """Start an open transcript anew when its session was reset, and fill a hole that its row tells of."""
        known = self.transcripts.get(session.key)
        if known is None:
            return
        if known.session_id != session.session_id:
            known = Transcript(session.key, session.session_id, session.first_seq, session.first_seq - 1)
            self.transcripts[session.key] = known
            self._mark_transcript(session.key)
        if session.last_seq > known.last:
            await self._catch_up(known, session.last_seq)
            self._mark_transcript(session.key)

    async def _fetch_all(self, transcript: Transcript) -> None:
        try:
            while (wanted := transcript.next_page()) is not None:
                await self._fetch(transcript, *wanted)
        except NotFound:
            return  # the session went away while somebody looked at it
        finally:
            self._fetching.discard(transcript.key)

    async def _fetch(self, transcript: Transcript, before: int, limit: int) -> None:
        page = await self.gateway.history(
            transcript.session_id, ALL, limit=limit, before=before, include_tools=True, in_brief=True
        )
        transcript.take_page(page.messages)
        self._mark_transcript(transcript.key)

    def _mark_deliveries(self) -> None:
        self._dirty.deliveries = True
        self._tell()

    def _mark_transcript(self, key: str) -> None:
        self._dirty.transcripts.add(key)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self.on_dirty()


def _load_dispatch() -> Callable[..., Awaitable[dict[str, Any]]]:
    from core.tools.dispatch import dispatch

    return dispatch


def _nobody_draws() -> None:
    """Stand in until there is a screen."""


def _nobody_reads(notice: str) -> None:
    """Stand in until there is a screen."""
    del notice
