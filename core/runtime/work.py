"""The working side of a runtime: accepts messages, carries out commands, changes sessions, and runs the engine."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from core.channels import Channels
from core.config.settings import AgentSettings, Settings
from core.model.access import Caller
from core.model.commands import Command
from core.model.errors import Conflict, NotFound, SwitchboardError
from core.model.events import DeliveryChanged, Delta, DurableEvent, ExchangeChanged, RunChanged
from core.model.exchanges import RETRYABLE, Delivery, DeliveryState
from core.model.ids import new_id
from core.model.keys import parse, quoted
from core.model.messages import Draft, Message
from core.model.runs import Run, RunRequest, RunTicket, SpawnSpec
from core.model.sessions import NewSession, Session, SessionPatch
from core.runtime import acceptance, attachments, commands, lifecycle
from core.runtime.authority import require_operator, require_owner
from core.runtime.exchanges.outbox import Outbox
from core.runtime.runs.engine import Engine
from core.runtime.runs.recovery import recover
from core.runtime.runs.turn import Turns
from core.runtime.sweep import Sweep
from core.store import deliveries, jsonl, messages, sessions
from core.store.database import Store, Tx


class Work:
    """What the process that owns a state directory can do; see `core.gateway.Writes`.

    Args:
        settings: Returns those in force.
        run_all: Run every session's work; else only that of sessions this process sends to.
        run_own: With `run_all` False: run that; else only accept work and leave it queued.
    """

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        turns: Turns,
        channels: Channels,
        *,
        run_all: bool,
        run_own: bool,
    ) -> None:
        self._store = store
        self._settings = settings
        self._turns = turns
        self._run_own = run_own
        self._runs_here = run_all or run_own
        self._sweep = Sweep(store, settings)
        self.outbox = Outbox(store, channels, settings)
        self.engine = Engine(store, turns, settings, open_all=run_all)

    async def recover(self) -> None:
        """Tidy up after a dead owner, and queue again what it left queued."""
        settings = self._settings()
        for run in await self._store.write(lambda tx: recover(tx, settings)):
            self.engine.add(run)
        for workspace in {self._workspace(agent) for agent in settings.agents.values()}:
            if workspace.is_dir():
                await self._store.scan(
                    lambda db, workspace=workspace: attachments.sweep(
                        workspace, lambda name: sessions.is_child(db, name)
                    )
                )

    def begin(self) -> None:
        """Take up what the last owner left, once everything changed is heard of."""
        if self._runs_here:
            self.outbox.look()
            self._sweep.look()

    def configure(self) -> None:
        """Take over what the settings say of work that is at hand."""
        self.engine.configure()
        if self._runs_here:
            self._sweep.configure()

    def changed(self, event: DurableEvent) -> None:
        """Start what a committed change asks for; here, so that it starts even when nobody waits for it any more."""
        match event:
            case RunChanged(_, run) if run.state == "queued":
                if run.kind in {"reply", "announce"} and self._runs_here:
                    self.engine.open(run.key)  # it follows from a run that ran here
                self.engine.add(run)
            case DeliveryChanged(_, delivery) if delivery.state == "pending" and self._runs_here:
                self.outbox.look()
            case ExchangeChanged(_, exchange) if exchange.state == "ended" and parse(exchange.target).is_subagent:
                self._sweep.look()
            case RunChanged(_, run) if not run.live and run.exchange is None and parse(run.key).is_subagent:
                self._sweep.look()
            case _:
                pass

    async def close(self) -> None:
        """Stop what is at work; the outbox first, so that what the end of a run announces waits for the next start.

        Runs are stopped while what is being delivered has its moment to end.
        """
        await asyncio.gather(self.outbox.close(), self.engine.close())
        await self._sweep.close()

    def reply_under_way(self, key: str | None) -> list[Delta]:
        """Return what the running reply of a session, or all of them for None, have said so far."""
        live = self._turns.live
        found = [*live.values()] if key is None else [live[key]] if key in live else []
        return [delta for reply in found for delta in reply.so_far()]

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        acceptance.check_message(request)
        command = None if request.spawn is not None else commands.find(request.message)
        if command is not None:
            return await self._command(request, command, caller)
        if request.spawn is not None and request.spawn.attachments:
            return await self._spawn_with_files(request, request.spawn, caller)
        accepted = await self._accept(request, caller, None)
        return replace(_ticket(accepted.run), created=accepted.created)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        settings = self._settings()
        session = self._store.read(lambda db: acceptance.current(db, ref, caller, settings))
        return await self.engine.abort(session.key, run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        settings = self._settings()
        if "sendPolicy" in patch.fields:
            require_owner(caller, "change the send policy of a session")
        require_operator(caller, "change a session's settings")
        try:
            return await self._change(ref, caller, lambda tx, session: commands.patch(tx, session, patch, settings))
        except NotFound:
            if patch.fields.keys() != {"sendPolicy"}:
                raise
            return await self._store.write(lambda tx: lifecycle.override(tx, ref, patch, settings))

    async def reset(self, ref: str, caller: Caller) -> Session:
        require_owner(caller, "reset a session")
        return await self._change(ref, caller, commands.reset)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        require_owner(caller, "archive a session")
        return await self._change(
            ref, caller, lambda tx, session: sessions.update(tx, session.key, archived_at=tx.now if archived else None)
        )

    async def create(self, new: NewSession, caller: Caller) -> Session:
        require_operator(caller, "create a session")
        settings = self._settings()
        return await self._store.write(lambda tx: lifecycle.create(tx, new, settings))

    async def delete(self, ref: str, caller: Caller) -> None:
        require_owner(caller, "delete a session")
        settings = self._settings()

        def write(tx: Tx) -> list[str]:
            return lifecycle.delete(tx, acceptance.current(tx.db, ref, caller, settings))

        transcripts = await self._store.write(write)
        # On the thread that writes the files, so that none of them comes back.
        await self._store.scan(lambda _: jsonl.remove(self._store.directory, transcripts))

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        require_owner(caller, "append to a session")
        settings = self._settings()
        return await self._store.write(
            lambda tx: messages.append(tx, acceptance.current(tx.db, ref, caller, settings).key, draft)
        )

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        return await self._move(delivery_id, caller, "pending", None)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        return await self._move(delivery_id, caller, "skipped", "dropped by the operator")

    async def _move(self, delivery_id: str, caller: Caller, state: DeliveryState, reason: str | None) -> Delivery:
        require_owner(caller, "retry or drop a delivery")

        def write(tx: Tx) -> Delivery:
            delivery = deliveries.by_id(tx.db, delivery_id)
            if delivery is None:
                raise NotFound(f"no delivery has the id {quoted(delivery_id)}")
            if delivery.state not in RETRYABLE:
                raise Conflict(f"delivery {delivery_id} is {delivery.state}: there is nothing to retry or drop")
            return deliveries.move(tx, delivery_id, state, reason)

        return await self._store.write(write)

    async def _accept(
        self, request: RunRequest, caller: Caller, files: acceptance.ChildFiles | None
    ) -> acceptance.Accepted:
        settings = self._settings()
        accepted = await self._store.write(lambda tx: acceptance.accept(tx, request, caller, settings, files))
        if accepted.fresh and self._run_own:
            self.engine.open(accepted.run.key)
        return accepted

    async def _spawn_with_files(self, request: RunRequest, spawn: SpawnSpec, caller: Caller) -> RunTicket:
        """Write the files first, so that a child that exists has them; a refused or repeated spawn leaves none (W8)."""
        files = await asyncio.to_thread(attachments.check, spawn.attachments, spawn.mount_path)
        agent = self._settings().agent(spawn.agent_id)
        workspace = self._workspace(agent)
        child_id = new_id()
        where = attachments.directory(workspace, child_id)
        model = self._settings().model(spawn.model or agent.model)
        images = model is not None and model.takes_images
        contents = await asyncio.to_thread(attachments.contents, where, files, spawn.mount_path, images=images)
        await asyncio.to_thread(attachments.write, workspace, child_id, files)
        try:
            accepted = await self._accept(request, caller, acceptance.ChildFiles(child_id, contents))
        except SwitchboardError:  # not when the wait for it is cancelled: then it may have been accepted
            await asyncio.to_thread(attachments.remove, workspace, child_id)
            raise
        if accepted.fresh:
            await asyncio.to_thread(attachments.keep, workspace, child_id)
        else:
            await asyncio.to_thread(attachments.remove, workspace, child_id)
            child_id = accepted.run.key.rpartition(":")[2]
        receipt = attachments.receipt(attachments.directory(workspace, child_id), files)
        return replace(_ticket(accepted.run), created=accepted.created, attachments=receipt)

    def _workspace(self, agent: AgentSettings) -> Path:
        return agent.workspace or self._store.directory / "workspaces" / agent.agent_id

    async def _change(self, ref: str, caller: Caller, change: Callable[[Tx, Session], None]) -> Session:
        """Run a change of one session and return it as it is then."""
        settings = self._settings()

        def write(tx: Tx) -> Session:
            session = acceptance.current(tx.db, ref, caller, settings)
            change(tx, session)
            changed = sessions.by_key(tx.db, session.key)
            return changed or session

        return await self._store.write(write)

    async def _command(self, request: RunRequest, command: Command, caller: Caller) -> RunTicket:
        """Carry out a slash command; the same run id does it once."""
        commands.check_caller(command, caller)
        settings = self._settings()
        known = self._store.read(lambda db: commands.done(db, request, command))
        if known is not None:
            return replace(_ticket(known[0]), reply=known[1])
        session = await self._store.write(lambda tx: acceptance.target_of(tx, request, caller, settings)[0])
        if command.name == "spawn":
            spec = SpawnSpec(session.key, session.agent_id)
            return await self.start_run(RunRequest("", command.argument, request.run_id, spawn=spec), caller)
        stopped = await self.engine.abort(session.key, None) if command.name == "abort" else []

        def write(tx: Tx) -> tuple[Run, str]:
            known = commands.done(tx.db, request, command)  # it may have been sent twice at once
            if known is not None:
                return known
            if request.run_id is not None:
                acceptance.check_free(tx, request.run_id)
            now = acceptance.current(tx.db, session.session_id, caller, settings)
            if command.name == "abort":
                answer = f"stopped {len(stopped)} run{'s' if len(stopped) != 1 else ''}"
            else:
                answer = commands.carry_out(tx, now, command, settings)
            return commands.record(tx, request, now, command, answer, acceptance.requester_of(caller)), answer

        run, answer = await self._store.write(write)
        return replace(_ticket(run), reply=answer)


def _ticket(run: Run) -> RunTicket:
    return RunTicket(run.run_id, run.key, run.session_id, run.state)
