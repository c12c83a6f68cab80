"""One tool over HTTP (G7), and who may run which."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.model.access import ALL, OPERATOR
from core.model.sessions import SessionPatch
from core.server.context import Limits
from core.server.http import invoke
from core.tools.dispatch import TOOL_NAMES
from tests.support.runtimes import MAIN, send, transcript
from tests.support.servers import READ_ONLY, Served, serving

OPS = "agent:main:ops"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "sessions_list": {},
    "sessions_history": {"sessionKey": "main"},
    "sessions_search": {"query": "one"},
    "agents_list": {},
    "sessions_send": {"sessionKey": OPS, "message": "say two"},
    "sessions_spawn": {"task": "say three"},
}


@pytest.fixture
async def server(state: Path) -> AsyncIterator[Served]:
    """Return a server with two sessions."""
    async with serving(state) as started:
        await send(started.runtime, "main", "say one")
        await send(started.runtime, OPS, "say one")
        yield started


@pytest.fixture
async def client(server: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client with the full token."""
    async with server.client() as opened:
        yield opened


async def call(client: httpx.AsyncClient, tool: str, args: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
    """Run a tool."""
    return await client.post("/tools/invoke", json={"tool": tool, "args": args or {}} | more)


@pytest.mark.spec("G7")
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_every_tool_answers_as_text_and_as_an_object(client: httpx.AsyncClient, tool: str) -> None:
    answer = await call(client, tool, ARGUMENTS[tool])
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["ok"] is True
    (block,) = body["result"]["content"]
    assert block["type"] == "text"
    assert json.loads(block["text"]) == body["result"]["details"]


@pytest.mark.spec("G7", "S3")
async def test_a_send_waits_for_its_reply(client: httpx.AsyncClient) -> None:
    details = (await call(client, "sessions_send", ARGUMENTS["sessions_send"])).json()["result"]["details"]
    assert (details["status"], details["reply"]) == ("ok", "two")


@pytest.mark.spec("G7", "S13")
async def test_a_send_from_a_session_has_that_session_as_its_requester(
    server: Served, client: httpx.AsyncClient
) -> None:
    await call(client, "sessions_send", {"sessionKey": OPS, "message": "say four"}, sessionKey="main")
    sent = [message for message in await transcript(server.runtime, OPS) if message.text.endswith("say four")]
    assert sent[0].provenance is not None
    assert sent[0].provenance.source_session_key == MAIN


@pytest.mark.spec("G7", "P2")
async def test_what_the_tool_refuses_is_a_result(server: Served, client: httpx.AsyncClient) -> None:
    await server.runtime.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
    answer = await call(client, "sessions_send", ARGUMENTS["sessions_send"])
    assert answer.status_code == 200
    details = answer.json()["result"]["details"]
    assert details["status"] == "forbidden"
    assert details["decidedBy"]


@pytest.mark.spec("G7")
async def test_the_tool_may_be_called_name_and_the_arguments_left_out(client: httpx.AsyncClient) -> None:
    answer = await client.post("/tools/invoke", json={"name": "sessions_list", "action": "json", "dryRun": False})
    assert answer.json()["result"]["details"]["count"] == 2


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "tools.invoke needs tool"),
        ({"tool": 5}, "tools.invoke needs tool"),
        ({"tool": ""}, "tools.invoke needs tool"),
        ({"tool": "sessions_list", "args": []}, "args must be an object"),
        ({"tool": "sessions_list", "args": "x"}, "args must be an object"),
        ({"tool": "sessions_list", "sessionKey": 7}, "sessionKey must be text"),
        ({"tool": "sessions_list", "bogus": 7}, 'no parameter "bogus"'),
        ({"tool": "sessions_list", "args": {"bogus": 1}}, 'no parameter "bogus"'),
        ({"tool": "sessions_list", "args": {"limit": "many"}}, "limit"),
        ({"tool": "sessions_history", "args": {}}, "sessions_history needs sessionKey"),
        ([], "a JSON object"),
        ("sessions_list", "a JSON object"),
        (5, "a JSON object"),
    ],
)
async def test_bad_arguments_are_400_and_say_what(client: httpx.AsyncClient, body: Any, words: str) -> None:
    answer = await client.post("/tools/invoke", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["ok"] is False
    assert answer.json()["error"]["type"] == "invalid_request"
    assert words in answer.json()["error"]["message"]


@pytest.mark.spec("G7")
@pytest.mark.parametrize("content", [b"", b"{", b"NaN", b"\xff\xfe", b"[" * 100_000, b'{"tool": Infinity}'])
async def test_what_is_no_json_is_400(client: httpx.AsyncClient, content: bytes) -> None:
    answer = await client.post("/tools/invoke", content=content)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request")


@pytest.mark.spec("G7")
async def test_an_unknown_tool_is_404_and_names_those_there_are(client: httpx.AsyncClient) -> None:
    answer = await call(client, "exec")
    assert answer.status_code == 404
    assert answer.json()["ok"] is False
    assert answer.json()["error"]["type"] == "not_found"
    assert '"exec"' in answer.json()["error"]["message"]
    assert "sessions_list" in answer.json()["error"]["message"]


@pytest.mark.spec("G7", "H3")
async def test_a_missing_session_is_404_and_named(client: httpx.AsyncClient) -> None:
    answer = await call(client, "sessions_history", {"sessionKey": "agent:main:nope"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")
    assert "agent:main:nope" in answer.json()["error"]["message"]


@pytest.mark.spec("G7", "G8")
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_the_reading_token_runs_the_reading_tools(server: Served, tool: str) -> None:
    before = await transcript(server.runtime, OPS)
    async with server.client(READ_ONLY) as reader:
        answer = await call(reader, tool, ARGUMENTS[tool])
    if tool in {"sessions_send", "sessions_spawn"}:
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "forbidden")
        assert "operator.write" in answer.json()["error"]["message"]
        assert await transcript(server.runtime, OPS) == before
    else:
        assert answer.status_code == 200


@pytest.mark.spec("G7", "G8")
@pytest.mark.parametrize(
    ("scopes", "reads", "sends", "overrides"),
    [
        ("operator.admin", 200, 200, True),
        ("operator.write", 200, 200, False),
        ("operator.read", 200, 403, False),
        ("operator.read, operator.write", 200, 200, False),
        ("", 403, 403, False),
        ("operator.bogus", 403, 403, False),
    ],
)
async def test_scopes_may_be_narrowed(server: Served, scopes: str, reads: int, sends: int, overrides: bool) -> None:
    async with server.client(headers={"x-openclaw-scopes": scopes}) as client:
        assert (await call(client, "sessions_list")).status_code == reads
        assert (await call(client, "sessions_send", ARGUMENTS["sessions_send"])).status_code == sends
        await call(client, "sessions_send", {"sessionKey": OPS, "message": "/send off"})
    session = await server.runtime.get_session(OPS, server.runtime.rules.grant(OPERATOR).scope)
    assert (session.send_policy == "deny") == overrides, "only the owner may change the policy (P3)"


@pytest.mark.spec("G8")
async def test_nobody_gets_more_than_the_token_gives(server: Served) -> None:
    async with server.client(READ_ONLY, headers={"x-openclaw-scopes": "operator.admin"}) as client:
        assert (await call(client, "sessions_send", ARGUMENTS["sessions_send"])).status_code == 403


@pytest.mark.spec("G7")
async def test_a_body_that_is_too_large_is_refused_unread(state: Path) -> None:
    async with serving(state, limits=Limits(body=1000)) as server, server.client() as client:
        fits = await call(client, "sessions_search", {"query": "x" * 500})
        assert fits.status_code == 200
        answer = await call(client, "sessions_search", {"query": "x" * 1000})
        assert (answer.status_code, answer.json()["ok"]) == (413, False)
        assert "1000 bytes" in answer.json()["error"]["message"]

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        answer = await client.post("/tools/invoke", content=pieces())
        assert answer.status_code == 413


@pytest.mark.spec("G7")
async def test_a_body_that_does_not_come_is_not_waited_for(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoke, "BODY_SECONDS", 0.05)
    never = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    async with server.client() as client:
        sending = asyncio.ensure_future(client.post("/tools/invoke", content=pieces()))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port)
            head = "POST /tools/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
            writer.write(f"{head}Authorization: {client.headers['authorization']}\r\n\r\n".encode())
            assert b"400 Bad Request" in await asyncio.wait_for(reader.readline(), 10)
            writer.close()
        finally:
            sending.cancel()


@pytest.mark.spec("G7", "T1", "W1")
async def test_null_is_nothing_and_the_defaults_may_be_said_aloud(client: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"tool": "sessions_list", "name": None, "args": None, "sessionKey": None}
    answer = await client.post("/tools/invoke", json=body)
    assert answer.json()["result"]["details"]["count"] == 2
    aloud: dict[str, Any] = {"runtime": "subagent", "thread": False, "mode": "run", "cleanup": None}
    spawned = await call(client, "sessions_spawn", {"task": "say three", **aloud})
    assert spawned.json()["result"]["details"]["status"] == "accepted"
    for name, value in (("runtime", "acp"), ("thread", True), ("mode", "session")):
        refused = await call(client, "sessions_spawn", {"task": "x", name: value})
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request")
        assert "yet; " in refused.json()["error"]["message"]


@pytest.mark.spec("K6")
async def test_an_id_is_taken_for_a_key_over_http(server: Served, client: httpx.AsyncClient) -> None:
    row = await server.runtime.get_session(OPS, ALL)
    for ref in (OPS, row.session_id):
        page = await client.get(f"/sessions/{ref}/history")
        assert (page.status_code, page.json()["sessionKey"]) == (200, OPS)
        sent = await call(client, "sessions_send", {"sessionKey": "main", "message": "say x"}, sessionKey=ref)
        assert sent.json()["result"]["details"]["status"] == "ok"
    assert (await client.get("/sessions/nonsense/history")).status_code == 404
    nobody = await call(client, "sessions_send", {"sessionKey": "main", "message": "say x"}, sessionKey="nonsense")
    assert nobody.status_code == 404
    assert "nonsense" in nobody.json()["error"]["message"]
