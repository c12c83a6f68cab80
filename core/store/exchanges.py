"""Rows of exchanges: begin, advance, find."""

import sqlite3
from dataclasses import dataclass
from typing import Any, Final

from core.model.events import ExchangeChanged
from core.model.exchanges import Exchange, ExchangeKind
from core.store.database import Tx

_COLUMNS: Final = (
    "exchange_id, rev, kind, state, outcome, requester, target, turn, max_turns, request_seq, root, cleanup, reason,"
    " started_at, ended_at,"
    " CASE kind WHEN 'spawn' THEN (SELECT state FROM runs WHERE run_id = exchange_id) END,"
    " CASE kind WHEN 'spawn' THEN"
    " (SELECT ended_at - coalesce(started_at, ended_at) FROM runs WHERE run_id = exchange_id) END"
)
_CLEANUP: Final = 11


@dataclass(frozen=True, slots=True)
class NewExchange:
    """What is known of an exchange when its first run is accepted; see `Exchange` for the fields."""

    exchange_id: str
    kind: ExchangeKind
    requester: str
    target: str
    max_turns: int
    request_seq: int
    root: str
    cleanup: bool = False


def begin(tx: Tx, new: NewExchange) -> Exchange:
    """Insert an exchange whose first run has just been accepted."""
    tx.db.execute(
        "INSERT INTO exchanges (exchange_id, rev, kind, state, requester, target, max_turns, request_seq, root,"
        " cleanup, started_at) VALUES (?, ?, ?, 'first', ?, ?, ?, ?, ?, ?, ?)",
        (
            new.exchange_id,
            tx.next_rev(),
            new.kind,
            new.requester,
            new.target,
            new.max_turns,
            new.request_seq,
            new.root,
            new.cleanup,
            tx.now,
        ),
    )
    return _told(tx, new.exchange_id)


def update(tx: Tx, exchange_id: str, **columns: object) -> Exchange:
    """Change columns of an exchange. Names of columns come from our own code, never from data."""
    assignments = ", ".join(f"{column} = ?" for column in columns)
    tx.db.execute(
        f"UPDATE exchanges SET {assignments}, rev = ? WHERE exchange_id = ?",
        (*columns.values(), tx.next_rev(), exchange_id),
    )
    return _told(tx, exchange_id)


def by_id(db: sqlite3.Connection, exchange_id: str) -> Exchange | None:
    """Return an exchange, None when there is none with that id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM exchanges WHERE exchange_id = ?", (exchange_id,)).fetchone()
    return _read(row) if row else None


def spawn_of(db: sqlite3.Connection, child: str) -> Exchange | None:
    """Return the exchange that a sub-agent was started with, None for a session that nobody spawned."""
    row = db.execute(f"SELECT {_COLUMNS} FROM exchanges WHERE target = ? AND kind = 'spawn'", (child,)).fetchone()
    return _read(row) if row else None


def has_open_spawns(db: sqlite3.Connection, key: str) -> bool:
    """Whether a session has spawned what has not announced yet."""
    found = db.execute(
        "SELECT 1 FROM exchanges WHERE requester = ? AND kind = 'spawn' AND state <> 'ended' LIMIT 1", (key,)
    )
    return found.fetchone() is not None


def hops(db: sqlite3.Connection, root: str) -> int:
    """Return how many sends a run has caused so far, directly or not."""
    count = db.execute("SELECT count(*) FROM exchanges WHERE root = ? AND kind = 'send'", (root,)).fetchone()
    return int(count[0])


def of_session(db: sqlite3.Connection, key: str, *, limit: int) -> list[Exchange]:
    """Return the newest exchanges that a session began or took part in, newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM exchanges WHERE id IN (SELECT id FROM (SELECT id FROM exchanges WHERE requester = ?"
        " ORDER BY id DESC LIMIT ?) UNION SELECT id FROM (SELECT id FROM exchanges WHERE target = ? ORDER BY id DESC"
        " LIMIT ?)) ORDER BY id DESC LIMIT ?",
        (key, limit, key, limit, limit),
    )
    return [_read(row) for row in rows]


def under_way(db: sqlite3.Connection, key: str) -> Exchange | None:
    """Return an exchange of a session that has not ended, None without any."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM exchanges WHERE (requester = ? OR target = ?) AND state <> 'ended' LIMIT 1", (key, key)
    ).fetchone()
    return _read(row) if row else None


def changed_since(db: sqlite3.Connection, rev: int) -> list[Exchange]:
    """Return the exchanges changed after a rev, in the order of their changes."""
    return [_read(row) for row in db.execute(f"SELECT {_COLUMNS} FROM exchanges WHERE rev > ? ORDER BY rev", (rev,))]


def _told(tx: Tx, exchange_id: str) -> Exchange:
    exchange = by_id(tx.db, exchange_id)
    assert exchange is not None, "the row was written in this transaction"
    tx.events.append(ExchangeChanged(exchange.rev, exchange))
    return exchange


def _read(row: tuple[Any, ...]) -> Exchange:
    values = list(row)
    values[_CLEANUP] = bool(values[_CLEANUP])
    return Exchange(*values)
