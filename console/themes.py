"""The console's colours: a handful of inks per theme, from which both Textual's theme and the drawn lines are made.

Text stands at least 4.5:1 from what is behind it (a test computes it); no meaning is carried by colour alone (LOOK 5).
"""

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Inks:
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

    def style(self, ink: str, *, bold: bool = False, italic: bool = False) -> Style:
        """Return a Rich style for words in one of the inks."""
        color = getattr(self, ink).removeprefix("ansi_")
        dim = self.ansi and ink == "muted"
        return Style(color=color, bold=bold or None, italic=italic or None, dim=dim or None)

    def theme(self) -> Theme:
        """Return the Textual theme made of these inks."""
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
                "ink-muted": self.muted,
                "ink-rule": self.rule,
                "ink-cursor": self.cursor,
                "ink-panel": self.panel,
                "scrollbar": self.rule,
                "scrollbar-hover": self.muted,
                "scrollbar-active": self.accent,
                "scrollbar-background": self.back,
                "scrollbar-background-hover": self.back,
                "scrollbar-background-active": self.back,
                "scrollbar-corner-color": self.back,
            },
        )


THEMES: Final[dict[str, Inks]] = {
    inks.name: inks
    for inks in (
        Inks(
            name="switchboard-dark",
            dark=True,
            text="#d6dae0",
            muted="#8b94a1",
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
        Inks(
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
            code="friendly",
        ),
        Inks(
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
        Inks(
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
