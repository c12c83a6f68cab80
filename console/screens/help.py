"""The keys that work here now, from the table of actions."""

from collections.abc import Iterable
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from console.screens.dialog import Dialog, words
from console.widgets.drawing import fit, palette_of
from console.widgets.line_list import LineList

MOVING: tuple[tuple[str, str], ...] = (
    ("j k ↑ ↓", "Move by rows or messages"),
    ("g G", "First and last; in a transcript G follows what is said"),
    ("^d ^u", "Move by a screenful"),
)
READING: tuple[tuple[str, str], ...] = (
    ("↵ space", "In a transcript: fold a tool's answer, go to where a message came from"),
)
COMPOSING: tuple[tuple[str, str], ...] = (
    ("↵", "While writing: send"),
    ("^j", "While writing: a new line"),
    ("↑ ↓", "While writing: what was sent before"),
    ("/", "While writing: a command; tab completes"),
)


class Help(Dialog[None]):
    """Lists keys; those that do not work now say why.

    Args:
        entries: Key, what it does, and why it does not work now, empty when it does.
        writing: There is a transcript and a composer, which have keys of their own.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q,f1", "leave", "close", show=False)]

    def __init__(self, entries: Iterable[tuple[str, str, str]], *, writing: bool = True) -> None:
        super().__init__()
        more = (*MOVING, *READING, *COMPOSING) if writing else MOVING
        rows = [*entries, *((key, help_, "") for key, help_ in more)]
        self._keys = _Keys(rows)

    def compose(self) -> ComposeResult:
        """Put the list into a frame."""
        with Vertical(classes="dialog -tall") as box:
            box.border_title = "keys"
            yield self._keys
            yield words("esc  close", "hint")

    def on_mount(self) -> None:
        """Let the keys move in the list."""
        self._keys.focus()


class _Keys(LineList):
    def __init__(self, rows: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self._rows = rows

    def on_mount(self) -> None:
        self.set_heights([2 if reason else 1 for _, _, reason in self._rows])

    def row_lines(self, index: int, width: int) -> list[list[tuple[str, Style]]]:
        key, help_, reason = self._rows[index]
        palette = palette_of(self)
        first = [
            (fit(key, 10), palette.style("muted" if reason else "accent", bold=not reason)),
            (fit(help_, width - 11), palette.style("muted" if reason else "text")),
        ]
        return [first, [(fit("", 10), palette.style("muted")), (fit(reason, width - 11), palette.style("warning"))]]
