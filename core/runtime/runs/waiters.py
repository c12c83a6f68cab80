"""Waits for the ends of runs: they end a wait, and nothing about a wait changes a run (S4, S6)."""

import asyncio

from core.model.errors import NotFound, Unavailable
from core.model.keys import quoted
from core.model.runs import LIVE_STATES, Run, RunOutcome
from core.store import messages, runs
from core.store.database import Store
from core.tasks import racing


class Waiters:
    """Everybody who waits for a run, by its id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[str, list[asyncio.Future[bool]]] = {}
        self._held = False

    async def wait(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds.

        `NotFound` without such a run, `Unavailable` when the runtime was closed before the run had ended.
        """
        run = self._run(run_id)
        if run.live and not self._waits_for_next_start(run):
            ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._ends.setdefault(run_id, []).append(ended)
            try:
                if timeout is None:
                    await ended
                else:  # by the runtime's clock
                    async with racing(asyncio.wait([ended]), self._store.clock.sleep(timeout)):
                        pass
            finally:
                self._forget(run_id, ended)
            if ended.done() and not ended.result():
                raise Unavailable(f"switchboard was closed before run {run_id} began: it goes on at the next start")
            run = self._run(run_id)
        return self._outcome(run)

    def hold(self) -> None:
        """End the waits for queued runs, which wait for the next start from now on."""
        self._held = True
        for run_id in [run_id for run_id in self._ends if self._waits_for_next_start(self._run(run_id))]:
            self.ended(run_id)

    def ended(self, run_id: str) -> None:
        """Wake whoever waits for a run that has ended."""
        self._wake(self._ends.pop(run_id, []), ended=True)

    def close(self) -> None:
        """Tell everybody that the runtime was closed."""
        for waiting in self._ends.values():
            self._wake(waiting, ended=False)

    def _forget(self, run_id: str, ended: "asyncio.Future[bool]") -> None:
        """Drop a wait that is over: a run may take for ever, and somebody may ask for it again and again."""
        waiting = self._ends.get(run_id, [])
        if ended in waiting:
            waiting.remove(ended)
            if not waiting:
                del self._ends[run_id]

    def _waits_for_next_start(self, run: Run) -> bool:
        return self._held and run.state == "queued"

    def _run(self, run_id: str) -> Run:
        run = self._store.read(lambda db: runs.by_id(db, run_id) or runs.spent(db, run_id))
        if run is None:
            raise NotFound(f"no run has the id {quoted(run_id)}: give the runId that the send or spawn returned")
        return run

    def _outcome(self, run: Run) -> RunOutcome:
        if run.state in LIVE_STATES:
            words = "the wait ran out; the run goes on and its reply will be in sessions_history"
            if self._waits_for_next_start(run):
                words = (
                    "switchboard is closing; the run begins at its next start and its reply will be in sessions_history"
                )
            return RunOutcome(run.run_id, run.key, "timeout", run.state, error=words)
        reply = self._store.read(lambda db: messages.reply_of(db, run))
        text = reply.text if reply is not None else None
        if run.state == "done":
            stop_reason = reply.stop_reason if reply is not None else None
            return RunOutcome(run.run_id, run.key, "ok", run.state, reply=text or "", stop_reason=stop_reason)
        return RunOutcome(run.run_id, run.key, "error", run.state, reply=text, error=run.error)

    def _wake(self, waiting: "list[asyncio.Future[bool]]", *, ended: bool) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(ended)
