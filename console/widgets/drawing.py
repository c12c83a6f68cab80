"""Drawing lines: coloured words, cut and padded by the cells they take, for line-API widgets."""

import textwrap
from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.live.rows import Look
from console.shell import shell_of
from console.themes import Palette, Signs

LOOK_COLOURS: Final[dict[Look, str]] = {
    "failed": "error",
    "running": "accent",
    "queued": "muted",
    "idle": "muted",
    "done": "good",
    "archived": "muted",
}
PLAIN: Final = Style()
Words = list[tuple[str, Style]]
"""Words in their styles, from left to right."""


def palette_of(widget: Widget) -> Palette:
    """Return the palette of the theme in use."""
    return shell_of(widget).palette


def signs_of(widget: Widget) -> Signs:
    """Return the signs that the terminal can show."""
    return shell_of(widget).signs


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly that many cells: cut with `…`, padded on the right, or on the left."""
    if width <= 0:
        return ""
    if text.isascii() and len(text) <= width:
        return text.rjust(width) if right else text.ljust(width)
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    pad = " " * (width - length)
    return pad + text if right else text + pad


def fit_end(text: str, width: int) -> str:
    """Return the end of the text in exactly that many cells: cut on the left with `…`."""
    if cell_len(text) <= width:
        return fit(text, width)
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return fit("…" + text, width)


def line(parts: Iterable[tuple[str, Style]], width: int, base: Style = PLAIN) -> Strip:
    """Return words in their styles as one line of exactly that many cells."""
    segments = [Segment(text, base + style) for text, style in parts if text]
    return Strip(segments).adjust_cell_length(width, base)


def wrapped(text: str, room: int) -> list[str]:
    """Return a text in lines of at most so many cells; one empty line for none."""
    if text.isascii():
        return textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return chop_cells(text, room) or [""]
