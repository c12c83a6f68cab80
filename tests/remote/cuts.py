"""A way to an owner's socket that can be cut at will, also between a request and its answer."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from core.clock import Clock, SystemClock
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.native.gateway import NativeGateway
from core.remote.native.local import dial
from core.wire.frames import CLOSE_NORMAL, NATIVE, Request, Response, parse
from core.wire.transport import Transport


class Way:
    """Dials an owner's socket.

    Attributes:
        open: While it is not set, nobody can be reached.
        cut_answer_of: Names of methods; the next answer to each is lost with its connection.
        asked: Methods of all requests so far.
    """

    def __init__(self, state: Path) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.cut_answer_of: set[str] = set()
        self.asked: list[str] = []
        self.state = state
        self._transports: list[_Cuttable] = []

    async def dial(self) -> Transport:
        """Connect, if the way is open."""
        if not self.open.is_set():
            raise ConnectionRefusedError(111, "the way is cut")
        transport = _Cuttable(await dial(self.state), self)
        self._transports.append(transport)
        return transport

    async def cut(self) -> None:
        """Lose every connection, and let nobody connect."""
        self.open.clear()
        for transport in self._transports:
            await transport.close(CLOSE_NORMAL, "")
        self._transports.clear()


class _Cuttable:
    """A transport that loses what it is told to lose."""

    trusted = True
    peer = "owner"

    def __init__(self, inner: Transport, way: Way) -> None:
        self._inner = inner
        self._way = way
        self._doomed: set[str] = set()

    async def send(self, text: str) -> None:
        frame = parse(text)
        assert isinstance(frame, Request)
        self._way.asked.append(frame.method)
        if frame.method in self._way.cut_answer_of:
            self._way.cut_answer_of.discard(frame.method)
            self._doomed.add(frame.id)
        await self._inner.send(text)

    async def receive(self) -> str | None:
        text = await self._inner.receive()
        frame = parse(text) if text is not None else None
        if isinstance(frame, Response) and frame.id in self._doomed:
            await self._inner.close(CLOSE_NORMAL, "")
            return None
        return text

    async def close(self, code: int, reason: str) -> None:
        await self._inner.close(code, reason)


@contextlib.asynccontextmanager
async def reached(way: Way, clock: Clock | None = None) -> AsyncGenerator[NativeGateway]:
    """Give the gateway over such a way."""
    link = Link(way.dial, HelloRequest(caps=(NATIVE,)), clock=clock or SystemClock())
    gateway = await NativeGateway.open(link)
    try:
        yield gateway
    finally:
        await gateway.close()
