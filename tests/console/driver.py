"""The whole console on a real runtime, driven by keys alone."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

import tests.support.idle  # pyright: ignore[reportUnusedImport] - it is imported for what it does
import tests.support.quick_screen  # noqa: F401  # pyright: ignore[reportUnusedImport] - it is imported for what it does
from console.app import SwitchboardApp
from console.hosts.gateways import Listed
from console.hosts.host import Host
from console.screens.watch.screen import WatchScreen
from console.widgets.composer import Composer
from core.agents.choose import AgentBackends
from core.channels import Channels
from core.config.paths import Places
from core.config.settings import ModelSettings, Settings
from core.model.access import ALL
from core.model.errors import Invalid
from core.model.messages import Message
from core.model.sessions import Session
from core.runtime.gateway import Runtime
from tests.support.lines import Line
from tests.support.runtimes import Agent
from tests.support.screens import driver_of, key_of, strips_of

MAIN = "agent:main:main"
OPS = "agent:main:discord:group:ops"
CRON = "cron:nightly"


class _Backends(AgentBackends):
    """One agent of a test for every model, where the host expects its own."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def __call__(self, model: ModelSettings | None) -> Any:
        """Serve every model."""
        return self._agent


class Elsewhere:
    """Gateways besides the bundled runtime.

    Args:
        kept: Those that are connected from the start.
        others: Those that can be opened; `broken` cannot, for its token is missing.

    Attributes:
        opened: The names of those that were opened, in order.
    """

    def __init__(self, kept: dict[str, Line] | None = None, **others: Line) -> None:
        self.kept = kept or {}
        self.others = others
        self.opened: list[str] = []

    def listed(self) -> list[Listed]:
        """Return those that can be opened."""
        return [Listed(name, "wss://gateway.example:18789", "stored") for name in self.others]

    def open(self, name: str) -> Line:
        """Open one."""
        if name == "broken":
            raise Invalid("the token of broken stands in a file that is not there")
        self.opened.append(name)
        return self.others[name]


class _Host(Host):
    def __init__(self, places: Places, agent: Agent | None, channels: Channels | None, elsewhere: Elsewhere) -> None:
        super().__init__(places, pace=0.0, channels=channels)
        self._agent = agent
        self._elsewhere = elsewhere

    @property
    def kept(self) -> Any:
        """The gateways that are connected from the start."""
        return self._elsewhere.kept

    async def profiles(self) -> Any:
        """Return what can be opened."""
        return self._elsewhere

    async def settings(self) -> Settings:
        settings = await super().settings()
        if self._agent is not None:
            self._backends = _Backends(self._agent)
        return settings


class _App(SwitchboardApp):
    """Counts how often the bell rang, which no terminal hears here."""

    bells = 0

    def bell(self) -> None:
        self.bells += 1
        super().bell()


class Desk:
    """A console that runs, and what a test asks of it."""

    def __init__(self, app: _App, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def screen(self) -> WatchScreen:
        """The watch screen."""
        return self.app.watch_screen

    @property
    def runtime(self) -> Runtime:
        """The gateway behind the console."""
        host = self.app.host
        assert isinstance(host, Host)
        return host.runtime

    @property
    def notice(self) -> str:
        """What the console said last."""
        return self.screen.parts.notice.text

    @property
    def standing(self) -> str:
        """What it says for as long as it is so."""
        return self.screen.parts.standing.text

    @property
    def selected(self) -> str | None:
        """Key of the session under the cursor."""
        return self.screen.parts.sessions.selected

    @property
    def composer(self) -> Composer:
        """The composer of the main transcript."""
        composer = self.screen.parts.main.composer
        assert composer is not None, "the console is complete"
        return composer

    @property
    def order(self) -> list[str]:
        """Keys of the sessions in the list, from the top."""
        return [placed.key for placed in self.app.view_model.book.placement.placed()]

    @property
    def picture(self) -> str:
        """The words on the screen, line by line."""
        strips = strips_of(self.app)
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until a condition holds while the console works; fail with the picture when it does not in time."""
        deadline = time.monotonic() + seconds
        if condition():
            return
        while not condition():
            assert time.monotonic() < deadline, f"the condition did not come true in time:\n{self.picture}"
            await asyncio.sleep(0.005)
        await self.pilot.pause(0)  # what made it true is drawn as well

    async def press(self, *keys: str) -> None:
        """Press keys and let the console take them in."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def write(self, text: str) -> None:
        """Type a text, faster than the console takes it in."""
        driver = driver_of(self.app)
        assert driver is not None, "the console runs"
        for character in text:
            key = {"\n": "ctrl+j", "\t": "tab"}.get(character) or key_of(character)
            event = events.Key(key, None if character == "\n" else character)
            event.set_sender(self.app)
            driver.send_message(event)
        await self.pilot.pause()

    async def said(self, *words: str) -> str:
        """Wait until the notice holds these words."""
        await self.until(lambda: all(word in self.notice for word in words))
        return self.notice

    async def shows(self, *words: str) -> None:
        """Wait until the screen holds these words."""
        await self.until(lambda: all(word in self.picture for word in words))

    async def select(self, key: str) -> None:
        """Go to a session of the list with the arrows, and wait until its transcript is open."""
        await self.until(lambda: key in self.order)
        while self.screen.position.pane != "list":
            await self.press("escape")
        sessions = self.screen.parts.sessions  # what it shows may stand in an older order for a while, for it is in use
        await self.until(lambda: key in sessions.keys)
        while self.selected != key:
            await self.press("down" if sessions.keys.index(key) > sessions.cursor else "up")
        await self.until(lambda: self.screen.parts.main.key == key)

    async def open(self, key: str) -> None:
        """Go into the transcript of a session."""
        await self.select(key)
        await self.press("enter")
        assert self.screen.position.pane == "transcript"

    async def session(self, key: str) -> Session:
        """Return a session as the gateway has it."""
        return await self.runtime.get_session(key, ALL)

    async def messages(self, key: str) -> list[Message]:
        """Return the messages that the gateway has of a session."""
        return list((await self.runtime.history(key, ALL, limit=10_000)).messages)

    async def words(self, key: str) -> list[tuple[str, str]]:
        """Return role and text of the messages that the gateway has of a session."""
        return [(message.role, message.text) for message in await self.messages(key)]

    async def at_rest(self) -> None:
        """Wait until no run is at work and the rows say so."""
        counts = self.app.view_model.book.counts
        await self.until(lambda: not self.runtime.active_runs and not counts["running"] and not counts["queued"])


def places(state: Path, config: str | None = None) -> Places:
    """Return places with a configuration of these words, none without."""
    file = state.parent / f"{state.name}.json5"
    if config is not None:
        file.write_text(config, encoding="utf-8")
    return Places(state, file, "test", "test", config_required=False)


@contextlib.asynccontextmanager
async def console(
    state: Path,
    config: str | None = None,
    *,
    agent: Agent | None = None,
    channels: Channels | None = None,
    size: tuple[int, int] = (120, 36),
    live: bool = True,
    first: bool = False,
    before: Callable[[SwitchboardApp], None] = lambda app: None,
    elsewhere: Elsewhere | None = None,
) -> AsyncGenerator[Desk]:
    """Open the console on a state directory, as `switchboard` does.

    Args:
        config: Words of the configuration file.
        agent: Plays all agents; without one the builtin agent does, without pauses.
        channels: What there is besides webchat.
        live: Wait until the runtime has started.
        first: Leave the cursor where an empty start puts it; else go to the list, as who has been here before does.
        before: Done before the console is complete, right after it began.
        elsewhere: Other gateways.
    """
    where = places(state, config)
    host = _Host(where, agent, channels, elsewhere or Elsewhere())
    app = _App(host)
    try:
        async with app.run_test(size=size) as pilot:
            desk = Desk(app, pilot)
            before(app)
            await desk.until(lambda: _has_begun(app) and (not live or _is_live(app)))
            await pilot.pause()
            while desk.screen.position.pane != "list" and not first:
                await desk.press("escape")
            yield desk
    finally:
        app.remember()
        await host.close()


def _has_begun(app: SwitchboardApp) -> bool:
    screen = app.watch_screen
    return screen.parts.main.composer is not None and screen.parts.find is not None


def _is_live(app: SwitchboardApp) -> bool:
    """Whether the runtime has started and the screen says so."""
    host = app.host
    assert isinstance(host, Host)
    if host.runtime.connection.state != "live" or app.view_model.changes.is_told:
        return False
    return not any(each.group == "start" for each in app.workers)
