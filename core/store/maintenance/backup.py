"""One file that holds a state directory as it was at one moment, made beside whoever works on it.

It is a tar with the database, the transcripts for people, the files that spawns attached within the state directory,
and what the console remembers, and at its end a manifest with the size and SHA-256 of each. Keys and tokens are not in
it: a backup is carried around, and they can be made anew.
"""

import contextlib
import hashlib
import io
import os
import re
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from core.files import check_folder, make_folder, open_private, written
from core.model import json_codec
from core.model.errors import Conflict, Invalid, NotFound, Unavailable
from core.store.explain import DATABASE_NAME, explained

FORMAT: Final = "switchboard-backup"
VERSION: Final = 1
FOLDER: Final = "backups"
"""In the state directory: where backups are that a client asked for."""
MANIFEST: Final = "manifest.json"
LEFT_OUT: Final = "keys and tokens (gateway.token, devices.json, gateways.json, identity), logs, workspaces elsewhere"
_MAX_MANIFEST: Final = 256 * 1024 * 1024
_BLOCK: Final = 1024 * 1024
_TAIL: Final = 64 * 1024
_NAME: Final = r"(?!\.\.?(?:/|$))[^/\0]+"
_WANTED: Final = re.compile(
    rf"{re.escape(DATABASE_NAME)}|console\.json|transcripts/{_NAME}\.jsonl"
    rf"|workspaces/{_NAME}/\.openclaw/attachments/{_NAME}/{_NAME}"
)
"""What may be in a backup; nothing else is taken out of one."""


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """One file of a backup: its path within the state directory, with `/`; its SHA-256 in hexadecimal."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was verified.

    Attributes:
        bytes: Of the whole file.
        sha256: Of the whole file, in hexadecimal.
        created_at: ms since the Unix epoch.
        version: Of the program that made it.
        schema: Of the database in it.
        sessions: How many there are in it.
        messages: How many there are in it.
    """

    path: Path
    bytes: int
    sha256: str
    created_at: int
    version: str
    schema: int
    sessions: int
    messages: int
    files: tuple[BackupEntry, ...]

    def as_json(self) -> dict[str, Any]:
        """Return what the owner is told of it."""
        return {
            "path": str(self.path),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "createdAt": self.created_at,
            "version": self.version,
            "schema": self.schema,
            "sessions": self.sessions,
            "messages": self.messages,
            "files": len(self.files),
            "leftOut": LEFT_OUT,
        }


def create(state: Path, target: Path, *, version: str, now_ms: int) -> Backup:
    """Write a backup of a state directory into a file that does not exist yet, and verify it. Blocks.

    Args:
        version: Of this program.
        now_ms: ms since the Unix epoch.

    Raises:
        NotFound: There is nothing to back up, or no folder for the file.
        Conflict: The file exists.
        Unavailable: The disk refuses it, or the database is damaged.
    """
    if not holds_database(state):
        raise NotFound(f"the state directory {state} holds no {DATABASE_NAME}: there is nothing to back up")
    if not target.parent.is_dir():
        raise NotFound(f"the folder {target.parent} does not exist: make it, or choose another")
    try:
        with written(target, replace=False) as file:
            _write(state, file, target.parent, version, now_ms)
            file.seek(0)
            found = read(file, target)
    except FileExistsError:
        raise Conflict(f"{target} exists already: choose another name for the backup") from None
    except OSError as error:
        raise Unavailable(f"the backup {target} cannot be written: {error.strerror or error}") from None
    return found


def holds_database(state: Path) -> bool:
    """Whether a state directory is there with a database in it.

    `Unavailable` where it cannot be looked into, or others may write to it.
    """
    with explained(state):
        if not os.path.lexists(state):
            return False
        check_folder(state)
        return (state / DATABASE_NAME).is_file()


def create_inside(state: Path, *, version: str, now_ms: int) -> Backup:
    """Write a backup into the folder for them in the state directory itself; see `create`. Blocks."""
    from datetime import UTC, datetime

    folder = state / FOLDER
    with explained(state):
        make_folder(folder)
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    return create(state, folder / f"switchboard-{when}.tar", version=version, now_ms=now_ms)


def open_backup(path: Path) -> BinaryIO:
    """Open a backup for `read` and `unpack`; `NotFound` without one, `Unavailable` when it cannot be read."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist: give the file of a backup") from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None


def read(file: BinaryIO, path: Path, take: Callable[[BackupEntry, BinaryIO], None] | None = None) -> Backup:
    """Verify a backup from its first byte to its last, and return what it is.

    Args:
        path: What it is called, for sentences.
        take: Is given each file in it; what it read of it is verified afterwards.

    Raises:
        Invalid: It is no backup, is damaged, or holds what no backup does.
    """
    hashed = _Hashed(file)
    entries: list[BackupEntry] = []
    manifest: Any = None
    try:
        with tarfile.open(fileobj=cast("BinaryIO", hashed), mode="r|") as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isreg() else None
                if manifest is not None or data is None:
                    raise _damaged(path, f"{member.name!r} does not belong into one")
                if member.name == MANIFEST:
                    manifest = _read_manifest(cast("BinaryIO", data), path)
                else:
                    entries.append(_entry(member, cast("BinaryIO", data), path, take))
        hashed.drain()
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    if manifest is None:
        raise _damaged(path, "it has no end")
    return _matched(manifest, entries, path, hashed)


def _read_manifest(data: BinaryIO, path: Path) -> object:
    try:
        return json_codec.decode(data.read(_MAX_MANIFEST))
    except Invalid as error:
        raise _damaged(path, f"its manifest cannot be read: {error.message}") from None


def _entry(
    member: tarfile.TarInfo, data: BinaryIO, path: Path, take: Callable[[BackupEntry, BinaryIO], None] | None
) -> BackupEntry:
    """Read one file of a backup, and return what it really is."""
    if _WANTED.fullmatch(member.name) is None:
        raise _damaged(path, f"{member.name!r} does not belong into one")
    reader = _Hashed(data)
    if take is not None:
        take(BackupEntry(member.name, member.size, ""), cast("BinaryIO", reader))
    reader.drain()
    return BackupEntry(member.name, reader.count, reader.sha256)


def _matched(found: object, entries: list[BackupEntry], path: Path, whole: "_Hashed") -> Backup:
    """Hold what was read against the manifest."""
    manifest = cast("dict[str, Any]", found) if isinstance(found, dict) else dict[str, Any]()
    if manifest.get("format") != FORMAT:
        raise _damaged(path, "its manifest is of something else")
    if manifest.get("formatVersion") != VERSION:
        raise Invalid(f"{path} was made by a newer version: upgrade switchboard")
    try:
        told = [BackupEntry(str(each["path"]), int(each["bytes"]), str(each["sha256"])) for each in manifest["files"]]
        numbers = [int(manifest[name]) for name in ("createdAt", "schema", "sessions", "messages")]
        version = str(manifest["version"])
    except (KeyError, TypeError, ValueError):
        raise _damaged(path, "its manifest is incomplete") from None
    if told != entries or len({entry.path for entry in entries}) != len(entries):
        wrong = next((a.path for a, b in zip(told, entries, strict=False) if a != b), "the list of files")
        raise _damaged(path, f"{wrong} is not what was written")
    if DATABASE_NAME not in {entry.path for entry in entries}:
        raise _damaged(path, f"it has no {DATABASE_NAME}")
    created, schema, sessions, messages = numbers
    return Backup(path, whole.count, whole.sha256, created, version, schema, sessions, messages, tuple(entries))


def _write(state: Path, file: BinaryIO, beside: Path, version: str, now_ms: int) -> None:
    """Write the tar. What transcripts hold is noted before the database is copied, so that none is ahead of it."""
    transcripts = list(_whole_lines(state / "transcripts"))
    entries: list[BackupEntry] = []
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        with _snapshot(state, beside) as (snapshot, facts):
            _add(tar, entries, DATABASE_NAME, snapshot, None, now_ms)
        for path, size in transcripts:
            _add(tar, entries, f"transcripts/{path.name}", path, size, now_ms)
        for path in [state / "console.json", *_attached(state)]:
            _add(tar, entries, path.relative_to(state).as_posix(), path, None, now_ms)
        manifest = {
            "format": FORMAT,
            "formatVersion": VERSION,
            "version": version,
            "createdAt": now_ms,
            **facts,
            "leftOut": LEFT_OUT,
            "files": [{"path": each.path, "bytes": each.bytes, "sha256": each.sha256} for each in entries],
        }
        data = json_codec.encode_indented(manifest).encode()
        tar.addfile(_info(MANIFEST, len(data), now_ms), io.BytesIO(data))


@contextlib.contextmanager
def _snapshot(state: Path, beside: Path) -> Generator[tuple[Path, dict[str, int | str]]]:
    """Give a copy of the database as it is at one moment, in one file, checked; `Unavailable` if damaged."""
    with tempfile.TemporaryDirectory(prefix=".switchboard-", dir=beside) as folder, explained(state):
        path = Path(folder) / DATABASE_NAME
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as copy:
            address = f"{(state / DATABASE_NAME).as_uri()}?mode=rw"
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=5)) as db:
                db.execute("PRAGMA query_only = ON")
                db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            facts = inspect(copy, state)
        yield path, facts


def inspect(db: sqlite3.Connection, state: Path) -> dict[str, int | str]:
    """Return what a database holds, once it was found whole; `Unavailable` when damaged, or none of ours."""
    damage = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if damage != "ok":
        raise Unavailable(f"the database of {state} is damaged: {damage}: `switchboard check` says more")
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (sessions,) = db.execute("SELECT count(*) FROM sessions").fetchone()
    (messages,) = db.execute("SELECT count(*) FROM messages").fetchone()
    return {"schema": schema, "sessions": sessions, "messages": messages}


def _whole_lines(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the transcripts with how many bytes of them are whole lines at this moment."""
    for path in inside(folder):
        if path.suffix != ".jsonl" or path.is_symlink() or not path.is_file():
            continue
        with contextlib.suppress(OSError), os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - _TAIL))
            tail = file.read(_TAIL)
            newline = tail.rfind(b"\n")
            if newline >= 0 or end <= _TAIL:
                yield path, end - len(tail) + newline + 1


def _attached(state: Path) -> Iterator[Path]:
    """Yield the files that spawns attached, as far as they lie in the state directory; no link is followed."""
    for workspace in inside(state / "workspaces"):
        for folder in inside(workspace / ".openclaw" / "attachments"):
            yield from (path for path in inside(folder) if path.is_file() and not path.is_symlink())


def inside(folder: Path) -> list[Path]:
    """Return what lies in a folder that is none of a link; nothing for one that is not there."""
    try:
        return sorted(folder.iterdir()) if not folder.is_symlink() else []
    except OSError:
        return []


def _add(
    tar: tarfile.TarFile, entries: list[BackupEntry], name: str, path: Path, size: int | None, now_ms: int
) -> None:
    """Add a file, or its first bytes; one that is gone meanwhile was deleted, and is left out.

    `Unavailable` when it became shorter while it was read.
    """
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        wanted = os.fstat(descriptor).st_size if size is None else size
        reader = _Hashed(file)
        try:
            tar.addfile(_info(name, wanted, now_ms), cast("BinaryIO", reader))
        except (EOFError, tarfile.TarError):
            raise Unavailable(f"{path} changed while it was read: try again") from None
    entries.append(BackupEntry(name, wanted, reader.sha256))


def _info(name: str, size: int, now_ms: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, now_ms // 1000
    return info


class _Hashed:
    """A file that is read once, and hashed on the way; `count` bytes of it so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.count = 0

    @property
    def sha256(self) -> str:
        """The hash of what was read, in hexadecimal."""
        return self._digest.hexdigest()

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        data = self._file.read(size)
        self._digest.update(data)
        self.count += len(data)
        return data

    def drain(self) -> None:
        """Read what is left."""
        while self.read(_BLOCK):
            pass


def _damaged(path: Path, why: str) -> Invalid:
    return Invalid(f"{path} is no backup that can be used: {why}")
