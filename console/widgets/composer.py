"""Where the operator writes: several lines, history, slash commands with completion; Enter sends."""

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Final

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import TextArea

from console.widgets.drawing import Words, fit, line, palette_of
from core.model.commands import COMMANDS, CommandSpec

HELP: Final = CommandSpec("help", "", "show the keys and commands")
"""The one command that is for the console and goes to no session."""
_KNOWN: Final = {**COMMANDS, HELP.name: HELP}
_COMMAND: Final = re.compile(r"/([A-Za-z]+)(?: .*)?")


class Composer(Vertical):
    """The writing field below a line that says to whom, or completes a command; `submit` sends what is in it."""

    DEFAULT_CSS = """
    Composer { height: auto; border-top: solid $palette-rule; }
    Composer TextArea {
        height: auto; min-height: 1; max-height: 8; border: none; padding: 0 1; background: $background;
    }
    """

    class Left(Message):
        """The operator goes back to reading."""

    class Changed(Message):
        """The draft changed; by the time that this is read, it may have changed again."""

    def __init__(self, submit: Callable[[str], None]) -> None:
        super().__init__(id="composer")
        self.field = _Field(submit)
        self.head = _Head()

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.field

    @property
    def text(self) -> str:
        """What stands in the field."""
        return self.field.text

    def load(self, text: str) -> None:
        """Put a draft into the field."""
        if self.field.text != text:
            self.field.load_text(text)
            self.field.move_cursor(self.field.document.end)
        self.head.complete(text)

    def on_click(self) -> None:
        """Write: the line above the field is part of it."""
        self.field.focus()

    def on_descendant_focus(self) -> None:
        """Show that the keys go here."""
        self.head.has_keys = True

    def on_descendant_blur(self) -> None:
        """Show that they go elsewhere."""
        self.head.has_keys = False

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Pass the draft on and complete commands."""
        event.stop()
        self.head.complete(self.field.text)
        self.post_message(self.Changed())


class _Field(TextArea):
    """Where words are written; `sent` has what was sent before, oldest first."""

    def __init__(self, submit: Callable[[str], None]) -> None:
        super().__init__(show_line_numbers=False, soft_wrap=True, compact=True, highlight_cursor_line=False)
        self.sent: list[str] = []
        self._submit = submit
        self._at: int | None = None

    async def _on_key(self, event: events.Key) -> None:
        if self._handle(event.key):
            event.prevent_default()
            event.stop()
            return
        await super()._on_key(event)

    def _handle(self, key: str) -> bool:
        """Do what a key means here; False for what the field itself does with it."""
        if key == "enter":
            self._submit(self.text)
        elif key in {"ctrl+j", "shift+enter", "alt+enter"}:
            self.insert("\n")
        elif key == "escape":
            self.post_message(Composer.Left())
        elif key == "tab" and self.text.startswith("/"):
            self._complete()
        elif key == "up" and self.cursor_location[0] == 0:
            return self._recall(-1)
        elif key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            return self._recall(1)
        else:
            return False
        return True

    def _complete(self) -> None:
        found = list(completions(self.text))
        if found:
            self.load_text(found[0][0])
            self.move_cursor(self.document.end)

    def _recall(self, step: int) -> bool:
        """Go through what was sent before; False at either end."""
        if not self.sent or (self._at is None and (step > 0 or self.text)):
            return False
        at = len(self.sent) if self._at is None else self._at
        at = max(0, min(at + step, len(self.sent)))
        self._at = at if at < len(self.sent) else None
        self.load_text(self.sent[at] if self._at is not None else "")
        self.move_cursor(self.document.end)
        return True


class _Head(Widget):
    DEFAULT_CSS = "_Head { height: 1; }"

    words: reactive[tuple[str, str, str]] = reactive(("main", "as operator", ""))
    """To whom a message goes, as whom, and something on the right."""
    _hints: reactive[list[tuple[str, str]]] = reactive(list[tuple[str, str]])
    has_keys = reactive(default=False)
    """What is typed goes into the field."""

    def complete(self, text: str) -> None:
        """Show the commands that a text may become."""
        self._hints = list(completions(text)) if text.startswith("/") else []

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        palette, width = palette_of(self), self.size.width
        if self._hints:
            parts: Words = [(" ", Style())]
            for written, words in self._hints:  # what one alone does fits beside it; of several the names do
                more = f"  {words}" if len(self._hints) == 1 else ""
                parts += [(written.rstrip(), palette.style("accent")), (f"{more}  ", palette.style("muted"))]
            return line(parts, width, self.rich_style)
        to, about, right = self.words
        room = max(0, width - len(about) - len(right) - 10)
        left = f" to {to}"
        colour = "accent" if self.has_keys else "text"
        return line(
            [
                (fit(left, min(len(left), room)) + "   ", palette.style(colour, bold=True)),
                (fit(about, max(0, width - min(len(left), room) - 4 - len(right))), palette.style("muted")),
                (right + " ", palette.style("accent")),
            ],
            width,
            self.rich_style,
        )


def completions(text: str) -> Iterable[tuple[str, str]]:
    """Return what a slash command can go on as, each with what it does."""
    name, space, argument = text[1:].partition(" ")
    if not space:
        for spec in _KNOWN.values():
            if spec.name.startswith(name.lower()):
                yield f"/{spec.name}" + (" " if spec.arguments else ""), f"{spec.arguments}   {spec.help}".lstrip()
        return
    spec = COMMANDS.get(name.lower())
    if spec is not None:
        for choice in spec.choices:
            if choice.startswith(argument.lower()) and choice != argument:
                yield f"/{spec.name} {choice}", spec.help


def unknown_command(text: str) -> str | None:
    """Say that a text looks like a command and is none; None for commands and for words, such as a path."""
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None or found[1].lower() in _KNOWN:
        return None
    nearest = difflib.get_close_matches(found[1].lower(), _KNOWN, 1)
    hint = f"did you mean /{nearest[0]}?" if nearest else f"use one of {', '.join(f'/{name}' for name in _KNOWN)};"
    return f"/{found[1]} is no command: {hint} a space before it sends it as words"
