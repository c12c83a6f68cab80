"""A clock that tests move by hand."""

import asyncio
import heapq
import itertools
from typing import Final

_SETTLE_ROUNDS: Final = 20
"""Turns of the loop in which a woken task may go on and sleep again; a chain of awaits needs one each."""


class FakeClock:
    """Time that stands still until `advance` moves it; a `core.clock.Clock`.

    Args:
        now_ms: Where the wall time begins, in ms since the Unix epoch.
        instant: Sleeping moves the time itself and returns at once; for tests that only ask how long was slept.

    Attributes:
        slept: Seconds of every sleep that was asked for, in order.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, *, instant: bool = False) -> None:
        self.slept: list[float] = []
        self._start_ms = now_ms
        self._instant = instant
        self._passed = 0.0
        self._numbers = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._new_sleeper = asyncio.Event()

    def now_ms(self) -> int:
        """Return the wall time in ms since the Unix epoch."""
        return self._start_ms + round(self._passed * 1000)

    def monotonic(self) -> float:
        """Return the seconds that were advanced so far."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the time was advanced that far."""
        self.slept.append(seconds)
        if self._instant:
            self._passed += max(0.0, seconds)
        if self._instant or seconds <= 0:
            await asyncio.sleep(0)
            return
        entry = (self._passed + seconds, next(self._numbers), asyncio.get_running_loop().create_future())
        heapq.heappush(self._sleepers, entry)
        self._new_sleeper.set()
        try:
            await entry[2]
        finally:
            if entry in self._sleepers:  # cancelled while asleep
                self._sleepers.remove(entry)
                heapq.heapify(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move the time on and wake who has slept enough, in order, each at its own moment.

        Who is woken and sleeps again is woken again, when that falls into these seconds too.
        """
        target = self._passed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, future = heapq.heappop(self._sleepers)
            self._passed = max(self._passed, due)
            if not future.done():
                future.set_result(None)
            await _settle()
        self._passed = target

    @property
    def sleeping(self) -> int:
        """How many sleep now."""
        return len(self._sleepers)

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until that many sleep, however long the rest of the program takes to get there."""
        while len(self._sleepers) < count:
            self._new_sleeper.clear()
            await self._new_sleeper.wait()


async def _settle() -> None:
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
