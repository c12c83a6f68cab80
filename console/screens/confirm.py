"""A question before something that cannot be undone; it names what will be lost (console#dangerous-actions)."""

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult

from console.screens.dialog import Dialog, framed, words


class Confirm(Dialog[str]):
    """Asks, and returns the key of the chosen answer, None when the operator leaves; `answers`: their words by key."""

    def __init__(self, title: str, text: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._answers = answers

    def compose(self) -> ComposeResult:
        answers = "   ".join(f"{key}  {each}" for key, each in self._answers.items())
        yield framed(self._title, words(self._text), hint=f"{answers}   esc  go back")

    def on_key(self, event: events.Key) -> None:
        if event.key in self._answers:
            event.stop()
            self.dismiss(event.key)
