"""The console's colours: a palette per theme, from which both Textual's theme and the drawn lines are made; its signs.

Text stands at least 4.5:1 from what is behind it (a test computes it); no meaning is carried by colour alone
(console#contrast).
"""

from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from console.live.rows import Look
from core.model.connection import ConnectionState
from core.model.exchanges import DeliveryState


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one theme, as `#rrggbb` or the names of terminal colours.

    Attributes:
        text: What is said.
        muted: When and who, and what explains.
        accent: Focus, and what acts.
        good: Ended well.
        warning: Wants a look.
        error: Ended badly.
        back: Behind everything.
        panel: Behind lists and bars.
        cursor: Behind the row under the cursor.
        rule: Lines between panels.
    """

    name: str
    dark: bool
    text: str
    muted: str
    accent: str
    good: str
    warning: str
    error: str
    back: str
    panel: str
    cursor: str
    rule: str
    code: str = "ansi_dark"

    @property
    def ansi(self) -> bool:
        """Whether the colours are those of the terminal."""
        return not self.back.startswith("#")

    def style(self, colour: str, *, bold: bool = False, italic: bool = False) -> Style:
        """Return a Rich style for words in a colour of the palette."""
        color = getattr(self, colour).removeprefix("ansi_")
        dim = self.ansi and colour == "muted"
        return Style(color=color, bold=bold or None, italic=italic or None, dim=dim or None)

    def theme(self) -> Theme:
        """Return the Textual theme made of this palette."""
        return Theme(
            name=self.name,
            dark=self.dark,
            ansi=self.ansi,
            primary=self.accent,
            secondary=self.accent,
            accent=self.accent,
            foreground=self.text,
            background=self.back,
            surface=self.panel,
            panel=self.panel,
            boost=self.cursor,
            success=self.good,
            warning=self.warning,
            error=self.error,
            variables={
                "palette-muted": self.muted,
                "palette-rule": self.rule,
                "palette-cursor": self.cursor,
                "palette-panel": self.panel,
                "scrollbar": self.rule,
                "scrollbar-hover": self.muted,
                "scrollbar-active": self.accent,
                "scrollbar-background": self.back,
                "scrollbar-background-hover": self.back,
                "scrollbar-background-active": self.back,
                "scrollbar-corner-color": self.back,
                **(_TERMINALS_OWN if self.ansi else {}),
            },
        )


_TERMINALS_OWN: Final = {
    "ansi-background": "ansi_default",
    "ansi-foreground": "ansi_default",
    "border-blurred": "ansi_bright_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_bright_blue",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
    "input-cursor-text-style": "reverse",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
}
"""What Textual's own styles ask of a theme in the colours of the terminal; without, switching to it would fail."""


THEMES: Final[dict[str, Palette]] = {
    palette.name: palette
    for palette in (
        Palette(
            name="switchboard-dark",
            dark=True,
            text="#d6dae0",
            muted="#98a1ae",
            accent="#7cb7ff",
            good="#7fc98b",
            warning="#e6b450",
            error="#ff8078",
            back="#14171c",
            panel="#191d23",
            cursor="#2a3342",
            rule="#39414d",
            code="monokai",
        ),
        Palette(
            name="switchboard-light",
            dark=False,
            text="#1f242b",
            muted="#5b6470",
            accent="#0b57b0",
            good="#1a6b2e",
            warning="#7d5300",
            error="#b3211c",
            back="#fbfbfa",
            panel="#f2f2ef",
            cursor="#dbe6f5",
            rule="#c3c7cc",
            code="xcode",
        ),
        Palette(
            name="switchboard-contrast",
            dark=True,
            text="#ffffff",
            muted="#c8c8c8",
            accent="#66d9ff",
            good="#6dff8a",
            warning="#ffd500",
            error="#ff8a80",
            back="#000000",
            panel="#000000",
            cursor="#00366b",
            rule="#8a8a8a",
            code="monokai",
        ),
        Palette(
            name="switchboard-ansi",
            dark=True,
            text="ansi_default",
            muted="ansi_default",
            accent="ansi_bright_blue",
            good="ansi_green",
            warning="ansi_yellow",
            error="ansi_red",
            back="ansi_default",
            panel="ansi_default",
            cursor="ansi_bright_black",
            rule="ansi_bright_black",
            code="ansi_dark",
        ),
    )
}
DEFAULT_THEME: Final = "switchboard-dark"


@cache
def palette_named(name: str) -> Palette:
    """Return the palette of a theme by its name, also of one that is Textual's own."""
    if name in THEMES:
        return THEMES[name]
    theme = BUILTIN_THEMES[name]
    colors = theme.to_color_system().generate()
    if not colors["background"].startswith("#"):
        return THEMES["switchboard-ansi"]
    back, text = Color.parse(colors["background"]), Color.parse(colors["foreground"])
    return Palette(
        name=theme.name,
        dark=theme.dark,
        text=text.hex,
        muted=back.blend(text, 0.75).hex,
        accent=colors["text-primary"],
        good=colors["text-success"],
        warning=colors["text-warning"],
        error=colors["text-error"],
        back=back.hex,
        panel=colors["surface"],
        cursor=back.blend(Color.parse(colors["primary"]), 0.25).hex,
        rule=back.blend(text, 0.3).hex,
        code="monokai" if theme.dark else "friendly",
    )


class Signs(NamedTuple):
    """What stands for each state, in one cell."""

    sessions: dict[Look, str]
    deliveries: dict[DeliveryState, str]
    connections: dict[ConnectionState, str]


UNICODE_SIGNS: Final = Signs(
    {"failed": "×", "running": "●", "queued": "◌", "idle": "·", "done": "✓", "archived": "▪"},
    {"pending": "◌", "sending": "●", "sent": "✓", "skipped": "⊘", "failed": "×", "unknown": "?"},
    {"live": "●", "reading": "·", "starting": "○", "connecting": "◌", "lost": "◌", "refused": "×"},
)
ASCII_SIGNS: Final = Signs(
    {"failed": "x", "running": "*", "queued": "o", "idle": ".", "done": "+", "archived": "#"},
    {"pending": "o", "sending": "*", "sent": "+", "skipped": "-", "failed": "x", "unknown": "?"},
    {"live": "*", "reading": ".", "starting": "+", "connecting": "o", "lost": "o", "refused": "x"},
)
