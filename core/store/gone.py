"""Deleting a session for good, and the tombstones that tell of it."""

import sqlite3

from core.model.events import SessionGone
from core.model.exchanges import RETRYABLE
from core.model.messages import Message
from core.model.sessions import Session
from core.store import deliveries, runs
from core.store.database import Tx
from core.store.search import index_message

REASON = "its session was deleted"


def delete(tx: Tx, session: Session) -> list[str]:
    """Delete a session with its messages, runs and names; return the ids of the transcripts it had.

    An exchange stays, with its announce, as long as the session on its other side does. What was still to be announced
    is given up. Sub-agents stay too, and go on naming who spawned them.
    """
    key = session.key
    (row_id,) = tx.db.execute("SELECT id FROM sessions WHERE key = ?", (key,)).fetchone()
    transcripts = [row[0] for row in tx.db.execute("SELECT session_id FROM transcripts WHERE key = ?", (key,))]
    for message_id, body in tx.db.execute("SELECT id, body FROM messages WHERE session = ?", (row_id,)):
        index_message(tx, message_id, Message.decode(body), forget=True)
    tx.db.execute("DELETE FROM messages WHERE session = ?", (row_id,))
    tx.db.execute("DELETE FROM transcripts WHERE key = ?", (key,))
    runs.spend(tx, key)
    tx.db.execute("DELETE FROM session_names WHERE rowid = ?", (row_id,))
    tx.db.execute("DELETE FROM sessions WHERE id = ?", (row_id,))
    tx.rows.pop(key, None)
    _delete_exchanges(tx, key)
    for delivery in deliveries.newest(tx.db, key=key, states=RETRYABLE, limit=-1):
        deliveries.move(tx, delivery.delivery_id, "skipped", REASON)
    rev = tx.next_rev()
    tx.db.execute("INSERT INTO gone (session_id, key, rev) VALUES (?, ?, ?)", (session.session_id, key, rev))
    tx.events.append(SessionGone(rev, key, session.session_id))
    return transcripts


def since(db: sqlite3.Connection, rev: int) -> list[SessionGone]:
    """Return what was deleted after a rev, in order."""
    rows = db.execute("SELECT rev, key, session_id FROM gone WHERE rev > ? ORDER BY rev", (rev,))
    return [SessionGone(*row) for row in rows]


def _delete_exchanges(tx: Tx, key: str) -> None:
    """Delete the exchanges of a deleted session of which neither side is left."""
    found = tx.db.execute(
        "SELECT exchange_id FROM exchanges WHERE (requester = ? OR target = ?)"
        " AND NOT EXISTS (SELECT 1 FROM sessions WHERE key IN (requester, target))",
        (key, key),
    ).fetchall()
    for statement in ("DELETE FROM deliveries WHERE exchange_id = ?", "DELETE FROM exchanges WHERE exchange_id = ?"):
        tx.db.executemany(statement, found)
