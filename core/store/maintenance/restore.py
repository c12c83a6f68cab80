"""Puts a backup in the place of a state directory: everything is ready and verified beside it before anything changes.

The new directory takes the place of the old one in one step, where the system can do that; so a kill leaves the one or
the other, whole. Keys and tokens, which no backup holds, stay those of the old directory.
"""

import contextlib
import errno
import os
import shutil
import sqlite3
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from core.clock import Clock
from core.files import make_folder, open_private, sync_folder, write_file
from core.model.errors import Conflict, Unavailable
from core.store.database import Store
from core.store.explain import DATABASE_NAME
from core.store.lock import OwnerLock
from core.store.maintenance import backup
from core.store.maintenance.backup import Backup, BackupEntry

KEPT: Final = ("gateway.token", "devices.json", "gateways.json", "identity/device.json", "identity/device-tokens.json")
"""What no backup holds; it stays that of the directory that is replaced."""
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of renameat2
_HERE: Final = -100  # AT_FDCWD
_BLOCK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore; `old` is where the replaced directory is, None when there was none."""

    backup: Backup
    old: Path | None


def restore(file: Path, state: Path, clock: Clock, *, force: bool) -> Restored:
    """Make a state directory what a backup holds. Blocks.

    Args:
        force: Replace a directory that is not empty; it is kept beside the new one, under another name.

    Raises:
        NotFound: There is no such backup.
        Invalid: It is no backup, or a damaged one; nothing was changed.
        Conflict: The directory is not empty, or another process owns it.
        Unavailable: The disk refuses it, or the database in it is damaged.
    """
    state = state.resolve()
    is_there = state.is_dir() and any(state.iterdir())
    if is_there and not force:
        raise Conflict(
            f"the state directory {state} is not empty: choose another with --state DIR, or replace it with --force,"
            " which keeps the old one beside it"
        )
    with contextlib.ExitStack() as stack, backup.open_backup(file) as opened:
        if is_there:
            lock = OwnerLock.acquire(state, "restore", clock.now_ms())
            stack.callback(lock.release)
        fresh = stack.enter_context(_beside(state))
        found = backup.read(opened, file, lambda entry, data: _unpack(fresh, entry, data))
        _prepare(fresh, clock)
        if is_there:
            _keep_secrets(state, fresh)
        stack.callback(OwnerLock.acquire(fresh, "restore", clock.now_ms()).release)  # nobody begins before it is done
        _sync(fresh)
        old = _free_name(state, clock.now_ms()) if is_there else None
        _swap(fresh, state, old)
    return Restored(found, old)


@contextlib.contextmanager
def _beside(state: Path) -> Generator[Path]:
    """Give an empty folder beside the state directory, which is gone at the end unless it was put to use."""
    fresh, made = state.with_name(f".{state.name}.restoring-{uuid.uuid4().hex[:8]}"), -1
    try:
        make_folder(fresh)
        made = fresh.stat().st_ino
        yield fresh
    except OSError as error:
        raise Unavailable(
            f"nothing can be restored beside {state}: {error.strerror or error}: choose a folder with --state DIR"
            " whose parent you may write to, and move it there"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            if fresh.lstat().st_ino == made:  # never the old one, which may have this name for a moment
                shutil.rmtree(fresh, ignore_errors=True)


def _unpack(fresh: Path, entry: BackupEntry, data: BinaryIO) -> None:
    """Write one file of a backup; its path was checked."""
    path = fresh.joinpath(*entry.path.split("/"))
    make_folder(path.parent)
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        while block := data.read(_BLOCK):
            file.write(block)


def _prepare(fresh: Path, clock: Clock) -> None:
    """Check the database, bring it to the schema of today, and call it another store, so that no cursor fits it.

    `Unavailable` when it is damaged, none of ours, or of a newer version.
    """
    path = fresh / DATABASE_NAME
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            backup.inspect(db, fresh)
            db.execute("PRAGMA journal_mode = WAL")
        Store.open(fresh, clock).close()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("UPDATE meta SET value = ? WHERE name = 'store_id'", (str(uuid.uuid4()),))
    except sqlite3.Error as error:
        raise Unavailable(f"the database in the backup cannot be used: {error}") from None


def _keep_secrets(state: Path, fresh: Path) -> None:
    for name in KEPT:
        path = state / name
        try:
            with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
                data = file.read()
        except OSError:
            continue
        make_folder((fresh / name).parent)
        write_file(fresh / name, data)


def _sync(folder: Path) -> None:
    """Have everything in a folder on disk."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path)
        else:
            descriptor = open_private(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _free_name(state: Path, now_ms: int) -> Path:
    """Return what the directory that is replaced is called from now on."""
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    found, number = state.with_name(f"{state.name}.before-{when}"), 1
    while os.path.lexists(found):
        number += 1
        found = state.with_name(f"{state.name}.before-{when}-{number}")
    return found


def _swap(fresh: Path, state: Path, old: Path | None) -> None:
    """Put the new directory in its place, and the old one, if there is one, under its new name; or, with an `OSError`,
    leave everything as it was."""
    if old is None:
        fresh.rename(state)  # an empty folder in its place is replaced
    elif _exchange(fresh, state):
        fresh.rename(old)
    else:  # two steps; a kill between them leaves the old one whole under its new name
        state.rename(old)
        try:
            fresh.rename(state)
        except OSError:
            old.rename(state)
            raise
    sync_folder(state.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Give two directories each other's names in one step; whether the system can. `OSError`: it can, and does not."""
    try:
        import ctypes

        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(number, os.strerror(number), str(other))
