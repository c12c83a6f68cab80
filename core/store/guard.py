"""Whether what the writer writes to is still what everybody else would open, and has room (architecture#ownership).

A file that was removed, renamed or replaced goes on taking what is written to it, and nobody will find it there. So
the files are looked at before a commit and once more before it is acknowledged: five calls of the system, microseconds.
"""

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from core.store.explain import DATABASE_NAME

LOCK_NAME: Final = "owner.lock"
FILES: Final = (DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm", LOCK_NAME)
"""What an owner has open; of these, those are watched that are there."""
PAGE_BYTES: Final = 4096
MOST_LOG_PAGES: Final = 4_000
LEAST_LOG_PAGES: Final = 100
_ABANDONED: Final[list[sqlite3.Connection]] = []
_SHARE: Final = 8
"""The log may take one part in so many of what is free when the writer starts."""
_MORE_BYTES: Final = 65_536
"""What else grows while the log is folded back."""


class FileGuard:
    """Watches the files of one state directory.

    `log_pages` is how many the log (WAL) may hold before it is folded back: few on a small disk.
    """

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self._directory = directory
        paths = [directory, *(directory / name for name in names)]
        found = {str(path): _identity(str(path)) for path in paths}
        self._known = {path: identity for path, identity in found.items() if identity is not None}
        room = self._room()
        pages = MOST_LOG_PAGES if room is None else room // _SHARE // PAGE_BYTES
        self.log_pages: Final = max(LEAST_LOG_PAGES, min(MOST_LOG_PAGES, pages))
        self._reserve = self.log_pages * PAGE_BYTES + _MORE_BYTES

    def problem(self) -> str | None:
        """Return why nothing more may be written, in one sentence; None when all is well."""
        return self.changed() or self._full()

    def changed(self) -> str | None:
        """Return which file is not the one it was, in one sentence; None when all are."""
        for path, known in self._known.items():
            now = _identity(path)
            if now != known:
                what = "removed or renamed" if now is None else "replaced by another"
                return (
                    f"{path} was {what} while it was in use: nothing more is accepted here; put it back, or stop this"
                    " switchboard and start it anew"
                )
        return None

    def close(self, db: sqlite3.Connection) -> None:
        """Close a connection; where its files are not in their places any more, without touching what is there now."""
        if self.changed():
            _abandon(db)
        else:
            db.close()

    def _full(self) -> str | None:
        """Return that the disk is nearly full: what is in the log could not be folded back for want of room."""
        room = self._room()
        if room is None or room >= self._reserve:
            return None
        return (
            f"the state directory {self._directory} is on a disk that is full but for {room // 1024:,} KB, which what"
            " is stored already may need: free some space, nothing acknowledged was lost"
        )

    def _room(self) -> int | None:
        """Return the bytes that are free, None where the disk does not tell."""
        try:
            disk = os.statvfs(self._directory)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def _abandon(db: sqlite3.Connection) -> None:
    """Give up a connection whose files are not in their places any more.

    The last connection to a database that is closed removes the log by its name, and that may be another's by now.
    """
    if sys.version_info >= (3, 12):
        with contextlib.suppress(sqlite3.ProgrammingError):  # it is closed already
            db.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # noqa: FBT003 - as SQLite has it
        db.close()
    else:
        _ABANDONED.append(db)
        with contextlib.suppress(ImportError):  # a Python without it closes them last of all
            import ctypes  # hardly ever needed

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # never closed; the system does it as the process ends


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a third of the time that a Path takes
    except OSError:
        return None
    return found.st_dev, found.st_ino
