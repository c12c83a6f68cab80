"""Tables whose rows carry a `rev`: how their rows are read, and written with the event that tells of it.

Names of tables and columns come from our own code, never from data.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from core.model.events import DurableEvent
from core.store.database import Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """One table.

    Attributes:
        id: The column that names a row.
        columns: What `read` makes a row of.
        changed: Makes the event that tells of a new or changed row.
    """

    name: str
    id: str
    columns: str
    read: Callable[[tuple[Any, ...]], T]
    changed: Callable[[int, T], DurableEvent]

    def select(self, db: sqlite3.Connection, rest: str, *values: object) -> list[T]:
        """Return the rows that the rest of a query, after the name of the table, asks for."""
        return [self.read(row) for row in db.execute(f"SELECT {self.columns} FROM {self.name} {rest}", values)]

    def by_id(self, db: sqlite3.Connection, row_id: str) -> T | None:
        """Return a row, None when there is none with that id."""
        return next(iter(self.select(db, f"WHERE {self.id} = ?", row_id)), None)

    def changed_since(self, db: sqlite3.Connection, rev: int) -> list[T]:
        """Return the rows changed after a rev, in the order of their changes."""
        return self.select(db, "WHERE rev > ? ORDER BY rev", rev)

    def insert(self, tx: Tx, **columns: object) -> T:
        """Insert a row and return it."""
        insert(tx.db, self.name, {**columns, "rev": tx.next_rev()})
        return self._tell(tx, str(columns[self.id]))

    def update(self, tx: Tx, row_id: str, **columns: object) -> T:
        """Change columns of a row that is there, and return it."""
        assignments = ", ".join(f"{column} = ?" for column in columns)
        tx.db.execute(
            f"UPDATE {self.name} SET {assignments}, rev = ? WHERE {self.id} = ?",
            (*columns.values(), tx.next_rev(), row_id),
        )
        return self._tell(tx, row_id)

    def _tell(self, tx: Tx, row_id: str) -> T:
        row = self.by_id(tx.db, row_id)
        assert row is not None, "the row was written in this transaction"
        tx.events.append(self.changed(tx.rev, row))
        return row


def insert(db: sqlite3.Connection, table: str, columns: dict[str, Any]) -> int:
    """Insert a row and return its number."""
    places = ", ".join("?" * len(columns))
    values = tuple(columns.values())
    return db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", values).lastrowid or 0
