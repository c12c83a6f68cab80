"""The keys that open something else: another screen, a dialog over all sessions, the palette, the way out."""

from functools import partial

from textual.screen import Screen

from console.screens.watch.open_sessions import OpenSessions
from console.screens.watch.parts import Parts
from console.screens.watch.position import Position
from console.shell import Shell


class OtherScreens:
    """Leaving the watch screen; each method `do_<id>` is what an action of the table does."""

    def __init__(
        self, screen: Screen[None], shell: Shell, parts: Parts, position: Position, open_sessions: OpenSessions
    ) -> None:
        self._screen = screen
        self._shell = shell
        self._view_model = shell.view_model
        self._parts = parts
        self._position = position
        self._open_sessions = open_sessions

    def do_search(self) -> None:
        """Search all transcripts."""
        from console.screens.search import SearchDialog

        def go(found: tuple[str, int] | None) -> None:
            if found is not None:
                going = partial(self._open_sessions.go_to_message, *found)
                self._screen.run_worker(going, group="open", exclusive=True)

        self._shell.push_screen(SearchDialog(self._view_model), go)

    def do_deliveries(self) -> None:
        """Show what was announced."""
        from console.screens.deliveries import DeliveriesScreen

        self._shell.push_screen(DeliveriesScreen(self._view_model), self._go_from_page)

    def do_rules(self) -> None:
        """Show which rules decide about the session."""
        from console.screens.policy import PolicyScreen

        subject = self._position.subject
        key = subject.session.key if subject is not None else self._view_model.main_key
        self._shell.push_screen(PolicyScreen(self._view_model, key), self._go_from_page)

    def do_gateways(self) -> None:
        """Show the gateways."""
        from console.screens.connect import ConnectScreen

        self._shell.push_screen(ConnectScreen(self._view_model, self._shell.gateways), self._go_from_page)

    def _go_from_page(self, key: str | None) -> None:
        """Go where another screen points to."""
        if key is not None and self._open_sessions.go_to(key):
            self._parts.sessions.focus()

    def do_configuration(self) -> None:
        """Read the configuration again."""
        self._shell.configure_again()

    def do_palette(self) -> None:
        """Search all actions and sessions."""
        self._shell.action_command_palette()

    def do_help(self) -> None:
        """Show the keys."""
        from console.screens.help import Help

        self._shell.push_screen(Help(self._position.explained()))

    def do_quit(self) -> None:
        """Leave, after asking when something is at work."""
        self._shell.leave()
