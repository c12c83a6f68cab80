"""One session in full: who it is, what it costs, what decides about it, its transcript, and where to write to it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from console.live.rows import Row, state_word
from console.live.text.connections import data_age, title
from console.live.text.exchanges import next_words
from console.live.text.words import tokens
from console.live.transcript import Transcript
from console.live.view_model import ViewModel
from console.widgets.drawing import LOOK_COLOURS, Words, fit, line, palette_of, signs_of
from console.widgets.transcript_view import TranscriptView
from core.model.money import dollars

if TYPE_CHECKING:
    from console.widgets.composer import Composer

NOTHING = ("Nothing to read yet.", "What is said in a session shows up here, word by word.")


class TranscriptPane(Vertical):
    """Header, transcript and, where one can write, the composer."""

    DEFAULT_CSS = "TranscriptPane { width: 1fr; }"

    class Shown(Message):
        """It is on the screen now, after it was not."""

    def __init__(self, view_model: ViewModel, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.key: str | None = None
        self.header = _Header()
        self.view = TranscriptView(view_model)
        self._view_model = view_model
        self.composer: Composer | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.view

    def on_show(self) -> None:
        """Tell that it can be read now."""
        self.post_message(self.Shown())

    async def add_composer(self, submit: Callable[[str], None]) -> None:
        """Add the place to write to the session, and what sends what is written."""
        from console.widgets.composer import Composer

        self.composer = Composer(submit)
        await self.mount(self.composer)

    def show(self, row: Row, transcript: Transcript) -> None:
        """Show a session's transcript from its end."""
        self.key = row.session.key
        self.show_row(row)
        self.view.show(transcript, row.name)

    def show_unread(self, row: Row, why: str) -> None:
        """Show a session whose transcript cannot be read now, and why."""
        self.key = row.session.key
        self.view.show(None, row.name, why)
        self.show_row(row)

    def show_first(self, name: str, *, is_first: bool) -> None:
        """Show where a first message goes: no session is open, and what is sent makes this one."""
        self.header.nothing = "No session yet." if is_first else NOTHING[0]
        if self.composer is not None:
            self.composer.head.words = name, "as operator", ""
            self.composer.field.placeholder = f"type a message to {name}; what you send begins it"

    def show_gone(self) -> None:
        """Show nothing any more: the session was deleted. What was being written to it stays."""
        self.view.show(None, "")
        self.show_row(None)

    def show_row(self, row: Row | None) -> None:
        """Show what is known of the session now."""
        key, standing, exchange = row.session.key if row is not None else "", "", ""
        if row is not None:
            standing = self._standing(key)
            exchange = next_words(self._view_model.exchanges.of(key), key, self._view_model.book.name_of)
        self.header.show(row, exchange, standing)
        self.view.working_since = row.session.started_at if row is not None and row.look == "running" else None
        if row is not None and self.composer is not None:
            below = self.view.below
            note = f"{below} new below ↓" if below else ""
            policy = row.policy
            words = standing or "as operator"
            if policy is not None and not policy.allowed:
                words = f"⊘ {policy.effective} by {policy.reason}"
            self.composer.head.words = row.name, words, note
            self.composer.field.placeholder = ""

    def _standing(self, key: str) -> str:
        """Return what is to be said of the way to the gateway of a session; nothing while it is reached."""
        if self._view_model.silent_ms(key) is None:
            return ""
        connection = self._view_model.gateway.of(key).connection
        words = (f"{title(connection)} {connection.state}", data_age(connection, self._view_model.wall_ms()))
        return ", ".join(filter(None, words))


class _Header(Widget):
    """Two lines: name, key and state; model, context, cost and policy. A third while an exchange is under way."""

    DEFAULT_CSS = """
    _Header { height: 3; border-bottom: solid $palette-rule; }
    _Header.-exchange { height: 4; }
    """

    _row: reactive[Row | None] = reactive(None)
    _exchange = reactive("")
    _standing = reactive("")
    nothing = reactive(NOTHING[0])
    """What is said while there is no session to show."""

    def show(self, row: Row | None, exchange: str, standing: str) -> None:
        """Show a session, who is next in its exchange, if there is one under way, and that its gateway is lost."""
        self._row, self._exchange, self._standing = row, exchange, standing
        self.set_class(bool(exchange), "-exchange")

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        palette = palette_of(self)
        if y == 2 and self._exchange and self.size.height > 2:
            return line([(" " + fit(self._exchange, width - 2), palette.style("accent"))], width, self.rich_style)
        if y >= 2:
            return super().render_line(y)
        row = self._row
        if row is None:
            return line([(" " + (self.nothing, NOTHING[1])[y], palette.style("muted"))], width, self.rich_style)
        return line(self._first(row, width) if y == 0 else self._second(row, width), width, self.rich_style)

    def _first(self, row: Row, width: int) -> Words:
        palette = palette_of(self)
        word = f"{signs_of(self).sessions[row.look]} {state_word(row)}"
        if row.session.queued:
            word += f", {row.session.queued} queued"
        name = fit(row.name, min(cell_len(row.name), width // 2))
        room = max(0, width - cell_len(name) - len(word) - 5)
        return [
            (f" {name}  ", palette.style("text", bold=True)),
            (fit(row.key, room), palette.style("muted")),
            (f" {word} ", palette.style(LOOK_COLOURS[row.look])),
        ]

    def _second(self, row: Row, width: int) -> Words:
        palette = palette_of(self)
        session = row.session
        facts = [session.model or session.used_model or ""]
        if session.total_tokens:
            window = f" of {tokens(session.context_tokens)}" if session.context_tokens else " tokens"
            facts.append(f"{tokens(session.total_tokens)}{window}")
        if session.cost_usd is not None:
            facts.append(dollars(session.cost_usd))
        facts.append(row.channel)
        policy = row.policy
        word = f"{'⊘ ' if row.denied else ''}{policy.effective} by {policy.reason}" if policy is not None else ""
        word = self._standing or word
        room = max(0, width - cell_len(word) - 2)
        left = ""
        for fact in facts:  # what has no room is left out as a whole: half a number says something else
            if fact and cell_len(left) + cell_len(fact) + 4 <= room:
                left += f"{'  ' if left else ''} {fact}"
        return [
            (fit(left, room), palette.style("muted")),
            (fit(f" {word} ", width - room), palette.style("warning" if row.denied or self._standing else "muted")),
        ]
