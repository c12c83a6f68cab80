"""The console: one Textual app around a view model."""

import asyncio
import locale
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App, SystemCommand
from textual.events import DescendantFocus, Event, Key, Paste
from textual.filter import ANSIToTruecolor, LineFilter
from textual.screen import Screen

from console.alarm import Alarm
from console.hosts.gateways import Gateways
from console.live.memory import Memory
from console.live.synchronizer import Synchronizer
from console.live.text.words import age
from console.live.view_model import ViewModel
from console.operations import Operations
from console.sanitizer import OutputSanitizer
from console.screens.page import Page
from console.screens.too_small import TooSmall
from console.screens.watch.screen import WatchScreen
from console.shell import Shell
from console.startup import Scene, Startup
from console.themes import ASCII_SIGNS, DEFAULT_THEME, THEMES, UNICODE_SIGNS
from console.typeahead import Arrived, Typeahead

if TYPE_CHECKING:
    from textual.timer import Timer

    from console.hosts.remote_host import AnyHost
    from core.config.settings import ConsoleSettings

FRAME_SECONDS: Final = 1 / 32
"""Changes are drawn at most that often; the first after a pause at once."""
REMEMBER_SECONDS: Final = 0.5
OFFERED_SESSIONS: Final = 500
"""So many sessions at most are in the command palette, the newest."""

_log = logging.getLogger("switchboard.console")


class SwitchboardApp(Shell):
    """The terminal console.

    `host` comes opened, and is started once the first rows are on the screen; `scene` plays once it is up.
    """

    TITLE = "switchboard"
    CSS_PATH: ClassVar = Path(__file__).with_name("console.tcss")
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar = []

    def __init__(self, host: "AnyHost", *, where: str = "", scene: Scene | None = None) -> None:
        super().__init__()
        self.host = host
        self.where = where
        self.gateways = Gateways(host.here, host.kept)
        self.view_model = ViewModel(self.gateways.shown, Memory.load(host.state))
        self.synchronizer = Synchronizer(self.view_model)
        self.operations = Operations(self.view_model)
        self.monotonic = time.monotonic
        self.signs = UNICODE_SIGNS if _draws_unicode() else ASCII_SIGNS
        self.is_demo = scene is not None
        self.own_keys: dict[str, str] = {}
        self._alarm = Alarm()
        self._sanitizer = OutputSanitizer()
        self.typeahead = Typeahead(self, super().on_event)
        self.remember_timer: Timer | None = None
        self._leaving = False
        self._drawn_at = 0.0
        for palette in THEMES.values():
            self.register_theme(palette.theme())
        self.set_reactive(App.theme, DEFAULT_THEME)  # setting it would read every style a second time
        self.stylesheet.set_variables(self.get_css_variables())
        self.watch_screen = WatchScreen(self, shutil.get_terminal_size().columns)
        self.startup = Startup(self, host, self.synchronizer, self.watch_screen, self._flush_soon, self._prefer, scene)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our own names in the style sheet a meaning under Textual's themes too."""
        return self.palette.theme().variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Put the sanitizer behind Textual's own filters; colours need no conversion."""
        filters = [filter_ for filter_ in super().get_line_filters() if not isinstance(filter_, ANSIToTruecolor)]
        return [*filters, self._sanitizer]

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Offer in the palette every action with its key, and where the sessions are, each of them by name."""
        if isinstance(screen, WatchScreen):
            state = screen.position.state
            actions = [(action, action.why_not(state)) for action in screen.position.actions]
        elif isinstance(screen, Page):
            actions = [(action, screen.why_not(action.id)) for action in screen.actions]
        else:
            return
        for action, reason in actions:
            help_ = _unmarked(f"{action.shown}  {action.help}" if reason is None else f"not now: {reason}")
            yield SystemCommand(action.title, help_, partial(screen.action_do, action.id))
        if isinstance(screen, Page):
            return
        yield SystemCommand("theme", "Choose other colours", self.action_change_theme)
        view_model = self.view_model
        rows = sorted(view_model.book.rows.values(), key=lambda row: -row.session.updated_at)
        for row in rows[:OFFERED_SESSIONS]:
            key = row.session.key
            ago = age(view_model.now_ms(key) - row.session.updated_at)
            help_ = f"{view_model.place_of(key)} {_unmarked(row.key)}, {row.look}, {ago}".lstrip()
            yield SystemCommand(f"go to {_unmarked(row.name)}", help_, partial(screen.open_sessions.go_to, key))

    def get_default_screen(self) -> Screen[Any]:
        """Start on the watch screen."""
        return self.watch_screen

    def on_mount(self) -> None:
        """Lay the screen out; its first picture already holds the rows and a transcript."""
        self.startup.begin()

    async def on_event(self, event: Event) -> None:
        """Take what is typed in its order; see `console.typeahead`."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            await self.typeahead.take(event)
        else:
            await super().on_event(event)

    def on_arrived(self, behind: Arrived) -> None:
        """Go on with what was typed next."""
        self.typeahead.arrived(behind)

    def on_key(self, event: Key) -> None:
        """Say of a letter that means nothing where it was typed where one can write."""
        if event.is_printable and event.key not in self.screen.active_bindings:
            self._say_unused(event.character or event.key)

    def on_paste(self) -> None:
        """Say of what was pasted where nobody takes it where one can write."""
        if not hasattr(self.focused, "insert"):
            self._say_unused("what is pasted")

    def _say_unused(self, what: str) -> None:
        screen = self.screen
        if isinstance(screen, WatchScreen):
            position = screen.position
            row = position.row
            to = row.name if row is not None else self.view_model.book.name_of(position.draft_key)
            keys = f"{position.key_of('write')} writes to {to}, {position.key_of('help')} shows the keys"
            screen.say(f"{what} does nothing here: {keys}", "warning")
        elif isinstance(screen, Page):
            keys = f"{self.watch_screen.position.key_of('help')} shows the keys"
            screen.say(f"{what} does nothing here: {keys}", "warning")

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Let no cursor blink (console#stillness)."""
        widget: Any = event.widget  # the classes with a cursor of their own take too long to import
        if hasattr(widget, "cursor_blink"):
            widget.cursor_blink = False

    # Configuration, and the end

    def _prefer(self, settings: "ConsoleSettings") -> Sequence[str]:
        """Use the colours, keys and bell of the configuration; return what of them could not be meant."""
        from console.preferences import check

        chosen = check(settings)
        self.theme = chosen.theme
        self.set_keymap(chosen.keymap)
        self.watch_screen.position.actions, self.own_keys = chosen.actions, chosen.shown
        self._alarm.on = settings.bell
        return chosen.problems

    def configure_again(self) -> None:
        """Read the configuration again, as the operator asks for."""
        self.startup.configure_again()

    async def action_quit(self) -> None:
        """Leave on Textual's own key as on ours."""
        self.leave()

    def leave(self) -> None:
        """End the console; with something at work, ask what shall become of it."""
        from console.screens.confirm import Confirm

        count = len(self.host.active_runs)
        if not count or self._leaving:
            self.exit()
            return
        if isinstance(self.screen, TooSmall):
            self.screen.say_why_not_to_leave()
            return
        if isinstance(self.screen, Confirm):  # that question comes first
            return
        runs = "1 run is" if count == 1 else f"{count} runs are"
        text = (
            f"{runs} at work. Leaving now ends it as interrupted; what was said is kept, queued messages stay queued."
        )
        answers = {"w": "wait for the end, then leave", "l": "leave now"}
        self.push_screen(Confirm("leave?", text, answers), self._leave_as)

    def _leave_as(self, answer: str | None) -> None:
        if answer == "l":
            self.exit()
        elif answer == "w":
            self._leaving = True
            self.watch_screen.parts.standing.say("leaving when all runs have ended; q leaves now", "warning")
            self.run_worker(self._leave_when_done(), group="leave")

    async def _leave_when_done(self) -> None:
        await self.host.drained()
        self.exit()

    # Drawing

    def _flush_soon(self) -> None:
        wait = self._drawn_at + FRAME_SECONDS - self.monotonic()
        if wait > 0:
            self.set_timer(wait, self.show_changes)
        else:
            self.call_next(self.show_changes)

    def show_changes(self) -> None:
        if not self.watch_screen.is_attached:  # the console is being closed, and the view model does not know yet
            return
        self._drawn_at = self.monotonic()
        changes = self.view_model.changes.take()
        self.watch_screen.show_changes(changes)
        if changes.connections:
            self.startup.note_owner()
        for screen in self.screen_stack:
            if isinstance(screen, Page):
                screen.show_changes(changes)
        rows = self.view_model.book.rows
        if changes.all:
            self._alarm.start(rows.values())
        looked_at = (
            {pane.key for pane in self.watch_screen.parts.panes if pane.display} if self.app_focus else set[str]()
        )
        if self._alarm.rings([rows[key] for key in changes.rows if key in rows], looked_at, self._drawn_at):
            self.bell()

    def _fatal_error(self) -> None:
        """Close with one sentence; where it broke is in the log, without anything that was said."""
        error = self._exception
        _log.critical("the console broke", exc_info=error)
        self._exit_renderables.append(
            Text(
                f"switchboard: the console broke ({type(error).__name__}) and was closed. Nothing that was"
                f" acknowledged is lost: start it again. {self.host.state / 'switchboard.log'} says where it broke."
            )
        )
        self._close_messages_no_wait()

    # Remembering

    def remember_soon(self) -> None:
        """Write drafts down once the operator pauses."""
        if self.remember_timer is None:
            self.remember_timer = self.set_timer(REMEMBER_SECONDS, self._remember_aside)

    def _remember_aside(self) -> None:
        """Write it down where a slow disk holds nobody up."""
        self.remember_timer = None
        memory = self.view_model.memory
        memory.seen = self.synchronizer.unseen()
        self.run_worker(asyncio.to_thread(memory.write, memory.take()), group="remember")

    def remember(self) -> None:
        """Write drafts and what was seen down now; at the end, when nothing is drawn any more."""
        self.view_model.memory.seen = self.synchronizer.unseen()
        self.view_model.memory.save()

    def watch_theme(self, theme: str) -> None:
        """Draw everything in the new colours."""
        del theme
        if self.is_running and hasattr(self, "watch_screen"):
            for pane in self.watch_screen.parts.panes:
                pane.view.redraw()


def _unmarked(text: str) -> str:
    """Return text of a session so that the palette, which reads markup, shows it as it is."""
    return text.replace("[", "\\[")


def _draws_unicode() -> bool:
    """Whether the terminal can show more than ASCII, as far as one can know."""
    encoding = (getattr(sys.__stdout__, "encoding", None) or locale.getencoding()).lower()
    return "utf" in encoding and os.environ.get("TERM") not in {"linux", "vt100", "vt220"}
