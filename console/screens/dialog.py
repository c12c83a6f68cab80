"""What the dialogs share: a framed column of fields, Escape to leave, one sentence when something is wrong."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final, TypeVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

T = TypeVar("T")
Refusal = Callable[[str], str | None]
"""Says why the gateway of a session does not allow what a dialog is for, None when it does."""
BREAKPOINTS: Final = [(0, "-short"), (30, "-high")]
"""From how many lines on the fields of a dialog stand apart."""


class Dialog(ModalScreen[T]):
    """A dialog that Escape closes without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "close", show=False, id="dialog.close")]

    def __init__(self) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = BREAKPOINTS

    def action_leave(self) -> None:
        """Close without doing anything."""
        self.dismiss(None)

    def complain(self, sentence: str) -> None:
        """Say what is wrong; what was written stays."""
        self.query_one(".error", Static).update(Content(sentence))


def seconds(text: str) -> float | None:
    """Return the seconds in a field, 0 for an empty one; None for what is no such number."""
    try:
        value = float(text or 0)
    except ValueError:
        return None
    return value if value >= 0 else None


def words(text: str, classes: str = "") -> Static:
    """Return words that are never read as markup."""
    return Static(Content(text), classes=classes)


def framed(title: str, *content: Widget, hint: str, classes: str = "") -> Vertical:
    """Return the frame of a dialog, with a line about its keys at the foot; no title is read as markup."""
    box = Vertical(*content, words(hint, "hint"), classes=f"dialog {classes}")
    box.border_title = Text(title)
    return box


def form(title: str, fields: Mapping[str, Widget], hint: str) -> Vertical:
    """Return a frame with a caption above each field, and room for what is wrong below the last one."""
    content = (widget for caption, field in fields.items() for widget in (words(caption), field))
    return framed(title, *content, words("", "error"), hint=hint)
