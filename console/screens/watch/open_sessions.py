"""Which sessions are open, and how the operator goes from one to another."""

from functools import partial
from typing import TYPE_CHECKING, Final

from console.screens.watch.picture import Picture
from console.screens.watch.position import Duty, Position
from console.screens.watch.writing import Writing
from core.model.errors import SwitchboardError

if TYPE_CHECKING:
    from textual.timer import Timer

    from console.live.transcript import Transcript

OPEN_SECONDS: Final = 0.06
"""A session is opened when the cursor has rested on it for that long, so that a held key does not open each."""


class OpenSessions(Duty):
    """The session in the main pane, which follows the cursor, and the one that is kept beside it."""

    def __init__(self, position: Position, picture: Picture, writing: Writing) -> None:
        super().__init__(position)
        self._picture = picture
        self._writing = writing
        self._open_timer: Timer | None = None

    def follow_cursor(self) -> None:
        """Open the session under the cursor once it rests there."""
        if self._open_timer is not None:
            self._open_timer.stop()
        self._open_timer = self._screen.set_timer(OPEN_SECONDS, self.open_selected)
        self._parts.spawns.show(self._parts.sessions.selected)
        self._picture.show_edges()

    def open_selected(self) -> None:
        """Open the session under the cursor now."""
        if self._open_timer is not None:
            self._open_timer.stop()  # else it would cut off what begins now
        key, position, main = self._parts.sessions.selected, self._position, self._parts.main
        if position.is_writing and main.key not in self._view_model.book.rows:
            # What is being written to a session that was deleted, or that it is to make, goes to no other one.
            key = position.draft_key if main.key is None and self.go_to(position.draft_key) else None
        if key is not None and key != main.key:
            self._screen.run_worker(partial(self.open, key), group="open", exclusive=True)

    async def open(self, key: str) -> None:
        """Show a session in the main pane."""
        main = self._parts.main
        old, why = main.key, ""
        transcript: Transcript | None = None
        try:
            transcript = await self._view_model.transcripts.open(key)
        except SwitchboardError as error:
            why = error.message
        row = self._view_model.book.rows.get(key)
        if row is None:
            if why:
                self._parts.notice.say(why, "error")
            return
        second = self._parts.second
        if old is not None and old not in {key, second.key if second is not None else None}:
            self._view_model.transcripts.close(old)
        self._writing.keep()
        if transcript is not None:
            main.show(row, transcript)
            self._picture.mark_shown()
        else:
            main.show_unread(row, why)
        self._parts.spawns.show(key)
        self._writing.load()
        self._picture.show_session()

    def open_unread(self) -> None:
        """Open the session that could not be read, now that its gateway is reached."""
        key, view_model = self._parts.main.key, self._view_model
        if (
            key in view_model.book.rows
            and self._parts.main.view.transcript is None
            and view_model.silent_ms(key) is None
        ):
            self._screen.run_worker(partial(self.open, key), group="open", exclusive=True)

    def enter(self) -> None:
        """Go into the transcript of the session under the cursor."""
        self.open_selected()
        self._screen.add_class("-reading")
        self._parts.main.view.focus()

    def write(self) -> None:
        """Go into the composer of the session under the cursor."""
        self.open_selected()
        self._writing.enter()

    def place(self) -> None:
        """Draw all rows in their order, and open one when none is open."""
        self._picture.place()
        if self._parts.sessions.selected is not None and self._parts.main.key is None:
            self.open_selected()

    def replace(self) -> None:
        """Choose anew which rows there are and in which order, at once."""
        self._view_model.book.placement.reset()
        self._parts.sessions.release()
        self.place()

    def go_to(self, key: str) -> bool:
        """Put the cursor on a session, out of a filter that hides it if need be; False when there is none."""
        row = self._view_model.book.rows.get(key)
        if row is None:
            return False
        placement, sessions = self._view_model.book.placement, self._parts.sessions
        if not sessions.select(key):
            placement.needle = ""
            placement.archived = row.look == "archived"
            if self._parts.filter is not None:
                self._parts.filter.value = ""
            placement.reset()
            sessions.release()
            sessions.place(key)
            self.place()
        return True
