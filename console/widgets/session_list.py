"""The session list: every session, live, who needs the operator first (console#attention)."""

from collections.abc import Iterable

from rich.cells import cell_len
from textual.reactive import reactive

from console.live.placement import Placed
from console.live.rows import Row
from console.live.text.words import LOCAL, age, clock_span, cost_cell, tokens
from console.live.view_model import ViewModel
from console.widgets.drawing import LOOK_COLOURS, Words, fit, fit_end, palette_of, signs_of
from console.widgets.line_list import LineList

HOLD_SECONDS = 3.0
WIDE = 70
"""From that many cells on a row shows tokens and the policy's name."""

PLACE_CELLS = 10
"""So many at most are taken by the name of a gateway."""


class SessionList(LineList):
    """The rows of a book; the cursor stays on its session when rows move.

    What is known of a session may have changed while its gateway is not reached: then its row is muted. While there is
    no row to show, the two lines of `why_empty` stand there.
    """

    HELP = "Every session. The order is held for 3 s after the cursor has moved."
    why_empty: reactive[tuple[str, str]] = reactive(("", ""))

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="sessions")
        self._view_model = view_model
        self._book = view_model.book
        self._placed: list[Placed] = []
        self._index: dict[str, int] = {}
        self._moved_at = -HOLD_SECONDS
        self.held = False
        self._was_empty = False

    @property
    def selected(self) -> str | None:
        """Key of the session under the cursor."""
        return self._placed[self.cursor].key if self._placed else None

    @property
    def keys(self) -> list[str]:
        """Keys of the sessions in the order in which they are shown."""
        return [placed.key for placed in self._placed]

    def show(self, changed: Iterable[str], *, place: bool, now: float) -> None:
        """Draw what changed.

        Args:
            place: The order may have changed.
            now: Monotonic seconds; the order is held for a while after the cursor was used.
        """
        due = now - self._moved_at >= HOLD_SECONDS
        self.held = place and not due and bool(self._placed)
        if place and not self.held:
            self.place()
            return
        missing, above, grown, visible = False, 0, False, self.visible_rows()
        for key in changed:
            index = self._index.get(key)
            if index is None:
                missing = True
                continue
            more = self._height(self._placed[index]) - self._heights[index]
            if more:
                self._heights.set(index, self._heights[index] + more)
                above += more if index < visible.start else 0
                grown = grown or index in visible
            elif index in visible:
                self.refresh_row(index)
        self.set_height(self._heights.total)
        if above:
            self.shift(above)
        if grown:
            self.refresh()
        self.held = self.held or missing

    def select(self, key: str) -> bool:
        """Put the cursor on a session; False when it is not shown."""
        index = self._index.get(key)
        if index is None:
            return False
        self.move_to(index)
        return True

    def used(self, now: float) -> None:
        """Hold the order for a while: the operator is working with the list."""
        self._moved_at = now

    def release(self) -> None:
        """Let the order follow at once, as after a filter or with a list that was read whole."""
        self._moved_at = -HOLD_SECONDS
        self._was_empty = False

    def tick(self) -> None:
        """Draw the ages again."""
        for index in self.visible_rows():
            self.refresh_row(index)

    def nothing(self) -> tuple[str, ...]:
        return self.why_empty

    def row_lines(self, index: int, width: int) -> list[Words]:
        placed = self._placed[index]
        row = self._book.rows.get(placed.key)
        if row is None:
            return []
        palette = palette_of(self)
        first = self._first_line(row, placed, width)
        is_old = self._view_model.silent_ms(placed.key) is not None
        if is_old:
            first = [(text, palette.style("muted")) for text, _ in first]
        if not row.words or self._heights[index] < 2:
            return [first]
        branch = placed.branch.replace("├", "│").replace("└", " ") + "   "
        colour = palette.style("error" if row.look == "failed" and not is_old else "muted")
        cut = fit_end if row.growing else fit
        return [first, [(branch, palette.style("muted")), (cut(row.words, width - len(branch) - 1), colour)]]

    def _first_line(self, row: Row, placed: Placed, width: int) -> Words:
        palette = palette_of(self)
        text, muted = palette.style("text", bold=bool(row.unread)), palette.style("muted")
        columns: Words = [(fit(self._time(row), 6, right=True), muted)]
        names = self._view_model.gateway.names
        place = min(1 + max(len(name or LOCAL) for name in names), PLACE_CELLS) if len(names) > 1 else 0
        if width >= WIDE or not place:
            columns.insert(0, (fit(row.channel, 9), muted))
        if place:
            columns.insert(0, (fit(f"@{row.gateway or LOCAL}", place) + " ", muted))
        if width >= WIDE:
            spent = row.session.spent_tokens
            columns.append((fit(tokens(spent) if spent else "", 7, right=True), muted))
        if self._book.costs:
            columns.append((fit(cost_cell(row.session.cost_usd), 8, right=True), muted))
        denied = row.denied
        if width >= WIDE:
            columns.append((fit("  ⊘ deny" if denied else "", 10), palette.style("warning")))
        rest = width - 2 - len(placed.branch) - sum(len(part) for part, _ in columns) - 2
        unread = f" +{row.unread}" if row.unread else ""
        badge = " ⊘" if denied and width < WIDE else ""
        name = fit(row.name, min(max(4, rest - len(unread) - len(badge)), cell_len(row.name)))
        tail = unread + badge
        return [
            (placed.branch, muted),
            (signs_of(self).sessions[row.look] + " ", palette.style(LOOK_COLOURS[row.look])),
            (name, text),
            (unread, palette.style("accent")),
            (badge, palette.style("warning")),
            (fit("", max(0, rest + 1 - cell_len(name) - len(tail))), muted),
            *columns,
        ]

    def _time(self, row: Row) -> str:
        now = self._view_model.now_ms(row.session.key)
        if row.look == "running" and row.session.started_at is not None:
            return clock_span(now - row.session.started_at)
        return "queued" if row.look == "queued" else age(now - row.session.updated_at)

    def place(self, key: str | None = None) -> None:
        """Draw all rows in their order, the cursor on `key`, also when that has no place while nobody is at it."""
        before = self.selected
        selected = key or before
        self._book.placement.select(selected)
        self._placed = self._book.placement.placed()
        self._index = {placed.key: index for index, placed in enumerate(self._placed)}
        # The first sessions of an empty list come in any order; the main one is where a newcomer looks.
        wanted = selected if selected is not None or self.count else self._book.main_key
        if wanted in self._index and (selected is not None or self._was_empty):
            self.cursor = self._index[wanted]
        self._was_empty = not self._placed
        offset = self.scroll_offset.y
        self.set_heights([self._height(placed) for placed in self._placed])
        if self.scroll_offset.y == offset:
            self._show_cursor()
        if self.selected != before:
            self.post_message(self.Moved(self))

    def _height(self, placed: Placed) -> int:
        row = self._book.rows.get(placed.key)
        return 2 if row is not None and row.words else 1
