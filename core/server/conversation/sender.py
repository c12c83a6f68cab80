"""The frames to one client: events numbered without holes, and a limit on what waits for it (architecture#threats).

Nobody waits for a slow client but whoever produces its events. One that takes nothing for long is let go, and so is one
for which too much waits.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Final

from core.model.errors import Unavailable
from core.server.context import ServerContext
from core.wire.frames import RawJson, encode, event
from core.wire.transport import Transport

STALLED_SECONDS: Final = 30.0
"""A client that takes nothing of a frame for so long is let go."""
_BUFFERS: Final = 16
"""A client is let go when it leaves so many times of what a conversation usually holds for it."""


def max_buffered(context: ServerContext) -> int:
    """Return the bytes that may wait for one client before it is let go."""
    return _BUFFERS * context.limits.buffered


class FrameSender:
    """What is sent to one client; `let_go` ends the conversation with one that reads too slowly."""

    def __init__(self, context: ServerContext, transport: Transport, let_go: Callable[[], None]) -> None:
        self._context = context
        self._transport = transport
        self._let_go = let_go
        self._seq = 0
        self._sending = asyncio.Lock()
        self._waiting_bytes = 0
        self._drained = asyncio.Event()

    async def frame(self, text: str) -> None:
        """Send a frame that has no number; raises as `event` does."""
        with self._room(len(text)):
            async with self._sending:
                await self._put(text)

    async def event(self, name: str, payload: object, *, state_version: object = None) -> None:
        """Tell the client something, with the next number; waits while it does not read.

        Args:
            payload: JSON-able, or `RawJson`.

        Raises `Unavailable` when the client reads too slowly, or is gone.
        """
        text = encode(payload)
        with self._room(len(text)):
            async with self._sending:
                self._seq += 1
                self._context.metrics.add("events")
                await self._put(event(name, RawJson(text), seq=self._seq, state_version=state_version))

    async def drained(self) -> None:
        """Wait until the client has taken most of what it was sent."""
        while self._waiting_bytes > self._context.limits.buffered:
            self._drained.clear()
            await self._drained.wait()

    def drop(self) -> None:
        """Let the client go: what waits for all clients together is too much, and most of it waits for this one."""
        self._let_go()

    async def _put(self, text: str) -> None:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._transport.send(text)
        except TimeoutError:
            self._let_go()
            raise Unavailable("the client reads nothing") from None

    @contextlib.contextmanager
    def _room(self, size: int) -> Generator[None]:
        """Count what waits for the client; let it go when that is too much, however many answers it asked for."""
        if self._waiting_bytes + size > max_buffered(self._context) and self._waiting_bytes:
            self._let_go()
            raise Unavailable("the client reads too slowly")
        self._waiting_bytes += size
        self._context.held.hold(self, self._waiting_bytes)
        try:
            yield
        finally:
            self._waiting_bytes -= size
            self._context.held.hold(self, self._waiting_bytes)
            if self._waiting_bytes <= self._context.limits.buffered:
                self._drained.set()
