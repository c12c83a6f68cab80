"""The bundled runtime as a gateway (architecture#port, architecture#ownership).

What reads is in `core.runtime.reading`. What runs and writes is in `core.runtime.work`, which is only imported when
this process takes the directory over, after the first picture. Another owner is asked by `core.runtime.following`.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from core.clock import Clock, SystemClock
from core.delegating import DelegatingGateway
from core.gateway import Action, Gateway, NativeTool, Reads, Writes
from core.model.access import Caller
from core.model.connection import Connection
from core.model.errors import Conflict, Unavailable
from core.model.events import Configured, ConnectionChanged, Cursor, Delta, DurableEvent, MessageAppended, RunChanged
from core.model.ids import new_id
from core.model.runs import RunRequest, RunTicket
from core.model.sessions import Session
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet
from core.runtime.feed import CatchUp, EventHub, RuntimeFeed
from core.runtime.following import Following
from core.runtime.readiness import Readiness
from core.runtime.reading import Reading
from core.runtime.runs.waiters import Waiters
from core.runtime.transcript_files import TranscriptFiles
from core.store import changes, sessions
from core.store.database import Store, last_rev, store_id
from core.store.lock import Owner, OwnerLock, current_owner

if TYPE_CHECKING:
    from core.channels import Channels
    from core.config.settings import Settings
    from core.runtime.runs.turn import Backends, Turns
    from core.runtime.work import Work


class Runtime(DelegatingGateway):
    """A gateway over one state directory.

    `open` reads without locking anything and needs no configuration; `start` takes the directory over and runs work.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings: Settings | None = None
        self.hub = EventHub(_changed_since(store), self.reply_under_way, store.read(last_rev))
        self._lock: OwnerLock | None = None
        self._work: Work | None = None
        self._waiters = Waiters(store)
        self._files = TranscriptFiles(store)
        self._following = Following(store, self.hub, self._publish)
        self._tell = lambda: self.hub.passing(ConnectionChanged(self.connection))
        self._start_over = asyncio.Event()
        self._start_over.set()
        self._reading = Reading(store, self._waiters, self._following, self._start_over, lambda: self.settings)
        self._notice = ""
        self.readiness: Final = Readiness(store, self._tell)
        store.publish = self._publish

    @classmethod
    def open(cls, state: Path, clock: Clock | None = None) -> Self:
        """Open a state directory for reading, creating it as needed; `Unavailable` says why it cannot be used."""
        with contextlib.ExitStack() as undo:
            store = undo.enter_context(contextlib.closing(Store.open(state, clock or SystemClock())))
            runtime = cls(store)
            undo.pop_all()
        return runtime

    def expect_start(self) -> None:
        """Let what is wanted here wait until `start`, `ask` or `follow_owner` is done, instead of refusing it."""
        if self._work is None and self._following.owner is None:
            self._start_over.clear()

    def expect_no_start(self) -> None:
        """Do or refuse at once what is wanted from now on, and what has waited."""
        if not self._start_over.is_set():
            self._start_over.set()
            self._tell()

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
        turns_type, work_type = await asyncio.to_thread(_load_working_side)  # 40 ms of imports
        self.settings = settings
        self._lock = OwnerLock.acquire(self.store.directory, command, self.store.clock.now_ms())
        self._following.look_no_more()
        await self._following.catch_up()
        self.store.start_writer(sessions.finish)

        def settings_now() -> "Settings":
            assert self.settings is not None, "a runtime works with a configuration only"
            return self.settings

        turns = turns_type(self.store, self.hub, self, backends)
        work = work_type(self.store, settings_now, turns, channels or {}, run_all=run_all, run_own=run_own)
        await work.recover()
        self._work = work
        self.readiness.begin()
        self._following.taken_over()
        self._start_over.set()
        self._tell()
        work.begin()
        self._files.begin()

    def follow_owner(self, settings: "Settings") -> None:
        """Show what the process that owns the directory does, by looking whether its database has changed."""
        self.settings = settings
        self._following.look()
        self.expect_no_start()

    def ask(self, settings: "Settings", owner: Gateway) -> None:
        """Have this port of the process that owns the directory do what is wanted here; `hear` goes with it."""
        self.settings = settings
        self._following.look_no_more()
        self._following.ask(owner)
        self._start_over.set()
        self._tell()

    async def hear(self) -> None:
        """Publish what the owner tells of, until it has left; what is wanted then waits for who comes next."""
        try:
            await self._following.hear()
        finally:
            self.expect_start()
            self._tell()

    def configure(self, settings: "Settings") -> None:
        """Take over new settings: for runs that begin from now on, and for every decision."""
        self.settings = settings
        if self._work is not None:
            self._work.configure()
        self.complain("")

    def complain(self, notice: str) -> None:
        """Keep the settings, and tell why new ones cannot be used; empty when they are in use."""
        self._notice = notice
        self.hub.passing(Configured(notice))

    async def close(self) -> None:
        """Stop what is at work, write the last things, give the directory free."""
        self._following.look_no_more()
        self.readiness.end()
        if self._work is not None:
            await self._work.close()
            self._work = None
        self._waiters.close()
        self._start_over.set()
        await self._files.finish()
        self.hub.close()
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
            self._work.engine.hold()
            self._waiters.hold()

    async def drained(self) -> None:
        """Wait until no run is at work here and none may start."""
        if self._work is not None:
            await self._work.engine.drained()
            await self._work.outbox.idle()
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
        return self._reading.rules

    @property
    def connection(self) -> Connection:
        if (asked := self._following.owner) is not None:
            return Connection("live", asked.connection.detail or self._notice)
        if self._work is not None:
            return Connection("live", self.readiness.problem or self._notice)
        if not self._start_over.is_set():
            return Connection("starting")
        owned = f"owned by {owner.words}, which does not answer: " if (owner := self.owner) else ""
        return Connection("reading", f"{owned}reading only")

    def now_ms(self) -> int:
        return self.store.clock.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:  # noqa: ARG002 - one reason covers all
        connection = self.connection
        return connection.detail if connection.state == "reading" else None

    def unready(self) -> str | None:
        if self._following.owner is not None:
            return self._following.owner.unready()
        return self.refusal("send") or (self.readiness.now() if self._work is not None else None)

    def policy_of(self, session: Session) -> PolicyDecision | None:
        return self.rules.send_decision(session)

    def native_tool(self, name: str) -> NativeTool | None:  # noqa: ARG002 - the tools run over this port
        return None

    def subscribe(self, after: Cursor | None = None) -> RuntimeFeed:
        return self.hub.subscribe(self.last_rev, after)

    # Reads and writes

    async def _reads(self, ref: str | None) -> Reads:  # noqa: ARG002 - they are all of one store
        return self._reading

    async def _writes(self, ref: str | None = None) -> Writes:  # noqa: ARG002 - they are all of one store
        """Return who writes: the working side of this process, or the process that owns the state directory.

        `Conflict` when another owns it and does not answer, `Unavailable` when this process has not taken it over.
        """
        await self._start_over.wait()
        writer = self._work or self._following.owner
        if writer is None:
            if (owner := self.owner) is not None:
                raise Conflict(f"{self.store.directory} is owned by {owner.words}, which does not answer: do it there")
            raise Unavailable("the state directory is open for reading only")
        return writer

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        if self._work is not None:
            return await self._work.start_run(request, caller)
        request = replace(request, run_id=request.run_id or new_id())  # an owner that dies may have accepted it
        await self._start_over.wait()
        asked = self._following.owner
        try:
            return await (await self._writes()).start_run(request, caller)
        except Unavailable:
            if not await self._following.changed_hands(asked):
                if asked is not None and self._following.owner is None:
                    await self._writes()  # says who it is that does not answer
                raise
            return await (await self._writes()).start_run(request, caller)

    # Inside

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
        self.hub.publish(events)

    def reply_under_way(self, key: str | None) -> list[Delta]:
        """Return what is said so far in a session, or in every session for None, and is not a message yet."""
        self._following.want(key)
        return self._work.reply_under_way(key) if self._work is not None else []


def _load_working_side() -> "tuple[type[Turns], type[Work]]":
    from core.runtime.runs.turn import Turns
    from core.runtime.work import Work

    return Turns, Work


def _changed_since(store: Store) -> CatchUp:
    return lambda cursor, watched: store.scan(lambda db: changes.since(db, cursor, watched))
