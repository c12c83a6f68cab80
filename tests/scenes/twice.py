"""One day in two consoles: one on the runtime itself, one that reaches the same runtime through our gateway."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from console.app import SwitchboardApp
from console.hosts.gateways import KeptGateway
from console.hosts.remote_host import RemoteHost
from console.profiles import Profiles
from core.clock import Clock, SystemClock
from core.config.load import load
from core.config.paths import Places
from core.config.settings import GatewaySettings, Secret
from core.remote.connect import connect
from core.remote.profile import Profile
from tests.contract.ways import door, own_context
from tests.scenes.day import Day, SceneHost, fixed_world
from tests.scenes.pictures import Stage, staged, text_of
from tests.scenes.script import CONFIG
from tests.support.screens import inside
from tests.support.servers import TOKEN

NAME = "prod"
PATIENCE = 5.0
"""Seconds in which a console elsewhere must show what the one on the runtime shows."""


class DayTime(SystemClock):
    """The time of day of a scene, while waiting takes as long as it takes."""

    def __init__(self, day: Clock) -> None:
        self._day = day

    def now_ms(self) -> int:
        """Return the time of day in ms since the Unix epoch."""
        return self._day.now_ms()


class ByDayTime(Profiles):
    """Profiles whose gateways are reached by the time of a scene."""

    def __init__(self, state: Path, day: Clock) -> None:
        super().__init__({}, state)
        self._state = state
        self._day = day

    def connect(self, gateway: GatewaySettings, clock: Clock) -> KeptGateway:
        """Begin to connect to a gateway."""
        del clock
        return connect(Profile(gateway.name, gateway.url, lambda: TOKEN), self._state, DayTime(self._day))


class Both:
    """The two consoles."""

    def __init__(self, here: Stage, there: Stage) -> None:
        self.here = here
        self.there = there
        self.day = here.day

    async def do(self, play: Callable[[Stage], Awaitable[None]]) -> None:
        """Do the same in both."""

        async def do_in(stage: Stage) -> None:
            with inside(stage.app):
                await play(stage)

        await asyncio.gather(do_in(self.here), do_in(self.there))

    async def same(self) -> tuple[list[str], list[str]]:
        """Return what each of them shows, the connection line left out, once it is the same, or after all the time."""
        deadline = time.monotonic() + PATIENCE
        while True:
            here, there = list(text_of(self.here.app)[1:]), list(text_of(self.there.app)[1:])
            if here == there or time.monotonic() > deadline:
                return here, there
            await self.do(Stage.settle)


@contextlib.asynccontextmanager
async def both(size: tuple[int, int]) -> AsyncGenerator[Both]:
    """Live the morning of a day, then open two consoles on it."""
    with fixed_world() as folder:
        host = SceneHost(folder, CONFIG)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(host.close)
            await Day(host).morning()
            url = await stack.enter_async_context(door(own_context(host.runtime, folder / "state")))
            away = _away(folder, url, host.clock)
            stack.push_async_callback(away.close)
            here = await stack.enter_async_context(staged(SwitchboardApp(host), host, size))
            there = await stack.enter_async_context(staged(SwitchboardApp(away), host, size))
            for stage in (here, there):  # what was new to each depends on when it began
                book = stage.app.view_model.book
                for key in book.rows:
                    book.mark_seen(key)
            yield Both(here, there)


def _away(folder: Path, url: str, day: Clock) -> RemoteHost:
    """Return what a console on another machine works on."""
    places = Places(folder / "away", folder / "config.json5", "scene", "scene", config_required=False)
    gateway = GatewaySettings(NAME, url, Secret("literal", TOKEN))
    return RemoteHost(places, load(places, {}), ByDayTime(places.state, day), [gateway])
