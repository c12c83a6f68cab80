"""The gateways: which there are, how each is reached, and whose sessions are in the list."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from console.actions import GATEWAYS
from console.hosts.gateways import GatewayEntry, Gateways
from console.live.changes import Changes
from console.live.text.clean import clean_line
from console.live.text.connections import COLOURS, REASON_CHARS, broken, data_age, state_words
from console.live.view_model import ViewModel
from console.screens.page import Page, bindings
from console.widgets.drawing import Words, fit, palette_of, signs_of
from console.widgets.line_list import ItemList, LineList
from console.widgets.sheet import Fact, Sheet
from core.model.errors import SwitchboardError

HOW_TO_ADD: Final = (
    "`switchboard connect URL` pairs with a gateway and stores it under a name; or name it in the configuration:"
    ' gateways: {prod: {url: "wss://host:18789", token: {env: "PROD_TOKEN"}}}'
)


class ConnectScreen(Page):
    """The screen of gateways."""

    TABLE = GATEWAYS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TABLE)]
    AUTO_FOCUS = "#gateways"
    DEFAULT_CSS = """
    ConnectScreen #gateways { height: 1fr; background: $palette-panel; }
    ConnectScreen #facts { height: 11; border-top: solid $palette-rule; }
    ConnectScreen.-medium #facts { height: 14; }
    ConnectScreen.-wide #parts { layout: horizontal; }
    ConnectScreen.-wide #gateways { width: 110; height: 100%; }
    ConnectScreen.-wide #facts { width: 1fr; height: 100%; border-top: none; border-left: solid $palette-rule; }
    """

    def __init__(self, view_model: ViewModel, gateways: Gateways) -> None:
        super().__init__(view_model)
        self._gateways = gateways
        self.list = _List(view_model)
        self.facts = Sheet(id="facts")

    def compose(self) -> ComposeResult:
        """Put the gateways above what is known of the selected one, on a wide screen beside it."""
        yield self.title_line
        with Container(id="parts"):
            yield self.list
            yield self.facts
        yield self.notice
        yield self.bottom

    def on_mount(self) -> None:
        """Show what there is, and keep the times true."""
        self._show()
        self.set_interval(1.0, self._show)

    def show_changes(self, changes: Changes) -> None:
        if changes.connections or changes.all:
            self._show()

    def why_not(self, action_id: str) -> str | None:
        current = self.list.current
        if action_id in {"back", "help"}:
            return None
        if current is None:
            return "there is no gateway here"
        if action_id == "retry":
            return self._gateways.why_not_retry(current.name)
        return self._gateways.why_not_disconnect(current.name) if action_id == "disconnect" else None

    # What the keys do

    def do_only(self) -> None:
        """Show one gateway alone, and go to its sessions."""
        if self._done(self._gateways.show_alone):
            self.dismiss(None)

    def do_toggle(self) -> None:
        self._done(self._gateways.toggle)

    def do_retry(self) -> None:
        self._done(self._gateways.retry)
        self.say(f"{self._current.title} is being tried")

    def do_disconnect(self) -> None:
        self.run_worker(self._disconnect(self._current.name), group="deeds")

    async def _disconnect(self, name: str) -> None:
        await self._gateways.disconnect(name)
        self._show()
        self.say(f"{name} is disconnected; what was written to its sessions is kept")

    def _done(self, deed: Callable[[str], object]) -> bool:
        try:
            deed(self._current.name)
        except SwitchboardError as error:
            self.say(error.message, "error")
            return False
        self._show()
        return True

    @on(LineList.Chosen)
    def _chosen(self) -> None:
        self.action_do("only")

    # What is shown

    @property
    def _current(self) -> GatewayEntry:
        current = self.list.current
        assert current is not None, "an action that needs one is refused without"
        return current

    @on(LineList.Moved)
    def _show(self) -> None:
        self.list.show(self._gateways.entries())
        about = "how each is reached, and whose sessions are shown"
        number = f"{sum(entry.shown for entry in self.list.items)} of {self.list.count} in the list"
        self.title_line.show("GATEWAYS", about, number, focused=self.list.has_focus)
        self.facts.show(self._facts(self.list.current))
        self.show_keys()

    def _facts(self, entry: GatewayEntry | None) -> list[Fact]:
        if entry is None:
            return [Fact("", "MORE GATEWAYS", heading=True), Fact("how", HOW_TO_ADD, "muted")]
        facts = [Fact("", entry.title, heading=True), *self._standing(entry)]
        facts.append(Fact("address", clean_line(entry.address, 200) or "unknown", "muted"))
        facts.append(Fact("known from", entry.origin, "muted"))
        return [*facts, Fact("", "MORE GATEWAYS", heading=True), Fact("how", HOW_TO_ADD, "muted")]

    def _standing(self, entry: GatewayEntry) -> list[Fact]:
        """Return how a gateway is reached, what to do where it is not, and what it allows."""
        connection, now = entry.connection, self.view_model.wall_ms()
        if connection is None:
            return [Fact("state", "not connected: ↵ or space connects it")]
        facts = [Fact("state", state_words(connection, now), COLOURS[connection.state])]
        wrong = broken(connection, now)
        if wrong is not None:
            facts += [Fact("why", wrong[0], COLOURS[connection.state]), Fact("next", wrong[1])]
        elif connection.detail:
            facts.append(Fact("note", clean_line(connection.detail, REASON_CHARS)))
        if data_age(connection, now) and entry.shown:
            facts.append(Fact("its rows", f"stay in the list: {data_age(connection, now)}", "muted"))
        if connection.version:
            facts.append(Fact("version", clean_line(connection.version, 80)))
        if connection.scopes:
            facts.append(Fact("scopes", clean_line(", ".join(connection.scopes), 200)))
        return facts


class _List(ItemList[GatewayEntry]):
    """The gateways, one or two lines each; the cursor stays on its gateway."""

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="gateways")
        self._view_model = view_model

    def known_by(self, item: GatewayEntry) -> str:
        return item.name

    def height_of(self, index: int) -> int:
        return 2 if self._detail(self.items[index]) else 1

    def nothing(self) -> tuple[str, ...]:
        return ("No gateway is known yet.", "`switchboard connect URL` pairs with one and stores it.")

    def row_lines(self, index: int, width: int) -> list[Words]:
        entry, palette = self.items[index], palette_of(self)
        connection, muted = entry.connection, palette.style("muted")
        sign, state, colour, version = " ", "not connected", "muted", ""
        if connection is not None:
            sign, colour = signs_of(self).connections[connection.state], COLOURS[connection.state]
            state, version = state_words(connection, self._view_model.wall_ms()), connection.version
        listed = "in the list" if entry.shown else ""
        name_room = min(24, width // 6)
        room = max(0, width - name_room - 16)
        state_room = min(32, room)
        first = [
            (f"{sign} ", palette.style(colour)),
            (fit(clean_line(entry.title, 40), name_room), palette.style("text", bold=entry.shown)),
            (fit(state, state_room), palette.style(colour)),
            (fit(clean_line(version, 40) or clean_line(entry.address, 80), room - state_room - 1) + " ", muted),
            (fit(listed, 12), palette.style("accent")),
        ]
        return [first, [("  " + fit(self._detail(entry), width - 3), muted)]]

    def _detail(self, entry: GatewayEntry) -> str:
        connection = entry.connection
        return clean_line(connection.detail, REASON_CHARS) if connection is not None else ""
