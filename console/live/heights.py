"""The heights of many rows: where each starts, which stands at a line, changed one at a time.

A Fenwick tree over integers: reading and changing cost O(log n), growing at the end too.
"""

from collections.abc import Iterable


class Heights:
    """Heights in lines, by index."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.replace(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> int:
        return self._values[index]

    @property
    def total(self) -> int:
        """Lines of all rows together."""
        return self.start(len(self._values))

    def start(self, index: int) -> int:
        """Return the line on which a row starts; of the index behind the last one, the total."""
        line = 0
        while index > 0:
            line += self._tree[index]
            index -= index & -index
        return line

    def at(self, line: int) -> int:
        """Return the index of the row that stands at a line: the last row for lines beyond the end, 0 below 0."""
        index = 0
        step = 1 << len(self._values).bit_length()
        while step:
            ahead = index + step
            if ahead <= len(self._values) and self._tree[ahead] <= line:
                index = ahead
                line -= self._tree[ahead]
            step >>= 1
        return max(0, min(index, len(self._values) - 1))

    def set(self, index: int, height: int) -> None:
        """Change the height of a row."""
        change = height - self._values[index]
        if change:
            self._values[index] = height
            index += 1
            while index < len(self._tree):
                self._tree[index] += change
                index += index & -index

    def append(self, height: int) -> None:
        """Add a row at the end."""
        self._values.append(height)
        index = len(self._values)
        low = index - (index & -index)
        self._tree.append(height + self.start(index - 1) - self.start(low))

    def replace(self, values: Iterable[int]) -> None:
        """Start anew with these heights."""
        self._values = list(values)
        tree = [0, *self._values]
        for index in range(1, len(tree)):
            parent = index + (index & -index)
            if parent < len(tree):
                tree[parent] += tree[index]
        self._tree = tree
