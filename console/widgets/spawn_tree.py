"""The sub-agents of one session, at every depth: state, runtime, tokens, cost, and what became of the announce."""

from typing import Final

from console.live.exchanges import Task
from console.live.rows import FAILED, Row, run_word, runs_of, state_word
from console.live.text.exchanges import tree_words
from console.live.text.words import clock_span, cost_cell, tokens
from console.live.view_model import ViewModel
from console.widgets.drawing import LOOK_COLOURS, Words, fit, palette_of, signs_of
from console.widgets.line_list import LineList

WIDE: Final = 56
"""From that many cells on a sub-agent shows all of its columns; below, its state is the glyph, and what it costs gives
way to what became of its announce."""


class SpawnTree(LineList):
    """The tree of sub-agents below a session."""

    KEEPS_CURSOR = False
    HELP = "The sub-agents of the session. Enter opens one; a stops it."

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="spawns")
        self._book = view_model.book
        self._exchanges = view_model.exchanges
        self._now_ms = view_model.now_ms
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
        below = self._book.below(root) if root is not None else []
        rows = [(depth, row.session.key) for depth, row in below]
        drawn = [row for _, row in below]
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

    def row_lines(self, index: int, width: int) -> list[Words]:
        depth, key = self._rows[index]
        row = self._book.rows.get(key)
        if row is None:
            return []
        palette, done = palette_of(self), self._ended(row)
        look = row.look if done is None else "failed" if done.state in FAILED else "done"
        columns = self._columns(row, done, wide=width >= WIDE)
        room = width - 2 * depth - 2 - len(columns)
        return [
            [
                ("  " * depth, palette.style("muted")),
                (signs_of(self).sessions[look] + " ", palette.style(LOOK_COLOURS[look])),
                (fit(row.name, room), palette.style("muted" if row.look == "archived" else "text")),
                (columns, palette.style("muted")),
            ]
        ]

    def _ended(self, row: Row) -> Task | None:
        """Return the task of a sub-agent that is over and has not been followed by other work than the announce."""
        task, exchange = self._exchanges.task_of(row.session.key), self._exchanges.spawn_of(row.session.key)
        if task is None or task.runtime_ms is None or exchange is None:
            return None
        return None if runs_of(row) and exchange.state == "ended" else task

    def _columns(self, row: Row, done: Task | None, *, wide: bool) -> str:
        """Return what stands behind the name; the last cell is the scrollbar's."""
        exchange = self._exchanges.spawn_of(row.session.key)
        announce = tree_words(exchange, self._exchanges.announce(exchange.exchange_id)) if exchange is not None else ""
        word = run_word(done.state) if done is not None else state_word(row)
        cost = cost_cell(row.session.cost_usd)
        spent = fit(tokens(row.session.spent_tokens) if row.session.spent_tokens else "", 6, right=True)
        spent = fit(self._runtime(row, done), 6, right=True) + spent
        if wide:
            return f" {fit(word, 9)}{spent}{fit(cost, 7, right=True)}  {fit(announce, 12)}"
        last = (announce or word) if done is not None or not runs_of(row) else (cost or word)
        return f"{spent}  {fit(last, 12)}"

    def _runtime(self, row: Row, done: Task | None) -> str:
        session = row.session
        if done is not None and done.runtime_ms is not None:
            return clock_span(done.runtime_ms)
        if row.look == "running" and session.started_at is not None:
            return clock_span(self._now_ms(session.key) - session.started_at)
        return clock_span(session.runtime_ms) if session.runtime_ms is not None else ""
