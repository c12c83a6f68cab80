"""Which run may start: one at a time per session, in order of acceptance, within the pools (architecture#runs). No
I/O."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Pool = Literal["sessions", "subagents"]


@dataclass(slots=True)
class _Queue:
    pool: Pool
    waiting: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    running: str | None = None


class Scheduler:
    """The queued and running runs of all sessions.

    A session that is not `opened` keeps its runs queued: a one-shot command only runs the queues it is about.
    """

    def __init__(self, limits: dict[Pool, int], *, open_all: bool) -> None:
        self.limits = limits
        self._open_all = open_all
        self._opened: set[str] = set()
        self._queues: dict[str, _Queue] = {}
        self._busy: dict[Pool, int] = {"sessions": 0, "subagents": 0}
        self._away: set[str] = set()
        self._returning: dict[str, Pool] = {}
        self._accepted = 0

    def open(self, key: str) -> None:
        """Let the runs of this session start."""
        if not self._open_all:  # else every session is open, and there may be any number of them
            self._opened.add(key)

    def add(self, key: str, run_id: str, pool: Pool) -> None:
        """Queue a run behind the others of its session."""
        self._accepted += 1
        self._queues.setdefault(key, _Queue(pool)).waiting.append((self._accepted, run_id))

    def drop(self, key: str, run_id: str) -> bool:
        """Forget a queued run; False when it is not queued."""
        queue = self._queues.get(key)
        queued = next((entry for entry in queue.waiting if entry[1] == run_id), None) if queue else None
        if queue is None or queued is None:
            return False
        queue.waiting.remove(queued)
        self._tidy(key)
        return True

    def take(self) -> list[tuple[str, str]]:
        """Return the (key, run id) pairs that start now, first accepted first; they count as running from here on."""
        ready = [(queue.waiting[0], key, queue) for key, queue in self._queues.items() if self._may_start(key, queue)]
        started: list[tuple[str, str]] = []
        for (_, run_id), key, queue in sorted(ready, key=lambda entry: entry[0]):
            if self._has_spare_place(queue.pool):
                queue.waiting.popleft()
                queue.running = run_id
                self._busy[queue.pool] += 1
                started.append((key, run_id))
        return started

    def finished(self, key: str, run_id: str) -> None:
        """Free the session and the place of a run that has ended."""
        queue = self._queues[key]
        assert queue.running == run_id, "only the running run can finish"
        queue.running = None
        self._returning.pop(run_id, None)
        if run_id in self._away:
            self._away.discard(run_id)
        else:
            self._busy[queue.pool] -= 1
        self._tidy(key)

    def step_out(self, key: str, run_id: str) -> None:
        """Give the place of a running run to others while it only waits for another session."""
        queue = self._queues.get(key)
        if queue is not None and queue.running == run_id and run_id not in self._away:
            self._away.add(run_id)
            self._busy[queue.pool] -= 1

    def step_in(self, key: str, run_id: str) -> bool:
        """Take a place again; False while there is none, and then the next that is free is kept for this run."""
        queue = self._queues.get(key)
        if queue is None or queue.running != run_id or run_id not in self._away:
            return True
        if self._busy[queue.pool] >= self.limits[queue.pool]:
            self._returning[run_id] = queue.pool
            return False
        self._returning.pop(run_id, None)
        self._away.discard(run_id)
        self._busy[queue.pool] += 1
        return True

    def busy(self, key: str) -> bool:
        """Whether the session has a run that is queued or running."""
        return key in self._queues

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing can start."""
        return not any(queue.running or self._is_open(key) for key, queue in self._queues.items())

    def _may_start(self, key: str, queue: _Queue) -> bool:
        return (
            queue.running is None and bool(queue.waiting) and self._has_spare_place(queue.pool) and self._is_open(key)
        )

    def _has_spare_place(self, pool: Pool) -> bool:
        """Whether a new run may start: those that come back from waiting go first, or a busy pool would starve them."""
        returning = sum(1 for other in self._returning.values() if other == pool)
        return self._busy[pool] + returning < self.limits[pool]

    def _is_open(self, key: str) -> bool:
        return self._open_all or key in self._opened

    def _tidy(self, key: str) -> None:
        queue = self._queues[key]
        if queue.running is None and not queue.waiting:
            del self._queues[key]
