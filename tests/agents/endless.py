"""A model endpoint that never stops sending, as fast as it is read.

async with Endless("text/event-stream", b"data: x") as url:
    ...  # every request to `url` is answered with that, again and again
"""

import asyncio
import contextlib
import gzip
import io
import zlib
from typing import Final

MEGABYTE: Final = 1024 * 1024


class Endless:
    """The server; use it with `async with`, which gives its address.

    Args:
        piece: What is sent again and again.
        first: What is sent before it, once.
        once: Send the piece a single time, as an answer that ends.
    """

    def __init__(
        self,
        content_type: str,
        piece: bytes,
        *,
        first: bytes = b"",
        encoding: str = "",
        status: str = "200 OK",
        once: bool = False,
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}"]
        lines += [f"Content-Encoding: {encoding}"] if encoding else []
        lines += [f"Content-Length: {len(piece)}" if once else "Connection: close"]
        self._head = "\r\n".join([*lines, "", ""]).encode() + first
        self._piece = piece
        self._once = once
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        """Start to listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_error: object) -> None:
        """Stop, and cut every connection."""
        assert self._server is not None
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._head)
            while True:
                writer.write(self._piece)
                await writer.drain()
                if self._once:
                    await reader.read()  # until the client has gone
                    break
        self._serving.discard(task)
        writer.transport.abort()


def packed(content: bytes, megabytes: int, encoding: str) -> bytes:
    """Return that many megabytes of the same content, packed."""
    piece = content * (MEGABYTE // len(content))
    if encoding == "gzip":
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb") as file:
            for _ in range(megabytes):
                file.write(piece)
        return out.getvalue()
    packing = zlib.compressobj()
    return b"".join([*(packing.compress(piece) for _ in range(megabytes)), packing.flush()])
