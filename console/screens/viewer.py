"""One message in full, whatever its length: scrolling, and nothing left out."""

from typing import ClassVar

from rich.cells import chop_cells
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.screens.dialog import Dialog, framed
from console.widgets.drawing import Words, palette_of
from console.widgets.line_list import ItemList

MAX_LINES = 200_000


class Viewer(Dialog[None]):
    """Shows a text, cut into lines of the width it has."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,o", "leave", "close", show=False)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._lines = _Lines(text)

    def compose(self) -> ComposeResult:
        yield framed(self._title, self._lines, hint="j k ^d ^u g G  move   esc  close", classes="-tall -whole")

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self._lines.focus()


class _Lines(ItemList[str]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def on_resize(self) -> None:
        width = max(1, self.size.width - 1)
        lines = self._text.expandtabs(4).split("\n")[:MAX_LINES]
        self.show([piece for line in lines for piece in _pieces(line, width)])
        super().on_resize()

    def row_lines(self, index: int, width: int) -> list[Words]:  # noqa: ARG002
        return [[(self.items[index], palette_of(self).style("text"))]]


def _pieces(line: str, width: int) -> list[str]:
    """Cut a line into pieces of at most that many cells."""
    if line.isascii():
        return [line[at : at + width] for at in range(0, max(1, len(line)), width)]
    return chop_cells(line, width)
