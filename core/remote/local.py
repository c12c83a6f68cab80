"""The owner of a state directory of this machine, reached on the Unix socket in it."""

import asyncio
from pathlib import Path

from core.model.clock import Clock, SystemClock
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.native import NativeGateway
from core.wire.frames import NATIVE
from core.wire.local import reaching
from core.wire.transport import LineTransport, Transport


async def attach(state: Path, clock: Clock | None = None) -> NativeGateway:
    """Return the gateway of whoever owns a state directory; it is reached again when the owner is another one.

    Raises:
        Unavailable: Nobody answers there.
    """
    link = Link(lambda: dial(state), HelloRequest(caps=(NATIVE,)), clock=clock or SystemClock())
    return await NativeGateway.open(link)


async def dial(state: Path) -> Transport:
    """Connect to the owner of a state directory.

    Raises:
        OSError: Nobody answers there.
    """
    with reaching(state) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    return LineTransport(reader, writer, peer="owner", trusted=True)
