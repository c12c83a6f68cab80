"""Lanes against a plainer model: one run a session, in order of acceptance, within the pools (architecture#runs)."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.runtime.runs.scheduler import Pool, Scheduler

KEYS = ("a", "b", "c", "sub1", "sub2", "sub3")
LIMITS: dict[Pool, int] = {"sessions": 2, "subagents": 1}


def pool_of(key: str) -> Pool:
    """Return the pool of a session."""
    return "subagents" if key.startswith("sub") else "sessions"


@dataclass
class Run:
    """A run as the model knows it."""

    key: str
    run_id: str
    running: bool = False
    away: bool = False
    returning: bool = False


class LanesMachine(RuleBasedStateMachine):
    """The model: a list of runs in the order of their acceptance."""

    open_all = True

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Scheduler(dict(LIMITS), open_all=self.open_all)
        self.runs: list[Run] = []
        self.opened = set[str](KEYS) if self.open_all else set[str]()
        self.count = 0

    def busy(self, pool: Pool) -> int:
        """Return how many places of a pool are taken."""
        return sum(run.running and not run.away and pool_of(run.key) == pool for run in self.runs)

    def startable(self) -> list[Run]:
        """Return what may start now, by the words of the design."""
        found: list[Run] = []
        for run in self.runs:
            first = next(other for other in self.runs if other.key == run.key)
            pool = pool_of(run.key)
            taken = self.busy(pool) + sum(pool_of(other.key) == pool for other in found)
            taken += sum(other.returning and pool_of(other.key) == pool for other in self.runs)
            if run is first and not run.running and run.key in self.opened and taken < LIMITS[pool_of(run.key)]:
                found.append(run)
        return found

    def some(self, number: int, *, running: bool) -> Run:
        """Return one of the runs that are, or are not, running."""
        candidates = [run for run in self.runs if run.running == running]
        return candidates[number % len(candidates)]

    @rule(key=st.sampled_from(KEYS))
    def add(self, key: str) -> None:
        self.count += 1
        self.lanes.add(key, f"r{self.count}", pool_of(key))
        self.runs.append(Run(key, f"r{self.count}"))

    @rule()
    def take(self) -> None:
        expected = self.startable()
        assert self.lanes.take() == [(run.key, run.run_id) for run in expected]
        for run in expected:
            run.running = True

    @precondition(lambda self: any(run.running for run in self.runs))
    @rule(number=st.integers(0, 9))
    def finish(self, number: int) -> None:
        run = self.some(number, running=True)
        self.lanes.finished(run.key, run.run_id)
        self.runs.remove(run)

    @precondition(lambda self: any(run.away for run in self.runs))
    @rule()
    def finish_away(self) -> None:
        run = next(run for run in self.runs if run.away)
        self.lanes.finished(run.key, run.run_id)
        self.runs.remove(run)

    @precondition(lambda self: any(not run.running for run in self.runs))
    @rule(number=st.integers(0, 9))
    def drop_queued(self, number: int) -> None:
        run = self.some(number, running=False)
        assert self.lanes.drop(run.key, run.run_id)
        self.runs.remove(run)

    @rule(key=st.sampled_from(KEYS))
    def drop_what_is_not_queued(self, key: str) -> None:
        assert not self.lanes.drop(key, "r0")
        for run in self.runs:
            if run.running:
                assert not self.lanes.drop(run.key, run.run_id)

    @precondition(lambda self: any(run.running for run in self.runs))
    @rule(number=st.integers(0, 9))
    def step_out(self, number: int) -> None:
        run = self.some(number, running=True)
        self.lanes.step_out(run.key, run.run_id)
        run.away = True

    @precondition(lambda self: any(run.running for run in self.runs))
    @rule(number=st.integers(0, 9))
    def step_in(self, number: int) -> None:
        run = self.some(number, running=True)
        expected = not run.away or self.busy(pool_of(run.key)) < LIMITS[pool_of(run.key)]
        assert self.lanes.step_in(run.key, run.run_id) == expected
        run.returning = run.away = run.away and not expected

    @rule(key=st.sampled_from(KEYS))
    def open(self, key: str) -> None:
        self.lanes.open(key)
        self.opened.add(key)

    @invariant()
    def one_run_a_session_and_no_pool_above_its_limit(self) -> None:
        running = [run.key for run in self.runs if run.running]
        assert len(running) == len(set(running))
        for pool, limit in LIMITS.items():
            assert self.busy(pool) <= limit
        for key in KEYS:
            assert self.lanes.busy(key) == any(run.key == key for run in self.runs)

    @invariant()
    def idle_means_that_nothing_runs_and_nothing_may(self) -> None:
        assert self.lanes.idle == (not any(run.running or run.key in self.opened for run in self.runs))


class OneShotMachine(LanesMachine):
    """The same in a process that only runs the lanes it is about."""

    open_all = False


LanesMachine.TestCase.settings = OneShotMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLanes = LanesMachine.TestCase
TestLanesOfOneShot = OneShotMachine.TestCase
