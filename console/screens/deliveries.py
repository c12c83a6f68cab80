"""Every delivery, newest first: what was announced where, what was not and why; retry and drop (S11)."""

from collections.abc import Callable
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from console.actions import DELIVERIES, Action
from console.live.changes import Changes
from console.live.deliveries import NEWEST
from console.live.text.exchanges import address_words
from console.live.text.words import LOCAL, age, ago
from console.live.view_model import ViewModel
from console.operations import Doing
from console.screens.confirm import Confirm
from console.screens.page import Page, bindings
from console.widgets.drawing import Words, fit, palette_of, signs_of
from console.widgets.line_list import ItemList, LineList
from console.widgets.status import TitleLine
from core.model.exchanges import RETRYABLE, Delivery, DeliveryState
from core.model.keys import split

TEXT_CHARS: Final = 20_000
"""So much of a text is shown; all of it stands in the session's transcript."""
OVER: Final = {
    "sent": "it is sent: there is nothing to retry or drop",
    "skipped": "it was skipped: nothing was to be said, or somebody gave it up; that is final",
    "sending": "it is being sent just now: wait for what the channel says",
}
RETRY_UNKNOWN = "Nobody knows whether it arrived. Sent again, the channel may show it twice:"
DROP_UNKNOWN = "Nobody knows whether it arrived: it may stand on the channel already. Dropped, it is not sent again:"
COLOURS: Final[dict[DeliveryState, str]] = {
    "pending": "muted",
    "sending": "accent",
    "sent": "good",
    "skipped": "muted",
    "failed": "error",
    "unknown": "warning",
}


class DeliveriesScreen(Page):
    """The deliveries screen."""

    TABLE = DELIVERIES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TABLE)]
    AUTO_FOCUS = "#deliveries"
    DEFAULT_CSS = """
    DeliveriesScreen #list { height: 1fr; background: $palette-panel; }
    DeliveriesScreen #said { height: 9; border-top: solid $palette-rule; }
    DeliveriesScreen.-medium #said { height: 14; }
    DeliveriesScreen #said VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    DeliveriesScreen.-wide #parts { layout: horizontal; }
    DeliveriesScreen.-wide #list { width: 110; height: 100%; }
    DeliveriesScreen.-wide #said { width: 1fr; height: 100%; border-top: none; border-left: solid $palette-rule; }
    DeliveriesScreen #reason { color: $palette-muted; margin-bottom: 1; }
    DeliveriesScreen.-empty #said { display: none; }
    DeliveriesScreen Input { display: none; }
    DeliveriesScreen.-filtering Input { display: block; }
    """

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(view_model)
        self.list = _List(view_model)
        self._filter = Input(placeholder="words of state, session, address, reason, text", compact=True)
        self._about = TitleLine(id="about")
        self._reason = Static(id="reason")
        self._text = Static(id="text")

    def compose(self) -> ComposeResult:
        """Put the deliveries above the text of the selected one, on a wide screen beside it."""
        yield self.title_line
        with Container(id="parts"):
            with Vertical(id="list"):
                yield self._filter
                yield self.list
            with Vertical(id="said"):
                yield self._about
                with VerticalScroll():
                    yield self._reason
                    yield self._text
        yield self.notice
        yield self.bottom

    def on_mount(self) -> None:
        """Show what there is, and keep the times true."""
        self._show()
        self.set_interval(1.0, self._tick)

    def show_changes(self, changes: Changes) -> None:
        if changes.deliveries or changes.all:
            self._show()
        elif changes.rows & self.list.keys:
            self.list.refresh()

    def why_not(self, action_id: str) -> str | None:
        current = self.list.current
        if action_id not in {"open", "retry", "drop"}:
            return None
        if current is None:
            return "there is no delivery here"
        if action_id == "open":
            gone = f"{self.view_model.book.name_of(current.key)} is not among the sessions any more"
            return None if current.key in self.view_model.book.rows else gone
        if current.state not in RETRYABLE:
            return OVER[current.state]
        return self.view_model.gateway.refusal("deliver", current.key)

    def refused(self, action: Action) -> bool:
        current = self.list.current
        key = current.key if current is not None else None
        return action.id in {"retry", "drop"} and self.view_model.gateway.refusal("deliver", key) is not None

    # What the keys do

    def do_retry(self) -> None:
        self._do(self.shell.operations.retry, "retry", RETRY_UNKNOWN)

    def do_drop(self) -> None:
        self._do(self.shell.operations.drop, "drop", DROP_UNKNOWN)

    def _do(self, deed: Callable[[Delivery], Doing], word: str, question: str) -> None:
        """Do it, after asking when it may have arrived."""
        delivery = self.list.current
        assert delivery is not None, "an action that needs one is refused without"
        if delivery.state != "unknown":
            self.run_deed(deed(delivery))
            return

        def answered(given: str | None) -> None:
            if given is not None:
                self.run_deed(deed(delivery))

        text = f"{question} the announce of {self.view_model.book.name_of(delivery.key)} to {address_words(delivery)}."
        self.shell.push_screen(Confirm(f"{word}?", text, {"y": word}), answered)

    def do_open(self) -> None:
        if self.list.current is not None:
            self.dismiss(self.list.current.key)

    def do_filter(self) -> None:
        self.add_class("-filtering")
        self._filter.focus()

    def do_back(self) -> None:
        """Go out of the filter, then back to the sessions."""
        if self.has_class("-filtering"):
            self._filter.value = ""
            self.remove_class("-filtering")
            self.list.focus()
        else:
            self.dismiss(None)

    @on(Input.Submitted)
    def _narrowed(self) -> None:
        self.list.focus()
        if not self._filter.value:
            self.remove_class("-filtering")

    @on(LineList.Chosen)
    def _chosen(self) -> None:
        self.action_do("open")

    # What is shown

    @on(Input.Changed)
    def _show(self) -> None:
        self.list.narrow(self.view_model.deliveries.newest_first(), self._filter.value)
        self._show_text()

    @on(LineList.Moved)
    def _show_text(self) -> None:
        current = self.list.current
        text = current.text if current is not None else ""
        more = len(text) - TEXT_CHARS
        if more > 0:
            text = f"{text[:TEXT_CHARS]}\n… {more:,} more characters stand in the session's transcript"
        nothing = "Nothing was to be said." if current is not None else ""
        self._text.update(Content(text or nothing))
        reason = (current.reason if current is not None else None) or ""
        self._reason.update(Content(reason))
        self._reason.display = cell_len(reason) > self.list.size.width - 4  # cut in the list
        self._show_edges()

    @on(events.DescendantFocus)
    def _show_edges(self) -> None:
        self.set_class(not self.list.total, "-empty")
        current, shown, total = self.list.current, self.list.count, self.list.total
        about = f"/{self._filter.value}" if self._filter.value else "newest first"
        if total > NEWEST:
            about += f"; of those that are over, the newest {NEWEST}"
        number = f"{shown} of {total}" if shown != total else str(total)
        stuck = self.view_model.deliveries.stuck
        right = f"! {stuck} undelivered  {number}" if stuck else number
        self.title_line.show("DELIVERIES", about, right, focused=self.list.has_focus)
        where = when = ""
        if current is not None:
            where = f"{self.view_model.book.name_of(current.key)} → {address_words(current)}"
            where += f" as {current.account_id}" if current.account_id else ""
            now = self.view_model.now_ms(current.key)
            when = f"recorded {ago(now - current.created_at)}, changed {ago(now - current.updated_at)}"
        self._about.show("TEXT", where, when, focused=False)
        self.show_keys([("↵", "to the list"), ("esc", "all deliveries")] if self._filter.has_focus else ())

    def _tick(self) -> None:
        self.list.refresh()
        self._show_edges()


class _List(ItemList[Delivery]):
    """The deliveries; the cursor stays on its delivery when others come."""

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="deliveries")
        self._view_model = view_model
        self._needle = ""
        self.total = 0
        self.keys: set[str] = set()

    def narrow(self, found: list[Delivery], needle: str) -> None:
        """Show those that hold every word."""
        self._needle, self.total, words = needle, len(found), needle.casefold().split()
        shown = [each for each in found if all(word in self._haystack(each) for word in words)] if words else found
        self.keys = {each.key for each in shown}
        self.show(shown, lost=0 if needle else None)

    def known_by(self, item: Delivery) -> str:
        return item.delivery_id

    def height_of(self, index: int) -> int:
        return 2 if self.items[index].reason else 1

    def nothing(self) -> tuple[str, ...]:
        if self._needle:
            return ("No delivery holds these words.", "Esc shows all of them again.")
        return ("Nothing was announced yet.", "What exchanges and sub-agents announce on channels stands here.")

    def row_lines(self, index: int, width: int) -> list[Words]:
        delivery, palette = self.items[index], palette_of(self)
        now = self._view_model.now_ms(delivery.key)
        colour, muted = palette.style(COLOURS[delivery.state]), palette.style("muted")
        tries = fit(_tries(delivery, now), 22, right=True)
        room = max(0, width - 11 - len(tries) - 6)
        named = f"{self._view_model.book.name_of(delivery.key)} {self._view_model.place_of(delivery.key)}".rstrip()
        name = fit(named, min(28, room * 45 // 100))
        first = [
            (f"{signs_of(self).deliveries[delivery.state]} {fit(delivery.state, 9)}", colour),
            (name + " ", palette.style("text", bold=True)),
            (fit(address_words(delivery), room - min(28, room * 45 // 100) - 1), palette.style("text")),
            (tries, muted),
            (fit(age(now - delivery.updated_at), 5, right=True), muted),
        ]
        return [first, [("  " + fit(delivery.reason or "", width - 3), muted)]]

    def _haystack(self, delivery: Delivery) -> str:
        name = self._view_model.book.name_of(delivery.key)
        place = f"@{split(delivery.key)[0] or LOCAL}"
        said = delivery.reason or "", delivery.text
        return "\n".join((delivery.state, name, place, delivery.key, address_words(delivery), *said)).casefold()


def _tries(delivery: Delivery, now: int) -> str:
    """Return how often a channel was asked, and when it is again."""
    said = {0: "", 1: "1 try"}.get(delivery.attempts, f"{delivery.attempts} tries")
    if delivery.state != "pending":
        return said
    again = "due now" if delivery.due_at <= now else f"again in {age(delivery.due_at - now + 999)}"
    return f"{said}, {again}" if said else again
