"""The watch screen: every session, one of them in full, what it spawned (architecture#console)."""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from console.actions import ACTIONS
from console.live.changes import Changes
from console.screens.page import ActionScreen, bindings
from console.screens.too_small import BREAKPOINTS
from console.screens.watch.navigation import Navigation
from console.screens.watch.open_sessions import OpenSessions
from console.screens.watch.parts import Parts
from console.screens.watch.picture import Picture
from console.screens.watch.position import Position
from console.screens.watch.session_commands import SessionCommands
from console.screens.watch.transcript_commands import TranscriptCommands
from console.screens.watch.writing import Writing
from console.shell import Shell
from console.widgets.line_list import LineList
from console.widgets.transcript_pane import TranscriptPane
from console.widgets.transcript_view import TranscriptView

if TYPE_CHECKING:
    from textual.widgets import Input

    from console.widgets.composer import Composer

COMMANDS = (Navigation, SessionCommands, TranscriptCommands)
"""The classes whose methods `do_<id>` are what the actions do."""


class WatchScreen(ActionScreen[None]):
    """The watch screen: its parts, what is drawn into them, what the keys do; the first frame is `columns` wide."""

    AUTO_FOCUS = "#sessions"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(ACTIONS)]

    def __init__(self, shell: Shell, columns: int) -> None:
        super().__init__(classes=next(name for least, name in reversed(BREAKPOINTS) if columns >= least))
        self.shell = shell
        self.view_model = shell.view_model
        self.parts = Parts(self, shell.view_model)
        self.position = position = Position(self, shell, self.parts)
        self.picture = Picture(position)
        self.writing = Writing(position)
        self.open_sessions = OpenSessions(position, self.picture, self.writing)
        self.navigation = Navigation(position, self.open_sessions)
        self.transcript_commands = TranscriptCommands(position)
        self.doers = (self.navigation, self.transcript_commands, SessionCommands(position, self.open_sessions))

    def compose(self) -> ComposeResult:
        yield from self.parts.compose()

    async def begin(self) -> None:
        """Show the first rows and the transcript of the first session, in one frame."""
        sessions = self.parts.sessions
        self.view_model.book.placement.reset()
        sessions.show((), place=True, now=self.shell.monotonic())
        if sessions.selected is not None:
            await self.open_sessions.open(sessions.selected)
        self.parts.top.show()
        self.picture.show_edges()

    async def complete(self) -> None:
        """Add the fields for writing and the colours of code, once there is something to read."""
        from console.widgets.markdown_lines import load_colours

        await self.parts.complete(self.writing.submit)
        self.writing.load()
        if self.writing.is_first_minute():
            self.writing.enter()
        await asyncio.to_thread(load_colours)
        view = self.parts.main.view
        view.coloured = True
        view.redraw()
        self.set_interval(1.0, self.picture.tick)
        self.picture.show_session()

    def show_changes(self, changes: Changes) -> None:
        parts, picture = self.parts, self.picture
        if changes.connections:
            picture.show_connections()
            self.open_sessions.open_unread()
        if changes.all or changes.gone:
            self.view_model.book.placement.reset()
            parts.sessions.release()
            picture.show_gone()
            self.open_sessions.place()
            parts.top.show()
        elif changes.rows:
            picture.show_rows(changes.rows)
        for pane in parts.panes:
            if pane.key is not None and (changes.all or pane.key in changes.transcripts):
                picture.show_transcript(pane)
        if changes.all or changes.exchanges or parts.main.key in changes.rows:
            picture.show_session()
        if changes.exchanges:
            parts.spawns.refresh()
            parts.details.refresh()
        if parts.main.key is None and (changes.all or self.position.draft_key in changes.rows):
            self.open_sessions.open_selected()

    def why_not(self, action_id: str) -> str | None:
        return next(action for action in ACTIONS if action.id == action_id).why_not(self.position.state)

    # The lists

    @on(LineList.Moved, "#sessions")
    def _selected(self) -> None:
        self.parts.sessions.used(self.shell.monotonic())
        self.open_sessions.follow_cursor()

    @on(LineList.Chosen, "#sessions")
    def _chosen(self) -> None:
        self.action_do("open")

    @on(LineList.Chosen, "#spawns")
    def _spawn_chosen(self) -> None:
        if self.parts.spawns.selected is not None:
            self.open_sessions.go_to(self.parts.spawns.selected)
            self.parts.main.view.focus()
            self.add_class("-reading")

    # The transcripts

    @on(TranscriptPane.Shown)
    def _shown(self) -> None:
        self.picture.mark_shown()

    @on(TranscriptView.Wanted)
    def _fetch(self, event: TranscriptView.Wanted) -> None:
        self.view_model.transcripts.fetch_wanted(event.transcript)

    @on(TranscriptView.Source)
    def _follow_source(self, event: TranscriptView.Source) -> None:
        if not self.open_sessions.go_to(event.key):
            self.say(f"{self.view_model.book.name_of(event.key)} is not among the sessions here", "warning")

    @on(TranscriptView.Moved)
    def _view_moved(self) -> None:
        main = self.parts.main
        main.show_row(self.view_model.book.rows.get(main.key or ""))
        self.picture.mark_shown()

    # The fields

    def on_input_changed(self, event: "Input.Changed") -> None:
        """Narrow the list as the filter is written."""
        if event.input is self.parts.filter:
            self.navigation.narrow(event.value)

    async def on_input_submitted(self, event: "Input.Submitted") -> None:
        """Leave the filter for the list, or look for the next older match."""
        if event.input is self.parts.filter:
            self.parts.sessions.focus()
        elif event.input is self.parts.find:
            await self.transcript_commands.find_older(event.value)

    def on_composer_changed(self, event: "Composer.Changed") -> None:
        """Keep what is being written."""
        del event  # its words may be older than what stands there
        self.writing.keep()

    def on_composer_left(self) -> None:
        """Go back to reading."""
        self.parts.main.view.focus()

    # The screen

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show which pane has the keys; who leaves the composer without a word sees what has come meanwhile."""
        del event
        if self.parts.main.key is None:
            self.open_sessions.open_selected()
        self.picture.show_edges()
