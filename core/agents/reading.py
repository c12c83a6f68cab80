"""Reading what an endpoint sends: bounded in every direction, and the loop is never held long by it.

An endpoint is trusted with words, not with memory: a line, an answer and what comes packed have limits, and an answer
that is large is read in a thread.
"""

import asyncio
import codecs
import re
import time
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from core.agents.wire import OFF_LOOP_CHARS, BadReply, ReplyDecoder, WordsDelta, load

if TYPE_CHECKING:
    import httpx

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""Of one event of a stream, and of an answer that is none."""
MAX_UNPACKED_BYTES: Final = 16 * 1024 * 1024
"""Of an answer that comes packed, though it was asked for plain."""
_PIECE: Final = 8 * 1024
"""Bytes that are read without looking at the clock."""
_STRETCH_SECONDS: Final = 0.005
_BLANK_LINES: Final = re.compile(rb"(?:\r?\n){3,}")
_WINDOW_BITS: Final[Mapping[str, tuple[int, ...]]] = {
    "": (),
    "identity": (),
    "gzip": (zlib.MAX_WBITS | 16,),
    "x-gzip": (zlib.MAX_WBITS | 16,),
    "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS),  # with a header, as it should be, or without
}


class EndpointAnswer:
    """The body and headers of one answer; what `httpx_sse.EventSource` wants of a response."""

    def __init__(self, response: "httpx.Response") -> None:
        self.headers = response.headers
        self._response = response

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body in small pieces, and let others work in between.

        `BadReply` when it is packed in an unknown way, damaged, or too large when it is unpacked.
        """
        unpack = Unpacker(self.headers.get("content-encoding", ""))
        rested = time.perf_counter()
        async for chunk in self._response.aiter_raw():
            for piece in unpack(chunk):
                yield piece
                if time.perf_counter() - rested > _STRETCH_SECONDS:
                    await asyncio.sleep(0)
                    rested = time.perf_counter()

    async def aiter_text(self) -> AsyncGenerator[str]:
        """Yield the body as text; `BadReply` when an event of it never ends, or as `pieces`."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        size, tail = 0, b""
        async for raw in self.pieces():
            piece = _BLANK_LINES.sub(b"\n\n", raw)  # more of them mean nothing, and take long
            seen = tail + piece
            end = max(seen.rfind(mark) for mark in (b"\n\n", b"\r\n\r\n", b"\r\r"))
            size = size + len(piece) if end < 0 else len(seen) - end
            if size > MAX_EVENT_BYTES:
                raise BadReply(f"sent an event of more than {_megabytes(MAX_EVENT_BYTES)} MB, which no reply needs")
            tail = seen[-3:]
            if text := decoder.decode(piece):
                yield text

    async def read(self, most: int) -> tuple[str, bool]:
        """Return at most so many bytes as text, and whether that was all."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > most:
                return body[:most].decode("utf-8", "replace"), False
        return body.decode("utf-8", "replace"), True

    async def whole(self) -> str:
        """Return an answer that is not a stream but JSON; `BadReply` when it is something else, or too large."""
        body, is_all = await self.read(MAX_EVENT_BYTES)
        if not is_all:
            raise BadReply(f"sent an answer of more than {_megabytes(MAX_EVENT_BYTES)} MB, which no reply needs")
        if not body.strip():
            raise BadReply("answered without any reply")
        if not body.lstrip().startswith(("{", "[")):
            kind = self.headers.get("content-type", "") or "something without a type"
            raise BadReply(f"answered with {kind}, which is no model's reply: check its base URL")
        return body


async def decoded(decoder: ReplyDecoder, data: str) -> list[WordsDelta]:
    """Hand the data of one event, or a whole answer, to a decoder; what is large is parsed in a thread."""
    if len(data) <= OFF_LOOP_CHARS:
        return decoder.feed(data)
    event: Mapping[str, Any] = await asyncio.to_thread(load, data)
    return decoder.take(event)


class Unpacker:
    """Cuts a body into pieces, unpacking it where it is packed; `BadReply` where that is in an unknown way."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in _WINDOW_BITS:
            raise BadReply(f"answered packed as {name}, though plain was asked for: turn that off at the endpoint")
        self._ways = [zlib.decompressobj(bits) for bits in _WINDOW_BITS[name]]
        self._size = 0

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the pieces of the next bytes."""
        if not self._ways:
            for start in range(0, len(chunk), _PIECE):
                yield chunk[start : start + _PIECE]
            return
        while chunk and not self._ways[0].eof:
            try:
                piece = self._ways[0].decompress(chunk, _PIECE)
            except zlib.error:
                if self._size or len(self._ways) == 1:
                    raise BadReply("sent a packed answer that is damaged: turn packing off at the endpoint") from None
                del self._ways[0]
                continue
            chunk = self._ways[0].unconsumed_tail
            self._size += len(piece)
            if self._size > MAX_UNPACKED_BYTES:
                raise BadReply(
                    f"sent an answer that is more than {_megabytes(MAX_UNPACKED_BYTES)} MB when it is unpacked,"
                    " which no reply needs"
                )
            yield piece


def _megabytes(size: int) -> int:
    return size // (1024 * 1024)
