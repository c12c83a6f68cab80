"""Frames as lines of a real socket."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from typing import NamedTuple

import pytest

from core.model.errors import Unavailable
from core.wire.transport import FrameTooLong, LineTransport
from tests.support.runtimes import until


class Reader(asyncio.StreamReader):
    """Counts what was taken from it."""

    taken = 0

    async def read(self, n: int = -1) -> bytes:
        """Take what is there."""
        chunk = await super().read(n)
        self.taken += len(chunk)
        return chunk


class End(NamedTuple):
    """One end of a connection, and what it stands on."""

    transport: LineTransport
    reader: Reader
    writer: asyncio.StreamWriter


async def _end(of: socket.socket, limit: int) -> End:
    loop, reader = asyncio.get_running_loop(), Reader()
    protocol = asyncio.StreamReaderProtocol(reader)
    raw, _ = await loop.create_unix_connection(lambda: protocol, sock=of)
    writer = asyncio.StreamWriter(raw, protocol, reader, loop)
    return End(LineTransport(reader, writer, peer="test", trusted=True, limit=limit), reader, writer)


@contextlib.asynccontextmanager
async def bare_ends(limit: int = 1000) -> AsyncGenerator[tuple[End, End]]:
    """Give both ends of a connection with what they stand on."""
    here, there = [await _end(each, limit) for each in socket.socketpair()]
    try:
        yield here, there
    finally:
        for end in (here, there):
            await end.transport.close(1000, "")


@contextlib.asynccontextmanager
async def ends(limit: int = 1000) -> AsyncGenerator[tuple[LineTransport, LineTransport]]:
    """Give both ends of a connection."""
    async with bare_ends(limit) as (here, there):
        yield here.transport, there.transport


async def test_frames_arrive_whole_and_in_order() -> None:
    async with ends() as (here, there):
        for text in ('{"a":1}', "{}", '{"text":"héllo ☎"}'):
            await here.send(text)
        assert [await there.receive() for _ in range(3)] == ['{"a":1}', "{}", '{"text":"héllo ☎"}']


async def test_line_feeds_between_values_do_not_end_a_frame() -> None:
    async with ends() as (here, there):
        await here.send('{\n"a":\n1}')
        assert await there.receive() == '{ "a": 1}'


async def test_a_frame_of_many_pieces_is_put_together() -> None:
    async with ends(limit=4_000_000) as (here, there):
        text = "x" * 3_000_000
        sending = asyncio.create_task(here.send(text))
        assert await there.receive() == text
        await sending


async def test_the_end_is_none_and_half_a_line_counts_for_nothing() -> None:
    async with bare_ends() as (here, (there, _, _)):
        here.writer.write(b'{"whole":1}\n{"half"')
        await here.transport.close(1000, "")
        assert await there.receive() == '{"whole":1}'
        assert await there.receive() is None
        assert await there.receive() is None


async def test_a_frame_over_the_limit_is_refused_before_its_end() -> None:
    async with bare_ends(limit=100) as (here, (there, _, _)):
        await here.transport.send("x" * 100)
        assert await there.receive() == "x" * 100
        here.writer.write(b"y" * 101)
        with pytest.raises(FrameTooLong):
            await there.receive()


async def test_cancelling_a_wait_loses_nothing() -> None:
    async with bare_ends() as ((_, _, writer), (there, reader, _)):
        writer.write(b'{"fir')
        waiting = asyncio.create_task(there.receive())
        await until(lambda: reader.taken)
        waiting.cancel()
        await asyncio.wait([waiting])
        writer.write(b'st":1}\n')
        assert await there.receive() == '{"first":1}'


async def test_sending_waits_while_the_peer_does_not_read() -> None:
    async with ends(limit=10_000_000) as (here, there):
        sending = asyncio.create_task(here.send("x" * 5_000_000))
        done, _ = await asyncio.wait([sending], timeout=0.05)
        assert not done
        assert await there.receive() == "x" * 5_000_000
        await sending


async def test_sending_to_nobody_says_so() -> None:
    async with bare_ends() as ((here, reader, writer), (there, _, _)):
        await there.close(1000, "")
        assert await here.receive() is None
        await until(lambda: writer.transport.is_closing() or reader.at_eof())
        with contextlib.suppress(Unavailable):  # the first one may still find room
            await here.send("x" * 100_000)
        with pytest.raises(Unavailable):
            await here.send("x")


async def test_closing_does_not_wait_for_a_peer_that_does_not_read() -> None:
    async with ends() as (here, there):
        sending = asyncio.create_task(here.send("x" * 5_000_000))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await here.close(1000, "")
            await asyncio.wait([sending])
        del there
