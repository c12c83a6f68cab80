"""The ways to a gateway: the runtime itself, a fleet of it alone, the port over a Unix socket and a WebSocket, and an
operator's profile."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.channels import Channels
from core.clock import Clock, SystemClock
from core.config.settings import Settings
from core.gateway import Gateway
from core.multi import MultiGateway
from core.remote.connect import RemoteGateway, connect
from core.remote.hello import SCOPES, Claim, HelloRequest
from core.remote.link import Link
from core.remote.native.gateway import NativeGateway
from core.remote.native.local import attach
from core.remote.profile import Profile
from core.remote.websocket import dialer
from core.runtime.gateway import Runtime
from core.runtime.runs.turn import Backends
from core.server.context import ServerContext
from core.server.http.app import create_app
from core.server.http.listen import Door, Place
from core.server.http.listen import NetworkListener as WebListener
from core.server.local import listen
from core.wire.frames import NATIVE
from tests.support.runtimes import running
from tests.support.servers import READ_ONLY, TOKEN, context_for

WAYS = ("runtime", "fleet", "socket", "web", "profile")
REMOTE = ("socket", "web")


@dataclass
class Way:
    """A gateway, and the runtime behind it.

    Attributes:
        gateway: What is tested.
        state: Directory of the runtime.
    """

    name: str
    gateway: Gateway
    runtime: Runtime
    state: Path

    @property
    def native(self) -> NativeGateway:
        """The gateway of a remote way."""
        assert isinstance(self.gateway, NativeGateway)
        return self.gateway


class Token:
    """A token as all there is to show."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def prove(self, claim: Claim) -> dict[str, Any]:
        """Return the `auth` of the connect request."""
        del claim
        return {"auth": {"token": self._token}}

    async def accepted(self, device_token: str | None) -> None:
        """Keep nothing."""

    async def refused(self, code: str) -> bool:
        """Have nothing else."""
        del code
        return False


@contextlib.asynccontextmanager
async def way(
    name: str,
    state: Path,
    settings: Settings | None = None,
    backends: Backends | None = None,
    *,
    clock: Clock | None = None,
    channels: Channels | None = None,
) -> AsyncGenerator[Way]:
    """Run a runtime and reach it in one of the ways."""
    async with running(state, settings, backends, clock=clock, channels=channels) as runtime:
        if name == "runtime":
            yield Way(name, runtime, runtime, state)
            return
        if name == "fleet":
            yield Way(name, MultiGateway({"": runtime}), runtime, state)
            return
        async with over(name, runtime, state) as gateway:
            yield Way(name, gateway, runtime, state)


@contextlib.asynccontextmanager
async def over(name: str, runtime: Runtime, state: Path) -> AsyncGenerator[NativeGateway | RemoteGateway]:
    """Serve a runtime and reach it over a socket or a WebSocket."""
    context = own_context(runtime, state)
    if name == "socket":
        listener = await listen(context, state)
        try:
            gateway = await attach(state)
            try:
                yield gateway
            finally:
                await gateway.close()
        finally:
            await listener.close()
        return
    async with door(context) as url:
        gateway = await (by_profile(url, state / "client") if name == "profile" else reached(url))
        try:
            yield gateway
        finally:
            await gateway.close()


def own_context(runtime: Runtime, state: Path) -> ServerContext:
    """Return what a server over a runtime works with, under the name of its store."""
    context = context_for(runtime, state)
    context.facts = _named(context, runtime.store_id)
    return context


@contextlib.asynccontextmanager
async def door(context: ServerContext) -> AsyncGenerator[str]:
    """Serve over HTTP on any free port; give the URL."""
    place = Door(Place())
    listener = await WebListener.open(create_app(context), context, place)
    try:
        yield place.url()
    finally:
        await listener.close(_at_once, "the test is over")


async def reached(
    url: str, token: str = TOKEN, scopes: tuple[str, ...] = SCOPES, clock: Clock | None = None
) -> NativeGateway:
    """Return the gateway at a URL, with the connection made."""
    hello = HelloRequest(Token(token), scopes, (NATIVE,))
    link = Link(dialer(Profile("test", url)), hello, clock=clock or SystemClock(), name="test", address=url)
    return await NativeGateway.open(link)


async def by_profile(url: str, state: Path) -> RemoteGateway:
    """Return the gateway at a URL as an operator's profile reaches it, with the connection made."""
    gateway = connect(Profile("test", url, token=lambda: TOKEN), state, SystemClock())
    await gateway.opened()
    return gateway


async def reading(url: str) -> NativeGateway:
    """Return the gateway at a URL for somebody who may only read."""
    return await reached(url, READ_ONLY)


def _named(context: ServerContext, store_id: str) -> Any:
    from dataclasses import replace

    return replace(context.facts, store_id=store_id)


async def _at_once() -> None:
    """Wait for no run."""
