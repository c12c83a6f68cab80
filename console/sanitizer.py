"""The output sanitizer: nothing that a terminal would obey leaves the app inside text (architecture#threats).

Textual and Rich hand control characters in text straight to the terminal. What `console.live.text.clean` missed, or
what never came through it, becomes harmless here; links carry their address to the terminal too and are dropped.
"""

import re
from typing import Final

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from console.live.text.clean import HARMLESS, harmful_ranges

_HARMFUL: Final = re.compile("[" + harmful_ranges() + "]")
_IN_A_LINE: Final = {code: " " if shown in {"\n", "\t"} else shown for code, shown in HARMLESS.items()}


class OutputSanitizer(LineFilter):
    """Makes every line of the screen harmless on its way out."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """Return the segments with nothing in their text but what can be shown."""
        if not any(_needs_work(segment) for segment in segments):
            return segments
        return [_harmless(segment) for segment in segments]


def _needs_work(segment: Segment) -> bool:
    text, style, control = segment
    if control is not None:
        return False
    linked = style is not None and style.link is not None
    return linked or ((not text.isascii() or not text.isprintable()) and _HARMFUL.search(text) is not None)


def _harmless(segment: Segment) -> Segment:
    text, style, control = segment
    if control is not None:
        return segment
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(text.translate(_IN_A_LINE), style)
