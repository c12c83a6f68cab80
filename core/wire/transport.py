"""What carries frames: a WebSocket on either side, or lines of a stream (a Unix socket has no need of more)."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final, Protocol

from core.model.errors import Invalid, Unavailable
from core.wire.frames import MAX_FRAME

_CHUNK: Final = 256 * 1024
_FLUSH_SECONDS: Final = 1.0
"""How long a close waits for a peer to take what was sent to it."""


class FrameTooLong(Invalid):
    """The peer sends a frame over the limit; nothing after it can be read."""


class Transport(Protocol):
    """One connection, as texts that go both ways."""

    @property
    def peer(self) -> str:
        """Who is at the other end, for logs and for counting; no secret."""
        ...

    @property
    def trusted(self) -> bool:
        """The other end is the same user of the same machine: the owner, who needs no token."""
        ...

    async def receive(self) -> str | None:
        """Wait for the next frame; None when the connection has ended. Cancelling it loses nothing.

        Raises `FrameTooLong` when the peer sends more than a frame may hold.
        """
        ...

    async def send(self, text: str) -> None:
        """Send a frame; waits while the peer does not read.

        Raises `Unavailable` when the connection has ended.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """End the connection; a second call does nothing."""
        ...


@dataclass(eq=False, slots=True)
class LineTransport:
    """Frames as lines of a stream, each with a line feed at its end, and of at most `limit` bytes; see `Transport`."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    peer: str
    trusted: bool
    limit: int = MAX_FRAME
    _buffer: bytearray = field(init=False, default_factory=bytearray)
    _searched: int = field(init=False, default=0)
    _closed: bool = field(init=False, default=False)

    async def receive(self) -> str | None:
        """Wait for the next line; None at the end, where half a line counts for nothing."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(memoryview(self._buffer)[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                self._check(end)
                return line.decode(errors="replace")
            self._searched = len(self._buffer)
            self._check(self._searched)
            try:
                chunk = await self._reader.read(_CHUNK)
            except OSError:  # the peer died: that is an end like another
                return None
            if not chunk:
                return None
            self._buffer += chunk

    async def send(self, text: str) -> None:
        if "\n" in text:  # in JSON a line feed can only stand between two values
            text = text.replace("\n", " ")
        if self._writer.is_closing():
            raise Unavailable("the connection has ended")
        try:
            self._writer.write(text.encode() + b"\n")
            await self._writer.drain()
        except OSError:
            raise Unavailable("the connection has ended") from None

    async def close(self, code: int, reason: str) -> None:  # noqa: ARG002 - a stream has no words for its end
        """End the stream, once the peer has taken what was sent, or does not for a second."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._writer.wait_closed()
                return
        self._writer.transport.abort()
        await asyncio.sleep(0)  # it closes the socket in the loop's next round

    def _check(self, size: int) -> None:
        if size > self.limit:
            raise FrameTooLong(f"a frame is longer than {self.limit} bytes")
