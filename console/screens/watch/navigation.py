"""The keys that go about: from pane to pane, from session to session, and which sessions the list shows."""

from textual.screen import Screen

from console.live.placement import ORDERS
from console.live.view_model import ViewModel
from console.screens.watch.open_sessions import OpenSessions
from console.screens.watch.parts import Parts
from console.screens.watch.position import Position
from console.screens.watch.writing import Writing


class Navigation:
    """Going about; each method `do_<id>` is what an action of the table does."""

    def __init__(
        self,
        screen: Screen[None],
        view_model: ViewModel,
        parts: Parts,
        position: Position,
        writing: Writing,
        open_sessions: OpenSessions,
    ) -> None:
        self._screen = screen
        self._book = view_model.book
        self._parts = parts
        self._position = position
        self._writing = writing
        self._open_sessions = open_sessions

    def do_open(self) -> None:
        """Go into the transcript."""
        if self._position.row is None:
            self._writing.enter()
        else:
            self._open_sessions.enter()

    def do_write(self) -> None:
        """Go into the composer."""
        self._open_sessions.open_selected()
        self._writing.enter()

    def do_back(self) -> None:
        """Go one step out."""
        parts, focused, pane = self._parts, self._screen.focused, self._position.pane
        if parts.find is not None and focused is parts.find:
            self._screen.remove_class("-finding")
            parts.main.view.focus()
        elif pane == "composer" and focused is not parts.filter:
            parts.main.view.focus()
        elif pane in {"transcript", "spawns"}:
            self._screen.remove_class("-reading")
            parts.sessions.focus()
        else:
            parts.show_filter(shown=False)
            if parts.filter is not None:
                parts.filter.value = ""
            parts.sessions.focus()

    def do_next_pane(self) -> None:
        """Go to the next pane."""
        self._screen.focus_next()
        self._read_if_focused()

    def do_previous_pane(self) -> None:
        """Go to the previous pane."""
        self._screen.focus_previous()
        self._read_if_focused()

    def _read_if_focused(self) -> None:
        self._screen.set_class(self._position.pane in {"transcript", "composer"}, "-reading")

    def do_next_session(self) -> None:
        """Go to the next session."""
        self._parts.sessions.action_move(1)

    def do_previous_session(self) -> None:
        """Go to the previous session."""
        self._parts.sessions.action_move(-1)

    def do_urgent(self) -> None:
        """Go to the session that needs somebody most."""
        urgent = [row for row in self._book.rows.values() if row.look == "failed" and row.unread]
        if not urgent:
            self._parts.notice.say("nothing has failed since you looked")
            return
        self._open_sessions.go_to(max(urgent, key=lambda row: row.session.updated_at).session.key)

    def do_order(self) -> None:
        """Sort another way."""
        placement = self._book.placement
        placement.order = ORDERS[(ORDERS.index(placement.order) + 1) % len(ORDERS)]
        self._open_sessions.replace()

    def do_archived(self) -> None:
        """Show the archive, or leave it."""
        placement = self._book.placement
        placement.archived = not placement.archived
        self._open_sessions.replace()

    def do_filter(self) -> None:
        """Narrow the list, or search the transcript."""
        parts = self._parts
        if self._position.pane == "transcript" and parts.find is not None:
            self._screen.add_class("-finding")
            parts.find.focus()
        elif parts.filter is not None:
            parts.show_filter(shown=True)
            parts.filter.focus()

    def narrow(self, needle: str) -> None:
        """Show only the sessions that hold these words."""
        if self._book.placement.needle != needle:
            self._book.placement.needle = needle
            self._open_sessions.replace()

    def do_tile(self) -> None:
        """Keep the transcript beside the next one, or give the kept one up."""
        self._open_sessions.tile()
