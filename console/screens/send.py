"""The send dialog: from whom, to whom, what, and how long to wait (S1, S13)."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, TextArea

from console.live.rows import Row
from console.operations import SendOrder
from console.screens.dialog import Dialog, words
from console.widgets.session_field import SessionField

HINT = "↵ takes a session   tab next field   ^s send   esc close"


class SendDialog(Dialog[SendOrder]):
    """Asks for a message to send.

    Args:
        rows: The sessions to choose from.
        to: Key of the session to start with.
        draft: Words to start with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "send", "send", show=False, id="dialog.send")]

    def __init__(self, rows: Sequence[Row], to: str, draft: str = "") -> None:
        super().__init__()
        self._sender = SessionField(rows, "", "operator", id="from")
        self._to = SessionField(rows, to, "main", id="to")
        self._message = TextArea(draft, show_line_numbers=False, compact=True)
        self._wait = Input("30", type="number", compact=True)

    def compose(self) -> ComposeResult:
        """Put the fields into a frame."""
        with Vertical(classes="dialog") as box:
            box.border_title = "send a message"
            yield words("from: empty is you, the operator; a session makes it the requester")
            yield self._sender
            yield words("to: part of a name, or a full key; a new full key makes a new session")
            yield self._to
            yield words("message")
            yield self._message
            yield words("wait for the reply, seconds; 0 does not wait")
            yield self._wait
            yield words("", "error")
            yield words(HINT, "hint")

    def on_mount(self) -> None:
        """Start with the message when it is known to whom it goes."""
        (self._message if self._to.value else self._to.input).focus()

    def action_send(self) -> None:
        """Close with the order, or say what is missing."""
        message = self._message.text
        try:
            wait = float(self._wait.value or 0)
        except ValueError:
            self.complain(f"the wait must be a number of seconds, not {self._wait.value}")
            return
        if not message.strip():
            self.complain("the message is empty: write something to send")
            self._message.focus()
            return
        sender = self._sender.value or None
        to = self._to.value or "main"
        if sender == to:
            self.complain("a session cannot send to itself: name another session")
            return
        self.dismiss(SendOrder(to, message, sender, wait))
