"""The widgets of the watch screen, and what is where; the style sheet says how it fits on narrow and wide screens."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from console.live.view_model import ViewModel
from console.screens.page import ActionScreen
from console.widgets.details import Details
from console.widgets.session_list import SessionList
from console.widgets.spawn_tree import SpawnTree
from console.widgets.status import NoticeLine, TitleLine, TopBar
from console.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:
    from textual.widgets import Input


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

    def __init__(self, screen: ActionScreen[None], view_model: ViewModel) -> None:
        self._screen = screen
        self._view_model = view_model
        self.top = TopBar(view_model)
        self.standing = NoticeLine(id="standing")
        self.list_title = TitleLine(id="list-title")
        self.sessions = SessionList(view_model)
        self.main = TranscriptPane(view_model, id="main")
        self.second: TranscriptPane | None = None
        self.spawns_title = TitleLine(id="spawns-title")
        self.spawns = SpawnTree(view_model)
        self.details = Details(view_model)
        self.notice = screen.notice
        self.bottom = screen.bottom
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

    async def complete(self, submit: Callable[[str], None]) -> None:
        """Add the fields for writing, and what sends a message."""
        from textual.widgets import Input

        self.filter = Input(placeholder="words of key, name, channel, state", id="filter", compact=True)
        self.find = Input(placeholder="words to find; ↵ older, esc closes", id="find", compact=True)
        await self._screen.mount(self.filter, before=self.sessions)
        await self._screen.mount(self.find, before=self.notice)
        await self.main.add_composer(submit)

    @property
    def panes(self) -> list[TranscriptPane]:
        """The transcripts on the screen."""
        return [self.main] if self.second is None else [self.main, self.second]

    async def add_second(self) -> TranscriptPane:
        """Make room for a second transcript."""
        self.second = second = TranscriptPane(self._view_model, id="second")
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
