"""Frames as lines of a real socket."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from core.model.errors import Unavailable
from core.wire.transport import FrameTooLong, LineTransport
from tests.support.runtimes import until


@contextlib.asynccontextmanager
async def ends(limit: int = 1000) -> AsyncIterator[tuple[LineTransport, LineTransport]]:
    """Give both ends of a connection."""
    pair = socket.socketpair()
    found: list[LineTransport] = []
    for each in pair:
        reader, writer = await asyncio.open_unix_connection(sock=each)
        found.append(LineTransport(reader, writer, peer="test", trusted=True, limit=limit))
    try:
        yield found[0], found[1]
    finally:
        for end in found:
            await end.close(1000, "")


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
    async with ends() as (here, there):
        here._writer.write(b'{"whole":1}\n{"half"')
        await here.close(1000, "")
        assert await there.receive() == '{"whole":1}'
        assert await there.receive() is None
        assert await there.receive() is None


async def test_a_frame_over_the_limit_is_refused_before_its_end() -> None:
    async with ends(limit=100) as (here, there):
        await here.send("x" * 100)
        assert await there.receive() == "x" * 100
        here._writer.write(b"y" * 101)
        with pytest.raises(FrameTooLong):
            await there.receive()


async def test_cancelling_a_wait_loses_nothing() -> None:
    async with ends() as (here, there):
        here._writer.write(b'{"fir')
        waiting = asyncio.create_task(there.receive())
        await until(lambda: there._buffer)
        waiting.cancel()
        await asyncio.wait([waiting])
        here._writer.write(b'st":1}\n')
        assert await there.receive() == '{"first":1}'


async def test_sending_waits_while_the_peer_does_not_read() -> None:
    async with ends(limit=10_000_000) as (here, there):
        sending = asyncio.create_task(here.send("x" * 5_000_000))
        done, _ = await asyncio.wait([sending], timeout=0.05)
        assert not done
        assert await there.receive() == "x" * 5_000_000
        await sending


async def test_sending_to_nobody_says_so() -> None:
    async with ends() as (here, there):
        await there.close(1000, "")
        assert await here.receive() is None
        await until(lambda: here._writer.transport.is_closing() or here._reader.at_eof())
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
