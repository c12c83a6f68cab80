"""Where that waits which is wanted before it is known who runs the work of a state directory."""

import asyncio
from collections.abc import Callable


class StartGate:
    """Open, except while a start is expected.

    Args:
        tell: Is called whenever a start is over.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._over = asyncio.Event()
        self._over.set()

    @property
    def expected(self) -> bool:
        """Whether a start is still to come."""
        return not self._over.is_set()

    def expect(self) -> None:
        """Let what comes wait."""
        self._over.clear()

    def open(self) -> None:
        """Let go on what has waited, and tell."""
        self._over.set()
        self._tell()

    def close(self) -> None:
        """Let go on what has waited: there will be no start."""
        self._over.set()

    async def passed(self) -> None:
        """Wait while a start is expected."""
        await self._over.wait()
