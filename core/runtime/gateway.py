"""The bundled runtime as a gateway (DESIGN 4, 5): reads here; what runs and writes is in `core.runtime.work`, which is
only imported when this process takes the state directory over, after the first picture."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from core.gateway import Action, AgentInfo, Connection, ModelInfo
from core.model.access import Caller, Scope
from core.model.clock import Clock, SystemClock
from core.model.errors import Conflict, NotFound, Unavailable
from core.model.events import (
    Configured,
    Cursor,
    DeliveryChanged,
    Delta,
    DurableEvent,
    ExchangeChanged,
    RunChanged,
    SessionChanged,
)
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.keys import quoted
from core.model.runs import BUILTIN_MODEL, LIVE_STATES, Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import HistoryPage, SearchHit, Session, SessionPage, SessionPatch, SessionQuery
from core.rules.ruleset import RuleSet
from core.runtime.feed import Hub, RuntimeFeed
from core.store import deliveries, exchanges, jsonl, messages, runs, search, sessions
from core.store.database import Db, Store, data_version, explained, last_rev
from core.store.lock import Owner, OwnerLock, current_owner

if TYPE_CHECKING:
    from core.channels import Channels
    from core.config.settings import Settings
    from core.runtime.turn import Backends
    from core.runtime.work import Work

T = TypeVar("T")
FOLLOW_SECONDS: Final = 0.5
"""How often a process that only reads looks for changes of the owner."""
_log = logging.getLogger("switchboard.runtime")
INLINE_ROWS: Final = 200
"""Reads of up to that many rows run on the loop's own connection; longer ones on the reader thread."""


class Runtime:
    """A gateway over one state directory.

    `open` reads without locking anything and needs no configuration; `start` takes the directory over and runs work.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings: Settings | None = None
        self._hub = Hub(self._changed_since, self._reply_under_way)
        self._lock: OwnerLock | None = None
        self._work: Work | None = None
        self._ends: dict[str, list[asyncio.Future[bool]]] = {}
        self._files: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._notice = ""
        store.publish = self._publish

    @classmethod
    def open(cls, state: Path, clock: Clock | None = None) -> "Runtime":
        """Open a state directory for reading, creating it as needed.

        Raises:
            Unavailable: It cannot be used; the sentence says why.
        """
        return cls(Store.open(state, clock or SystemClock()))

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
        if self._following is not None:
            self._following.cancel()
        self.store.start_writer(sessions.finish)
        work = working_side(self, self._hub, backends, channels or {}, run_all=run_all, run_own=run_own)
        await work.recover()
        self._work = work
        work.begin()

    def follow_owner(self, settings: "Settings") -> None:
        """Show what the process that owns the directory does, by looking whether its database has changed."""
        self.settings = settings
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow_owner())

    def configure(self, settings: "Settings") -> None:
        """Take over new settings: for runs that begin from now on, and for every decision."""
        self.settings = settings
        if self._work is not None:
            self._work.configure()
        self._tell_configured("")

    def complain(self, notice: str) -> None:
        """Keep the settings, and tell why new ones cannot be used."""
        self._tell_configured(notice)

    def _tell_configured(self, notice: str) -> None:
        self._notice = notice
        self._hub.passing(Configured(notice))

    async def close(self) -> None:
        """Stop what is at work, write the last things, give the directory free."""
        if self._following is not None:
            self._following.cancel()
        if self._work is not None:
            await self._work.close()
            self._work = None
        for waiting in self._ends.values():
            self._wake(waiting, ended=False)
        if self._files:
            await asyncio.wait(self._files)
        self._hub.close()
        await asyncio.to_thread(self.store.close)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def owner(self) -> Owner | None:
        """Who owns the state directory, when it is another process."""
        return None if self._lock is not None else current_owner(self.store.directory)

    @property
    def active_runs(self) -> list[str]:
        """Ids of the runs at work in this process."""
        return self._work.engine.active if self._work is not None else []

    async def drained(self) -> None:
        """Wait until no run is at work here and none may start."""
        await self._require_work().drained()
        if self._files:
            await asyncio.wait(self._files)

    # What the port asks for: standing facts

    @property
    def rules(self) -> RuleSet:
        """The rules in force here; the defaults until there is a configuration."""
        return self.settings.rules if self.settings is not None else RuleSet()

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        if self._work is not None:
            return Connection("live", self._notice)
        owner = self.owner
        return Connection("reading", f"owned by {owner.words}: reading only" if owner else "reading only")

    def now_ms(self) -> int:
        """Return the time in ms since the Unix epoch."""
        return self.store.clock.now_ms()

    def refusal(self, action: Action) -> str | None:  # noqa: ARG002 - here one reason covers every action
        """Return why nothing can be changed here; None when it can."""
        return None if self._work is not None else self.connection.detail

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        global_scope = self.rules.global_scope

        def read(db: Db) -> SessionPage:
            return sessions.select(db, query, scope, global_scope=global_scope)

        return await self._read(read, inline=query.limit is not None and query.limit <= INLINE_ROWS)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id."""
        return await self._read(lambda db: _find(db, ref, scope))

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
        """Return the newest `limit` messages, or those before a `seq`, in order."""

        def read(db: Db) -> HistoryPage:
            session = _find(db, ref, scope)
            session_id = session.session_id if ref == session.key else ref
            return messages.page(
                db, session, session_id, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
            )

        return await self._read(read, inline=limit <= INLINE_ROWS and in_brief)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        global_scope = self.rules.global_scope
        clean = _load_redact() if redacted else None

        def read(db: Db) -> list[SearchHit]:
            return search.messages(db, text, scope, key=key, limit=limit, global_scope=global_scope, clean=clean)

        return await self.store.scan(read)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        default, agents = self.rules.default_agent, self._configured().agents
        found = [AgentInfo(a.agent_id, a.name, a.model, a.agent_id == default) for a in agents.values()]
        return sorted(found, key=lambda agent: (not agent.default, agent.agent_id))

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        known = [ModelInfo(model.ref, model.context_window) for model in self._configured().models.values()]
        return [*sorted(known, key=lambda model: model.ref), ModelInfo(BUILTIN_MODEL, None)]

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        session = await self.get_session(key, scope)
        return await self._read(lambda db: runs.of_session(db, session.key, limit=limit))

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, or will be after the next run."""
        return jsonl.transcript_path(self.store.directory, session.session_id)

    def subscribe(self, after: Cursor | None = None) -> RuntimeFeed:
        """Hear of every durable change from now on, or of everything since a cursor."""
        return self._hub.subscribe(last_rev(self.store.db), after)

    # Writes: the working side does them

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; when this returns, message and run are on disk."""
        return await self._require_work().start_run(request, caller)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        run = self._run(run_id)
        if run.live:
            ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._ends.setdefault(run_id, []).append(ended)
            await self._either(ended, timeout)
            if ended.done() and not ended.result():
                raise Unavailable(f"switchboard was closed before run {run_id} began: it goes on at the next start")
            run = self._run(run_id)
        return self._outcome(run)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids."""
        session = await self.get_session(ref, self.rules.grant(caller).scope)
        return await self._require_work().abort(session, ref, run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await self._require_work().patch(ref, patch, caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await self._require_work().reset(ref, caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await self._require_work().archive(ref, caller, archived=archived)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""

        def read(db: Db) -> tuple[Exchange, Delivery | None] | None:
            found = exchanges.by_id(db, exchange_id)
            return (found, deliveries.of_exchange(db, exchange_id)) if found is not None else None

        return await self._read(read)

    async def exchanges(self, key: str, *, limit: int) -> list[Exchange]:
        """Return the newest exchanges of a session, newest first."""
        return await self._read(lambda db: exchanges.of_session(db, key, limit=limit))

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        is_short = not states and limit <= INLINE_ROWS  # those in a state may be far apart
        return await self._read(lambda db: deliveries.newest(db, key=key, states=states, limit=limit), inline=is_short)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await self._require_work().retry_delivery(delivery_id, caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        return await self._require_work().drop_delivery(delivery_id, caller)

    # Inside

    def _configured(self) -> "Settings":
        if self.settings is None:
            raise Unavailable("the configuration has not been read yet")
        return self.settings

    def _require_work(self) -> "Work":
        """Return the working side, of the process that owns the state directory.

        Raises:
            Conflict: Another process owns it.
            Unavailable: This process has not taken it over.
        """
        if self._work is None:
            if (owner := self.owner) is not None:
                raise Conflict(f"the state directory {self.store.directory} is owned by {owner.words}: do it there")
            raise Unavailable("the state directory is open for reading only")
        return self._work

    async def _read(self, function: Callable[[Db], T], *, inline: bool = True) -> T:
        if not inline:
            return await self.store.scan(function)
        with explained(self.store.directory):
            return function(self.store.db)

    async def _either(self, ended: "asyncio.Future[bool]", timeout: float | None) -> None:  # noqa: ASYNC109
        """Wait for the end of a run or of the time, by the runtime's clock."""
        if timeout is None:
            await ended
            return
        sleep = asyncio.ensure_future(self.store.clock.sleep(timeout))
        try:
            await asyncio.wait([ended, sleep], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()

    def _run(self, run_id: str) -> Run:
        run = runs.by_id(self.store.db, run_id)
        if run is None:
            raise NotFound(f"no run has the id {quoted(run_id)}")
        return run

    def _outcome(self, run: Run) -> RunOutcome:
        if run.state in LIVE_STATES:
            words = "the wait ran out; the run goes on and its reply will be in sessions_history"
            return RunOutcome(run.run_id, run.key, "timeout", run.state, error=words)
        reply = messages.at(self.store.db, run.key, run.reply_seq) if run.reply_seq is not None else None
        text = reply.text if reply is not None else None
        if run.state == "done":
            return RunOutcome(run.run_id, run.key, "ok", run.state, reply=text or "")
        return RunOutcome(run.run_id, run.key, "error", run.state, reply=text, error=run.error)

    def _publish(self, events: Sequence[DurableEvent]) -> None:
        """Queue the runs that were accepted, see to those that ended, tell the subscribers."""
        for event in events:
            if self._work is not None:
                self._work.changed(event)
            if isinstance(event, RunChanged) and not event.run.live:
                self._ended(event.run)
        self._hub.publish(events)

    def _ended(self, run: Run) -> None:
        """Wake who waits for the run, bring the transcript's file up to date."""
        self._wake(self._ends.pop(run.run_id, []), ended=True)
        task = asyncio.get_running_loop().create_task(self._write_file(run.key, run.session_id))
        self._files.add(task)
        task.add_done_callback(self._files.discard)

    def _wake(self, waiting: "list[asyncio.Future[bool]]", *, ended: bool) -> None:
        """Tell who waits for a run whether it has ended, or the runtime has been closed before it did."""
        for future in waiting:
            if not future.done():
                future.set_result(ended)

    async def _follow_owner(self) -> None:
        cursor, seen = last_rev(self.store.db), data_version(self.store.db)
        while True:
            await self.store.clock.sleep(FOLLOW_SECONDS)
            if (version := data_version(self.store.db)) != seen:
                seen = version
                events = await self._changed_since(cursor, self._hub.all_watched())
                cursor = events[-1].rev if events else cursor
                self._hub.publish(events)

    async def _write_file(self, key: str, session_id: str) -> None:
        directory = self.store.directory
        try:
            await self.store.scan(lambda db: jsonl.append_new(db, directory, key, session_id))
        except (Unavailable, ValueError) as error:  # best effort: the database has it all
            _log.warning("the transcript file of %s was not written: %s", key, error)

    async def _changed_since(self, cursor: Cursor, watched: frozenset[str]) -> list[DurableEvent]:
        def read(db: Db) -> list[DurableEvent]:
            db.execute("BEGIN")
            try:
                events: list[DurableEvent] = [SessionChanged(s.rev, s) for s in sessions.changed_since(db, cursor)]
                events += [RunChanged(run.rev, run) for run in runs.changed_since(db, cursor)]
                events += [ExchangeChanged(each.rev, each) for each in exchanges.changed_since(db, cursor)]
                events += [DeliveryChanged(each.rev, each) for each in deliveries.changed_since(db, cursor)]
                for key in watched:
                    events += messages.since(db, key, cursor)
                return sorted(events, key=lambda event: event.rev)
            finally:
                db.execute("COMMIT")

        return await self.store.scan(read)

    def _reply_under_way(self, key: str) -> list[Delta]:
        return self._work.reply_under_way(key) if self._work is not None else []


def _load_working_side() -> "type[Work]":
    from core.runtime.work import Work

    return Work


def _load_redact() -> Callable[[str], str]:
    from core.rules.redact import redact

    return redact


def _find(db: Db, ref: str, scope: Scope) -> Session:
    session = sessions.by_key(db, ref, scope) or sessions.by_id(db, ref, scope)
    if session is None:
        raise NotFound(f"no session has the key or id {quoted(ref)}: `switchboard list` shows those there are")
    return session
