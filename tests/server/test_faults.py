"""What clients and cables do to a server in the middle of a turn: it stays well, and whoever comes back gets it all."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets

from core.agents.choose import AgentBackends
from core.model.access import ALL, OPERATOR, Agents, One, Tree
from core.model.errors import Invalid
from core.model.runs import RunRequest
from core.model.sessions import SessionQuery
from core.runtime.gateway import Runtime
from core.server.context import MAKING
from core.server.http import listen
from tests.remote.scripted import Cable
from tests.support.runtimes import MAIN, until, words
from tests.support.web_socket import Client, connect_params, connected, introduce, serving


async def arrived(port: int) -> Client:
    """Return a client that is connected to a port, and listens."""
    socket = await websockets.connect(f"ws://127.0.0.1:{port}", proxy=None, compression=None, ping_interval=None)
    client = Client(socket)
    await socket.recv()
    assert (await introduce(client, connect_params()))["ok"]
    client.listen()
    return client


async def test_a_client_behind_a_dead_cable_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that it ended: no FIN, no RST, and the kernel of the proxy takes everything."""
    monkeypatch.setattr(listen, "PING_SECONDS", 0.05)
    async with serving(tmp_path) as served, Cable(served.port) as cable:
        client = await arrived(cable.port)
        metrics = served.context.metrics
        assert metrics.value("conversations") == 1
        cable.silent = True
        await until(lambda: metrics.value("conversations") == 0)
        async with connected(served) as other:
            assert (await other.ask("health"))["ok"]
        client.socket.transport.abort()
        await client.closed()


@pytest.mark.parametrize("cut", [False, True], ids=["hung up", "cut"])
async def test_half_a_frame_and_then_nothing(tmp_path: Path, cut: bool) -> None:
    async with serving(tmp_path) as served:
        client = await arrived(served.port)
        frame = json.dumps({"type": "req", "id": "1", "method": "chat.send", "params": {"sessionKey": "main"}})
        head = bytes([0x81, 0xFE]) + len(frame).to_bytes(2, "big") + b"\0\0\0\0"
        client.socket.transport.write(head + frame[:40].encode())
        if cut:
            client.socket.transport.abort()
        else:
            client.socket.transport.close()
        await until(lambda: served.context.metrics.value("conversations") == 0)
        assert served.context.metrics.value("errors") == 0
        async with connected(served) as other:
            assert (await other.ask("health"))["ok"]


async def test_a_client_that_is_killed_in_mid_stream_comes_back_to_the_whole_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, None, AgentBackends(0.002)) as served:
        async with connected(served) as client:
            cursor = (await client.ask("sessions.subscribe"))["cursor"]
            text = " ".join(f"w{n}" for n in range(400))
            await client.ask("chat.send", sessionKey="main", message=f"say {text}", idempotencyKey="k")
            await client.until_chat("delta", "k")
            client.socket.transport.abort()
            await client.closed()
        await until(lambda: served.context.metrics.value("conversations") == 0)
        assert (await served.runtime.wait_run("k", 30)).status == "ok", "the run did not mind"
        async with connected(served) as client:
            answer = await client.ask("sessions.subscribe", after=cursor, storeId=served.context.facts.store_id)
            assert answer["reset"] is False
            changed = await client.until(lambda frame: frame["event"] == "sessions.changed")
            assert changed["payload"]["sessionKey"] == MAIN
            history = await client.ask("chat.history", sessionKey="main")
            assert [each["content"][0]["text"] for each in history["messages"]] == [f"say {text}", text]
        assert served.context.metrics.value("errors") == 0


@pytest.mark.parametrize("method", ["chat.send", "sessions.send", "agent"])
async def test_two_clients_that_send_at_once_with_one_key_run_once(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as served, connected(served) as one, connected(served) as two:
        await one.ask("chat.send", sessionKey="main", message="say before", idempotencyKey="before")
        key = {"key": "main"} if method == "sessions.send" else {"sessionKey": "main"}
        params: dict[str, Any] = {**key, "message": "say hi", "idempotencyKey": "k"}
        answers = await asyncio.gather(one.ask(method, **params), two.ask(method, **params))
        assert {answer["runId"] for answer in answers} == {"k"}
        for client in (one, two):
            assert (await client.ask("agent.wait", runId="k", timeoutMs=30_000))["status"] == "ok"
        said = [each for each in await words(served.runtime, MAIN) if "before" not in each[1]]
        assert said == [("user", "say hi"), ("assistant", "hi")]


_HALF = "x\ud800"
_ASKED: list[Callable[[Runtime], Awaitable[object]]] = [
    lambda port: port.list_sessions(SessionQuery(label=_HALF), ALL),
    lambda port: port.list_sessions(SessionQuery(), Agents(frozenset({_HALF}))),
    lambda port: port.get_session(_HALF, ALL),
    lambda port: port.get_session(MAIN, One(_HALF)),
    lambda port: port.get_session(MAIN, Tree(_HALF)),
    lambda port: port.history(_HALF, ALL, limit=1),
    lambda port: port.search("x", ALL, key=_HALF),
    lambda port: port.runs(_HALF, ALL, limit=1),
    lambda port: port.wait_run(_HALF, 0),
    lambda port: port.exchange(_HALF),
    lambda port: port.deliveries(_HALF, limit=1),
    lambda port: port.drop_delivery(_HALF, OPERATOR),
    lambda port: port.start_run(RunRequest(MAIN, "hi", run_id=_HALF, create=True), OPERATOR),
    lambda port: port.delete(_HALF, OPERATOR),
]


@pytest.mark.parametrize("ask", _ASKED)
async def test_half_a_character_where_an_id_is_wanted_is_said(
    runtime: Runtime, ask: Callable[[Runtime], Awaitable[object]]
) -> None:
    """JSON can hold half of a surrogate pair; the database cannot."""
    with pytest.raises(Invalid, match="half a character"):
        await ask(runtime)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("chat.send", {"sessionKey": "main", "message": "say hi", "idempotencyKey": "k", "timeoutMs": 10**30}),
        ("agent", {"sessionKey": "main", "message": "say hi", "idempotencyKey": "k", "timeout": 10**30}),
        ("sessions.list", {"offset": 10**30}),
        ("sessions.list", {"activeMinutes": 10**30}),
    ],
)
async def test_a_number_beyond_all_measure_is_said(tmp_path: Path, method: str, params: dict[str, Any]) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        await client.ask("chat.send", sessionKey="main", message="say before", idempotencyKey="before")
        assert "larger than can be stored" in (await client.error(method, **params))["message"]
        assert served.context.metrics.value("errors") == 0


async def test_long_answers_are_made_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for a hundred long histories at once holds up nobody, and has a few of them in memory."""
    read, at_once, most = Runtime.history, 0, 0

    async def counted(runtime: Runtime, *args: Any, **more: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await read(runtime, *args, **more)
        finally:
            at_once -= 1

    async with serving(tmp_path) as served, connected(served) as one, connected(served) as two:
        await one.ask("chat.send", sessionKey="main", message="say hi", idempotencyKey="k")
        monkeypatch.setattr(Runtime, "history", counted)
        asked = [client.ask("chat.history", sessionKey="main") for client in (one, two) for _ in range(50)]
        answers = await asyncio.gather(*asked)
    assert len(answers) == 100
    assert most <= MAKING
