"""The widgets of the watch screen, and what is where; the style sheet says how it fits on narrow and wide screens."""

from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import Screen

from console.live.rows import Look, Row
from console.live.text.connections import data_age, title
from console.live.text.words import LOCAL
from console.shell import Shell
from console.widgets.details import Details
from console.widgets.session_list import SessionList
from console.widgets.spawn_tree import SpawnTree
from console.widgets.status import BottomBar, NoticeLine, TitleLine, TopBar
from console.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:
    from textual.widgets import Input

PLACE_CELLS: Final = 10
"""So many at most are taken by the name of a gateway in the list."""


class Parts:
    """The widgets of the watch screen.

    Attributes:
        standing: What is wrong for as long as it is so.
        notice: What came of the last action.
        main: The transcript that is read and written to.
        second: The transcript that is kept beside it.
        filter: Where words that narrow the list are written; None until the screen is complete, as `find`.
        find: Where words to find in the transcript are written.
    """

    def __init__(self, screen: Screen[None], shell: Shell) -> None:
        self._screen = screen
        self._shell = shell
        self._view_model = view_model = shell.view_model
        self.top = TopBar(lambda: shell.connection_signs)
        self.standing = NoticeLine(id="standing")
        self.list_title = TitleLine(id="list-title")
        self.sessions = SessionList(view_model.book, view_model.now_ms, self._glyph, self._place_width, self._is_old)
        self.main = self._new_pane("main")
        self.second: TranscriptPane | None = None
        self.spawns_title = TitleLine(id="spawns-title")
        self.spawns = SpawnTree(view_model.book, view_model.exchanges, view_model.now_ms, self._sign)
        self.details = Details(view_model)
        self.notice = NoticeLine(id="notice")
        self.bottom = BottomBar()
        self.filter: Input | None = None
        self.find: Input | None = None

    def compose(self) -> ComposeResult:
        """Say what is where."""
        yield self.top
        yield self.standing
        with Container(id="body"):
            with Vertical(id="sessions-pane"):
                yield self.list_title
                yield self.sessions
            yield self.main
            with Vertical(id="side"):
                yield self.spawns_title
                yield self.spawns
                yield self.details
        yield self.notice
        yield self.bottom

    async def complete(self) -> None:
        """Add the fields for writing."""
        from textual.widgets import Input

        self.filter = Input(placeholder="words of key, name, channel, state", id="filter", compact=True)
        self.find = Input(placeholder="words to find; ↵ older, esc closes", id="find", compact=True)
        await self._screen.mount(self.filter, before=self.sessions)
        await self._screen.mount(self.find, before=self.notice)
        await self.main.add_composer()

    @property
    def panes(self) -> list[TranscriptPane]:
        """The transcripts on the screen."""
        return [self.main] if self.second is None else [self.main, self.second]

    async def add_second(self) -> TranscriptPane:
        """Make room for a second transcript."""
        self.second = second = self._new_pane("second")
        second.view.coloured = self.main.view.coloured
        await self._screen.query_one("#body").mount(second)
        self._screen.add_class("-tiled")
        return second

    def remove_second(self) -> None:
        """Give the room of the second transcript back."""
        if self.second is not None:
            self.second.remove()
            self.second = None
            self._screen.remove_class("-tiled")

    def show_filter(self, *, shown: bool) -> None:
        """Show or hide the field that narrows the list."""
        self._screen.query_one("#sessions-pane").set_class(shown, "-filtering")

    def _new_pane(self, id_: str) -> TranscriptPane:
        view_model = self._view_model
        return TranscriptPane(
            view_model.now_ms, view_model.book.name_of, self._glyph, view_model.exchanges, self._standing, id=id_
        )

    def _sign(self, look: Look) -> str:
        return self._shell.glyphs[look]

    def _glyph(self, row: Row) -> str:
        return self._shell.glyphs[row.look]

    def _standing(self, key: str) -> str:
        """Return what is to be said of the way to the gateway of a session; nothing while it is reached."""
        if self._view_model.silent_ms(key) is None:
            return ""
        connection = self._view_model.gateway.reach(key)
        words = (f"{title(connection)} {connection.state}", data_age(connection, self._view_model.wall_ms()))
        return ", ".join(filter(None, words))

    def _is_old(self, key: str) -> bool:
        return self._view_model.silent_ms(key) is not None

    def _place_width(self) -> int:
        names = self._view_model.gateway.names
        return min(1 + max(len(name or LOCAL) for name in names), PLACE_CELLS) if len(names) > 1 else 0
