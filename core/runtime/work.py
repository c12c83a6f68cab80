"""The working side of a runtime: accepts messages, carries out commands, changes sessions, and runs the engine."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.config.settings import Settings
from core.model.access import Caller, Operator
from core.model.commands import Command, parse_command
from core.model.errors import Forbidden
from core.model.events import Delta
from core.model.runs import Run, RunRequest, RunTicket, SpawnSpec
from core.model.sessions import Session, SessionPatch
from core.runtime import commands, intake
from core.runtime.engine import Engine
from core.runtime.feed import Hub
from core.runtime.recovery import recover
from core.runtime.turn import Backends, Turns
from core.store import messages, runs, sessions
from core.store.database import Tx

if TYPE_CHECKING:
    from core.runtime.gateway import Runtime


class Work:
    """What the process that owns a state directory can do.

    Args:
        run_all: Run every session's work; else only that of sessions this process sends to.
        run_own: With `run_all` False: run that; else only accept work and leave it queued.
    """

    def __init__(self, runtime: "Runtime", hub: Hub, backends: Backends, *, run_all: bool, run_own: bool) -> None:
        self._runtime = runtime
        self._store = runtime.store
        self._run_own = run_own
        self._turns = Turns(runtime.store, hub, runtime, backends)
        self.engine = Engine(runtime.store, self._turns, lambda: self._settings, open_all=run_all)

    async def recover(self) -> None:
        """Tidy up after a dead owner, and queue again what it left queued."""
        for run in await self._store.write(lambda tx: recover(tx, self._store.directory)):
            self.engine.add(run)

    def reply_under_way(self, key: str) -> list[Delta]:
        """Return what a running reply has said so far."""
        live = self._turns.live.get(key)
        return list(live.so_far()) if live is not None else []

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; when this returns, message and run are on disk."""
        intake.check_message(request.message)
        command = None if request.spawn is not None else parse_command(request.message)
        if command is not None:
            return await self._command(request, command, caller)
        settings = self._settings
        accepted = await self._store.write(lambda tx: intake.accept(tx, request, caller, settings))
        if accepted.fresh and self._run_own:
            self.engine.open(accepted.run.key)
        run = accepted.run
        return RunTicket(run.run_id, run.key, run.session_id, run.state, created=accepted.created)

    async def abort(self, session: Session, ref: str, run_id: str | None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids."""
        intake.check_current(session, ref)
        return await self.engine.abort(session.key, run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        settings = self._settings
        return await self._change(ref, caller, lambda tx, session: commands.patch(tx, session, patch, settings))

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give a session an empty transcript."""
        return await self._change(ref, caller, commands.reset)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await self._change(
            ref, caller, lambda tx, session: sessions.update(tx, session.key, archived_at=tx.now if archived else None)
        )

    @property
    def _settings(self) -> Settings:
        settings = self._runtime.settings
        assert settings is not None, "a runtime works with a configuration only"
        return settings

    async def _change(self, ref: str, caller: Caller, change: Callable[[Tx, Session], None]) -> Session:
        """Run a change of one session that only the owner may make."""
        if not isinstance(caller, Operator):
            raise Forbidden("only the owner can change a session's settings", ("owner",))
        settings = self._settings

        def write(tx: Tx) -> Session:
            session = intake.current(tx, ref, caller, settings)
            change(tx, session)
            changed = sessions.by_key(tx.db, session.key)
            return changed or session

        return await self._store.write(write)

    async def _command(self, request: RunRequest, command: Command, caller: Caller) -> RunTicket:
        """Carry out a slash command; the same run id does it once."""
        commands.check_owner(command, caller)
        settings = self._settings
        if request.run_id is not None and command.name != "spawn":
            done = runs.same_request(self._store.db, request.run_id, runs.fingerprint(request))
            if done is not None:
                return RunTicket(done.run_id, done.key, done.session_id, done.state, reply=self._answer(done, command))
        session = await self._store.write(lambda tx: intake.for_command(tx, request, caller, settings))
        if command.name == "spawn":
            spec = SpawnSpec(session.key, session.agent_id)
            return await self.start_run(RunRequest("", command.argument, request.run_id, spawn=spec), caller)
        stopped = await self.engine.abort(session.key, None) if command.name == "abort" else []

        def write(tx: Tx) -> tuple[Run, str]:
            now = intake.current(tx, session.session_id, caller, settings)
            if command.name == "abort":
                answer = f"stopped {len(stopped)} run{'s' if len(stopped) != 1 else ''}"
            else:
                answer = commands.carry_out(tx, now, command, settings)
            return commands.record(tx, request, now, command, answer, intake.requester_of(caller)), answer

        run, answer = await self._store.write(write)
        return RunTicket(run.run_id, run.key, run.session_id, run.state, reply=answer)

    def _answer(self, run: Run, command: Command) -> str:
        """Return what a command answered when it was done."""
        note = messages.at(self._store.db, run.key, run.input_seq)
        return note.text.removeprefix(f"{command.written}: ") if note is not None else ""
