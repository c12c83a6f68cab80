"""The active branch of a linked transcript.

Each entry names its parent; an answer that was asked for again makes a second branch, and the last entry tells which
one counts. An entry whose parent is none, or not there any more, goes on from what stands before it: that is how a
transcript looks that was cut, or written by two processes. Memory: 17 bytes an entry, whatever its length.
"""

from array import array
from collections.abc import Mapping
from typing import Any, Final

_WINDOW: Final = 4096
NONE: Final = -1


class Branch:
    """Takes the entries of a transcript one after the other, then says which are on the active branch."""

    def __init__(self) -> None:
        self._ids = array("q")  # hashes: 64 bits, seeded anew in each process
        self._parents = array("q")
        self._controls: dict[int, int] = {}
        self._leaf = NONE
        self._reset = NONE

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take the next entry of the transcript; headers are passed over by the caller."""
        number = len(self._ids)
        kind, side = entry.get("type"), entry.get("appendMode") == "side"
        if kind == "leaf":
            target = self._find(entry.get("targetId"))
            known = target != NONE and target >= self._reset
            self._controls[number] = target if known else self._leaf
            self._append(entry, NONE)
            if known:
                self._leaf = target
            return
        parent = self._find(entry.get("parentId"))
        if not side and (parent == NONE or parent < self._reset):
            parent = self._leaf
        self._append(entry, parent)
        if not side:
            self._leaf = number
        if kind == "reset":
            self._reset = number

    def active(self) -> bytearray:
        """Return 1 for each entry on the active branch and 0 for the others, in the order they came."""
        marks = bytearray(len(self._ids))
        at = self._leaf
        while at != NONE:
            marks[at] = 1
            at = self._parents[at]
        return marks

    def _append(self, entry: Mapping[str, Any], parent: int) -> None:
        self._ids.append(hash(entry.get("id") or len(self._ids)))
        self._parents.append(parent)

    def _find(self, entry_id: object) -> int:
        """Return the number of the entry with that id, the last one that has it; controls stand for their target."""
        if not isinstance(entry_id, str) or not entry_id:
            return NONE
        wanted, end = hash(entry_id), len(self._ids)
        if end and self._ids[-1] == wanted:  # as in nearly every transcript
            return self._controls.get(end - 1, end - 1)
        while end > 0:
            start = max(0, end - _WINDOW)
            window = self._ids[start:end]
            window.reverse()
            if wanted in window:
                found = end - 1 - window.index(wanted)
                return self._controls.get(found, found)
            end = start
        return NONE
