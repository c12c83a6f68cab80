"""Rows of exchanges: begin, advance, find."""

import sqlite3
from typing import Any, Final, NamedTuple

from core.model.events import ExchangeChanged
from core.model.exchanges import Exchange, ExchangeKind
from core.store.database import Tx
from core.store.tables import Table

_CLEANUP: Final = Exchange._fields.index("cleanup")


def _read(row: tuple[Any, ...]) -> Exchange:
    values = list(row)
    values[_CLEANUP] = bool(values[_CLEANUP])
    return Exchange(*values)


_TABLE: Final = Table(
    "exchanges",
    "exchange_id",
    f"{', '.join(Exchange._fields[:-2])},"
    " CASE kind WHEN 'spawn' THEN (SELECT state FROM runs WHERE run_id = exchange_id) END,"
    " CASE kind WHEN 'spawn' THEN"
    " (SELECT ended_at - coalesce(started_at, ended_at) FROM runs WHERE run_id = exchange_id) END",
    _read,
    ExchangeChanged,
)
by_id: Final = _TABLE.by_id
changed_since: Final = _TABLE.changed_since
update: Final = _TABLE.update


class NewExchange(NamedTuple):
    """What is known of an exchange when its first run is accepted: its columns; see `Exchange`."""

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
    return _TABLE.insert(tx, **new._asdict(), state="first", started_at=tx.now)


def spawn_of(db: sqlite3.Connection, child: str) -> Exchange | None:
    """Return the exchange that a sub-agent was started with, None for a session that nobody spawned."""
    return next(iter(_TABLE.select(db, "WHERE target = ? AND kind = 'spawn'", child)), None)


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
    newest = "SELECT id FROM (SELECT id FROM exchanges WHERE {} = ? ORDER BY id DESC LIMIT ?)"
    either = f"{newest.format('requester')} UNION {newest.format('target')}"
    return _TABLE.select(db, f"WHERE id IN ({either}) ORDER BY id DESC LIMIT ?", key, limit, key, limit, limit)


def under_way(db: sqlite3.Connection, key: str) -> Exchange | None:
    """Return an exchange of a session that has not ended, None without any."""
    found = _TABLE.select(db, "WHERE (requester = ? OR target = ?) AND state <> 'ended' LIMIT 1", key, key)
    return next(iter(found), None)
