"""A session as server-sent events: nothing missed, nothing twice, whatever happens to the connection (G3)."""

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent

from core.model.access import OPERATOR
from core.model.messages import Draft, text_block, user_draft
from core.server.context import Limits
from core.server.http import protocols
from tests.support.runtimes import MAIN, send, until
from tests.support.servers import TOKEN, Served, history_path, served, serving
from tests.support.stores import create, say, tool_draft


@pytest.fixture
async def server(state: Path) -> AsyncIterator[Served]:
    """Return a server with one session of four messages."""
    async with serving(state) as started:
        for n in range(2):
            await send(started.runtime, MAIN, f"say {n}")
        yield started


class Follower:
    """One client that follows, and what it was told.

    Attributes:
        first: The status line and headers.
        events: So far, in order.
        failed: The stream broke off.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.first = response
        self.events: list[ServerSentEvent] = []
        self.ended = asyncio.Event()
        self.failed = False
        self._reading = asyncio.create_task(self._read(response))

    async def _read(self, response: httpx.Response) -> None:
        try:
            async for event in EventSource(response).aiter_sse():
                self.events.append(event)
        except httpx.HTTPError:
            self.failed = True
        finally:
            self.ended.set()

    async def until(self, count: int) -> list[ServerSentEvent]:
        """Wait until that many events came; return all."""
        await until(lambda: len(self.events) >= count or self.ended.is_set())
        assert len(self.events) >= count, [event.event for event in self.events]
        return self.events

    @property
    def seqs(self) -> list[int]:
        """The places of the messages that came one by one."""
        return [event.json()["messageSeq"] for event in self.events if event.event == "message"]

    @property
    def names(self) -> list[str]:
        """What came."""
        return [event.event for event in self.events]

    async def close(self) -> None:
        """Leave."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading


@contextlib.asynccontextmanager
async def following(
    server: Served, key: str = "main", last: str | None = None, **params: Any
) -> AsyncGenerator[Follower]:
    """Follow a session."""
    headers = {"last-event-id": last} if last is not None else {}
    async with (
        server.client(headers=headers) as client,
        client.stream("GET", history_path(key), params={"follow": 1} | params) as response,
    ):
        assert response.status_code == 200, (await response.aread()).decode()
        follower = Follower(response)
        try:
            yield follower
        finally:
            await follower.close()


async def add(server: Served, text: str) -> None:
    """Append a message to the main session."""
    await server.runtime.append(MAIN, user_draft(text), OPERATOR)


@pytest.mark.spec("G3")
async def test_the_history_comes_first_and_then_each_message_once(server: Served) -> None:
    async with following(server, limit=3) as follower:
        await follower.until(1)
        assert follower.first.headers["content-type"].startswith("text/event-stream")
        async with server.client() as client:
            page = (await client.get(history_path("main"), params={"limit": 3})).json()
        assert follower.events[0].event == "history"
        assert follower.events[0].json() == page
        await send(server.runtime, MAIN, "say more")
        await add(server, "the last")
        events = (await follower.until(4))[1:]
        assert [event.event for event in events] == ["message"] * 3
        assert follower.seqs == [5, 6, 7]
        for event in events:
            data = event.json()
            assert event.id == f"{page['sessionId']}:{data['messageSeq']}"
            assert data["sessionKey"] == MAIN
            assert data["messageId"] == data["message"]["id"]
            marks = data["message"]["__openclaw"]
            assert (marks["id"], marks["seq"]) == (data["messageId"], data["messageSeq"])


@pytest.mark.spec("G3")
async def test_an_accept_header_asks_for_the_stream_too(server: Served) -> None:
    headers = {"accept": "text/event-stream"}
    async with server.client(headers=headers) as client, client.stream("GET", history_path("main")) as response:
        lines = response.aiter_lines()
        assert [await anext(lines) for _ in range(2)] == ["retry: 1000", "event: history"]


@pytest.mark.spec("G3")
async def test_a_client_resumes_at_every_place(server: Served) -> None:
    async with following(server) as follower:
        for n in range(5):
            await add(server, f"message {n}")
        await follower.until(6)
    ids = [event.id for event in follower.events]
    for at, last in enumerate(ids):
        async with following(server, last=last) as again:
            expected = follower.events[at + 1 :]
            await again.until(len(expected))
            await add(server, f"marker {at}")
            await again.until(len(expected) + 1)
            assert [(e.event, e.id, e.data) for e in again.events[: len(expected)]] == [
                (e.event, e.id, e.data) for e in expected
            ]
            assert again.events[-1].json()["message"]["content"][0]["text"] == f"marker {at}"
        follower.events.append(again.events[-1])


@pytest.mark.spec("G3")
async def test_nothing_is_lost_or_doubled_while_messages_arrive_and_connections_break(server: Served) -> None:
    chance, total, seen, last = random.Random(5), 400, list[int](), f"{await session_id(server)}:4"

    async def write() -> None:
        for n in range(total // 4):
            await asyncio.gather(*(add(server, f"message {n}.{m}") for m in range(4)))

    writing = asyncio.create_task(write())
    while not seen or seen[-1] < total + 4:
        async with following(server, last=last) as follower:
            wanted = min(chance.randrange(1, 40), total + 4 - (seen[-1] if seen else 4))
            await follower.until(wanted)
        seen += follower.seqs
        last = follower.events[-1].id
    await writing
    assert seen == list(range(5, total + 5))


async def session_id(server: Served) -> str:
    """Return the id of the main session's transcript."""
    async with server.client() as client:
        return str((await client.get(history_path("main"))).json()["sessionId"])


@pytest.mark.spec("G3")
@pytest.mark.parametrize("last", ["", "nonsense", "a:b", "nobody:3", "{}:99", "{}:-1", "{}:1e1", ":3"])
async def test_a_place_that_is_none_begins_with_the_history(server: Served, last: str) -> None:
    async with following(server, last=last.replace("{}", await session_id(server))) as follower:
        assert (await follower.until(1))[0].event == "history"


@pytest.mark.spec("G3")
async def test_many_missed_messages_come_in_order(server: Served) -> None:
    last = f"{await session_id(server)}:2"

    def fill(tx: Any) -> None:
        for n in range(900):
            say(tx, MAIN, f"message {n}")

    await server.runtime.store.write(fill)
    async with following(server, last=last) as follower:
        await follower.until(902)
        assert follower.seqs == list(range(3, 905))


@pytest.mark.spec("G3")
async def test_a_reset_is_told_and_the_new_transcript_followed(server: Served) -> None:
    async with following(server) as follower:
        await follower.until(1)
        old = await session_id(server)
        fresh = await server.runtime.reset(MAIN, OPERATOR)
        await follower.until(2)
        await add(server, "after")
        await follower.until(3)
        assert follower.names == ["history", "reset", "message"]
        told = follower.events[1]
        assert told.json() == {"sessionKey": MAIN, "previousSessionId": old, "sessionId": fresh.session_id}
        assert told.id == f"{fresh.session_id}:4"
        assert follower.events[2].id == f"{fresh.session_id}:5"


@pytest.mark.spec("G3")
async def test_a_reset_while_nobody_followed_is_told_after_the_rest(server: Served) -> None:
    last = f"{await session_id(server)}:2"
    await server.runtime.reset(MAIN, OPERATOR)
    await add(server, "after")
    async with following(server, last=last) as follower:
        await follower.until(4)
        assert follower.names == ["message", "message", "reset", "message"]
        assert follower.seqs == [3, 4, 5]
    async with following(server, last=follower.events[2].id) as again:
        await again.until(1)
        assert again.seqs == [5]


@pytest.mark.spec("G3")
async def test_a_transcript_that_has_ended_leads_into_the_new_one(server: Served) -> None:
    old = await session_id(server)
    await server.runtime.reset(MAIN, OPERATOR)
    await add(server, "after")
    async with following(server, old) as follower:
        await follower.until(3)
        assert follower.names == ["history", "reset", "message"]
        assert follower.events[0].json()["sessionId"] == old


@pytest.mark.spec("G3")
async def test_a_deleted_session_ends_the_stream(server: Served) -> None:
    await server.runtime.store.write(lambda tx: create(tx, "agent:main:passing"))
    async with following(server, "agent:main:passing") as follower:
        await follower.until(1)
        await server.runtime.delete("agent:main:passing", OPERATOR)
        await asyncio.wait_for(follower.ended.wait(), 10)
        assert follower.names == ["history", "deleted"]
    async with server.client(headers={"last-event-id": follower.events[-1].id}) as client:
        gone = await client.get(history_path("agent:main:passing"), params={"follow": 1})
        assert gone.status_code == 404
    await server.runtime.store.write(lambda tx: create(tx, "agent:main:passing"))
    async with following(server, "agent:main:passing", follower.events[-1].id) as again:
        assert (await again.until(1))[0].event == "history"


@pytest.mark.spec("G3", "H1")
async def test_results_of_tools_are_told_when_they_are_asked_for(server: Served) -> None:
    async with following(server) as plain, following(server, includeTools=1) as full:
        await plain.until(1)
        await full.until(1)
        await server.runtime.append(MAIN, tool_draft("found"), OPERATOR)
        await add(server, "after")
        await full.until(3)
        await plain.until(2)
        assert (plain.seqs, full.seqs) == ([6], [5, 6])


@pytest.mark.spec("G3")
async def test_silence_is_broken_by_comments(state: Path) -> None:
    async with serving(state, limits=Limits(keepalive=0.02)) as server:
        await send(server.runtime, MAIN, "say hi")
        async with (
            server.client() as client,
            client.stream("GET", history_path("main"), params={"follow": 1}) as response,
        ):
            comments = 0
            async for line in response.aiter_lines():
                comments += line == ": keepalive"
                if comments == 3:
                    break
    assert Limits().keepalive <= 15


@pytest.mark.spec("G1", "G3")
async def test_who_may_not_read_gets_an_answer_and_no_stream(server: Served) -> None:
    async with server.client(None) as client:
        assert (await client.get(history_path("main"), params={"follow": 1})).status_code == 401
    async with server.client() as client:
        assert (await client.get(history_path("agent:main:no"), params={"follow": 1})).status_code == 404
        head = await client.head(history_path("main"), params={"follow": 1})
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.spec("G3")
async def test_who_does_not_read_is_let_go_and_comes_back_with_the_place(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "STALLED_SECONDS", 0.3)
    metrics, last = server.context.metrics, f"{await session_id(server)}:4"
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", server.door.port))
        request = (
            f"GET {history_path('main')}?follow=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        )
        stuck.sendall(request.encode())
        await until(lambda: metrics.value("followers") == 1)
        for _ in range(40):
            await server.runtime.append(MAIN, Draft("user", (text_block("x" * 200_000),)), OPERATOR)
        await until(lambda: metrics.value("followers") == 0)
    async with following(server, last=last) as again:
        await again.until(40)
        assert again.seqs == list(range(5, 45))


@pytest.mark.spec("G3")
async def test_a_page_that_many_wait_for_is_held_and_counted_once(server: Served) -> None:
    for _ in range(8):
        await server.runtime.append(MAIN, Draft("user", (text_block("x" * 500_000),)), OPERATOR)
    held, metrics = server.context.held, server.context.metrics
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stuck = stack.enter_context(socket.socket())
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", server.door.port))
            head = f"GET {history_path('main')}?follow=1 HTTP/1.1\r\nHost: localhost\r\n"
            stuck.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        await until(lambda: metrics.value("followers") == 6 and held.total > 4_000_000)
        assert held.total < 6_000_000
    await until(lambda: metrics.value("followers") == 0)
    assert held.total == 0


@pytest.mark.spec("G3")
async def test_a_client_that_leaves_is_forgotten(server: Served) -> None:
    async with following(server) as follower:
        await follower.until(1)
        assert server.context.metrics.value("followers") == 1
    await until(lambda: server.context.metrics.value("followers") == 0)
    assert server.context.farewells == set()


@pytest.mark.spec("G3")
async def test_many_follow_one_session_and_none_misses_anything(server: Served) -> None:
    async with contextlib.AsyncExitStack() as stack:
        followers = [await stack.enter_async_context(following(server, limit=1)) for _ in range(30)]
        for follower in followers:
            await follower.until(1)
        for n in range(20):
            await add(server, f"message {n}")
        for follower in followers:
            await follower.until(21)
            assert follower.seqs == list(range(5, 25))


@pytest.mark.spec("G3")
async def test_closing_ends_the_streams_cleanly(server: Served) -> None:
    async with served(server.runtime) as other:
        stack = contextlib.AsyncExitStack()
        follower = await stack.enter_async_context(following(other))
        await follower.until(1)
        await add(server, "the last words")
    async with stack:
        await asyncio.wait_for(follower.ended.wait(), 10)
        assert follower.names == ["history", "message"]
        assert not follower.failed
    assert json.loads(follower.events[1].data)["message"]["content"][0]["text"] == "the last words"


async def test_what_waits_for_followers_who_do_not_read_is_bounded(state: Path) -> None:
    """Each asks for a long history and takes nothing of it; those that hold most are let go."""
    most = 2_000_000
    async with serving(state, limits=Limits(held=most)) as server:
        await send(server.runtime, MAIN, "say one")
        for _ in range(4):
            await server.runtime.append(MAIN, user_draft("x" * 200_000), OPERATOR)
        head = f"GET {history_path(MAIN)}?follow=1&limit=1000 HTTP/1.1\r\nHost: localhost\r\n"
        writers = list[asyncio.StreamWriter]()
        for _ in range(8):
            _, writer = await asyncio.open_connection("127.0.0.1", server.door.port, limit=1024)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            writers.append(writer)
        await until(lambda: server.context.metrics.value("followers") > 0)
        await until(lambda: any(writer.transport.is_closing() for writer in writers) or server.context.held.total == 0)
        assert server.context.held.total <= most
        for writer in writers:
            writer.transport.abort()
        await until(lambda: server.context.metrics.value("followers") == 0)
        assert server.context.held.total == 0
