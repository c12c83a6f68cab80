"""Rows that come from another system's store, with the ids and times they had there.

Whoever calls these makes the whole of a session in one write. No event is sent for a message: the process that imports
has no subscribers, and those of others catch up by `rev`.
"""

import sqlite3
from collections.abc import Sequence

from core.model.messages import BRIEF_TOOL_CHARS, Message, brief
from core.store.database import Tx
from core.store.search import MAX_INDEXED_CHARS, searchable_text


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
