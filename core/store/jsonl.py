"""Transcripts as JSONL files beside the database, for people and their tools; best effort (architecture#files).

The first line describes the transcript, each further line is one message: `{type, id, parentId, timestamp, message}`.
What was written is read back from the file's last line, so that a crash in between neither doubles nor loses a line.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from core.files import make_inner_folder, open_private
from core.model import json_codec
from core.model.errors import Invalid

_TAIL_BYTES = 65_536


def transcript_path(directory: Path, session_id: str) -> Path:
    """Return where the transcript with that id is written."""
    return directory / "transcripts" / f"{session_id}.jsonl"


def append_new(db: sqlite3.Connection, directory: Path, key: str, session_id: str) -> int:
    """Append what a transcript's file lacks; return how many messages. `ValueError`: its last line is none of ours."""
    if db.execute("SELECT 1 FROM transcripts WHERE session_id = ?", (session_id,)).fetchone() is None:
        return 0  # its session was deleted
    path = transcript_path(directory, session_id)
    make_inner_folder(path.parent)
    descriptor = open_private(path, os.O_CREAT | os.O_RDWR)
    with os.fdopen(descriptor, "r+b") as file:
        written, parent = _end_of(file.fileno())
        rows = db.execute(  # one statement, so that a reset in between cannot give it the messages of the next one
            "SELECT m.body FROM transcripts AS t JOIN sessions AS s ON s.key = t.key JOIN messages AS m"
            " ON m.session = s.id AND m.seq > max(?, t.first_seq - 1) AND m.seq <= coalesce(t.last_seq, m.seq)"
            " WHERE t.session_id = ? ORDER BY m.seq",
            (written, session_id),
        )
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            file.write(_line({"type": "session", "version": 3, "id": session_id, "key": key}))
        count = 0
        for (body,) in rows:
            message: dict[str, Any] = json_codec.heal(body)
            line = {"type": "message", "id": message["id"], "parentId": parent, "timestamp": message["timestamp"]}
            file.write(_line({**line, "message": message}))
            parent = message["id"]
            count += 1
        return count


def behind(db: sqlite3.Connection, directory: Path) -> list[tuple[str, str]]:
    """Return keys and ids of transcripts that may hold more than their files, since a process died.

    Those without a file whose session never ran here, because they were imported, are left without one.
    """
    rows = db.execute(
        "SELECT DISTINCT t.key, t.session_id, EXISTS (SELECT 1 FROM runs WHERE runs.key = t.key) FROM messages AS m"
        " JOIN sessions AS s ON s.id = m.session JOIN transcripts AS t ON t.key = s.key AND t.first_seq <= m.seq"
        " AND (t.last_seq IS NULL OR m.seq <= t.last_seq) WHERE m.rev > ?",
        (recorded(db),),
    )
    folder = transcript_path(directory, "").parent
    # One look, however many sessions there are.
    there = {path.name for path in folder.iterdir()} if folder.exists() else set[str]()
    return [
        (key, session_id)
        for key, session_id, has_run in rows
        if has_run or transcript_path(directory, session_id).name in there
    ]


def newest(db: sqlite3.Connection) -> int:
    """Return the rev of the newest message."""
    return int(db.execute("SELECT coalesce(max(rev), 0) FROM messages").fetchone()[0])


def recorded(db: sqlite3.Connection) -> int:
    """Return the rev up to which every message is in its transcript's file."""
    return int(db.execute("SELECT value FROM meta WHERE name = 'files_rev'").fetchone()[0])


def record(db: sqlite3.Connection, rev: int) -> None:
    """Note the rev up to which every message is in its transcript's file."""
    db.execute("UPDATE meta SET value = ? WHERE name = 'files_rev'", (str(rev),))


def remove(directory: Path, session_ids: Iterable[str]) -> None:
    """Remove the files of transcripts that were deleted."""
    for session_id in session_ids:
        transcript_path(directory, session_id).unlink(missing_ok=True)


def _end_of(descriptor: int) -> tuple[int, str | None]:
    """Return `seq` and id of the last message in the file, cutting off a line that a crash left torn; 0 for none."""
    size = os.fstat(descriptor).st_size
    data = b""
    start = size
    while start > 0 and data.count(b"\n") < 2:
        start = max(0, start - _TAIL_BYTES)
        data = os.pread(descriptor, size - start, start)
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.ftruncate(descriptor, start + len(whole))
    lines = whole.splitlines()
    try:
        last = cast("dict[str, Any]", json_codec.heal(lines[-1])) if lines else {}
        if last.get("type") != "message":
            return 0, None
        return int(last["message"]["seq"]), str(last["id"])
    except (AttributeError, Invalid, KeyError, TypeError) as error:
        raise ValueError("its last line is not a message") from error


def _line(data: dict[str, Any]) -> bytes:
    return json_codec.encode(data).encode() + b"\n"
