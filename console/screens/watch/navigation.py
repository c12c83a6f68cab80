"""The keys that go about: between panes, sessions and lists, to the other screens, and out."""

from functools import partial

from console.live.placement import ORDERS
from console.screens.watch.open_sessions import OpenSessions
from console.screens.watch.position import Duty, Position


class Navigation(Duty):
    """Going about; each method `do_<id>` is what an action of the table does."""

    def __init__(self, position: Position, open_sessions: OpenSessions) -> None:
        super().__init__(position)
        self._open_sessions = open_sessions

    def do_open(self) -> None:
        if self._position.row is None:
            self._open_sessions.write()
        else:
            self._open_sessions.enter()

    def do_write(self) -> None:
        self._open_sessions.write()

    def do_back(self) -> None:
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
        self._screen.focus_next()
        self._read_if_focused()

    def do_previous_pane(self) -> None:
        self._screen.focus_previous()
        self._read_if_focused()

    def _read_if_focused(self) -> None:
        self._screen.set_class(self._position.pane in {"transcript", "composer"}, "-reading")

    def do_next_session(self) -> None:
        self._parts.sessions.action_move(1)

    def do_previous_session(self) -> None:
        self._parts.sessions.action_move(-1)

    def do_urgent(self) -> None:
        urgent = [row for row in self._view_model.book.rows.values() if row.look == "failed" and row.unread]
        if not urgent:
            self._parts.notice.say("nothing has failed since you looked")
            return
        self._open_sessions.go_to(max(urgent, key=lambda row: row.session.updated_at).session.key)

    def do_order(self) -> None:
        placement = self._view_model.book.placement
        placement.order = ORDERS[(ORDERS.index(placement.order) + 1) % len(ORDERS)]
        self._open_sessions.replace()

    def do_archived(self) -> None:
        placement = self._view_model.book.placement
        placement.archived = not placement.archived
        self._open_sessions.replace()

    def do_filter(self) -> None:
        parts = self._parts
        if self._position.pane == "transcript" and parts.find is not None:
            self._screen.add_class("-finding")
            parts.find.focus()
        elif parts.filter is not None:
            parts.show_filter(shown=True)
            parts.filter.focus()

    def narrow(self, needle: str) -> None:
        """Show only the sessions that hold these words."""
        if self._view_model.book.placement.needle != needle:
            self._view_model.book.placement.needle = needle
            self._open_sessions.replace()

    def do_tile(self) -> None:
        """Keep the transcript beside the next one, or give the kept one up."""
        second = self._parts.second
        if second is None:
            self._screen.run_worker(self._keep_beside, group="open", exclusive=True)
            return
        self._parts.remove_second()
        if second.key is not None and second.key != self._parts.main.key:
            self._view_model.transcripts.close(second.key)

    async def _keep_beside(self) -> None:
        """Show the transcript a second time, to stay there when the first one goes on."""
        key = self._parts.main.key or ""
        row, transcript = self._view_model.book.rows.get(key), self._view_model.transcripts.opened.get(key)
        if row is not None and transcript is not None:
            second = await self._parts.add_second()
            second.show(row, transcript)

    # Other screens

    def do_search(self) -> None:
        from console.screens.search import SearchDialog

        async def show(key: str, seq: int) -> None:
            if self._open_sessions.go_to(key):
                await self._open_sessions.open(key)
                self._open_sessions.enter()
                self._parts.main.view.jump(seq)

        def go(found: tuple[str, int] | None) -> None:
            if found is not None:
                self._screen.run_worker(partial(show, *found), group="open", exclusive=True)

        self._shell.push_screen(SearchDialog(self._view_model), go)

    def do_deliveries(self) -> None:
        from console.screens.deliveries import DeliveriesScreen

        self._shell.push_screen(DeliveriesScreen(self._view_model), self._go_from_page)

    def do_rules(self) -> None:
        from console.screens.policy import PolicyScreen

        subject = self._position.subject
        key = subject.session.key if subject is not None else self._view_model.main_key
        self._shell.push_screen(PolicyScreen(self._view_model, key), self._go_from_page)

    def do_gateways(self) -> None:
        from console.screens.connect import ConnectScreen

        self._shell.push_screen(ConnectScreen(self._view_model, self._shell.gateways), self._go_from_page)

    def _go_from_page(self, key: str | None) -> None:
        """Go where another screen points to."""
        if key is not None and self._open_sessions.go_to(key):
            self._parts.sessions.focus()

    def do_configuration(self) -> None:
        self._shell.configure_again()

    def do_palette(self) -> None:
        self._shell.action_command_palette()

    def do_help(self) -> None:
        from console.screens.help import Help

        self._shell.push_screen(Help(self._position.explained()))

    def do_quit(self) -> None:
        self._shell.leave()
