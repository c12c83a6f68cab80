"""A question before something that cannot be undone; it names what will be lost (console#dangerous-actions)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from console.screens.dialog import Dialog, words


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer.

    Attributes:
        key: The key that gives it.
        answer: What the question returns.
    """

    key: str
    words: str
    answer: str


class Confirm(Dialog[str]):
    """Asks, and returns the chosen answer, None when the operator leaves."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, title: str, text: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._choices = choices

    def compose(self) -> ComposeResult:
        """Put the question above its answers."""
        with Vertical(classes="dialog") as box:
            box.border_title = self._title
            yield words(self._text)
            answers = "   ".join(f"{choice.key}  {choice.words}" for choice in self._choices)
            yield words(f"{answers}   esc  go back", "hint")

    def on_key(self, event: events.Key) -> None:
        """Take the answer."""
        for choice in self._choices:
            if event.key == choice.key:
                event.stop()
                self.dismiss(choice.answer)
