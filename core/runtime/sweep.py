"""Puts sub-agents that are done into the archive when their time has come (W7).

What is due is read from the rows, so a restart forgets nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from core.config.settings import Settings
from core.model.errors import Unavailable
from core.store import sessions
from core.store.database import Store, Tx

RETRY_SECONDS: Final = 60.0

_log = logging.getLogger("switchboard.sweep")


class Sweep:
    """Waits for the next sub-agent that is due."""

    def __init__(self, store: Store, settings: Callable[[], Settings]) -> None:
        self._store = store
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Archive what is due, and wait for what will be; call it again whenever a sub-agent has ended."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="sweep")

    def configure(self) -> None:
        """Look anew: other settings may make another time the right one."""
        if self._task is not None:
            self._task.cancel()
        self._task = None
        self.look()

    async def close(self) -> None:
        """Stop waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                if (wait := self._wait_seconds()) is None:
                    return
                if wait > 0:
                    await self._store.clock.sleep(wait)
                await self._store.write(lambda tx: archive_due(tx, self._settings()))
            except Unavailable as error:
                _log.warning("cannot archive: %s", error.message)
                await self._store.clock.sleep(RETRY_SECONDS)

    def _wait_seconds(self) -> float | None:
        """Return how long until the next one is due, None when none will be."""
        keep_ms = self._settings().archive_after_ms
        first = self._store.read(sessions.first_finished_child) if keep_ms else None
        return None if first is None else max(0.0, (first + keep_ms - self._store.clock.now_ms()) / 1000)


def archive_due(tx: Tx, settings: Settings) -> None:
    """Archive the sub-agents that ended long enough ago."""
    for key in sessions.finished_children(tx.db, tx.now - settings.archive_after_ms):
        sessions.update(tx, key, archived_at=tx.now)
