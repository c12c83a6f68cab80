"""The lines at the edges of the screen: how the fleet is doing, what was just said, which keys work here now."""

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from console.live.clean import clean_line
from console.live.rows import Look
from console.live.words import money, tokens
from console.widgets.ink import fit, inks_of, line

Tone = Literal["muted", "good", "warning", "error"]
_Parts = list[tuple[str, Style]]
_COUNTED: tuple[tuple[Look, str, str, str], ...] = (
    ("running", "running", "run", "accent"),
    ("queued", "queued", "queued", "muted"),
    ("failed", "failed", "failed", "error"),
    ("idle", "idle", "", "muted"),
)


class TopBar(Widget):
    """Name, where it works, how many sessions are in which state, how fast they spend."""

    DEFAULT_CSS = "TopBar { height: 1; background: $ink-panel; }"

    def __init__(self) -> None:
        super().__init__(id="top")
        self._where = "local"
        self._counts: dict[Look, int] = {}
        self._stuck: int = 0
        self._rate: tuple[int, float] = (0, 0.0)

    def show(
        self, where: str, counts: dict[Look, int], stuck: int, tokens_a_minute: int, dollars_an_hour: float
    ) -> None:
        """Show these facts.

        Args:
            where: The gateway, and whether this is a demo.
            stuck: Deliveries that wait for the operator.
        """
        shown = (where, counts, stuck, (tokens_a_minute, dollars_an_hour))
        if shown != (self._where, self._counts, self._stuck, self._rate):
            self._where, self._counts, self._stuck, self._rate = shown
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        """Draw the bar."""
        inks, width = inks_of(self), self.size.width
        narrow = width < 100
        left: _Parts = [(" switchboard  ", inks.style("text", bold=True)), (self._where, inks.style("accent"))]
        right: _Parts = []
        if self._stuck:
            right.append(
                (f"! {self._stuck} {'stuck' if narrow else 'undelivered'}  ", inks.style("warning", bold=True))
            )
        for look, words, short, ink in _COUNTED:
            count = self._counts.get(look, 0)
            label = short if narrow else words
            if label and (count or look in {"running", "idle"}):
                right.append((f"{count} {label}  ", inks.style(ink if count else "muted")))
        rate, cost = self._rate
        spending = [f"{tokens(rate)}{'/min' if narrow else ' tok/min'}"] if rate else []
        spending += [f"{money(cost)}/h"] if cost else []
        right.append(("  ".join(spending) + " " if spending else "", inks.style("muted")))
        return line(_apart(left, right, width), width, self.rich_style)


class NoticeLine(Static):
    """One sentence that stays until the next one: what came of the last action, or what is wrong."""

    DEFAULT_CSS = """
    NoticeLine { height: auto; max-height: 3; padding: 0 1; display: none; background: $ink-panel; }
    NoticeLine.-said { display: block; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.text = ""

    def say(self, text: str, tone: Tone = "muted") -> None:
        """Show a sentence; an empty one hides the line."""
        self.text = clean_line(text, 400)
        self.set_class(bool(text), "-said")
        if text:
            sign = {"good": "✓ ", "warning": "! ", "error": "× "}.get(tone, "")
            style = inks_of(self).style("text" if tone == "good" else tone)
            self.update(Text(sign + self.text, style))


class BottomBar(Widget):
    """The keys that work here now, the most used first."""

    DEFAULT_CSS = "BottomBar { height: 1; background: $ink-panel; }"

    def __init__(self) -> None:
        super().__init__(id="bottom")
        self._keys: Sequence[tuple[str, str]] = ()
        self._fixed: Sequence[tuple[str, str]] = ()

    def show(self, keys: Sequence[tuple[str, str]], fixed: Sequence[tuple[str, str]]) -> None:
        """Show keys with their titles; the fixed ones stand on the right and are never left out."""
        if (keys, fixed) != (self._keys, self._fixed):
            self._keys, self._fixed = keys, fixed
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        """Draw the bar."""
        width = self.size.width
        right = self._drawn(self._fixed)
        room = width - _length(right) - 3
        left: _Parts = [(" ", Style())]
        for key in self._keys:
            one = self._drawn([key])
            if _length(left) + _length(one) > room:
                break
            left += one
        return line(_apart(left, right, width), width, self.rich_style)

    def _drawn(self, keys: Sequence[tuple[str, str]]) -> _Parts:
        inks = inks_of(self)
        parts: _Parts = []
        for key, title in keys:
            parts += [(key, inks.style("accent", bold=True)), (f" {title}  ", inks.style("muted"))]
        return parts


class TitleLine(Widget):
    """The title of a pane: what it is, what is seen of it; in the accent colour while the keys go there."""

    DEFAULT_CSS = "TitleLine { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._shown = ("", "", "", False)

    def show(self, title: str, about: str, right: str, *, focused: bool) -> None:
        """Show a title, words about what is seen, and a number on the right."""
        if self._shown != (title, about, right, focused):
            self._shown = (title, about, right, focused)
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one line only
        """Draw the title."""
        inks, width = inks_of(self), self.size.width
        title, about, right, focused = self._shown
        left: _Parts = [
            (f" {title}  ", inks.style("accent" if focused else "text", bold=True)),
            (about, inks.style("muted")),
        ]
        return line(_apart(left, [(right + " ", inks.style("muted"))], width), width, self.rich_style)


def _apart(left: _Parts, right: _Parts, width: int) -> _Parts:
    """Put parts at both ends of a line; the left ones are cut where they meet."""
    room = width - _length(right) - 1
    cut: _Parts = []
    for text, style in left:
        kept = fit(text, min(cell_len(text), room))
        cut.append((kept, style))
        room -= cell_len(kept)
    return [*cut, (" " * max(1, room + 1), Style()), *right]


def _length(parts: _Parts) -> int:
    return sum(cell_len(text) for text, _ in parts)
