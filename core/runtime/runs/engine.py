"""Starts runs when their turn comes, stops them when asked, and sees that each one's end is written
(architecture#runs)."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

from core.config.settings import Settings
from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.model.keys import parse
from core.model.runs import Run
from core.runtime.runs.completion import end_run
from core.runtime.runs.scheduler import Pool, Scheduler
from core.runtime.runs.turn import Turns
from core.store import runs, sessions
from core.store.database import Store, Tx
from core.store.runs import End

RETRY_SECONDS: Final = 1.0
ABORTED: Final = "The run was aborted."
STOPPED: Final = "The run was interrupted: switchboard was closed while it was at work."

_log = logging.getLogger("switchboard.engine")


@dataclass(slots=True)
class _Active:
    """A run at work.

    Attributes:
        task: Sees the run from its start to its written end; never cancelled.
        turn: The agent's part of it, which can be.
        stopped: How the run ends when it is stopped; None while nobody has asked for that.
    """

    task: asyncio.Task[None] | None = None
    turn: asyncio.Task[End] | None = None
    stopped: End | None = None

    def stop(self, end: End) -> None:
        """Let the run end that way; the first who asks decides how."""
        self.stopped = self.stopped or end
        if self.turn is not None:
            self.turn.cancel()


class Engine:
    """The scheduler of a runtime at work."""

    def __init__(self, store: Store, turns: Turns, settings: Callable[[], Settings], *, open_all: bool) -> None:
        self._store = store
        self._turns = turns
        self._settings = settings
        self._scheduler = Scheduler(_limits(settings()), open_all=open_all)
        self._active: dict[str, _Active] = {}
        self._held = False
        self._stopping = False
        self._changed = asyncio.Condition()

    def configure(self) -> None:
        """Take over the limits of new settings; runs that have begun go on under theirs."""
        self._scheduler.limits = _limits(self._settings())
        self._start_ready()

    def add(self, run: Run) -> None:
        """Queue an accepted run; it starts as soon as it may."""
        self._scheduler.add(run.key, run.run_id, "subagents" if parse(run.key).is_subagent else "sessions")
        self._start_ready()

    def open(self, key: str) -> None:
        """Let the runs of a session start here, in a process that does not run everything."""
        self._scheduler.open(key)
        self._start_ready()

    @property
    def active(self) -> list[str]:
        """Ids of the runs at work."""
        return list(self._active)

    async def abort(self, key: str, run_id: str | None) -> list[str]:
        """Stop what a session does and what its sub-agents do, or one run of it; return the ids (W12)."""
        stopped = await self._abort_runs(key, run_id)
        seen: set[str] = set()
        while run_id is None:  # one that is being stopped may still have spawned another
            below = self._store.read(lambda db: sessions.live_descendants(db, key))
            child = next((each for each in below if each not in seen), None)
            if child is None:
                break
            seen.add(child)
            stopped += await self._abort_runs(child, None)
        if seen:  # an announce that waited for them begins with their end
            begun = [run.run_id for run in self._live(key) if run.kind == "announce"]
            for each in begun:
                stopped += await self._abort_runs(key, each)
        return stopped

    def _live(self, key: str) -> list[Run]:
        return self._store.read(lambda db: runs.live(db, key))

    async def _abort_runs(self, key: str, run_id: str | None) -> list[str]:
        found = [run for run in self._live(key) if run_id is None or run.run_id == run_id]
        aborted = End("aborted", error=ABORTED)
        for run in reversed(found):  # the queued ones first, so that none of them starts meanwhile
            if self._scheduler.drop(key, run.run_id):
                await self._write(lambda tx, run=run: end_run(tx, run, aborted, self._settings()))
            elif run.run_id in self._active:
                await self._stop(run.run_id, aborted)
        ended = self._store.read(lambda db: [runs.by_id(db, run.run_id) for run in found])
        return [run.run_id for run in ended if run is not None and run.state == "aborted"]

    async def close(self) -> None:
        """Stop everything at work, keeping what was said; queued runs stay queued."""
        self._held = self._stopping = True
        await asyncio.gather(*(self._stop(run_id, End("interrupted", error=STOPPED)) for run_id in self._active))

    def hold(self) -> None:
        """Start nothing more: what is queued waits for the next start of the runtime."""
        self._held = True

    async def drained(self) -> None:
        """Wait until nothing runs and nothing may start."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._active if self._held else self._scheduler.idle)

    @contextlib.asynccontextmanager
    async def waiting(self, run: Run) -> AsyncGenerator[None]:
        """Give a run's place to others while it only waits for another session."""
        self._scheduler.step_out(run.key, run.run_id)
        self._start_ready()
        async with self._changed:
            self._changed.notify_all()
        try:
            yield
        except Exception:  # not when it is cancelled: then the run is over and needs no place any more
            await self._step_in(run)
            raise
        else:
            await self._step_in(run)

    async def _step_in(self, run: Run) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._scheduler.step_in(run.key, run.run_id))

    def _start_ready(self) -> None:
        if self._held:
            return
        for key, run_id in self._scheduler.take():
            active = self._active[run_id] = _Active()
            active.task = asyncio.create_task(self._run(key, run_id, active), name=f"run {run_id}")

    async def _run(self, key: str, run_id: str, active: _Active) -> None:
        try:
            run = await self._write(lambda tx: runs.start(tx, run_id))
            if run is not None:
                await self._end(run, await self._take_turn(run, active))
        except SwitchboardError:
            _log.exception("run %s could not be ended", run_id)
        finally:
            del self._active[run_id]
            self._scheduler.finished(key, run_id)
            self._start_ready()
            async with self._changed:
                self._changed.notify_all()

    async def _end(self, run: Run, end: End) -> None:
        """Write the end of a run; one whose last words cannot be stored still ends."""
        settings = self._settings()
        try:
            await self._write(lambda tx: end_run(tx, run, end, settings))
        except (Invalid, ValueError, TypeError) as error:
            _log.exception("the last words of run %s cannot be stored", run.run_id)
            why = error.message if isinstance(error, Invalid) else f"{type(error).__name__} (see the log)"
            failed = End("error", error=f"what the agent said last cannot be stored: {why}")
            await self._write(lambda tx: end_run(tx, run, failed, settings))

    async def _take_turn(self, run: Run, active: _Active) -> End:
        """Let the agent work until it is done, stopped, or out of time."""
        if active.stopped is not None:
            return active.stopped
        unasked = End("interrupted", error=STOPPED)
        turn = self._turns.run(run, self._settings(), lambda: active.stopped or unasked, self.waiting)
        active.turn = asyncio.create_task(turn, name=f"turn of {run.run_id}")
        watchdog = asyncio.create_task(self._time_out(run, active)) if run.timeout_ms else None
        await asyncio.wait([active.turn])
        if watchdog is not None:
            watchdog.cancel()
        return (active.stopped or unasked) if active.turn.cancelled() else active.turn.result()

    async def _write(self, function: Callable[[Tx], object]) -> Run | None:
        """Write what must be written, trying again while the store cannot; a closed engine leaves it to recovery."""
        while True:
            try:
                result = await self._store.write(function)
            except Unavailable as error:
                _log.warning("cannot write: %s", error.message)
                if self._stopping:
                    return None
                await self._store.clock.sleep(RETRY_SECONDS)
            else:
                return result if isinstance(result, Run) else None

    async def _stop(self, run_id: str, end: End) -> None:
        """Stop a run and wait until its end is written."""
        active = self._active.get(run_id)
        if active is not None and active.task is not None:
            active.stop(end)
            await asyncio.wait([active.task])

    async def _time_out(self, run: Run, active: _Active) -> None:
        await self._store.clock.sleep(run.timeout_ms / 1000)
        sentence = f"The run was stopped after its limit of {run.timeout_ms / 1000:g} s."
        active.stop(End("timed_out", error=sentence))


def _limits(settings: Settings) -> dict[Pool, int]:
    return {"sessions": settings.max_concurrent, "subagents": settings.subagent_max_concurrent}
