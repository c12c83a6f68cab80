"""Rows that come from another system's store, with the ids and times they had there.

Whoever calls these makes the whole of a session in one write. No event is sent for a message: the process that imports
has no subscribers, and those of others catch up by `rev`.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from core.model.messages import BRIEF_TOOL_CHARS, Message, brief
from core.model.sessions import Session
from core.store import overrides
from core.store.database import Tx
from core.store.search import MAX_INDEXED_CHARS, searchable_text
from core.store.sessions import stored_key

_COLUMNS: Final = tuple("stored_key" if name == "key" else name for name in Session._fields)


def insert_session(tx: Tx, session: Session) -> None:
    """Insert a session as it is given, but for its `rev`."""
    override = overrides.take(tx, session.key) or session.send_policy
    values = session._replace(key=stored_key(session.key), rev=tx.next_rev(), send_policy=override)
    cursor = tx.db.execute(
        f"INSERT INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})", values
    )
    tx.db.execute(
        "INSERT INTO session_names (rowid, key, label, display_name) VALUES (?, ?, ?, ?)",
        (cursor.lastrowid, session.key, session.label, session.display_name),
    )
    tx.touched[session.key] = None


def insert_transcript(tx: Tx, key: str, session_id: str, first_seq: int, started_at: int) -> None:
    """Begin a transcript of a session; the one before it ends there."""
    tx.db.execute("UPDATE transcripts SET last_seq = ? WHERE key = ? AND last_seq IS NULL", (first_seq - 1, key))
    tx.db.execute(
        "INSERT INTO transcripts (session_id, key, first_seq, started_at) VALUES (?, ?, ?, ?)",
        (session_id, key, first_seq, started_at),
    )


def insert_messages(tx: Tx, key: str, messages: Sequence[Message]) -> None:
    """Insert messages of a session that have their id, `seq` and time already, and make their words findable.

    The words go to the index at once, not at the end of the write as those of a single append do, so that memory does
    not grow with the length of the transcript.
    """
    (session,) = tx.db.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    first = int(tx.db.execute("SELECT coalesce(max(id), 0) + 1 FROM messages").fetchone()[0])
    rows: list[tuple[object, ...]] = []
    words: list[tuple[int, str]] = []
    for row_id, given in enumerate(messages, first):
        message, body = given.storable()
        short = brief(message) if len(body) > BRIEF_TOOL_CHARS else message
        shortened = None if short is message else short.encode()
        rows.append((row_id, session, message.seq, tx.next_rev(), message.role, shortened, body))
        found = searchable_text(message)[:MAX_INDEXED_CHARS]
        if found:
            words.append((row_id, found))
    tx.db.executemany(
        "INSERT INTO messages (id, session, seq, rev, role, brief, body) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
    )
    tx.db.executemany("INSERT INTO message_words (rowid, words) VALUES (?, ?)", words)


def transcript_ids(db: sqlite3.Connection, key: str) -> list[str]:
    """Return the ids of all transcripts a session has had, oldest first."""
    found = db.execute("SELECT session_id FROM transcripts WHERE key = ? ORDER BY first_seq, started_at", (key,))
    return [row[0] for row in found]


def owner_of(db: sqlite3.Connection, session_id: str) -> str | None:
    """Return the key of the session that a transcript belongs to, None when there is none with that id."""
    row = db.execute("SELECT key FROM transcripts WHERE session_id = ?", (session_id,)).fetchone()
    return row[0] if row else None


def was_deleted(db: sqlite3.Connection, session_id: str) -> bool:
    """Whether a session was deleted here whose current transcript was that one."""
    return db.execute("SELECT 1 FROM gone WHERE session_id = ?", (session_id,)).fetchone() is not None
