"""Opens the whole console on a real runtime, as `switchboard` does."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

from console.app import SwitchboardApp
from console.hosts.gateways import KnownGateway
from console.hosts.host import Host
from core.agents.choose import AgentBackends
from core.channels import Channels
from core.config.paths import Places
from core.config.settings import GatewaySettings, ModelSettings, Settings
from core.model.errors import Invalid
from tests.support.console_driver import ConsoleDriver
from tests.support.lines import Line
from tests.support.runtimes import Agent

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

    @property
    def known(self) -> list[KnownGateway]:
        """Those that can be opened."""
        return [KnownGateway(GatewaySettings(name, "wss://gateway.example:18789"), "stored") for name in self.others]

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
        self.kept = cast("Any", elsewhere.kept)

    async def profiles(self) -> Any:
        """Return what can be opened."""
        return self._elsewhere

    async def settings(self) -> Settings:
        settings = await super().settings()
        if self._agent is not None:
            self._backends = _Backends(self._agent)
        return settings


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
) -> AsyncGenerator[ConsoleDriver]:
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
    app = SwitchboardApp(host)
    try:
        async with app.run_test(size=size) as pilot:
            driver = ConsoleDriver(app, pilot)
            before(app)
            await driver.until(lambda: _has_begun(app) and (not live or _is_live(app)))
            await pilot.pause()
            while driver.screen.position.pane != "list" and not first:
                await driver.press("escape")
            yield driver
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
