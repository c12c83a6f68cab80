"""Frames that cost more to read than to send, from peers that read nothing; by hand, as no client would send them."""

import asyncio
import base64
import contextlib
import json
import os
import struct
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.server.conversation import conversation
from core.server.http import protocols
from core.server.http.protocols import FRAMES, HANDSHAKE_BYTES, MAX_FRAGMENTS
from tests.support.runtimes import until
from tests.support.web_socket import Served, connect_params, connected, serving
from tests.tools.attack import CONTINUED, PING, TEXT, frame


class Peer:
    """A connection that was upgraded, and reads only when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def flood(self, data: bytes, seconds: float) -> None:
        """Send the same again and again, as long as it is taken."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                while True:
                    self.writer.write(data)
                    await self.writer.drain()

    async def close_code(self) -> int | None:
        """Read to the end and return the code with which it was closed; None when it was cut off."""
        read = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(15):
                while data := await self.reader.read(65_536):
                    read = (read + data)[-256:]
        at = read.rfind(b"\x88")
        return struct.unpack("!H", read[at + 2 : at + 4])[0] if at >= 0 else None

    async def next_text(self) -> dict[str, Any]:
        """Read one text frame."""
        head = await self.reader.readexactly(2)
        size = head[1]
        if size == 126:
            size = struct.unpack("!H", await self.reader.readexactly(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", await self.reader.readexactly(8))[0]
        return json.loads(await self.reader.readexactly(size))

    async def introduce(self) -> None:
        """Show the token."""
        request = {"type": "req", "id": "c", "method": "connect", "params": connect_params()}
        self.writer.write(frame(TEXT, json.dumps(request).encode()))
        answer = await self.next_text()
        assert answer["ok"], answer


@contextlib.asynccontextmanager
async def upgraded(served: Served) -> AsyncGenerator[Peer]:
    """Open a WebSocket by hand, and read the challenge."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    key = base64.b64encode(os.urandom(16)).decode()
    head = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    writer.write(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    peer = Peer(reader, writer)
    assert (await peer.next_text())["event"] == "connect.challenge"
    try:
        yield peer
    finally:
        writer.transport.abort()


async def slowest_answer(served: Served, work: "asyncio.Future[Any]") -> float:
    """Return the longest time that a good client waits for an answer while something goes on, in seconds."""
    longest = 0.0
    async with connected(served) as client:
        while not work.done():
            began = time.monotonic()
            await client.ask("status")
            longest = max(longest, time.monotonic() - began)
    await work
    return longest


@pytest.mark.parametrize("length", [HANDSHAKE_BYTES + 1, 8 * 1024 * 1024, 2**62])
@pytest.mark.parametrize("opcode", [TEXT, 0x2])
async def test_a_frame_that_promises_too_much_is_refused_by_its_head(tmp_path: Path, length: int, opcode: int) -> None:
    async with serving(tmp_path) as served, upgraded(served) as peer:
        peer.writer.write(frame(opcode, b"x" * 1000, length=length))
        assert await peer.close_code() == 1009


async def test_fragments_together_are_no_more_than_one_frame(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, upgraded(served) as peer:
        part = b"x" * 1024
        peer.writer.write(frame(TEXT, part, fin=False) + 80 * frame(CONTINUED, part, fin=False))
        assert await peer.close_code() == 1009


async def test_who_has_shown_a_token_may_send_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, upgraded(served) as peer:
        await peer.introduce()
        asked: dict[str, Any] = {"type": "req", "id": "h", "method": "health", "params": {}, "pad": "x" * 1_000_000}
        peer.writer.write(frame(TEXT, json.dumps(asked).encode()))
        while (answer := await peer.next_text())["type"] != "res":
            pass
        assert (answer["id"], answer["ok"]) == ("h", True)
        peer.writer.write(frame(TEXT, length=served.context.limits.frame + 1))
        assert await peer.close_code() == 1009


@pytest.mark.parametrize("admitted", [False, True])
@pytest.mark.parametrize("part", [b"", b"x"])
async def test_a_million_fragments_stall_nobody(
    tmp_path: Path, admitted: bool, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "GUEST_BREATH_SECONDS", protocols.BREATH_SECONDS)
    async with serving(tmp_path) as served, upgraded(served) as peer:
        if admitted:
            await peer.introduce()
        peer.writer.write(frame(TEXT, b"x", fin=False))
        flood = asyncio.ensure_future(peer.flood(20_000 * frame(CONTINUED, part, fin=False), 5))
        ended = asyncio.ensure_future(peer.close_code())
        assert await slowest_answer(served, asyncio.gather(flood, ended)) < 1
        assert ended.result() in {1009, None}, "None: the end came before what it had not read"
        await until(lambda: served.context.guests.waiting == 0)


async def test_some_thousand_fragments_are_a_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, upgraded(served) as peer:
        await peer.introduce()
        asked = json.dumps({"type": "req", "id": "h", "method": "health", "params": {}, "pad": "x" * MAX_FRAGMENTS})
        parts = [asked[n : n + 4].encode() for n in range(0, len(asked), 4)]
        sent = frame(TEXT, parts[0], fin=False) + b"".join(frame(CONTINUED, each, fin=False) for each in parts[1:])
        peer.writer.write(sent + frame(CONTINUED))
        while (answer := await peer.next_text())["type"] != "res":
            pass
        assert (answer["id"], answer["ok"]) == ("h", True)


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_ping_flood_of_a_peer_that_reads_nothing_holds_nothing(
    tmp_path: Path, admitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "BREATH_SECONDS", 0.0)
    monkeypatch.setattr(protocols, "GUEST_BREATH_SECONDS", 0.0)
    monkeypatch.setattr(protocols, "STALLED_SECONDS", 0.5)
    async with serving(tmp_path) as served, upgraded(served) as peer:
        if admitted:
            await peer.introduce()
        transport = next(each for each in served.connections() if isinstance(each, protocols.ServerWebSocket)).transport
        flood = asyncio.ensure_future(peer.flood(1000 * frame(PING, b"x" * 125), 30))
        most = 0
        while not flood.done() and not transport.is_closing():
            most = max(most, transport.get_write_buffer_size())
            await asyncio.sleep(0)
        assert transport.is_closing(), "unread output ends a connection"
        assert most < 64 * 1024 + (FRAMES + 1) * 256
        await flood


async def test_pings_are_answered_at_a_bounded_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "GUEST_BREATH_SECONDS", 60.0)
    async with serving(tmp_path) as served, upgraded(served) as peer:
        peer.writer.write(10 * FRAMES * frame(PING, b"x"))
        answered = FRAMES + 1  # the first one was waited for before they were counted
        assert await peer.reader.readexactly(answered * 3) == answered * b"\x8a\x01x"
        async with connected(served) as client:
            assert (await client.ask("health"))["ok"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await peer.reader.readexactly(1)


async def test_many_small_messages_wait_in_the_kernel(tmp_path: Path) -> None:
    """What a client asks is read when what it asked before is answered."""
    async with serving(tmp_path) as served, upgraded(served) as peer:
        await peer.introduce()
        asked = frame(TEXT, json.dumps({"type": "req", "id": "h", "method": "status", "params": {}}).encode())
        flood = asyncio.ensure_future(peer.flood(1000 * asked, 1))
        socket = next(each for each in served.connections() if isinstance(each, protocols.ServerWebSocket))
        most = 0
        while not flood.done():
            most = max(most, socket.queue.qsize())
            await asyncio.sleep(0)
        assert most <= FRAMES + 1
        assert served.context.held.total < 2 * 1024 * 1024


async def test_who_says_nothing_of_itself_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "DEADLINE_SECONDS", 0.2)
    async with serving(tmp_path) as served, upgraded(served) as peer:
        await peer.flood(frame(PING, b"x"), 0.05)
        assert await peer.close_code() is None
        assert served.context.guests.waiting == 0
    assert conversation.HANDSHAKE_SECONDS <= 10


async def test_a_header_of_an_upgrade_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Long: " + "x" * 9000
        writer.write(f"{head}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.startswith(b"HTTP/1.1 431 ")
        writer.close()
