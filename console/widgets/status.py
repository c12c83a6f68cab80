"""The lines at the edges of the screen: how the fleet is doing, what was just said, which keys work here now."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from console.live.rows import Look
from console.live.text.clean import clean_line
from console.live.text.connections import REASON_CHARS, Word, where
from console.live.text.words import tokens
from console.live.view_model import ViewModel
from console.shell import shell_of
from console.widgets.drawing import Words, fit, line, palette_of, signs_of
from core.model.connection import REACHED, UNREACHED, Connection, unreached
from core.model.money import dollars

Tone = Literal["muted", "good", "warning", "error"]
Keys = Sequence[tuple[str, str]]
"""Keys with their titles."""
NARROW: Final = 100
"""With fewer columns, fewer words."""
_COUNTED: tuple[tuple[Look, str, str, str], ...] = (
    ("running", "running", "run", "accent"),
    ("queued", "queued", "queued", "muted"),
    ("failed", "failed", "failed", "error"),
    ("idle", "idle", "", "muted"),
)


class TopBar(Widget):
    """Name, where it works, how many sessions are in which state, how fast they spend."""

    DEFAULT_CSS = "TopBar { height: 1; background: $palette-panel; }"

    _counts: reactive[dict[Look, int]] = reactive(dict[Look, int])
    _stuck = reactive(0)
    _rate = reactive((0, 0.0))
    _where: reactive[tuple[Connection, ...]] = reactive(())
    _wall = reactive(0)

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="top")
        self._view_model = view_model

    def show(self) -> None:
        """Show how the fleet is doing, where the console is, and how current that is."""
        view_model, now = self._view_model, self._view_model.now_ms()
        self._counts, self._stuck = dict(view_model.book.counts), view_model.deliveries.stuck
        self._rate = view_model.rates.tokens_a_minute(now), view_model.rates.dollars_an_hour(now)
        self._where = connections = view_model.gateway.connections()
        if any(each.state not in REACHED or each.heard_at is not None for each in connections):
            self._wall = view_model.wall_ms()  # else nothing that is said passes with time

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        """Draw the bar: where we are always, how the fleet is doing as far as there is room."""
        palette, width = palette_of(self), self.size.width
        brand = " " if width < NARROW and len(self._where) > 1 else " switchboard  "
        left: Words = [(brand, palette.style("text", bold=True))]
        right = self._counted(narrow=width < NARROW)
        least = _length(left) + sum(len(word.text) for word in self._place(0)) + 1
        while right and least + _length(right) > width:
            right.pop()
        words = self._place(width - _length(left) - _length(right) - 1)
        left += [(word.text, palette.style(word.colour)) for word in words]
        return line(_apart(left, right, width), width, self.rich_style)

    def _place(self, room: int) -> list[Word]:
        """Return where we are, in as many words as there is room for."""
        about = shell_of(self).where
        if about:
            return [Word(about, "accent")]
        return where(self._where, self._wall, signs_of(self).connections, room)

    def _counted(self, *, narrow: bool) -> Words:
        """Return how many sessions are in which state and how fast they spend, the most important first."""
        palette, parts = palette_of(self), Words()
        if self._stuck:
            words = "stuck" if narrow else "undelivered"
            parts.append((f"! {self._stuck} {words}  ", palette.style("warning", bold=True)))
        for look, words, short, colour in _COUNTED:
            count = self._counts.get(look, 0)
            label = short if narrow else words
            if label and (count or look in {"running", "idle"}):
                parts.append((f"{count} {label}  ", palette.style(colour if count else "muted")))
        rate, cost = self._rate
        spending = [f"{tokens(rate)}{'/min' if narrow else ' tok/min'}"] if rate else []
        spending += [f"{dollars(cost)}/h"] if cost else []
        if spending:
            parts.append(("  ".join(spending) + " ", palette.style("muted")))
        return parts


class NoticeLine(Static):
    """One sentence that stays until the next one: what came of the last action, or what is wrong."""

    DEFAULT_CSS = """
    NoticeLine { height: auto; max-height: 6; padding: 0 1; display: none; background: $palette-panel; }
    NoticeLine.-said { display: block; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.text = ""
        self._unreached: dict[str, set[str]] = {}

    def say(self, text: str, tone: Tone = "muted") -> None:
        """Show a sentence; an empty one hides the line."""
        self.text = clean_line(text, REASON_CHARS)
        self.set_class(bool(text), "-said")
        if text:
            sign = {"good": "✓ ", "warning": "! ", "error": "× "}.get(tone, "")
            style = palette_of(self).style("text" if tone == "good" else tone)
            self.update(Text(sign + self.text, style))

    def heed(self, connections: Iterable[Connection]) -> None:
        """Take back what is said of a gateway that was not reached and is by now."""
        for connection in connections:
            if (sentence := unreached(connection)) is not None:
                told = {sentence, clean_line(connection.detail, REASON_CHARS)} - {""}
                self._unreached.setdefault(connection.name, set()).update(told)
                continue
            before = (unreached(replace(connection, state=state, detail="")) for state in UNREACHED)
            told = self._unreached.pop(connection.name, set()).union(filter(None, before))
            if any(sentence in self.text for sentence in told):
                self.say("")


class BottomBar(Widget):
    """The keys that work here now, the most used first."""

    DEFAULT_CSS = "BottomBar { height: 1; background: $palette-panel; }"

    _shown: reactive[tuple[Keys, Keys, Keys]] = reactive(((), (), ()))

    def show(self, keys: Keys, fixed: Keys, refused: Keys = ()) -> None:
        """Show keys with their titles; the fixed ones stand on the right and are never left out.

        Pressing one that is `refused`, since the gateway does not allow it, says why.
        """
        self._shown = keys, fixed, refused

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        width, (keys, fixed, refused) = self.size.width, self._shown
        right = self._drawn(fixed)
        room = width - _length(right) - 3
        left: Words = [(" ", Style())]
        for key in keys:
            one = self._drawn([key], refused=key in refused)
            if _length(left) + _length(one) > room:
                break
            left += one
        return line(_apart(left, right, width), width, self.rich_style)

    def _drawn(self, keys: Keys, *, refused: bool = False) -> Words:
        palette = palette_of(self)
        parts: Words = []
        for key, title in keys:
            sign = palette.style("muted") if refused else palette.style("accent", bold=True)
            parts += [(f"⊘{key}" if refused else key, sign), (f" {title}  ", palette.style("muted"))]
        return parts


class TitleLine(Widget):
    """The title of a pane: what it is, what is seen of it; in the accent colour while the keys go there."""

    DEFAULT_CSS = "TitleLine { height: 1; }"

    _shown = reactive(("", "", "", False))

    def show(self, title: str, about: str, right: str, *, focused: bool) -> None:
        """Show a title, words about what is seen, and a number on the right."""
        self._shown = title, about, right, focused

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        palette, width = palette_of(self), self.size.width
        title, about, right, focused = self._shown
        left: Words = [
            (f" {title}  ", palette.style("accent" if focused else "text", bold=True)),
            (about, palette.style("muted")),
        ]
        return line(_apart(left, [(right + " ", palette.style("muted"))], width), width, self.rich_style)


def _apart(left: Words, right: Words, width: int) -> Words:
    """Put parts at both ends of a line; the left ones are cut where they meet."""
    room = width - _length(right) - 1
    cut: Words = []
    for text, style in left:
        kept = fit(text, min(cell_len(text), room))
        cut.append((kept, style))
        room -= cell_len(kept)
    return [*cut, (" " * max(1, room + 1), Style()), *right]


def _length(parts: Words) -> int:
    return sum(cell_len(text) for text, _ in parts)
