"""Rows of the outbox: one text for one channel address each."""

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from core.model.events import DeliveryChanged
from core.model.exchanges import Delivery, DeliveryState
from core.store.database import Tx

_COLUMNS: Final = (
    "delivery_id, rev, exchange_id, key, channel, address, account_id, text, state, reason, attempts, due_at,"
    " created_at, updated_at"
)


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """What is known of a delivery when its text is; see `Delivery` for the fields."""

    exchange_id: str
    key: str
    channel: str
    to: str
    account_id: str | None
    text: str
    state: DeliveryState = "pending"
    reason: str | None = None


def add(tx: Tx, new: NewDelivery) -> Delivery:
    """Insert a delivery; there is at most one per exchange and address."""
    delivery_id = f"{new.exchange_id}:announce:{new.channel}:{new.to}".rstrip(":")
    tx.db.execute(
        "INSERT INTO deliveries (delivery_id, rev, exchange_id, key, channel, address, account_id, text, state, reason,"
        " due_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            delivery_id,
            tx.next_rev(),
            new.exchange_id,
            new.key,
            new.channel,
            new.to,
            new.account_id,
            new.text,
            new.state,
            new.reason,
            tx.now,
            tx.now,
            tx.now,
        ),
    )
    return _told(tx, delivery_id)


def move(
    tx: Tx,
    delivery_id: str,
    state: DeliveryState,
    reason: str | None = None,
    *,
    due_at: int | None = None,
    attempted: bool = False,
) -> Delivery:
    """Give a delivery another state."""
    tx.db.execute(
        "UPDATE deliveries SET state = ?, reason = ?, due_at = ?, attempts = attempts + ?, updated_at = ?, rev = ?"
        " WHERE delivery_id = ?",
        (state, reason, tx.now if due_at is None else due_at, int(attempted), tx.now, tx.next_rev(), delivery_id),
    )
    return _told(tx, delivery_id)


def by_id(db: sqlite3.Connection, delivery_id: str) -> Delivery | None:
    """Return a delivery, None when there is none with that id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE delivery_id = ?", (delivery_id,)).fetchone()
    return Delivery(*row) if row else None


def of_exchange(db: sqlite3.Connection, exchange_id: str) -> Delivery | None:
    """Return the announce of an exchange, None when it has come to none yet."""
    row = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE exchange_id = ?", (exchange_id,)).fetchone()
    return Delivery(*row) if row else None


def of_exchanges(db: sqlite3.Connection, exchange_ids: Sequence[str]) -> dict[str, Delivery]:
    """Return the announces of exchanges by their ids; those that have come to none yet are absent."""
    places = ", ".join("?" * len(exchange_ids))
    rows = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE exchange_id IN ({places})", exchange_ids)
    found = [Delivery(*row) for row in rows]
    return {delivery.exchange_id: delivery for delivery in found}


def newest(
    db: sqlite3.Connection, *, key: str | None = None, states: Collection[DeliveryState] = (), limit: int
) -> list[Delivery]:
    """Return the newest deliveries, of all sessions or of one, in any state or in some, newest first."""
    conditions = ["TRUE"] if key is None else ["key = ?"]
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
    values = (*(() if key is None else (key,)), *states, limit)
    only = " AND ".join(conditions)
    rows = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE {only} ORDER BY id DESC LIMIT ?", values)
    return [Delivery(*row) for row in rows]


def in_state(db: sqlite3.Connection, state: DeliveryState) -> list[Delivery]:
    """Return the deliveries in one of the open states, the first due first."""
    is_open = "state IN ('pending', 'sending')"  # named, because the index holds those only
    rows = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE {is_open} AND state = ? ORDER BY due_at, id", (state,))
    return [Delivery(*row) for row in rows]


def changed_since(db: sqlite3.Connection, rev: int) -> list[Delivery]:
    """Return the deliveries changed after a rev, in the order of their changes."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE rev > ? ORDER BY rev", (rev,))
    return [Delivery(*row) for row in rows]


def _told(tx: Tx, delivery_id: str) -> Delivery:
    delivery = by_id(tx.db, delivery_id)
    assert delivery is not None, "the row was written in this transaction"
    tx.events.append(DeliveryChanged(delivery.rev, delivery))
    return delivery
