"""Pages of transcripts over HTTP (G1, G2)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid
from core.model.keys import resolve
from core.model.messages import Draft, text_block, user_draft
from core.store import messages
from tests.support.runtimes import MAIN, running, send, transcript
from tests.support.servers import Served, history_path, served, serving
from tests.support.stores import create, say, tool_draft

ROOM = "agent:main:discord:group:ops/night shift?#1"


@pytest.fixture
async def server(state: Path) -> AsyncIterator[Served]:
    """Return a server with a few sessions."""
    async with serving(state) as started:
        for n in range(5):
            await send(started.runtime, MAIN, f"say {n}")
        await started.runtime.store.write(lambda tx: create(tx, ROOM))
        await started.runtime.append(ROOM, user_draft("hello, room"), OPERATOR)
        yield started


@pytest.fixture
async def client(server: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client with the full token."""
    async with server.client() as opened:
        yield opened


def seqs(page: dict[str, Any]) -> list[int]:
    """Return the places of a page's messages."""
    return [message["seq"] for message in page["items"]]


@pytest.mark.spec("G1", "H2")
async def test_a_page_holds_the_newest_messages_in_order(server: Served, client: httpx.AsyncClient) -> None:
    answer = await client.get(history_path("main"), params={"limit": 3})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    page = answer.json()
    stored = await transcript(server.runtime, MAIN)
    assert [message["id"] for message in page["items"]] == [message.id for message in stored[-3:]]
    assert page["messages"] == page["items"]
    assert page["sessionKey"] == MAIN
    assert (
        page["sessionId"]
        == (await server.runtime.get_session(MAIN, server.runtime.rules.grant(OPERATOR).scope)).session_id
    )
    for message, row in zip(page["items"], stored[-3:], strict=True):
        asked = {"idempotencyKey": f"{row.run_id}:user"} if row.role == "user" else {}
        assert message.pop("__openclaw") == {"id": row.id, "seq": row.seq, "runId": row.run_id} | asked
        assert message == row.as_json()


@pytest.mark.spec("G1", "K6")
@pytest.mark.parametrize("key", ["main", "MAIN", MAIN, ROOM, "discord:group:ops/night shift?#1"])
async def test_every_spelling_of_a_key_is_taken(client: httpx.AsyncClient, key: str) -> None:
    answer = await client.get(history_path(key))
    assert answer.status_code == 200, answer.text
    by_id = await client.get(history_path(answer.json()["sessionId"]))
    assert by_id.json() == answer.json()


@pytest.mark.spec("G1", "H3")
@pytest.mark.parametrize("key", ["agent:main:nope", "8b0f4a94-0000-4000-8000-000000000000", "a%2Fb", "nobody/history"])
async def test_an_unknown_session_is_404(client: httpx.AsyncClient, key: str) -> None:
    answer = await client.get(history_path(key))
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert error["type"] == "not_found"
    assert key.rpartition(":")[2] in error["message"]


@pytest.mark.spec("G1", "K7")
@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("main", "limit=0"),
        ("main", "limit=-1"),
        ("main", "limit=abc"),
        ("main", "limit=1.5"),
        ("main", "limit="),
        ("main", "limit=²"),
        ("main", "limit=99999999999999999999"),
        ("main", "cursor=0"),
        ("main", "cursor=seq:"),
        ("main", "cursor=seq:x"),
        ("main", "cursor=next"),
        ("main", "includeTools=maybe"),
        ("main", "follow=2"),
        ("main", "follow=1&cursor=3"),
        ("agent:main:..", ""),
        ("agent::x", ""),
        ("unknown", ""),
        ("a\x00b", ""),
    ],
)
async def test_a_bad_parameter_is_400_and_says_which(client: httpx.AsyncClient, key: str, query: str) -> None:
    answer = await client.get(f"{history_path(key)}?{query}")
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request"
    assert (query.partition("=")[0] or "key") in error["message"]


@pytest.mark.spec("G1")
async def test_a_limit_over_a_thousand_is_a_thousand(server: Served, client: httpx.AsyncClient) -> None:
    def fill(tx: Any) -> None:
        create(tx, "agent:main:long")
        for n in range(1200):
            say(tx, "agent:main:long", f"message {n}")

    await server.runtime.store.write(fill)
    page = (await client.get(history_path("agent:main:long"), params={"limit": 5000})).json()
    assert seqs(page) == list(range(201, 1201))
    page = (await client.get(history_path("agent:main:long"))).json()
    assert len(page["items"]) == 50


@pytest.mark.spec("G1", "H1")
async def test_results_of_tools_are_told_when_they_are_asked_for(server: Served, client: httpx.AsyncClient) -> None:
    await server.runtime.append(MAIN, tool_draft("found"), OPERATOR)
    with_tools = (await client.get(history_path("main"), params={"includeTools": "1", "limit": 1})).json()
    assert [message["role"] for message in with_tools["items"]] == ["toolResult"]
    without = (await client.get(history_path("main"), params={"limit": 1})).json()
    assert [message["role"] for message in without["items"]] == ["assistant"]


@pytest.mark.spec("G2")
async def test_the_cursor_leads_back_to_the_first_message(client: httpx.AsyncClient) -> None:
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = (
            await client.get(history_path("main"), params={"limit": 3} | ({"cursor": cursor} if cursor else {}))
        ).json()
        found = seqs(page) + found
        assert page["hasMore"] == ("nextCursor" in page)
        if not page["hasMore"]:
            break
        cursor = page["nextCursor"]
        spelled = (await client.get(history_path("main"), params={"limit": 3, "cursor": f"seq:{cursor}"})).json()
        plain = (await client.get(history_path("main"), params={"limit": 3, "cursor": cursor})).json()
        assert spelled == plain
    assert found == list(range(1, 11))


@pytest.mark.spec("G2")
async def test_an_empty_transcript_is_an_empty_page(server: Served, client: httpx.AsyncClient) -> None:
    await server.runtime.reset(MAIN, OPERATOR)
    page = (await client.get(history_path("main"))).json()
    assert (page["items"], page["hasMore"], "nextCursor" in page) == ([], False, False)


async def test_the_transcript_before_a_reset_is_read_by_its_id(server: Served, client: httpx.AsyncClient) -> None:
    before = (await client.get(history_path("main"))).json()
    await server.runtime.reset(MAIN, OPERATOR)
    await send(server.runtime, MAIN, "say anew")
    assert (await client.get(history_path(before["sessionId"]))).json() == before
    assert seqs((await client.get(history_path("main"))).json()) == [11, 12]


async def test_words_of_any_script_and_halves_of_characters_pass(server: Served, client: httpx.AsyncClient) -> None:
    words = '日本語 \U0001f600 \u2028 " \\ </script> \ud83d'
    await server.runtime.append(MAIN, Draft("user", (text_block(words),)), OPERATOR)
    page = (await client.get(history_path("main"), params={"limit": 1})).json()
    assert page["items"][0]["content"][0]["text"] == words.replace("\ud83d", "\ufffd")


@pytest.mark.spec("G2")
@settings(max_examples=10)
@given(
    steps=st.lists(st.integers(0, 4), max_size=12),
    limit=st.integers(1, 7),
    already=st.integers(1, 25),
    tools=st.booleans(),
)
def test_pages_neither_repeat_nor_skip_while_messages_arrive(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], limit: int, already: int, tools: bool
) -> None:
    asyncio.run(_page_through(tmp_path_factory.mktemp("paging"), steps, limit, already, tools))


async def _page_through(state: Path, arrivals: list[int], limit: int, already: int, tools: bool) -> None:
    async with running(state) as runtime, served(runtime) as server, server.client() as client:

        async def arrive(count: int) -> None:
            def fill(tx: Any) -> None:
                for n in range(count):
                    say(tx, MAIN, f"message {n}")

            await runtime.store.write(fill)

        await runtime.store.write(lambda tx: create(tx, MAIN))
        await arrive(already)
        coming, found, cursor = list(arrivals), list[int](), None
        while True:
            params = {"limit": limit, "includeTools": int(tools)} | ({"cursor": cursor} if cursor else {})
            page = (await client.get(history_path("main"), params=params)).json()
            found = seqs(page) + found
            if coming:
                await arrive(coming.pop())
            if not page["hasMore"]:
                break
            cursor = page["nextCursor"]
        assert found == list(range(1, already + 1))


# What one answer may cost


async def test_a_page_of_long_messages_ends_sooner_and_says_where_to_go_on(
    server: Served, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PAGE_CHARS", 100_000)
    for n in range(9):
        await server.runtime.append(ROOM, user_draft(f"{n}" * 30_000), OPERATOR)
    everything = (await server.runtime.history(ROOM, ALL, limit=1000)).messages
    assert len(everything) == 4, "the last of them crosses the line"
    found, cursor = list[int](), None
    while True:
        query = {"limit": "1000"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(history_path(ROOM), params=query)).json()
        assert page["items"] == page["messages"]
        assert 1 <= len(page["items"]) <= 4
        found = seqs(page) + found
        if not page["hasMore"]:
            break
        cursor = page["nextCursor"]
    assert found == list(range(1, 11)), "each once, and none is missing"
    one = (await client.get(history_path(ROOM), params={"limit": "1"})).json()
    assert (seqs(one), one["hasMore"]) == ([10], True)


async def test_one_message_that_is_longer_than_a_page_is_a_page(
    server: Served, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PAGE_CHARS", 1000)
    await server.runtime.append(ROOM, user_draft("x" * 300_000), OPERATOR)
    page = (await client.get(history_path(ROOM))).json()
    assert (seqs(page), page["hasMore"]) == ([2], True)
    assert page["items"][0]["content"][0]["text"] == "x" * 300_000
    assert server.context.held.total == 0


async def test_a_follower_of_long_messages_misses_none(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PAGE_CHARS", 20_000)
    async with server.client() as client:
        session = await server.runtime.get_session(ROOM, ALL)
        for n in range(40):
            await server.runtime.append(ROOM, user_draft(f"{n}" * 2_000), OPERATOR)
        headers = {"last-event-id": f"{session.session_id}:1"}
        async with client.stream("GET", f"{history_path(ROOM)}?follow=1", headers=headers) as stream:
            told = list[int]()
            async for line in stream.aiter_lines():
                if line.startswith("id:"):
                    told.append(int(line.rpartition(":")[2]))
                if told and told[-1] == 41:
                    break
    assert told == list(range(2, 42))


async def test_a_long_key_is_refused_before_it_is_looked_at() -> None:
    began = time.monotonic()
    for _ in range(20):
        with pytest.raises(Invalid, match="longer than 512 bytes"):
            resolve("x" * 7_900_000, "main")
    assert time.monotonic() - began < 1
