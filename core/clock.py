"""The one source of time, so that tests can move it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the runtime asks about time; `tests` has one that is moved by hand."""

    def now_ms(self) -> int:
        """Return the wall time in ms since the Unix epoch; for stored times and deadlines."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; for waiting and measuring."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
