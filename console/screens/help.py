"""The keys that work here now, from the table of actions."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.screens.dialog import Dialog, framed
from console.widgets.drawing import Words, fit, palette_of
from console.widgets.line_list import ItemList

MOVING: tuple[tuple[str, str], ...] = (
    ("j k ↑ ↓", "Move by rows or messages"),
    ("g G", "First and last; in a transcript G follows what is said"),
    ("^d ^u", "Move by a screenful"),
)
IN_TRANSCRIPTS: tuple[tuple[str, str], ...] = (
    ("↵ space", "In a transcript: fold a tool's answer, go to where a message came from"),
    ("↵", "While writing: send"),
    ("^j", "While writing: a new line"),
    ("↑ ↓", "While writing: what was sent before"),
    ("/", "While writing: a command; tab completes"),
)


class Help(Dialog[None]):
    """Lists keys with what they do, and why they do not work now, empty when they do.

    With `writing` there is a transcript and a composer, which have keys of their own.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q,f1", "leave", "close", show=False)]

    def __init__(self, entries: Iterable[tuple[str, str, str]], *, writing: bool = True) -> None:
        super().__init__()
        more = (*MOVING, *IN_TRANSCRIPTS) if writing else MOVING
        self._entries = [*entries, *((key, help_, "") for key, help_ in more)]
        self._keys = _Keys()

    def compose(self) -> ComposeResult:
        yield framed("keys", self._keys, hint="esc  close", classes="-tall")

    def on_mount(self) -> None:
        """Let the keys move in the list."""
        self._keys.show(self._entries)
        self._keys.focus()


class _Keys(ItemList[tuple[str, str, str]]):
    def height_of(self, index: int) -> int:
        return 2 if self.items[index][2] else 1

    def row_lines(self, index: int, width: int) -> list[Words]:
        key, help_, reason = self.items[index]
        palette = palette_of(self)
        first = [
            (fit(key, 10), palette.style("muted" if reason else "accent", bold=not reason)),
            (fit(help_, width - 11), palette.style("muted" if reason else "text")),
        ]
        return [first, [(fit("", 10), palette.style("muted")), (fit(reason, width - 11), palette.style("warning"))]]
