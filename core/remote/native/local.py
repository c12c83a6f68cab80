"""The owner of a state directory of this machine, reached on the Unix socket in it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from core.clock import Clock, SystemClock
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.native.gateway import NativeGateway
from core.wire.frames import NATIVE
from core.wire.local import reaching
from core.wire.transport import LineTransport, Transport

HANDSHAKE_SECONDS: Final = 3.0
"""An owner on this machine greets at once, unless it was stopped."""


async def attach(state: Path, clock: Clock | None = None) -> NativeGateway:
    """Return the gateway of whoever owns a state directory; it is reached again when the owner is another one.

    Raises `Unavailable` when nobody answers there.
    """
    return await NativeGateway.open(_link(state, HelloRequest(caps=(NATIVE,)), clock or SystemClock()))


async def dial(state: Path) -> Transport:
    """Connect to the owner of a state directory; raises `OSError` when nobody answers there."""
    with reaching(state) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    return LineTransport(reader, writer, peer="owner", trusted=True)


@contextlib.asynccontextmanager
async def asking(state: Path) -> AsyncGenerator[Link]:
    """Give a connection to the owner of a state directory, for methods that the port does not have.

    Raises `Unavailable` when nobody answers there.
    """
    link = _link(state, HelloRequest(), SystemClock())
    try:
        await link.open()
        yield link
    finally:
        await link.close()


def _link(state: Path, hello: HelloRequest, clock: Clock) -> Link:
    return Link(lambda: dial(state), hello, clock=clock, handshake=HANDSHAKE_SECONDS)
