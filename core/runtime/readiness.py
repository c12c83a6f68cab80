"""Looks whether work can be accepted, and tells when that changes: a full disk, a file that is gone, another owner."""

import asyncio
from collections.abc import Callable
from typing import Final

from core.store.database import Store

LOOK_SECONDS: Final = 1.0


class Readiness:
    """What an owner knows of its own state.

    Args:
        tell: Is called when `problem` has changed.

    Attributes:
        problem: Why nothing is accepted, as it was told last; empty when all is well.
    """

    def __init__(self, store: Store, tell: Callable[[], None]) -> None:
        self.problem = ""
        self._store = store
        self._tell = tell
        self._unanswered = ""
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._looking = asyncio.create_task(self._look())

    def end(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def now(self) -> str | None:
        """Return why nothing can be accepted at this moment, in one sentence; None when all is well."""
        return self._store.unready() or self._unanswered or None

    def cannot_answer(self, why: str) -> None:
        """Note why the other windows on the state directory are not answered; empty when they are."""
        self._unanswered = why

    async def _look(self) -> None:
        while True:
            problem = self.now() or ""
            if problem != self.problem:
                self.problem = problem
                self._tell()
            await asyncio.sleep(LOOK_SECONDS)
