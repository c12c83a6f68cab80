"""The log of a state directory: what should never happen, for whoever has to find out why. Nobody needs it to work.

Only the process that owns the directory writes it. It holds no secrets and nothing that was said. The words of an
exception may quote either, so its type and its place are written; of a message the first line, and where asyncio says
what a function was called with, only the function.
"""

import logging
import os
import time
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Final

from console.live.text.clean import clean_line
from core.files import open_private

LOG_NAME: Final = "switchboard.log"
MAX_BYTES: Final = 1_000_000
"""The log starts anew when it is that long; the one before is kept as `switchboard.log.1`."""
_LONGEST_MESSAGE: Final = 500
_LOGGERS: Final = ("switchboard", "asyncio", "uvicorn")

ErrorInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Log:
    """The open log; until `close`, what this process logs goes there."""

    def __init__(self, state: Path) -> None:
        self._handler = _File(state / LOG_NAME)
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._handler)

    def close(self) -> None:
        """Close the file; nothing is logged any more."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._handler)
        self._handler.close()


class _File(RotatingFileHandler):
    """A bounded file that only its owner can read; it appears with its first line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setLevel(logging.WARNING)
        self.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"))

    def _open(self) -> TextIOWrapper:
        descriptor = open_private(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Do without a line that cannot be written: the disk is full, and that is told elsewhere."""


class _Lines(logging.Formatter):
    """Writes times in UTC, messages as one clean line, and exceptions without their words."""

    converter = time.gmtime
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        """Return the line of a record."""
        first = record.message.partition("\n")[0]
        words = first.partition("(")[0] if record.name == "asyncio" else first
        record.message = clean_line(words, _LONGEST_MESSAGE)
        return super().formatMessage(record)

    def formatException(self, ei: ErrorInfo) -> str:  # noqa: N802 - the name that logging calls
        """Return where an exception and its causes were raised, innermost last."""
        parts: list[str] = []
        error = ei[1]
        while error is not None and len(parts) < 10:
            walked = traceback.walk_tb(error.__traceback__)
            # Of a frame only its place: the source beside it may hold, or be, words of a session.
            stack = traceback.StackSummary.extract(walked, lookup_lines=False)
            frames = "".join(f'  File "{each.filename}", line {each.lineno}, in {each.name}\n' for each in stack)
            parts.append(f"{frames}{type(error).__module__}.{type(error).__qualname__}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\ncaused by:\n".join(parts)
