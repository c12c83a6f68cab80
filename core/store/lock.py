"""Ownership of a state directory: the one process that writes and runs work (architecture#ownership).

The lock is a file lock that the system releases when its process ends, however it ends; so a stale owner is told from
a living one without guessing. The file says who holds it, for the sentence that everybody else gets.
"""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from core.files import make_folder, open_private
from core.model import json_codec
from core.model.errors import Conflict, Invalid
from core.store.explain import explained
from core.store.guard import LOCK_NAME

_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.002
_MOST: Final = 2**53
"""No id of a process and no time is as large as this."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a state directory: what it runs as (`console`, `send`, …), since when in ms since the Unix epoch."""

    pid: int
    command: str
    started_at: int

    @property
    def words(self) -> str:
        """The owner for a sentence."""
        if not self.pid:  # it has the lock and has not written its name yet
            return "another switchboard"
        since = time.strftime("%H:%M", time.localtime(self.started_at / 1000))
        return f"switchboard {self.command} (process {self.pid}, since {since})"


class OwnerLock:
    """The held lock; the process owns the state directory until `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path, command: str, now_ms: int) -> "OwnerLock":
        """Take the lock.

        `Conflict`, naming it, when another process holds it; `Unavailable` when the directory cannot be written.
        """
        owner = {"pid": os.getpid(), "command": command, "startedAt": now_ms}
        with explained(directory):
            make_folder(directory)
            with contextlib.ExitStack() as undo:
                descriptor = open_private(directory / LOCK_NAME, os.O_CREAT | os.O_RDWR)
                undo.callback(os.close, descriptor)
                _lock(descriptor, directory)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json_codec.encode(owner).encode(), 0)
                undo.pop_all()
        return cls(descriptor)

    def release(self) -> None:
        """Give the directory free; a second call does nothing."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):  # a name that stays in the file says nothing once the lock is free
                os.ftruncate(descriptor, 0)
            os.close(descriptor)


def current_owner(directory: Path) -> Owner | None:
    """Return who holds a state directory, None when nobody does."""
    try:
        descriptor = open_private(directory / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(os.pread(descriptor, 4096, 0))
    else:
        return None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    """Take the lock, if need be after somebody who only looked whether there is an owner (`current_owner`)."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = current_owner(directory)
            if owner is not None:
                raise Conflict(
                    f"the state directory {directory} is owned by {owner.words}: do it there, or stop that one first;"
                    " reading works"
                ) from None
            time.sleep(_LOOK_SECONDS)
        else:
            return
    raise Conflict(f"the state directory {directory} is owned by another switchboard: try again")


def _read(data: bytes) -> Owner:
    """Read the lock file; one that is being written at this moment names nobody."""
    try:
        found = cast("dict[str, Any]", json_codec.decode(data))
        pid, started_at = found["pid"], found["startedAt"]
        if type(pid) is int and 0 < pid < _MOST and type(started_at) is int and 0 <= started_at < _MOST:
            return Owner(pid, str(found["command"]), started_at)
    except (Invalid, KeyError, TypeError):
        pass
    return Owner(0, "unknown", 0)
