"""What the dialogs share: a framed column of fields, Escape to leave, one sentence when something is wrong."""

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A dialog that Escape closes without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "close", show=False, id="dialog.close")]

    def action_leave(self) -> None:
        """Close without doing anything."""
        self.dismiss(None)

    def complain(self, sentence: str) -> None:
        """Say what is wrong; what was written stays."""
        self.query_one(".error", Static).update(Content(sentence))


def words(text: str, classes: str = "") -> Static:
    """Return words that are never read as markup."""
    return Static(Content(text), classes=classes)
