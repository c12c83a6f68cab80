"""What comes after the first picture: the stored rows, the runtime, and the configuration, which may be read again."""

import contextlib
import gc
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import App

from console.live.synchronizer import Synchronizer
from console.screens.watch.screen import WatchScreen
from console.typeahead import BUILD_SECONDS
from core.model.errors import Conflict, SwitchboardError

if TYPE_CHECKING:
    from console.hosts.remote_host import AnyHost
    from core.config.settings import ConsoleSettings

Scene = Callable[[], Awaitable[None]]
"""Something that happens in the console by itself once it is up: the demo."""


class Startup:
    """Brings the console up, and reads its configuration again.

    Args:
        app: Runs what takes long.
        screen: Shows what is stored, and says what is wrong.
        draw: Has changes drawn; they are told to it once the stored rows are on the screen.
        prefer: Uses what the operator likes, and returns a sentence for everything that could not be meant.
        scene: Plays once the runtime is up.
    """

    def __init__(
        self,
        app: App[None],
        host: "AnyHost",
        synchronizer: Synchronizer,
        screen: WatchScreen,
        draw: Callable[[], None],
        prefer: "Callable[[ConsoleSettings], Sequence[str]]",
        scene: Scene | None,
    ) -> None:
        self._app = app
        self._host = host
        self._synchronizer = synchronizer
        self._screen = screen
        self._shell = screen.shell
        self._draw = draw
        self._prefer = prefer
        self._scene = scene
        self._first_picture = contextlib.ExitStack()
        self._config_is_broken = False
        self._reads_only = False

    def begin(self) -> None:
        """Lay the screen out; its first picture already holds the rows and a transcript."""
        self._first_picture.enter_context(self._app.batch_update())
        self._app.set_timer(BUILD_SECONDS, self._shell.typeahead.begin)
        self._app.call_after_refresh(self._run, self._show_stored)

    def _run(self, step: Callable[[], Awaitable[None]]) -> None:
        self._app.run_worker(step, group="start", exit_on_error=True)

    async def _show_stored(self) -> None:
        """Show what is stored, then take the state directory over and go live."""
        changes = self._shell.view_model.changes
        self._host.expect_start()
        try:
            await self._synchronizer.load()
            changes.take()
            changes.on_changes = self._draw
            self._synchronizer.on_configured = self._show_configured
            await self._screen.begin()
        except SwitchboardError as error:
            self._host.expect_no_start()
            self._shell.typeahead.begin()
            self._screen.parts.standing.say(error.message, "error")
            return
        finally:
            self._first_picture.close()
            gc.freeze()
            gc.enable()
        self._app.run_worker(self._synchronizer.follow(), group="follow", exit_on_error=True)
        self._app.call_after_refresh(self.go_live)

    def go_live(self) -> None:
        """Build what the first picture did without, and start the runtime."""
        self._run(self._complete)

    async def _complete(self) -> None:
        await self._screen.complete()
        self._shell.typeahead.begin()
        await self._synchronizer.load_deliveries()
        await self._start_runtime()

    async def _start_runtime(self) -> None:
        screen = self._screen
        try:
            await self._host.start("console")
        except Conflict as error:
            self._reads_only = True
            screen.parts.standing.say(error.message, "warning")
        except SwitchboardError as error:
            screen.parts.standing.say(f"{error.message}. Reading only; F5 reads it again.", "error")
            return
        self._use_preferences()
        await self._learn_gateways()
        self._synchronizer.configure()
        screen.picture.show_edges()
        if self._host.hint and self._scene is None and not screen.parts.standing.text and not screen.parts.notice.text:
            screen.say(self._host.hint)
        if self._scene is not None:
            self._app.run_worker(self._scene(), group="scene", exit_on_error=True)

    def _use_preferences(self) -> bool:
        """Use the colours, keys and bell of the configuration; whether all of them could be meant."""
        settings = self._host.configured
        assert settings is not None, "it has just been read"
        problems = self._prefer(settings.console)
        if problems:
            first, *others = problems
            more = f" (and {len(others)} more)" if others else ""
            self._screen.say(f"{self._host.places.config}: {first}{more}", "error")
        return not problems

    async def _learn_gateways(self) -> None:
        """Know which gateways could be worked on besides."""
        try:
            self._shell.gateways.directory = await self._host.profiles()
        except SwitchboardError as error:
            self._screen.say(error.message, "error")

    def note_owner(self) -> None:
        """Say no longer that this console only reads, once it does more."""
        if self._reads_only and self._shell.view_model.gateway.connection.state == "live":
            self._reads_only = False
            self._screen.parts.standing.say("")

    def configure_again(self) -> None:
        """Read the configuration again; start after all, once a broken one has been mended."""
        if self._host.started:
            self._app.run_worker(self._read_again(), group="configure", exclusive=True)
            return
        self._screen.parts.standing.say("")
        self._host.expect_start()
        self._run(self._start_runtime)

    async def _read_again(self) -> None:
        notice = await self._host.read_again()
        if notice is not None:
            self._show_configured(notice)

    def _show_configured(self, notice: str) -> None:
        """Say whether the configuration that was read again is in use."""
        screen = self._screen
        if notice:
            self._config_is_broken = True
            screen.parts.standing.say(f"{notice}. The one before stays in use; F5 reads it again.", "error")
            return
        if self._config_is_broken:
            self._config_is_broken = False
            screen.parts.standing.say("")
        screen.picture.show_edges()
        if self._use_preferences():
            screen.say("the configuration was read again and is in use")
