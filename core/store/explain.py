"""What the system and SQLite say about a state directory, as one sentence."""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Final

from core.model.errors import Invalid, Unavailable
from core.model.keys import quoted

DATABASE_NAME: Final = "switchboard.db"
CLOSED: Final = "is closed here: this process is ending"
DAMAGED: Final = f"holds a damaged {DATABASE_NAME}: restore a copy, or move it away to start anew"
_FULL: Final = "is on a disk that is full: free some space, nothing acknowledged was lost"
TOO_MANY_FILES: Final = "cannot be used, since too many files are open: allow more of them (`ulimit -n 1024`)"
_FILES_OF_SQLITE: Final = 4
"""It has open so many at most when it opens a database: the log, its index and a folder beside it."""
_SYSTEM_REASONS: Final = {
    errno.EEXIST: "is a file: remove it, or choose a folder with --state DIR",
    errno.ENOTDIR: "lies below a file: choose another with --state DIR",
    errno.EACCES: "cannot be used: check its permissions, or choose another with --state DIR",
    errno.ELOOP: "holds a link where a file should be, which is not followed: put the file itself in its place",
    errno.EROFS: "is on a disk that cannot be written: choose another with --state DIR",
    errno.ENOSPC: _FULL,
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENFILE: TOO_MANY_FILES,
    errno.EIO: "cannot be read or written (disk I/O error): check the disk",
}
_SQLITE_REASONS: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: "cannot be written: check its permissions, or choose another with --state DIR",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check its permissions, or choose another with --state DIR",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk I/O error): check the disk",
    sqlite3.SQLITE_NOTADB: f"holds a {DATABASE_NAME} that is not a database: move it away to start anew",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_BUSY: "is busy: another process holds its database",
}
_DAMAGE: Final = ("no such table", "no such column", "Could not decode", "malformed database schema")
"""How SQLite begins sentences about a database that opens and is not as we made it."""


@contextlib.contextmanager
def explained(directory: Path) -> Generator[None]:
    """Turn what the system and SQLite say about files and texts into one sentence; of files, with the directory."""
    try:
        yield
    except (OSError, sqlite3.Error, UnicodeError, OverflowError) as error:
        raise explain(error, directory) from error


def explain(error: BaseException, directory: Path) -> BaseException:
    """Return the error of ours that says what another one means; that one itself where we know nothing better."""
    if isinstance(error, sqlite3.Error):
        return Unavailable(f"the state directory {directory} {_sqlite_reason(error)}")
    if isinstance(error, OSError):
        reason = _SYSTEM_REASONS.get(error.errno or 0, f"cannot be used: {error.strerror or error}")
        return Unavailable(f"the state directory {directory} {reason}")
    if isinstance(error, UnicodeEncodeError):
        return Invalid(f"{quoted(error.object)} holds half a character, which nothing stored does: leave it out")
    if isinstance(error, UnicodeError):
        return Unavailable(f"the state directory {directory} {DAMAGED}")
    if isinstance(error, OverflowError):
        return Invalid("a number is larger than can be stored: give one below 9,223,372,036,854,775,808")
    return error


def _sqlite_reason(error: sqlite3.Error) -> str:
    words = str(error)
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in words:
        return CLOSED
    if any(known in words for known in _DAMAGE):
        return DAMAGED
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN and not _may_open_files():
        return TOO_MANY_FILES
    return _SQLITE_REASONS.get(code, words)


def _may_open_files() -> bool:
    """Whether this process may open as many files as a database needs; SQLite does not tell."""
    with contextlib.ExitStack() as opened:
        try:
            for _ in range(_FILES_OF_SQLITE):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True
