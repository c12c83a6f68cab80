"""The order of the session list: who needs the operator first, sub-agents under who spawned them (console#attention).

Only what changed is placed again, so that a thousand events a second over ten thousand sessions stay cheap.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

from console.live.rows import Look, Row

Order = Literal["attention", "newest", "name", "channel", "cost"]
ORDERS: Final[tuple[Order, ...]] = ("attention", "newest", "name", "channel", "cost")
ORDER_WORDS: Final[Mapping[Order, str]] = {
    "attention": "by attention",
    "newest": "newest first",
    "name": "by name",
    "channel": "by channel",
    "cost": "by cost",
}
RANK: Final[Mapping[Look, int]] = {"failed": 0, "running": 1, "queued": 2, "idle": 3, "done": 3, "archived": 4}
_SortKey = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A row at its place; `branch`, as `├` or `│ └`, stands before a sub-agent's name and is empty for all others."""

    key: str
    branch: str = ""


class Placement:
    """The rows of a book in order.

    Args:
        children: Returns the sub-agents that a session spawned.

    Attributes:
        needle: Only rows that hold all these words are placed, each on its own; empty for all.
        archived: Place the archived sessions instead of the others.
    """

    def __init__(self, rows: Mapping[str, Row], children: Callable[[str], list[Row]]) -> None:
        self.order: Order = "attention"
        self.needle = ""
        self.archived = False
        self._rows = rows
        self._children = children
        self._changes: set[str] = set()
        self._selected: str | None = None
        self._stale = True
        self._sorted: list[_SortKey] = []
        self._sort_keys: dict[str, _SortKey] = {}
        self._groups: dict[str, list[Placed]] = {}
        self._haystacks: dict[str, tuple[Row, str]] = {}

    def reset(self) -> None:
        """Place everything anew: the order, the filter or all rows have changed."""
        self._stale = True

    def touch(self, key: str) -> None:
        """Place a row again, with those that hang on it."""
        if not self._stale:
            self._changes.add(key)

    def select(self, key: str | None) -> None:
        """Leave the row in its place that the operator is at, whatever becomes of it."""
        for changed in (self._selected, key) if key != self._selected else ():
            if changed is not None:
                self.touch(changed)
        self._selected = key

    def placed(self) -> list[Placed]:
        """Return the rows to show, in order."""
        if self._stale:
            self._place_all()
        else:
            for key in self._hanging_on(self._changes):
                self._place(key)
        self._changes.clear()
        return list(chain.from_iterable(self._groups[entry[-1]] for entry in self._sorted))

    def _place_all(self) -> None:
        self._stale = False
        self._groups = {key: self._group(key) for key in self._rows if self._is_root(key)}
        self._sort_keys = {key: self._group_key(group) for key, group in self._groups.items()}
        self._sorted = sorted(self._sort_keys.values())

    def _place(self, key: str) -> None:
        old = self._sort_keys.pop(key, None)
        if old is not None:
            del self._sorted[bisect_left(self._sorted, old)]
            del self._groups[key]
        if self._is_root(key):
            group = self._groups[key] = self._group(key)
            new = self._sort_keys[key] = self._group_key(group)
            insort(self._sorted, new)

    def _hanging_on(self, keys: Iterable[str]) -> set[str]:
        """Return the keys, the roots above them, and the sub-agents that may have become roots."""
        found: set[str] = set()
        for key in keys:
            found.add(key)
            for child in self._children(key):
                found.add(child.session.key)
                found.update(row.session.key for row in self._children(child.session.key))
            row = self._rows.get(key)
            while row is not None and row.session.spawned_by not in {None, *found}:
                found.add(row.session.spawned_by or "")
                row = self._rows.get(row.session.spawned_by or "")
        return found

    def _is_root(self, key: str) -> bool:
        row = self._rows.get(key)
        if row is None or not self._is_shown(row):
            return False
        parent = self._rows.get(row.session.spawned_by or "")
        return bool(self.needle) or parent is None or not self._is_shown(parent)

    def _is_shown(self, row: Row) -> bool:
        if (row.session.archived_at is not None) != self.archived:
            return False
        if self.needle:
            return all(word in self._haystack(row) for word in self.needle.casefold().split())
        # A sub-agent that is done stands in the tree of its session only, until somebody looks for it.
        done = row.look == "done" and row.session.key != self._selected
        return not done or row.session.spawned_by not in self._rows

    def _haystack(self, row: Row) -> str:
        """Return what a filter looks at; ten thousand rows are looked at with every letter of it."""
        known = self._haystacks.get(row.session.key)
        if known is None or known[0] is not row:
            known = self._haystacks[row.session.key] = (row, row.haystack)
        return known[1]

    def _group(self, key: str) -> list[Placed]:
        placed = [Placed(key)]
        if not self.needle:
            self._add_children(placed, key, "")
        return placed

    def _add_children(self, placed: list[Placed], key: str, indent: str) -> None:
        children = [row.session.key for row in self._children(key) if self._is_shown(row)]
        for child in children:
            last = child == children[-1]
            placed.append(Placed(child, indent + ("└" if last else "├")))
            self._add_children(placed, child, indent + ("  " if last else "│ "))

    def _group_key(self, group: list[Placed]) -> _SortKey:
        """Sort a session by the most urgent of itself and its sub-agents; the last element is its own key."""
        root = self._rows[group[0].key]
        if self.order != "attention" or len(group) == 1:
            return (*self._rank(root), root.session.key)
        return (*min(self._rank(self._rows[placed.key]) for placed in group), root.session.key)

    def _rank(self, row: Row) -> _SortKey:
        newest = -row.session.updated_at
        match self.order:
            case "attention":
                # A failure that somebody has looked at needs no more attention than rest does.
                calm = row.look == "failed" and not row.unread
                return (RANK["idle" if calm else row.look], newest)
            case "newest":
                return (newest,)
            case "name":
                return (row.name.casefold(),)
            case "channel":
                return (row.channel, newest)
            case "cost":
                return (-(row.session.cost_usd or 0.0), newest)
