"""Overrides of the send policy that were set on keys without a session, and wait for it (P5)."""

from core.model.sessions import Override
from core.store.database import Db, Tx


def waiting(db: Db) -> dict[str, Override]:
    """Return all of them, by key."""
    return dict(db.execute("SELECT key, send_policy FROM overrides ORDER BY key").fetchall())


def put(tx: Tx, key: str, override: Override | None) -> None:
    """Let an override wait, or none any more."""
    tx.db.execute("DELETE FROM overrides WHERE key = ?", (key,))
    if override is not None:
        tx.db.execute("INSERT INTO overrides (key, send_policy) VALUES (?, ?)", (key, override))


def take(tx: Tx, key: str) -> Override | None:
    """Return what waits for the session that is made now, and let it wait no longer."""
    found = tx.db.execute("DELETE FROM overrides WHERE key = ? RETURNING send_policy", (key,)).fetchone()
    return found[0] if found else None
