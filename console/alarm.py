"""Whether the terminal's bell rings: when a session fails that the operator is not looking at."""

from collections.abc import Collection, Iterable
from typing import Final

from console.live.rows import Row

QUIET_SECONDS: Final = 1.0
"""The bell rings at most that often, whatever fails."""


class Alarm:
    """Knows which failures were heard of; `on`: the operator wants to hear the bell."""

    def __init__(self) -> None:
        self.on = True
        self._heard: dict[str, int | None] = {}
        self._rung_at = -QUIET_SECONDS

    def start(self, rows: Iterable[Row]) -> None:
        """Take these rows as known, whatever became of them."""
        self._heard = {row.session.key: row.session.ended_at for row in rows if row.look == "failed"}

    def rings(self, rows: Iterable[Row], looked_at: Collection[str | None], now: float) -> bool:
        """Take in rows that changed; whether one has failed and must be heard at `now`, in monotonic seconds.

        The operator has the sessions `looked_at` before the eyes.
        """
        new = [
            row.session
            for row in rows
            if row.look == "failed" and self._heard.get(row.session.key, -1) != row.session.ended_at
        ]
        self._heard.update((session.key, session.ended_at) for session in new)
        unseen = any(session.key not in looked_at for session in new)
        if not unseen or not self.on or now - self._rung_at < QUIET_SECONDS:
            return False
        self._rung_at = now
        return True
