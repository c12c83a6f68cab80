"""The send dialog: from whom, to whom, what, and how long to wait (S1, S13)."""

import difflib
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from console.live.rows import Row
from console.operations import Order
from console.screens.dialog import Dialog, Refusal, form, seconds
from console.widgets.session_field import SessionField, is_key
from core.rules.limits import self_send

MAX_WAIT_SECONDS = 86_400


class SendDialog(Dialog[Order]):
    """Asks for a message to send.

    Args:
        rows: The sessions to choose from.
        order: What to start with.
        refusal: Says why nothing can be sent into a session.
        alone: Says why nothing follows a send into a session from another one but its first run.
    """

    AUTO_FOCUS = ""  # the first field is the one that is rarely wanted: no letter may go there meanwhile
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "send", "send", show=False, id="dialog.send")]

    def __init__(self, rows: Sequence[Row], order: Order, refusal: Refusal, alone: Refusal) -> None:
        super().__init__()
        self._alone = alone
        self._refusal = refusal
        self._rows = rows
        given = order.arguments
        self._sender = SessionField(rows, order.acting_for or "", "operator", id="from")
        self._to = SessionField(rows, given["sessionKey"], "main", id="to")
        self._message = TextArea(given["message"], show_line_numbers=False, compact=True)
        self._wait = Input(f"{given['timeoutSeconds']:g}", type="number", compact=True)

    def compose(self) -> ComposeResult:
        fields = {
            "from: empty is you, the operator; a session makes it the requester": self._sender,
            "to: part of a name, or a full key; a new full key makes a new session": self._to,
            "message": self._message,
            "wait for the reply, seconds; 0 does not wait": self._wait,
        }
        yield form("send a message", fields, "↵ takes a session   tab next field   ^s send   esc close")

    def on_mount(self) -> None:
        """Start with the message when it is known to whom it goes."""
        self.set_focus(self._message if self._to.value else self._to.input)

    @on(SessionField.Taken)
    def _taken(self) -> None:
        """Say at once why nothing can be sent there, or what will not follow."""
        to = self._to.value
        self.complain(self._refusal(to) or (self._alone(to) if self._sender.value else None) or "")

    def action_send(self) -> None:
        """Close with the order, or say what is missing."""
        message = self._message.text
        wait = seconds(self._wait.value)
        if wait is None or wait > MAX_WAIT_SECONDS:
            self.complain(f"the wait must be 0 to {MAX_WAIT_SECONDS:,} seconds, not {self._wait.value}")
            return
        if not message.strip():
            self.complain("the message is empty: write something to send")
            self._message.focus()
            return
        sender = self._sender.value or None
        to = self._to.value or "main"
        problem = self_send(sender, to) or self._unknown(sender) or self._unknown(to) or self._refusal(to)
        if problem is not None:
            self.complain(problem)
            return
        self.dismiss(Order({"sessionKey": to, "message": message, "timeoutSeconds": wait}, sender))

    def _unknown(self, name: str | None) -> str | None:
        """Say that a word names no session, and which comes nearest; a full key may be new: that the gateway knows."""
        known = {name for row in self._rows for name in (row.session.key, row.session.session_id)}
        if name is None or name in {"main", *known} or is_key(name):
            return None
        by_name = {word: row.session.key for row in self._rows for word in (row.session.key, row.name)}
        found = difflib.get_close_matches(name, by_name, 1, 0.5)
        hint = f"did you mean {by_name[found[0]]}?" if found else "take one from the list or write a full key"
        return f"no session is called {name}: {hint}"
