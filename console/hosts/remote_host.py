"""Gateways elsewhere as what a process works on: one of them, or several at once, the bundled runtime among them."""

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from console.hosts.base import BaseHost
from core.child_process import in_child_process
from core.clock import SystemClock
from core.config.gateways import LOCAL
from core.config.paths import Places
from core.model.errors import SwitchboardError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.hosts.host import Host
    from console.profiles import Profiles
    from core.config.settings import GatewaySettings, Settings
    from core.gateway import Gateway


class RemoteHost(BaseHost):
    """What one process works on when it works on gateways elsewhere; its surface is that of `Host`.

    Args:
        settings: The configuration of this machine, which names the gateways and says what the operator likes.
        chosen: The gateways; they are being connected to from now on.
        local: The bundled runtime, when it is one of them.
    """

    def __init__(
        self,
        places: Places,
        settings: "Settings",
        profiles: "Profiles",
        chosen: "Sequence[GatewaySettings]",
        local: "Host | None" = None,
    ) -> None:
        super().__init__(places)
        self.here = local.runtime if local is not None else None
        self.configured: Settings | None = settings
        self.local = local
        self._profiles = profiles
        self.kept = {each.name: profiles.connect(each, SystemClock()) for each in chosen}

    @property
    def gateway(self) -> "Gateway":
        return next(iter(self.kept.values()))

    @property
    def runner(self) -> str:
        return f"the gateway {next(iter(self.kept))}"

    async def profiles(self) -> "Profiles":
        return self._profiles

    async def ready(self) -> None:
        """Wait until the gateway answers; `SwitchboardError` says why it does not, and what to do."""
        for gateway in self.kept.values():
            await gateway.opened()

    async def watch(self) -> None:
        """Hear of what happens: a gateway elsewhere tells of it by itself."""

    async def start(self, command: str, *, run_all: bool = True, run_own: bool = True) -> None:
        """Start the bundled runtime, when it is worked on; see `Host.start`."""
        if self.local is not None:
            await self.local.start(command, run_all=run_all, run_own=run_own)

    async def read_again(self) -> str | None:
        """Read the configuration now, and return what is wrong with it, or nothing; the gateways stay as they are.

        None where the bundled runtime tells what came of it.
        """
        if self.local is not None:
            return await self.local.read_again()
        try:
            self.configured = await asyncio.to_thread(in_child_process, _load_settings, self.places)
        except SwitchboardError as error:
            return error.message
        return ""

    async def close(self) -> None:
        """End all connections, and what is at work here."""
        await asyncio.gather(*(gateway.close() for gateway in self.kept.values()))
        if self.local is not None:
            await self.local.close()


AnyHost: TypeAlias = "Host | RemoteHost"


def open_host(places: Places, gateways: str | None, *, pace: float | None = None) -> AnyHost:
    """Open what `--gateway` names, or the bundled runtime, in a running loop; `SwitchboardError`: it cannot be used."""
    if gateways is None or gateways == LOCAL:
        return _open_here(places, pace)
    return open_elsewhere(places, gateways, read_known(places), pace=pace)


def read_known(places: Places) -> "tuple[Settings, Profiles]":
    """Return the configuration and the gateways known by name; `SwitchboardError` when one of them cannot be used."""
    from console.profiles import Profiles

    settings = _load_settings(places)
    return settings, Profiles(settings.gateways, places.state)


def open_elsewhere(
    places: Places, gateways: str, known: "tuple[Settings, Profiles]", *, pace: float | None = None
) -> AnyHost:
    """Open what `--gateway` names, by what is known; `SwitchboardError` when the state or a name cannot be used."""
    from console.profiles import split_names

    names = split_names(gateways)
    settings, profiles = known
    chosen = [profiles.find(name) for name in names if name != LOCAL]
    here = _open_here(places, pace) if LOCAL in names else None
    return RemoteHost(places, settings, profiles, chosen, here) if chosen or here is None else here


def _open_here(places: Places, pace: float | None) -> "Host":
    from console.hosts.host import Host

    return Host(places, pace=pace)


def _load_settings(places: Places) -> "Settings":
    from core.config.load import load

    return load(places)
