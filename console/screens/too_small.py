"""How much room a terminal has: the layouts for it, and what it shows when there is none for the console."""

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widgets import Static

from console.shell import Shell, shell_of

BREAKPOINTS: Final = [(0, "-narrow"), (100, "-medium"), (160, "-wide")]
"""From how many columns on which layout is used."""
COLUMNS: Final = 40
ROWS: Final = 10
"""With fewer, a transcript and the line to write in do not fit below each other."""


def fits(size: Size) -> bool:
    """Whether the console can be used in a terminal of that size."""
    return size.width >= COLUMNS and size.height >= ROWS


def cover(shell: Shell, size: Size) -> None:
    """Say so over everything when there is no room for anything."""
    if not fits(size) and not any(isinstance(screen, TooSmall) for screen in shell.screen_stack):
        shell.push_screen(TooSmall())


class TooSmall(ModalScreen[None]):
    """Covers everything, takes every key, and goes by itself once there is room."""

    DEFAULT_CSS = "TooSmall Static { width: 100%; height: 100%; background: $background; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,ctrl+c", "leave", "quit", show=False)]

    def compose(self) -> ComposeResult:
        yield Static()

    def on_resize(self, event: events.Resize) -> None:
        """Say how much room is missing, or go."""
        if not fits(event.size):
            size = f"{event.size.width}x{event.size.height}"
            self._say(f"{size} is too small:\nneeds {COLUMNS}x{ROWS}.\nNothing is lost.")
        elif self.is_current:  # a second change of size may come while it goes
            self.dismiss()

    def action_leave(self) -> None:
        """End the console."""
        shell_of(self).leave()

    def say_why_not_to_leave(self) -> None:
        """Say that runs are at work: the question what becomes of them has no room here."""
        self._say(f"Runs are at work:\nmake room to leave,\n{COLUMNS}x{ROWS}.")

    def _say(self, words: str) -> None:
        self.query_one(Static).update(Content(words))
