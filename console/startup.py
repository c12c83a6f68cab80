"""What comes after the first picture: the stored rows, the runtime, and the configuration, which may be read again."""

import contextlib
import gc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.live.synchronizer import Synchronizer
from console.screens.watch.screen import WatchScreen
from console.shell import Shell
from console.typeahead import BUILD_SECONDS
from core.model.errors import Conflict, SwitchboardError

if TYPE_CHECKING:
    from console.hosts.remote_host import AnyHost
    from core.config.settings import ConsoleSettings

Scene = Callable[[], Awaitable[None]]
"""Something that happens in the console by itself once it is up: the demo."""


@dataclass
class Startup:
    """Brings the console up, and reads its configuration again.

    Attributes:
        app: Runs what takes long.
        screen: Shows what is stored, and says what is wrong.
        draw: Has changes drawn; they are told to it once the stored rows are on the screen.
        prefer: Uses what the operator likes, and returns a sentence for everything that could not be meant.
        scene: Plays once the runtime is up.
    """

    app: Shell
    host: "AnyHost"
    synchronizer: Synchronizer
    screen: WatchScreen
    draw: Callable[[], None]
    prefer: "Callable[[ConsoleSettings], Sequence[str]]"
    scene: Scene | None
    _first_picture: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _config_is_broken: bool = False
    _reads_only: bool = False

    def begin(self) -> None:
        """Lay the screen out; its first picture already holds the rows and a transcript."""
        self._first_picture.enter_context(self.app.batch_update())
        self.app.set_timer(BUILD_SECONDS, self.app.typeahead.begin)
        self.app.call_after_refresh(self._run, self._show_stored)

    def _run(self, step: Callable[[], Awaitable[None]]) -> None:
        self.app.run_worker(step, group="start", exit_on_error=True)

    async def _show_stored(self) -> None:
        """Show what is stored, then take the state directory over and go live."""
        changes = self.app.view_model.changes
        self.host.expect_start()
        try:
            await self.synchronizer.load()
            changes.take()
            changes.on_changes = self.draw
            self.synchronizer.on_configured = self._show_configured
            await self.screen.begin()
        except SwitchboardError as error:
            self.host.expect_no_start()
            self.app.typeahead.begin()
            self.screen.parts.standing.say(error.message, "error")
            return
        finally:
            self._first_picture.close()
            gc.freeze()
            gc.enable()
        self.app.run_worker(self.synchronizer.follow(), group="follow", exit_on_error=True)
        self.app.call_after_refresh(self.go_live)

    def go_live(self) -> None:
        """Build what the first picture did without, and start the runtime."""
        self._run(self._complete)

    async def _complete(self) -> None:
        await self.screen.complete()
        self.app.typeahead.begin()
        await self.synchronizer.load_deliveries()
        await self._start_runtime()

    async def _start_runtime(self) -> None:
        screen = self.screen
        try:
            await self.host.start("console")
        except Conflict as error:
            self._reads_only = True
            screen.parts.standing.say(error.message, "warning")
        except SwitchboardError as error:
            screen.parts.standing.say(f"{error.message}. Reading only; F5 reads it again.", "error")
            return
        self._use_preferences()
        try:  # which could be worked on besides
            self.app.gateways.directory = await self.host.profiles()
        except SwitchboardError as error:
            screen.say(error.message, "error")
        self.synchronizer.configure()
        screen.picture.show_edges()
        if self.host.hint and self.scene is None and not screen.parts.standing.text and not screen.parts.notice.text:
            screen.say(self.host.hint)
        if self.scene is not None:
            self.app.run_worker(self.scene(), group="scene", exit_on_error=True)

    def _use_preferences(self) -> bool:
        """Use the colours, keys and bell of the configuration; whether all of them could be meant."""
        settings = self.host.configured
        assert settings is not None, "it has just been read"
        problems = self.prefer(settings.console)
        if problems:
            first, *others = problems
            more = f" (and {len(others)} more)" if others else ""
            self.screen.say(f"{self.host.places.config}: {first}{more}", "error")
        return not problems

    def note_owner(self) -> None:
        """Say no longer that this console only reads, once it does more."""
        if self._reads_only and self.app.view_model.gateway.connection.state == "live":
            self._reads_only = False
            self.screen.parts.standing.say("")

    def configure_again(self) -> None:
        """Read the configuration again; start after all, once a broken one has been mended."""
        if self.host.started:
            self.app.run_worker(self._read_again(), group="configure", exclusive=True)
            return
        self.screen.parts.standing.say("")
        self.host.expect_start()
        self._run(self._start_runtime)

    async def _read_again(self) -> None:
        notice = await self.host.read_again()
        if notice is not None:
            self._show_configured(notice)

    def _show_configured(self, notice: str) -> None:
        """Say whether the configuration that was read again is in use."""
        screen = self.screen
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
