"""The sub-agents of one session, at every depth, with state, runtime, tokens and cost."""

from collections.abc import Callable

from rich.style import Style

from console.live.book import Book
from console.live.rows import Row, state_word
from console.live.words import clock_span, money, tokens
from console.widgets.ink import GLYPH_INKS, fit, inks_of
from console.widgets.line_list import LineList

WIDE = 60
"""From that many cells on a sub-agent shows its cost and its state; below, one of them."""


class SpawnTree(LineList):
    """The tree of sub-agents below a session.

    Args:
        now_ms: The time that running ones are counted from.
        glyph: The sign of a row's state.
    """

    KEEPS_CURSOR = False
    HELP = "The sub-agents of the session. Enter opens one; a stops it."

    def __init__(self, book: Book, now_ms: Callable[[], int], glyph: Callable[[Row], str]) -> None:
        super().__init__(id="spawns")
        self._book = book
        self._now_ms = now_ms
        self._glyph = glyph
        self._rows: list[tuple[int, str]] = []
        self._drawn: list[Row] = []
        self.root: str | None = None

    @property
    def selected(self) -> str | None:
        """Key of the sub-agent under the cursor."""
        return self._rows[self.cursor][1] if self._rows else None

    def show(self, root: str | None) -> None:
        """Show the sub-agents of a session."""
        self.root = root
        rows = self._below(root, 0) if root is not None else []
        drawn = [self._book.rows[key] for _, key in rows]
        if rows != self._rows:
            self._rows = rows
            self.set_heights([1] * len(rows))
            self.refresh(layout=True)  # beside the facts of a session it is as high as its rows
        elif drawn != self._drawn:
            self.refresh()
        self._drawn = drawn

    def tick(self) -> None:
        """Draw the running times again."""
        if any(row.look == "running" for _, key in self._rows if (row := self._book.rows.get(key)) is not None):
            self.refresh()

    def row_lines(self, index: int, width: int) -> list[list[tuple[str, Style]]]:
        """Return the line of a sub-agent."""
        depth, key = self._rows[index]
        row = self._book.rows.get(key)
        if row is None:
            return []
        inks = inks_of(self)
        spent = fit(tokens(row.session.spent_tokens) if row.session.spent_tokens else "", 6, right=True)
        cost = money(row.session.cost_usd) if row.session.cost_usd is not None else ""
        word = state_word(row)
        last = f"{fit(cost, 8, right=True)}  {fit(word, 11)}" if width >= WIDE else fit("  " + (cost or word), 12)
        columns = fit(self._runtime(row), 6, right=True) + spent + last
        room = width - 2 * depth - 2 - len(columns)
        return [
            [
                ("  " * depth, inks.style("muted")),
                (self._glyph(row) + " ", inks.style(GLYPH_INKS[row.look])),
                (fit(row.name, room), inks.style("text")),
                (columns, inks.style("muted")),
            ]
        ]

    def _runtime(self, row: Row) -> str:
        session = row.session
        if row.look == "running" and session.started_at is not None:
            return clock_span(self._now_ms() - session.started_at)
        return clock_span(session.runtime_ms) if session.runtime_ms is not None else ""

    def _below(self, key: str, depth: int, above: tuple[str, ...] = ()) -> list[tuple[int, str]]:
        rows: list[tuple[int, str]] = []
        for row in self._book.children(key):
            if row.session.key not in above:  # a gateway could tell of sessions that spawned each other
                rows.append((depth, row.session.key))
                rows += self._below(row.session.key, depth + 1, (*above, key))
        return rows
