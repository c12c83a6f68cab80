"""Search over all transcripts, newest first; Enter goes to the message."""

from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from console.live.text.clean import clean_line
from console.live.text.words import age
from console.live.view_model import ViewModel
from console.screens.dialog import Dialog, framed, words
from console.widgets.drawing import Words, fit, palette_of
from console.widgets.line_list import ItemList, LineList
from core.model.access import ALL
from core.model.errors import SwitchboardError
from core.model.sessions import SearchHit, unsearched

HITS = 100
LONGEST_CAVEAT = 600


class SearchDialog(Dialog[tuple[str, int]]):
    """Asks for words and returns key and place of the chosen message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "down", show=False),
        Binding("up", "move(-1)", "up", show=False),
    ]

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__()
        self._view_model = view_model
        self._input = Input(placeholder="words; the last one may be the start of a word", compact=True)
        self._hits = _Hits(view_model)

    def compose(self) -> ComposeResult:
        content = self._input, words("", "error"), self._hits
        yield framed("search all transcripts", *content, hint="↑ ↓ move   ↵ go there   esc close", classes="-tall")

    def on_mount(self) -> None:
        """Start with the words."""
        self._input.focus()

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self.run_worker(partial(self._look, event.value), group="search", exclusive=True)

    @on(Input.Submitted)
    @on(LineList.Chosen)
    def _choose(self) -> None:
        hit = self._hits.current
        if hit is not None:
            self.dismiss((hit.key, hit.seq))

    def action_move(self, step: int) -> None:
        """Move in the hits while the words have the focus."""
        self._hits.action_move(step)

    async def _look(self, text: str) -> None:
        try:
            hits = await self._view_model.gateway.search(text, ALL, limit=HITS) if text.strip() else []
        except SwitchboardError as error:
            self.complain(error.message)
            return
        self.complain(_caveat(hits) if text.strip() else "")
        self._hits.show(hits, lost=0)


def _caveat(hits: list[SearchHit]) -> str:
    """Return what to know of what was found: that it is nothing, and where nobody looked."""
    left_out = "; ".join(f"{each.place}: {each.reason}" for each in unsearched(hits))
    if not left_out:
        return "" if hits else "nothing holds these words"
    nothing = "" if hits else "nothing holds these words where it was looked; "
    return clean_line(f"{nothing}not searched: {left_out}", LONGEST_CAVEAT)


class _Hits(ItemList[SearchHit]):
    def __init__(self, view_model: ViewModel) -> None:
        super().__init__()
        self._view_model = view_model

    def height_of(self, index: int) -> int:  # noqa: ARG002 - all are alike
        return 2

    def nothing(self) -> tuple[str, ...]:
        return ("Finds the messages that hold all the words, in every session.",)

    def row_lines(self, index: int, width: int) -> list[Words]:
        hit = self.items[index]
        palette = palette_of(self)
        when = age(self._view_model.now_ms(hit.key) - hit.timestamp)
        named = self._view_model.book.name_of(hit.key), self._view_model.place_of(hit.key), hit.role
        head = fit("  ".join(filter(None, named)), width - 8)
        first = [(head, palette.style("text", bold=True)), (fit(when, 6, right=True), palette.style("muted"))]
        return [first, [("  " + fit(clean_line(hit.snippet, 200), width - 3), palette.style("muted"))]]
