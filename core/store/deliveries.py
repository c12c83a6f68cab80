"""Rows of the outbox: one text for one channel address each."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from core.model.events import DeliveryChanged
from core.model.exchanges import Delivery, DeliveryState
from core.store.database import Tx
from core.store.tables import Table

_TABLE: Final = Table(
    "deliveries",
    "delivery_id",
    "delivery_id, rev, exchange_id, key, channel, address, account_id, text, state, reason, attempts, due_at,"
    " created_at, updated_at",
    lambda row: Delivery(*row),
    DeliveryChanged,
)
by_id: Final = _TABLE.by_id
changed_since: Final = _TABLE.changed_since


class NewDelivery(NamedTuple):
    """What is known of a delivery when its text is: its columns; see `Delivery`."""

    exchange_id: str
    key: str
    channel: str
    address: str
    account_id: str | None
    text: str
    state: DeliveryState = "pending"
    reason: str | None = None


def add(tx: Tx, new: NewDelivery) -> Delivery:
    """Insert a delivery; there is at most one per exchange and address."""
    delivery_id = f"{new.exchange_id}:announce:{new.channel}:{new.address}".rstrip(":")
    times = dict.fromkeys(("due_at", "created_at", "updated_at"), tx.now)
    return _TABLE.insert(tx, delivery_id=delivery_id, **new._asdict(), **times)


def move(tx: Tx, delivery_id: str, state: DeliveryState, reason: str | None = None, **numbers: int) -> Delivery:
    """Give a delivery another state; of `numbers`, `due_at` is else now, and `attempts` as they are."""
    more = {"due_at": tx.now, **numbers}
    return _TABLE.update(tx, delivery_id, state=state, reason=reason, updated_at=tx.now, **more)


def of_exchange(db: sqlite3.Connection, exchange_id: str) -> Delivery | None:
    """Return the announce of an exchange, None when it has come to none yet."""
    return of_exchanges(db, [exchange_id]).get(exchange_id)


def of_exchanges(db: sqlite3.Connection, exchange_ids: Sequence[str]) -> dict[str, Delivery]:
    """Return the announces of exchanges by their ids; those that have come to none yet are absent."""
    found = _TABLE.select(db, f"WHERE exchange_id IN ({', '.join('?' * len(exchange_ids))})", *exchange_ids)
    return {delivery.exchange_id: delivery for delivery in found}


def newest(
    db: sqlite3.Connection, *, key: str | None = None, states: Collection[DeliveryState] = (), limit: int
) -> list[Delivery]:
    """Return the newest deliveries, of all sessions or of one, in any state or in some, newest first."""
    conditions = ["TRUE"] if key is None else ["key = ?"]
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
    values = (*(() if key is None else (key,)), *states, limit)
    return _TABLE.select(db, f"WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?", *values)


def in_state(db: sqlite3.Connection, state: DeliveryState) -> list[Delivery]:
    """Return the deliveries in one of the open states, the first due first."""
    is_open = "state IN ('pending', 'sending')"  # named, because the index holds those only
    return _TABLE.select(db, f"WHERE {is_open} AND state = ? ORDER BY due_at, id", state)
