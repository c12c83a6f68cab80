"""The console and its gateways: the book, the open transcripts, and the one stream of events that keeps them true.

Plain asyncio. Whoever draws is told at most once per batch that something changed, and takes the changes from here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from console.live.book import Book
from console.live.changes import Changes
from console.live.deliveries import Deliveries
from console.live.exchanges import Exchanges
from console.live.memory import Memory
from console.live.rates import Rates
from console.live.subject import waiting_overrides
from console.live.text.clean import clean_line
from console.live.text.words import LOCAL, key_name
from console.live.transcript import PAGE, Transcript
from core.clock import SystemClock
from core.gateway import Feed, Gateway
from core.model.access import ALL, Operator
from core.model.connection import REACHED, Connection
from core.model.errors import NotFound, SwitchboardError, Unavailable
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
from core.model.exchanges import Delivery, Exchange
from core.model.keys import joined, split
from core.model.messages import Message
from core.model.paging import forwards
from core.model.runs import Run
from core.model.sessions import HistoryPage, Override, Session, SessionQuery
from core.multi import MultiGateway

RUNS: Final = 200
"""How many runs of a session are read when it is opened, to know which messages are steps of exchanges."""


class ViewModel:
    """What the operator works with.

    Attributes:
        on_dirty: Called once when something changed after `take_changes`.
        gateway: All gateways whose sessions are shown.
        on_configured: Called when the configuration here was read again, with what is wrong with it or nothing.
        wall_ms: The time here in ms since the Unix epoch, which is not that of every gateway.
        transcripts: The open ones, by key.
        exchanges: Those of the open sessions and of the sub-agents below them.
    """

    def __init__(self, gateway: Gateway, memory: Memory) -> None:
        self.gateway = gateway if isinstance(gateway, MultiGateway) else MultiGateway({"": gateway})
        self.memory = memory
        self.book = Book(self.gateway.policy_of)
        self.deliveries = Deliveries()
        self.rates = Rates()
        self.exchanges = Exchanges()
        self.transcripts: dict[str, Transcript] = {}
        self.on_changes: Callable[[], None] = lambda: None
        self.on_configured: Callable[[str], None] = lambda _: None
        self.wall_ms: Callable[[], int] = SystemClock().now_ms
        self._changes = Changes()
        self._told = False
        self._void: set[str] = set()
        self._lost: dict[str, Connection] = {}
        self._reloads: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, int] = {}
        self._feed: Feed | None = None
        self.overrides: dict[str, Override] = {}
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
        self._note_connections()
        reached = self.gateway.reached()
        page = await self.gateway.list_sessions(SessionQuery(archived=None), ALL)
        self.book.listed = reached
        self.overrides = await waiting_overrides(self.gateway)
        self.book.load(page.sessions, self.memory.seen)
        self.exchanges.clear()
        for key in list(self.transcripts):
            await self._read_exchanges(key)
        self._changes.all = True
        self._tell()

    async def load_deliveries(self) -> None:
        """Read what was announced; what is heard meanwhile is kept."""
        await self.deliveries.load(self.gateway)
        self._mark_deliveries()

    def configure(self) -> None:
        """Take over the gateway's rules."""
        gateway = self.gateway
        agents = {name: gateway.rules_of(joined(name, "")).default_agent for name in gateway.names}
        self.book.configure(self.main_key, agents)
        for name in gateway.names:  # the list may have been read before anybody knew which they are
            for key in gateway.rules_of(joined(name, "")).unlisted:
                self.book.remove(joined(name, key))
        self._changes.all = True
        self._tell()

    async def follow(self) -> None:
        """Apply events until the gateway closes."""
        assert self._feed is not None, "sessions are loaded before events are followed"
        async for event in self._feed:
            try:
                await self._apply(event)
            except SwitchboardError:
                continue  # of a session that was deleted, or a gateway that was lost: what follows tells of it

    def take_changes(self) -> Changes:
        """Return what changed since the last call."""
        changes, self._changes, self._told = self._changes, Changes(), False
        return changes

    async def open(self, key: str) -> Transcript:
        """Open a session's transcript at its end and keep it live.

        Raises:
            NotFound: The session is not there any more.
            Unavailable: Its gateway is not reached.
        """
        known = self.transcripts.get(key)
        if known is not None:
            known.look_again()
            return known
        self._check_reached(key)
        if self._feed is not None:
            self._feed.watch(key)
        try:
            return await self._read_transcript(key)
        except BaseException:
            self.close(key)  # one that was cut off is not open
            raise

    def close(self, key: str) -> None:
        """Give an open transcript up."""
        self.transcripts.pop(key, None)
        if self._feed is not None:
            self._feed.unwatch(key)

    def fetch_wanted(self, transcript: Transcript) -> None:
        """Start reading the pages that somebody looked for and did not find."""
        if transcript.key in self._fetching or not transcript.wanted:
            return
        self._fetching.add(transcript.key)
        self._keep(asyncio.get_running_loop().create_task(self._fetch_all(transcript)))

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
        return row.name if row is not None else clean_line(key_name(key, self.book.default_agent(key)), 60)

    def place_of(self, key: str) -> str:
        """Return the gateway of a key for the screen: `@prod`; empty while there is only one."""
        return f"@{self.gateway.owner(key) or LOCAL}" if len(self.gateway.names) > 1 else ""

    @property
    def main_key(self) -> str:
        """The session that is meant where none is named."""
        return joined(self.gateway.home, self.gateway.rules.main_key)

    def now_ms(self, key: str = "") -> int:
        """Return the time of the gateway of a key, in ms since the Unix epoch; of one that was lost, when that was."""
        gateway = self.gateway.of(key)
        silent = self.silent_ms(key)
        return gateway.now_ms() - (silent or 0)

    def silent_ms(self, key: str) -> int | None:
        """Return for how many ms nothing was heard of the gateway of a key; None while it is reached."""
        connection = self._lost.get(split(key)[0])
        if connection is None:
            return None
        return max(0, self.wall_ms() - connection.heard_at) if connection.heard_at is not None else 0

    def unseen(self) -> dict[str, int]:
        """Return up to where sessions with something new were looked at, also those of gateways that are not shown."""
        shown = set(self.gateway.names) - self._void
        others = {key: seq for key, seq in self.memory.seen.items() if split(key)[0] not in shown}
        return others | self.book.unseen()

    def _note_connections(self) -> None:
        """Note which gateways are not reached: every row asks for that."""
        self._lost = {each.name: each for each in self.gateway.connections() if each.state not in REACHED}
        self._changes.connections = True

    def _check_reached(self, key: str) -> None:
        connection = self.gateway.reach(key)
        if connection.state not in REACHED:
            name = connection.name or LOCAL
            raise Unavailable(f"{name} is not connected: what was not read yet can be read when it is")

    async def _apply(self, event: Event) -> None:
        match event:
            case Gap(gateway):
                self._resume(gateway)
            case MessageAppended(_, key, session_id, message):
                await self._append(key, session_id, message)
            case Delta(key):
                if (transcript := self.transcripts.get(key)) is not None:
                    transcript.apply_delta(event)
                    self._mark_transcript(key)
            case ToolProgress(key):
                if (transcript := self.transcripts.get(key)) is not None:
                    transcript.apply_tool(event, self.now_ms(key))
                    self._mark_transcript(key)
            case DeliveryChanged(_, delivery):
                self.deliveries.take([delivery])
                self._mark_deliveries()
                self._follow_announce(delivery)
            case ExchangeChanged(_, exchange):
                self._follow_exchange(exchange)
            case SessionGone(_, key):
                self._forget(key)
            case Reloaded() | ConnectionChanged() | Configured():
                self._apply_news(event)
            case _:
                await self._apply_row(event)

    def _apply_news(self, event: Reloaded | ConnectionChanged | Configured) -> None:
        """Take in what concerns a gateway as a whole."""
        match event:
            case Reloaded(name):
                self._note_connections()
                self._reload_soon(name)
            case ConnectionChanged(connection):
                self._note_connections()
                if connection.name in self._void and connection.state in REACHED:
                    self._reload_soon(connection.name)
                self._tell()
            case Configured(notice, name):
                self.configure()
                if name == "":
                    self.on_configured(notice)

    def _forget(self, key: str) -> None:
        """Take out a session that was deleted."""
        self.close(key)
        if self.book.remove(key):
            self._changes.rows.discard(key)
            self._changes.gone.add(key)
            self._tell()

    def _reload_soon(self, name: str) -> None:
        """Read everything of a gateway again: what was known is void. It may take its time, and nobody waits for it."""
        if (task := self._reloads.pop(name, None)) is not None:
            task.cancel()
        if self.gateway.member(name) is None:
            self._drop(name)
            return
        self._void.add(name)
        self.book.void(name)
        task = self._reloads[name] = asyncio.get_running_loop().create_task(self._reload(name))
        self._keep(task)

    async def _reload(self, name: str) -> None:
        gateway = self.gateway.member(name)
        if gateway is None or gateway.connection.state not in REACHED:
            return  # it tells when it is reached
        try:
            page = await gateway.list_sessions(SessionQuery(archived=None), ALL)
            self.configure()
            self.book.load_one(name, page.sessions, self.memory.seen)
            self.exchanges.forget(name)
            self.deliveries.forget(name)
            self._void.discard(name)
            self._changes.all = self._changes.deliveries = True
            self._tell()
            await self._read_opened(name)
            await self.deliveries.load(gateway)
            self._mark_deliveries()
        except SwitchboardError:
            return  # not allowed, or lost again: its connection says so

    async def _read_opened(self, name: str) -> None:
        """Read the open transcripts of a gateway again."""
        for key in [key for key in self.transcripts if split(key)[0] == name]:
            try:
                await self._read_transcript(key)
                self._mark_transcript(key)
            except NotFound:
                self.close(key)
            except SwitchboardError as error:
                self._refuse(self.transcripts[key], self.transcripts[key].first, error)

    def _drop(self, name: str) -> None:
        """Take a gateway out that is not shown any more; what was looked at is remembered."""
        self.memory.seen = self.unseen()
        self._void.discard(name)
        for key in [key for key in self.transcripts if split(key)[0] == name]:
            self.close(key)
        for key in self.book.of(name):
            self.book.remove(key)
        self.exchanges.forget(name)
        self.deliveries.forget(name)
        self.configure()

    async def _apply_row(self, event: Event) -> None:
        if isinstance(event, RunChanged):
            self._follow_run(event.run)
        if isinstance(event, SessionChanged):
            await self._follow_session(event.session)
        key = self.book.apply(event)
        if key is not None:
            self._changes.rows.add(key)
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
        self._changes.exchanges = True
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
        """Fill the hole before a message that came too early; from elsewhere, without keeping other events waiting."""
        key = transcript.key
        if not split(key)[0]:
            await self._fill(transcript, last)
            return
        is_filling = key in self._ends
        self._ends[key] = max(last, self._ends.get(key, 0))
        if not is_filling:
            self._keep(asyncio.get_running_loop().create_task(self._fill_soon(transcript)))

    async def _fill_soon(self, transcript: Transcript) -> None:
        try:
            while transcript.last < (last := self._ends[transcript.key]):
                before = transcript.last
                await self._fill(transcript, last)
                if transcript.last == before:
                    return
        finally:
            self._ends.pop(transcript.key, None)
            self._mark_transcript(transcript.key)

    async def _fill(self, transcript: Transcript, last: int) -> None:
        async def read(limit: int, before: int) -> HistoryPage:
            return await self.gateway.history(transcript.key, ALL, limit=limit, before=before, in_brief=True)

        try:
            async for messages, _ in forwards(read, transcript.last, last, PAGE):
                before = transcript.last
                for message in messages:
                    transcript.append(message)
                if transcript.last == before:
                    return
        except NotFound:
            return  # it was deleted: what follows tells of it
        except SwitchboardError as error:
            self._refuse(transcript, transcript.last + 1, error, last)

    def _resume(self, gateway: str) -> None:
        """After a gap: what is under way is told again by the feed, what is stored too."""
        for transcript in self.transcripts.values():
            if split(transcript.key)[0] == gateway:
                transcript.live = None
                transcript.look_again()
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

    async def _read_transcript(self, key: str) -> Transcript:
        """Read a session's transcript from its end."""
        session = await self.gateway.get_session(key, ALL)
        transcript = self.transcripts[key] = Transcript(key, session.session_id, session.first_seq, session.last_seq)
        await self._read_exchanges(key)
        for run in reversed(await self.gateway.runs(key, ALL, limit=RUNS)):
            transcript.take_run(run)
        if session.last_seq >= session.first_seq:
            await self._fetch(transcript, session.last_seq + 1, PAGE)
        return transcript

    async def _fetch_all(self, transcript: Transcript) -> None:
        try:
            while (wanted := transcript.next_page()) is not None:
                before, limit = wanted
                try:
                    self._check_reached(transcript.key)
                    await self._fetch(transcript, before, limit)
                except SwitchboardError as error:
                    self._refuse(transcript, before - limit, error, before - 1)
        finally:
            self._fetching.discard(transcript.key)

    def _refuse(self, transcript: Transcript, first: int, error: SwitchboardError, last: int | None = None) -> None:
        """Show in the place of messages why they could not be read."""
        transcript.refuse(first, transcript.last if last is None else last, error.message)
        self._mark_transcript(transcript.key)

    async def _fetch(self, transcript: Transcript, before: int, limit: int) -> None:
        first, wanted = before - limit, before
        while wanted > first:  # a page ends sooner where messages are long
            page = await self.gateway.history(
                transcript.session_id, ALL, limit=wanted - first, before=wanted, include_tools=True, in_brief=True
            )
            transcript.take_page(page.messages)
            self._mark_transcript(transcript.key)
            wanted = page.before or first

    def _keep(self, task: "asyncio.Task[None]") -> None:
        """Hold on to a task until it is over."""
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    def _mark_deliveries(self) -> None:
        self._changes.deliveries = True
        self._tell()

    def _mark_transcript(self, key: str) -> None:
        self._changes.transcripts.add(key)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self.on_changes()


def _load_dispatch() -> Callable[..., Awaitable[dict[str, Any]]]:
    from core.tools.dispatch import dispatch

    return dispatch
