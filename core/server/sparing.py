"""A log that strangers cannot fill: whatever they provoke, what was written before stays to be read."""

import logging
import time
from collections.abc import Callable
from typing import Final

MOST: Final = 60
"""Lines of the server within a window."""
WINDOW_SECONDS: Final = 60.0


class Sparing(logging.Filter):
    """Lets so many lines a minute through, and says with the next one how many it has kept back.

    Args:
        now: Seconds that never go back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self.begin()

    def begin(self) -> None:
        """Begin a window, as a server that is started."""
        self._began = self._now()
        self._let_through = 0
        self._kept_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        now = self._now()
        if now - self._began >= WINDOW_SECONDS:
            self._began, self._let_through = now, 0
        if self._let_through >= MOST:
            self._kept_back += 1
            return False
        self._let_through += 1
        if self._kept_back:
            record.msg = f"{record.getMessage()} ({self._kept_back} more lines of the server were not written)"
            record.args = ()
            self._kept_back = 0
        return True


SPARING: Final = Sparing()
"""The one of this process."""
