"""A tool that is called twice with one idempotency key does its work once, whatever happens in between."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.model.access import ALL
from core.model.sessions import SessionQuery
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, running, words
from tests.support.servers import Served as HttpServed
from tests.support.servers import served as http_served
from tests.support.web_socket import connected, listening

SEND: dict[str, Any] = {"sessionKey": "main", "message": "say hi", "timeoutSeconds": 20}


async def said(runtime: Runtime) -> list[str]:
    """Return what was said in the main session."""
    return [text for _, text in await words(runtime, MAIN)]


@pytest.mark.spec("S4")
async def test_over_websocket_across_connections(runtime: Runtime, tmp_path: Path) -> None:
    call = {"name": "sessions_send", "args": SEND, "idempotencyKey": "k"}
    async with listening(runtime, tmp_path) as served:
        async with connected(served) as client:
            first, second = await asyncio.gather(client.ask("tools.invoke", **call), client.ask("tools.invoke", **call))
        async with connected(served) as client:
            third = await client.ask("tools.invoke", **call)
            other = await client.error("tools.invoke", **call | {"args": SEND | {"message": "say another"}})
            fresh = await client.ask("tools.invoke", **call | {"idempotencyKey": "k2"})
    assert first == second == third
    assert first["output"]["details"]["reply"] == "hi"
    assert other["details"]["code"] == "CONFLICT"
    assert fresh["output"]["details"]["runId"] != first["output"]["details"]["runId"]
    assert await said(runtime) == ["say hi", "hi"] * 2


@pytest.mark.spec("S4")
async def test_after_a_restart(tmp_path: Path) -> None:
    call = {"name": "sessions_send", "args": SEND, "idempotencyKey": "k"}
    found = list[dict[str, Any]]()
    for _ in range(2):
        async with running(tmp_path) as runtime, listening(runtime, tmp_path) as served, connected(served) as client:
            found.append((await client.ask("tools.invoke", **call))["output"]["details"])
            other = call | {"args": SEND | {"message": "say another"}}
            assert (await client.error("tools.invoke", **other))["details"]["code"] == "CONFLICT"
            assert await said(runtime) == ["say hi", "hi"]
    assert found[0]["runId"] == found[1]["runId"]
    assert found[1]["status"] == "ok"


@pytest.mark.spec("W1")
async def test_a_spawn_makes_one_child(tmp_path: Path) -> None:
    call = {"name": "sessions_spawn", "args": {"task": "say done"}, "idempotencyKey": "k"}
    children = set[str]()
    for _ in range(2):
        async with running(tmp_path) as runtime, listening(runtime, tmp_path) as served, connected(served) as client:
            await client.ask("chat.send", sessionKey="main", message="say before", idempotencyKey="before")
            for _ in range(2):
                details = (await client.ask("tools.invoke", **call))["output"]["details"]
                assert details["status"] == "accepted"
                children.add(details["childSessionKey"])
            query = SessionQuery(archived=None, spawned_by=MAIN)
            assert len((await runtime.list_sessions(query, ALL)).sessions) == 1
    assert len(children) == 1


async def asked(server: HttpServed, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Call a tool over HTTP."""
    async with server.client() as client:
        return await client.post("/tools/invoke", json=body, headers=headers)


@pytest.mark.spec("G7")
async def test_over_http_by_body_or_header(runtime: Runtime) -> None:
    call = {"tool": "sessions_send", "args": SEND}
    async with http_served(runtime) as server:
        first = await asked(server, call | {"idempotencyKey": "k"})
        second = await asked(server, call, **{"Idempotency-Key": "k"})
        both = await asked(server, call | {"idempotencyKey": "k"}, **{"Idempotency-Key": "k"})
        assert first.status_code == 200, first.text
        assert first.json() == second.json() == both.json()
        other = await asked(server, call | {"args": SEND | {"message": "say x"}}, **{"Idempotency-Key": "k"})
        assert (other.status_code, other.json()["error"]["type"]) == (409, "conflict")
        assert await said(runtime) == ["say hi", "hi"]
        differ = await asked(server, call | {"idempotencyKey": "k"}, **{"Idempotency-Key": "l"})
        assert (differ.status_code, "differ" in differ.text) == (400, True)


@pytest.mark.parametrize("key", ["", "x" * 201, 5, ["k"], True])
async def test_what_is_no_key_is_said(runtime: Runtime, key: object) -> None:
    async with http_served(runtime) as server:
        answer = await asked(server, {"tool": "sessions_send", "args": SEND, "idempotencyKey": key})
    assert (answer.status_code, "1 to 200 characters" in answer.text) == (400, True)


async def test_what_only_reads_is_read_again(runtime: Runtime, tmp_path: Path) -> None:
    async with listening(runtime, tmp_path) as served, connected(served) as client:
        call: dict[str, Any] = {"name": "sessions_list", "args": {}, "idempotencyKey": "k"}
        before = (await client.ask("tools.invoke", **call))["output"]["details"]["count"]
        await client.ask("chat.send", sessionKey="main", message="say hi", idempotencyKey="1")
        assert (await client.ask("tools.invoke", **call))["output"]["details"]["count"] == before + 1
