"""Facts below each other under headings: label and words, wrapped to the width there is."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from console.widgets.drawing import Words, fit, palette_of, wrapped
from console.widgets.line_list import ItemList

LABEL = 11


class Fact(NamedTuple):
    """One line of a sheet, or more where its words need them.

    Attributes:
        label: Empty for a heading, unless `text` is a further line of the one above.
        colour: Of the words.
        key: The session that the line is about, to go to.
        heading: It stands over those that follow.
        mark: What stands at the end of the line, such as that a rule decides.
    """

    label: str
    text: str
    colour: str = "text"
    key: str | None = None
    heading: bool = False
    mark: str = ""


class Sheet(ItemList[Fact]):
    """A column of facts; the cursor marks the line that Enter is about."""

    KEEPS_CURSOR: ClassVar = False

    def show(self, items: Sequence[Fact], lost: int | None = None) -> None:
        """Show these facts, if they are others."""
        if items != self.items:
            super().show(items, lost)

    def on_resize(self) -> None:
        """Wrap the words anew."""
        self.lay_out()
        super().on_resize()

    def row_lines(self, index: int, width: int) -> list[Words]:
        fact, palette = self.items[index], palette_of(self)
        if fact.heading:
            title = [(fact.text, palette.style("text", bold=True)), (f"  {fact.label}", palette.style("muted"))]
            return [[], title] if index else [title]
        lines: list[Words] = []
        for number, words in enumerate(self._words(fact, width)):
            label = fit(fact.label if not number else "", LABEL)
            mark = fact.mark if not number else ""
            room = width - LABEL - len(mark) - 2
            colour = palette.style(fact.colour)
            said = [(label, palette.style("muted")), (fit(words, room), colour)]
            lines.append([*said, (f" {mark}", palette.style("accent", bold=True))] if mark else said)
        return lines

    def height_of(self, index: int) -> int:
        """Have as many lines as the words need, and space above a heading."""
        fact = self.items[index]
        if fact.heading:
            return 2 if index else 1
        return len(self._words(fact, max(1, self.size.width - 1)))

    def _words(self, fact: Fact, width: int) -> list[str]:
        """Return the words in lines of the width there is."""
        room = max(8, width - LABEL - len(fact.mark) - 2)
        return wrapped(fact.text, room)
