"""What two owners at once have left behind in a database of an older schema: rows in one place. Each gets its own."""

import logging
import sqlite3
from typing import Final

from core.model.messages import Message, brief

_log = logging.getLogger("switchboard.store")
NUMBERED: Final = dict.fromkeys(("sessions", "runs", "exchanges", "deliveries", "messages"), "id") | {
    "gone": "session_id"
}
"""The tables whose rows carry a `rev`, each with the column that tells its rows apart."""


def renumber(db: sqlite3.Connection) -> tuple[int, int]:
    """Give messages that share a place, and changes that share a number, one of their own at the end of the order.

    Returns how many messages and how many changes.
    """
    messages, revs = _renumber_messages(db), _renumber_revs(db)
    if messages or revs:
        _log.warning(
            "two processes had written to this database at once: %d messages stood in the place of others and follow"
            " at the end of their sessions now, %d changes have a number of their own",
            messages,
            revs,
        )
    return messages, revs


def _renumber_messages(db: sqlite3.Connection) -> int:
    twice = db.execute("SELECT session, seq FROM messages GROUP BY session, seq HAVING count(*) > 1").fetchall()
    count = 0
    for session, seq in twice:
        rows = db.execute(
            "SELECT id, run_id, brief, body FROM messages WHERE session = ? AND seq = ? ORDER BY id", (session, seq)
        ).fetchall()
        for row_id, run_id, short, body in rows[1:]:
            (last,) = db.execute("SELECT max(seq) FROM messages WHERE session = ?", (session,)).fetchone()
            message = Message.decode(body)._replace(seq=last + 1)
            db.execute(
                "UPDATE messages SET seq = ?, brief = ?, body = ? WHERE id = ?",
                (last + 1, None if short is None else brief(message).encode(), message.encode(), row_id),
            )
            db.execute("UPDATE sessions SET last_seq = max(last_seq, ?) WHERE id = ?", (last + 1, session))
            for column in ("input_seq", "reply_seq"):
                db.execute(f"UPDATE runs SET {column} = ? WHERE run_id = ? AND {column} = ?", (last + 1, run_id, seq))
            count += 1
    return count


def _renumber_revs(db: sqlite3.Connection) -> int:
    last = max(db.execute(f"SELECT coalesce(max(rev), 0) FROM {table}").fetchone()[0] for table in NUMBERED)
    count = 0
    for table, name in NUMBERED.items():
        twice = db.execute(
            f"SELECT {name} FROM {table} WHERE {name} NOT IN (SELECT min({name}) FROM {table} GROUP BY rev)"
        ).fetchall()
        for (row,) in twice:
            count += 1
            db.execute(f"UPDATE {table} SET rev = ? WHERE {name} = ?", (last + count, row))
    return count
