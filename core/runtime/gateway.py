"""The bundled runtime as a gateway (architecture#port, architecture#ownership): reads here; what runs and writes is in
`core.runtime.work`, which is only imported when this process takes the directory over, after the first picture."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from core.clock import Clock, SystemClock
from core.gateway import Action, AgentInfo, Gateway, ModelInfo, NativeTool, Overrides
from core.model.access import Caller, Scope
from core.model.connection import Connection
from core.model.errors import Conflict, Unavailable
from core.model.events import Configured, ConnectionChanged, Cursor, Delta, DurableEvent, MessageAppended, RunChanged
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.ids import new_id
from core.model.messages import Draft, Message
from core.model.runs import BUILTIN_MODEL, Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import HistoryPage, NewSession, SearchHit, Session, SessionPage, SessionPatch, SessionQuery
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet
from core.runtime.feed import EventHub, RuntimeFeed, Watched
from core.runtime.following import Following
from core.runtime.readiness import Readiness
from core.runtime.runs.waiters import Waiters
from core.runtime.transcript_files import TranscriptFiles
from core.store import changes, deliveries, exchanges, jsonl, messages, overrides, runs, search, sessions
from core.store.database import Db, Store, last_rev, store_id
from core.store.lock import Owner, OwnerLock, current_owner

if TYPE_CHECKING:
    from core.channels import Channels
    from core.config.settings import Settings
    from core.runtime.runs.turn import Backends
    from core.runtime.work import Work

T = TypeVar("T")
INLINE_ROWS: Final = 200
"""Reads of up to that many rows run on the loop's own connection; longer ones on the reader thread."""


class Runtime:
    """A gateway over one state directory.

    `open` reads without locking anything and needs no configuration; `start` takes the directory over and runs work.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings: Settings | None = None
        self._hub = EventHub(self._changed_since, self._reply_under_way)
        self._lock: OwnerLock | None = None
        self._work: Work | None = None
        self._waiters = Waiters(store)
        self._files = TranscriptFiles(store)
        self._following = Following(store, self._hub, self._catch_up, self._publish)
        self._looking: asyncio.Task[None] | None = None
        self._notice = ""
        self.readiness: Final = Readiness(store, lambda: self._hub.passing(ConnectionChanged(self.connection)))
        self._begun = asyncio.Event()
        self._begun.set()
        self._published: Cursor = store.read(last_rev)
        store.publish = self._publish

    @classmethod
    def open(cls, state: Path, clock: Clock | None = None) -> "Runtime":
        """Open a state directory for reading, creating it as needed.

        Raises:
            Unavailable: It cannot be used; the sentence says why.
        """
        store = Store.open(state, clock or SystemClock())
        try:
            return cls(store)
        except BaseException:
            store.close()
            raise

    def expect_start(self) -> None:
        """Let what is wanted here wait until `start`, `ask` or `follow_owner` is done, instead of refusing it."""
        if self._work is None and self._following.owner is None:
            self._begun.clear()

    def expect_no_start(self) -> None:
        """Do or refuse at once what is wanted from now on, and what has waited."""
        if not self._begun.is_set():
            self._begin()

    async def start(
        self,
        settings: "Settings",
        backends: "Backends",
        *,
        command: str,
        channels: "Channels | None" = None,
        run_all: bool = True,
        run_own: bool = True,
    ) -> None:
        """Take the state directory over, tidy up after a dead owner, and run work.

        Args:
            command: What this process is, for the sentence that others get: `console`, `send`, …
            channels: The configured channels besides webchat.
            run_all: Run every session's work; else only that of sessions this process sends to.
            run_own: With `run_all` False: run that; else only accept work and leave it queued.

        Raises:
            Conflict: Another process owns the directory; the sentence names it.
        """
        working_side = await asyncio.to_thread(_load_working_side)  # 40 ms of imports
        self.settings = settings
        self._lock = OwnerLock.acquire(self.store.directory, command, self.store.clock.now_ms())
        self._look_no_more()
        await self._catch_up()
        self.store.start_writer(sessions.finish)
        work = working_side(self, self._hub, backends, channels or {}, run_all=run_all, run_own=run_own)
        await work.recover()
        self._work = work
        self.readiness.begin()
        self._following.taken_over()
        self._begin()
        work.begin()
        self._files.begin()

    def follow_owner(self, settings: "Settings") -> None:
        """Show what the process that owns the directory does, by looking whether its database has changed."""
        self.settings = settings
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._following.look())
        self.expect_no_start()

    def ask(self, settings: "Settings", owner: Gateway) -> None:
        """Have this port of the process that owns the directory do what is wanted here; `hear` goes with it."""
        self.settings = settings
        self._look_no_more()
        self._following.ask(owner, self._published)
        self._begin()

    async def hear(self) -> None:
        """Publish what the owner tells of, until it has left; what is wanted then waits for who comes next."""
        try:
            await self._following.hear()
        finally:
            self.expect_start()
            self._hub.passing(ConnectionChanged(self.connection))

    def configure(self, settings: "Settings") -> None:
        """Take over new settings: for runs that begin from now on, and for every decision."""
        self.settings = settings
        if self._work is not None:
            self._work.configure()
        self.complain("")

    def complain(self, notice: str) -> None:
        """Keep the settings, and tell why new ones cannot be used; empty when they are in use."""
        self._notice = notice
        self._hub.passing(Configured(notice))

    async def close(self) -> None:
        """Stop what is at work, write the last things, give the directory free."""
        self._look_no_more()
        self.readiness.end()
        if self._work is not None:
            await self._work.close()
            self._work = None
        self._waiters.close()
        self._begun.set()
        await self._files.finish()
        self._hub.close()
        await self.store.aclose()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def owner(self) -> Owner | None:
        """Who owns the state directory, when it is another process."""
        return None if self._lock is not None else current_owner(self.store.directory)

    @property
    def owns(self) -> bool:
        """Whether this process owns the state directory."""
        return self._work is not None

    @property
    def active_runs(self) -> list[str]:
        """Ids of the runs at work in this process."""
        return self._work.engine.active if self._work is not None else []

    def hold(self) -> None:
        """Start no more runs here: what is queued waits for the next start."""
        if self._work is not None:
            self._work.hold()
            self._waiters.hold()

    async def drained(self) -> None:
        """Wait until no run is at work here and none may start."""
        if self._work is not None:
            await self._work.drained()
        await self._files.written()

    @property
    def store_id(self) -> str:
        """The uuid of the store; a cursor means something in the store that gave it only."""
        return self.store.read(store_id)

    @property
    def last_rev(self) -> Cursor:
        """The newest cursor there is; a higher one is not from here."""
        return self.store.read(last_rev)

    # What the port asks for: standing facts

    @property
    def rules(self) -> RuleSet:
        """The rules in force here; the defaults until there is a configuration."""
        if self._following.owner is not None:
            return self._following.owner.rules
        return self.settings.rules if self.settings is not None else RuleSet()

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        if (asked := self._following.owner) is not None:
            return Connection("live", asked.connection.detail or self._notice)
        if self._work is not None:
            return Connection("live", self.readiness.problem or self._notice)
        if not self._begun.is_set():
            return Connection("starting")
        owned = f"owned by {owner.words}, which does not answer: " if (owner := self.owner) else ""
        return Connection("reading", f"{owned}reading only")

    def now_ms(self) -> int:
        """Return the time in ms since the Unix epoch."""
        return self.store.clock.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:  # noqa: ARG002 - one reason covers all
        """Return why nothing can be changed here; None when it can."""
        connection = self.connection
        return connection.detail if connection.state == "reading" else None

    def unready(self) -> str | None:
        """Return why nothing can be accepted here now; None when all is well."""
        if self._following.owner is not None:
            return self._following.owner.unready()
        return self.refusal("send") or (self.readiness.now() if self._work is not None else None)

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session."""
        return self.rules.send_decision(session)

    def native_tool(self, name: str) -> NativeTool | None:  # noqa: ARG002 - the tools run over this port
        """Return None: every tool runs here."""
        return None

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        hidden = self._unlisted

        def read(db: Db) -> SessionPage:
            return sessions.select(db, query, scope, hidden=hidden)

        return await self._read(read, inline=query.limit is not None and query.limit <= INLINE_ROWS)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id."""
        return await self._read(lambda db: sessions.named(db, ref, scope))

    async def history(
        self,
        ref: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        include_tools: bool = True,
        in_brief: bool = False,
    ) -> HistoryPage:
        """Return the newest `limit` messages, or those before a `seq`, in order; fewer when they are long."""

        def read(db: Db) -> HistoryPage:
            session = sessions.named(db, ref, scope)
            session_id = session.session_id if ref == session.key else ref
            return messages.page(
                db, session, session_id, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
            )

        return await self._read(read, inline=limit <= INLINE_ROWS and in_brief)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        hidden = self._unlisted
        clean = _load_redact() if redacted else None

        def read(db: Db) -> list[SearchHit]:
            return search.messages(db, text, scope, key=key, limit=limit, hidden=hidden, clean=clean)

        return await self.store.scan(read)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        if self._following.owner is not None:
            return await self._following.owner.agents()
        default, agents = self.rules.default_agent, (await self._configured()).agents
        found = [AgentInfo(a.agent_id, a.name, a.model, a.agent_id == default) for a in agents.values()]
        return sorted(found, key=lambda agent: (not agent.default, agent.agent_id))

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        if self._following.owner is not None:
            return await self._following.owner.models()
        models = (await self._configured()).models.values()
        known = [ModelInfo(model.ref, model.context_window) for model in models]
        return [*sorted(known, key=lambda model: model.ref), ModelInfo(BUILTIN_MODEL, None)]

    async def overrides(self) -> Overrides:
        """Return the overrides of the send policy that wait for a session of their key."""
        return await self._read(overrides.waiting)

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        session = await self.get_session(key, scope)
        return await self._read(lambda db: runs.of_session(db, session.key, limit=limit))

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, or will be after the next run."""
        return jsonl.transcript_path(self.store.directory, session.session_id)

    def subscribe(self, after: Cursor | None = None) -> RuntimeFeed:
        """Hear of every durable change from now on, or of everything since a cursor."""
        return self._hub.subscribe(self.last_rev, after)

    # Writes: the working side does them

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; when this returns, message and run are on disk."""
        if self._work is not None:
            return await self._work.start_run(request, caller)
        request = replace(request, run_id=request.run_id or new_id())  # an owner that dies may have accepted it
        await self._begun.wait()
        asked = self._following.owner
        try:
            return await (await self._writer()).start_run(request, caller)
        except Unavailable:
            if not await self._following.changed_hands(asked):
                if asked is not None and self._following.owner is None:
                    await self._writer()  # says who it is that does not answer
                raise
            return await (await self._writer()).start_run(request, caller)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        return await self._waiters.wait(run_id, timeout)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids."""
        return await (await self._writer()).abort(ref, caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await (await self._writer()).patch(ref, patch, caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await (await self._writer()).reset(ref, caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await (await self._writer()).archive(ref, caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message; one that exists already is returned as it is."""
        return await (await self._writer()).create(new, caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await (await self._writer()).delete(ref, caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run; when this returns, it is on disk."""
        return await (await self._writer()).append(ref, draft, caller)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""

        def read(db: Db) -> tuple[Exchange, Delivery | None] | None:
            found = exchanges.by_id(db, exchange_id)
            return (found, deliveries.of_exchange(db, exchange_id)) if found is not None else None

        return await self._read(read)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first, each with the delivery of its announce."""

        def read(db: Db) -> list[tuple[Exchange, Delivery | None]]:
            found = exchanges.of_session(db, key, limit=limit)
            announces = deliveries.of_exchanges(db, [exchange.exchange_id for exchange in found])
            return [(exchange, announces.get(exchange.exchange_id)) for exchange in found]

        return await self._read(read)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        is_short = not states and limit <= INLINE_ROWS  # those in a state may be far apart
        return await self._read(lambda db: deliveries.newest(db, key=key, states=states, limit=limit), inline=is_short)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await (await self._writer()).retry_delivery(delivery_id, caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        return await (await self._writer()).drop_delivery(delivery_id, caller)

    # Inside

    def _begin(self) -> None:
        """Let go on what waited for a start, and tell how this gateway is reached now."""
        self._begun.set()
        self._hub.passing(ConnectionChanged(self.connection))

    @property
    def _unlisted(self) -> tuple[str, ...]:
        """The sessions that lists leave out; before the configuration is read, nobody knows which `main` is meant."""
        known = self.settings is not None or self._following.owner is not None
        return self.rules.unlisted if known else ("unknown",)

    async def _configured(self) -> "Settings":
        await self._begun.wait()
        if self.settings is None:
            raise Unavailable("the configuration has not been read yet")
        return self.settings

    async def _writer(self) -> "Work | Gateway":
        """Return who writes: the working side of this process, or the process that owns the state directory.

        Raises:
            Conflict: Another process owns it and does not answer.
            Unavailable: This process has not taken it over.
        """
        await self._begun.wait()
        writer = self._work or self._following.owner
        if writer is None:
            if (owner := self.owner) is not None:
                raise Conflict(f"{self.store.directory} is owned by {owner.words}, which does not answer: do it there")
            raise Unavailable("the state directory is open for reading only")
        return writer

    async def _read(self, function: Callable[[Db], T], *, inline: bool = True) -> T:
        return self.store.read(function) if inline else await self.store.scan(function)

    def _publish(self, events: Sequence[DurableEvent]) -> None:
        """Queue the runs that were accepted, see to those that ended, tell the subscribers."""
        for event in events:
            if self._work is not None:
                self._work.changed(event)
            if isinstance(event, MessageAppended) and self._lock is not None:
                self._files.note(event.key, event.session_id)
            if isinstance(event, RunChanged) and not event.run.live:
                self._waiters.ended(event.run.run_id)
                if self._lock is not None:
                    self._files.bring_up_to_date(event.run.key, event.run.session_id)
        self._hub.publish(events)
        if events:
            self._published = max(self._published, events[-1].rev)

    def _look_no_more(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _catch_up(self) -> None:
        """Publish what another process has stored."""
        self._publish(await self._changed_since(self._published, self._hub.all_watched()))

    async def _changed_since(self, cursor: Cursor, watched: Watched) -> list[DurableEvent]:
        return await self.store.scan(lambda db: changes.since(db, cursor, watched))

    def _reply_under_way(self, key: str | None) -> list[Delta]:
        self._following.want(key)
        return self._work.reply_under_way(key) if self._work is not None else []


def _load_working_side() -> "type[Work]":
    from core.runtime.work import Work

    return Work


def _load_redact() -> Callable[[str], str]:
    from core.rules.redact import redact

    return redact
