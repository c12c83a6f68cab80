"""A list that draws only its visible lines: the ground of the session list, the spawn tree and the pickers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from console.live.heights import Heights
from console.widgets.drawing import Words, fit, line, palette_of, wrapped
from console.widgets.lines import Lines

T = TypeVar("T")


class LineList(Lines, can_focus=True):
    """Rows of one or more lines with a cursor; whoever derives from it says what they look like.

    Keys `j`, `k`, the arrows, page up and down, `g` and `G` move; Enter and a click choose.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False, id="list.down"),
        Binding("up,k", "move(-1)", "up", show=False, id="list.up"),
        Binding("pagedown,ctrl+d", "page(1)", "page down", show=False, id="list.page-down"),
        Binding("pageup,ctrl+u", "page(-1)", "page up", show=False, id="list.page-up"),
        Binding("home,g", "first", "first", show=False, id="list.first"),
        Binding("end,G", "last", "last", show=False, id="list.last"),
        Binding("enter", "choose", "choose", show=False, id="list.choose"),
    ]

    KEEPS_CURSOR: ClassVar = True
    """The row under the cursor stays marked while the keys go elsewhere."""

    @dataclass
    class Moved(Message):
        """The cursor stands on another row."""

        owner: "LineList"

        @property
        def control(self) -> "LineList":
            """The list itself."""
            return self.owner

    class Chosen(Moved):
        """The row under the cursor was chosen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.cursor = 0
        self._heights = Heights()

    def row_lines(self, index: int, width: int) -> list[Words]:  # noqa: ARG002
        """Return the lines of a row, each as words in styles; whoever derives from this says which."""
        return [[]] * self._heights[index]

    def nothing(self) -> tuple[str, ...]:
        """Return what stands there while there are no rows, line by line (console#empty-states)."""
        return ()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._heights)

    def set_heights(self, heights: list[int]) -> None:
        """Use these rows, by the number of lines of each."""
        self._heights.replace(heights)
        self.cursor = max(0, min(self.cursor, len(heights) - 1))
        self.show_heights()

    def show_heights(self) -> None:
        """Lay the rows out by their heights."""
        self.set_height(self._heights.total)
        self.refresh()

    def refresh_row(self, index: int) -> None:
        """Draw a row again, if it is visible."""
        top = self._heights.start(index) - self.scroll_offset.y
        if -self._heights[index] < top < self.size.height:
            self.refresh(Region(0, max(0, top), self.size.width, self._heights[index]))

    def visible_rows(self) -> range:
        """Return the indexes of the rows on the screen."""
        if not self.count:
            return range(0)
        first = self._heights.at(self.scroll_offset.y)
        return range(first, self._heights.at(self.scroll_offset.y + self.size.height - 1) + 1)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row and show it."""
        if not self.count:
            return
        index = max(0, min(index, self.count - 1))
        old, self.cursor = self.cursor, index
        self._show_cursor()
        if old != index:
            self.refresh_row(min(old, self.count - 1))
            self.refresh_row(index)
            self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        width = self.size.width
        base = self.base
        y += self.scroll_offset.y
        if y >= self._heights.total:
            room = max(8, width - 3)
            words = [each for line in self.nothing() for each in wrapped(line, room)] if not self.count else []
            said = fit(words[y], room) if y < len(words) else ""
            return line([("  " + said, palette.style("muted"))], width, base)
        index = self._heights.at(y)
        under_cursor = index == self.cursor and (self.has_focus or self.KEEPS_CURSOR)
        bar = under_cursor and palette.ansi and self.has_focus
        mark = "▌" if under_cursor and not bar and (self.has_focus or palette.ansi) else " "
        if under_cursor:
            base += Style(bgcolor=None if palette.ansi else palette.cursor, reverse=bar or None)
        lines = self.row_lines(index, width - 1)
        at = y - self._heights.start(index)
        parts = lines[at] if at < len(lines) else []  # the row may have changed since the list was laid out
        segments = [Segment(mark, base + palette.style("accent"))]
        # In reverse, words of several styles would become blocks in several colours.
        segments += [Segment(text, base if bar else base + style) for text, style in parts if text]
        return Strip(segments).adjust_cell_length(width, base)

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self.move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        """Move the cursor by a screenful."""
        if self.count:
            line = self._heights.start(self.cursor) + step * (self.size.height - 1)
            self.move_to(max(self.cursor + step, self._heights.at(line), key=lambda index: step * index))

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(self.count - 1)

    def action_choose(self) -> None:
        """Choose the row under the cursor; without any, whoever listens can say so."""
        self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Move to the row that was clicked; choose it on the second click."""
        y = event.y + self.scroll_offset.y
        if y < self._heights.total:
            index = self._heights.at(y)
            if index == self.cursor and event.chain > 1:
                self.action_choose()
            self.move_to(index)

    @on(events.Focus)
    @on(events.Blur)
    def _mark_cursor(self) -> None:
        if self.count:
            self.refresh_row(self.cursor)

    def on_resize(self) -> None:
        """Lay the rows out anew for another width."""
        super().on_resize()
        self.set_height(self._heights.total)
        self._show_cursor()

    def _show_cursor(self) -> None:
        if self.count:
            top = self._heights.start(self.cursor)
            region = Region(0, top, self.size.width, self._heights[self.cursor])
            self.scroll_to_region(region, animate=False, force=True)


class ItemList(LineList, Generic[T]):
    """A list of things, one row each."""

    items: Sequence[T] = ()

    @property
    def current(self) -> T | None:
        """What is under the cursor."""
        return self.items[self.cursor] if self.items else None

    def height_of(self, index: int) -> int:  # noqa: ARG002 - whoever derives from this says which
        """Return how many lines a row has."""
        return 1

    def known_by(self, item: T) -> str | None:  # noqa: ARG002 - whoever derives from this says which
        """Return what an item is the same by as one that was shown before; None for none of them."""
        return None

    def show(self, items: Sequence[T], lost: int | None = None) -> None:
        """Show these; the cursor stays on its item; when that is gone, it goes to the row `lost`, else stays."""
        known = self.known_by(self.current) if self.current is not None else None
        place = next((at for at, item in enumerate(items) if known is not None and self.known_by(item) == known), lost)
        self.items = items
        self.cursor = place if place is not None else self.cursor
        self.lay_out()

    def lay_out(self) -> None:
        """Use the heights of the rows as they are now."""
        self.set_heights([self.height_of(index) for index in range(len(self.items))])
