"""The newer store of OpenClaw: one SQLite database an agent, read without changing anything."""

import contextlib
import shutil
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from core.imports.entries import Entry
from core.imports.report import Notes
from core.imports.source import Source, SourceSession, SourceTranscript, read_facts
from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.model.json_codec import mapping

DATABASE: Final = "openclaw-agent.sqlite"
KNOWN_VERSION: Final = 23
_TABLES: Final = ("session_nodes", "session_windows", "transcript_events")
_COLUMNS: Final[Mapping[str, str]] = {
    "label": "label",
    "display_name": "displayName",
    "status": "status",
    "spawned_by": "spawnedBy",
    "created_at": "createdAt",
    "updated_at": "updatedAt",
    "archived_at": "archivedAt",
}
_WAL_HEADER_BYTES: Final = 32
_TRIES: Final = 8
_MAX_EVENT_BYTES: Final = 64 * 1024 * 1024


@contextlib.contextmanager
def open_source(path: Path, agent_id: str) -> Generator[Source]:
    """Open the database of an agent and return its sessions; their transcripts can be read while it is open.

    Raises `Unavailable` when it is damaged, cannot be read, or is no such database.
    """
    with contextlib.ExitStack() as stack:
        with _explained(path):
            db = stack.enter_context(contextlib.closing(_open(path, stack)))
            source = _read_source(db, path, agent_id)
        yield source


def _open(path: Path, stack: contextlib.ExitStack) -> sqlite3.Connection:
    """Open a database so that nothing is written beside it: as it is, or a copy while a gateway is writing to it."""
    if _size(_wal(path)):
        folder = stack.enter_context(TemporaryDirectory(prefix="switchboard-import-"))
        path = _copied(path, Path(folder))
        uri = f"{path.as_uri()}?mode=rw"
    else:
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    # The transaction that writes a session reads it, on the thread of the writer.
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _copied(path: Path, folder: Path) -> Path:
    """Copy a database with its log. What is appended to the log meanwhile does no harm, folding it back would."""
    copy = folder / DATABASE
    for _ in range(_TRIES):
        before = _state(path)
        shutil.copyfile(path, copy)
        with contextlib.suppress(FileNotFoundError):  # folded back and gone: then the database has changed
            shutil.copyfile(_wal(path), _wal(copy))
        if _state(path) == before:
            return copy
        time.sleep(0.2)
    raise Unavailable(f"{path} is being written all the time: stop the gateway, or import a copy of its directory")


def _state(path: Path) -> tuple[int, int, bytes]:
    """Return what changes when the log is folded back into the database or started anew."""
    stat = path.stat()
    try:
        with _wal(path).open("rb") as file:
            header = file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        header = b""
    return stat.st_size, stat.st_mtime_ns, header


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_source(db: sqlite3.Connection, path: Path, agent_id: str) -> Source:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = [table for table in _TABLES if table not in tables]
    if missing:
        known = f"its version is {version}, and versions up to {KNOWN_VERSION} are known"
        raise Unavailable(f"{path} has no table {missing[0]}, so it holds no sessions that can be read ({known})")
    notes, notices = Notes(), list[str]()
    if version > KNOWN_VERSION:
        notices.append(f"{path} has version {version}, newer than the known {KNOWN_VERSION}: it was read all the same")
    for table, words in (
        ("session_pending_inputs", "inputs that wait there for a run"),
        ("session_transcript_archives", "transcripts that were put aside when their session was deleted or reset"),
    ):
        if table in tables:
            notes.add(words, path.name, int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]))  # noqa: S608 - our words
    windows: dict[str, list[str]] = {}
    for key, session_id in db.execute("SELECT session_key, session_id FROM session_windows ORDER BY created_at, rowid"):
        windows.setdefault(key, []).append(session_id)
    cursor = db.execute("SELECT * FROM session_nodes ORDER BY updated_at")
    names = [column[0] for column in cursor.description]
    sessions = [_session(db, path, agent_id, dict(zip(names, row, strict=True)), windows) for row in cursor]
    return Source(agent_id, tuple(sessions), notes, tuple(notices))


def _session(
    db: sqlite3.Connection, path: Path, agent_id: str, row: Mapping[str, Any], windows: Mapping[str, list[str]]
) -> SourceSession:
    try:
        entry = dict(mapping(json_codec.heal(row["entry_json"] or "")))
    except Invalid:
        entry = dict[str, Any]()
    entry.update({name: row[column] for column, name in _COLUMNS.items() if row.get(column) is not None})
    entry["sessionId"] = row["current_session_id"]
    facts = read_facts(str(row["session_key"]), agent_id, entry)
    older = [window for window in windows.get(facts.key, []) if window != facts.session_id]
    read = (
        SourceTranscript(window, window, partial(_entries, db, path, window)) for window in [*older, facts.session_id]
    )
    return SourceSession(facts._replace(created_at=facts.created_at or facts.updated_at), tuple(read))


def _entries(db: sqlite3.Connection, path: Path, session_id: str, notes: Notes) -> Iterator[Entry]:
    """Yield every entry of a transcript but its header; what cannot be read is counted."""
    with _explained(path):
        columns = {row[1] for row in db.execute("PRAGMA table_info(transcript_events)")}
        packed = "event_zstd" if "event_zstd" in columns else "NULL"
        rows = db.execute(
            f"SELECT seq, event_json, {packed} FROM transcript_events WHERE session_id = ? ORDER BY seq",  # noqa: S608 - our words
            (session_id,),
        )
        for seq, text, data in rows:
            try:
                stored = text if text is not None else _unpacked(data)
                entry = json_codec.heal(stored)
                json_codec.check_depth(entry, stored)
            except (ValueError, Invalid):
                entry = None
            if not isinstance(entry, dict):
                notes.add("entries that cannot be read", f"{session_id}:{seq}")
            elif cast("Entry", entry).get("type") != "session":
                yield cast("Entry", entry)


def _unpacked(data: bytes) -> bytes:
    """Return what was compressed; a frame that is damaged, or larger than any message, is a `ValueError`."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor, ZstdError
    else:
        from backports.zstd import ZstdDecompressor, ZstdError
    try:
        return ZstdDecompressor().decompress(data, max_length=_MAX_EVENT_BYTES)
    except ZstdError as error:
        raise ValueError(str(error)) from None


@contextlib.contextmanager
def _explained(path: Path) -> Generator[None]:
    """Turn what SQLite and the system say of the other system's database into one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damaged = code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
        advice = "is damaged: have OpenClaw repair it, or import a copy" if damaged else f"cannot be read: {error}"
        raise Unavailable(f"{path} {advice}") from None
    except OSError as error:
        raise Unavailable(f"{error.filename or path} cannot be read: {error.strerror}") from None
