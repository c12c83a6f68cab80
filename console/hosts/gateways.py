"""Which gateways there are, which of them are open, and which are shown in the list."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from console.live.text.words import LOCAL
from core.config.gateways import shown_url
from core.gateway import Gateway
from core.model.connection import Connection
from core.model.errors import Invalid, NotFound
from core.model.keys import quoted
from core.multi import MultiGateway

if TYPE_CHECKING:
    from core.config.settings import GatewaySettings

LAST: Final = "it is the only one in the list: show another one first"


class KeptGateway(Gateway, Protocol):
    """A gateway over a connection that is kept."""

    async def opened(self) -> None:
        """Wait for the first connection; `SwitchboardError` is the reason why there is none."""
        ...

    def retry(self) -> None:
        """Try to connect now instead of later."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


Origin = Literal["configuration", "stored"]


@dataclass(frozen=True, slots=True)
class KnownGateway:
    """A profile and where it came from."""

    gateway: "GatewaySettings"
    origin: Origin


class Directory(Protocol):
    """The profiles, and what opens them."""

    @property
    def known(self) -> Sequence[KnownGateway]:
        """All profiles."""
        ...

    def open(self, name: str) -> KeptGateway:
        """Begin to connect a profile, else `SwitchboardError`; the gateway is there at once and tells its progress."""
        ...


class GatewayEntry(NamedTuple):
    """One gateway as the screen of gateways shows it.

    Attributes:
        name: Empty for the bundled runtime.
        origin: Where the profile came from.
        connection: None while it is not open.
        shown: Its sessions are in the list.
    """

    name: str
    title: str
    address: str
    origin: str
    connection: Connection | None
    shown: bool


class Gateways:
    """The gateways of one console.

    Args:
        local: What runs here, or answers for the process that does; None when only others are worked on.
        kept: Connections that are open already; at first the sessions of all of these are shown.

    Attributes:
        directory: What else could be opened; None when there is nothing.
        shown: Those whose sessions are shown.
    """

    def __init__(self, local: Gateway | None, kept: Mapping[str, KeptGateway]) -> None:
        self.directory: Directory | None = None
        self._local = local
        self._kept = dict(kept)
        self.shown = MultiGateway({**({"": local} if local is not None else {}), **self._kept})

    def entries(self) -> list[GatewayEntry]:
        """Return all of them: the bundled runtime, those with a profile, then others that are open."""
        known = {each.gateway.name: each for each in (self.directory.known if self.directory is not None else ())}
        entries: list[GatewayEntry] = []
        if self._local is not None:
            here = self._local.connection
            entries.append(GatewayEntry("", LOCAL, here.address, "this machine", here, "" in self.shown.names))
        for name in dict.fromkeys([*known, *self._kept]):
            profile, open_one = known.get(name), self._kept.get(name)
            connection = open_one.connection if open_one is not None else None
            address = shown_url(profile.gateway.url) if profile else connection.address if connection else ""
            origin = profile.origin if profile else "given at the start"
            entries.append(GatewayEntry(name, name, address, origin, connection, name in self.shown.names))
        return entries

    def show_alone(self, name: str) -> None:
        """Show one gateway's sessions only; others stay connected. `SwitchboardError`: its profile is unusable."""
        if name not in self.shown.names:
            self.shown.add(name, self._opened(name))
        for other in self.shown.names:
            if other != name:
                self.shown.remove(other)

    def toggle(self, name: str) -> bool:
        """Add the sessions of a gateway to the list, or take them out; whether they are in it now.

        Raises:
            Invalid: It is the last one.
            SwitchboardError: Its profile cannot be used.
        """
        if name not in self.shown.names:
            self.shown.add(name, self._opened(name))
            return True
        self._hide(name)
        return False

    def why_not_retry(self, name: str) -> str | None:
        """Return why there is nothing to try again, None when there is."""
        if name in self._kept:
            return None
        return "nothing lies between: it is this machine" if not name else "it is not connected: ↵ connects it"

    def retry(self, name: str) -> None:
        """Try to connect now."""
        self._kept[name].retry()

    def why_not_disconnect(self, name: str) -> str | None:
        """Return why a gateway cannot be disconnected, None when it can."""
        if name not in self._kept:
            return "it runs here: leave the console to end it" if not name else "it is not connected"
        return LAST if self.shown.names == (name,) else None

    async def disconnect(self, name: str) -> None:
        """Take a gateway out of the list and end its connection."""
        if name in self.shown.names:
            self._hide(name)
        await self._kept.pop(name).close()

    async def close(self) -> None:
        """End all connections; what runs here is somebody else's to end."""
        kept, self._kept = list(self._kept.values()), {}
        await asyncio.gather(*(gateway.close() for gateway in kept))

    def _hide(self, name: str) -> None:
        if self.shown.names == (name,):
            raise Invalid(LAST)
        self.shown.remove(name)

    def _opened(self, name: str) -> Gateway:
        if not name and self._local is not None:
            return self._local
        known = self._kept.get(name)
        if known is None:
            if self.directory is None:
                raise NotFound(f"no gateway is called {quoted(name)}")
            known = self._kept[name] = self.directory.open(name)
        return known
