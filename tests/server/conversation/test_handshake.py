"""Who is let in over WebSocket, with what, and how a client is told that it is not (protocol#handshake,
protocol#negotiation, protocol#pairing, protocol#roles)."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.types import Message

from core.server import auth
from core.server.context import ServerContext
from core.server.conversation import conversation
from core.server.guests import GUEST
from core.server.http.app import create_app
from tests.support.web_socket import (
    READ_TOKEN,
    TOKEN,
    Client,
    Device,
    Refused,
    connect_params,
    connected,
    dialed,
    introduce,
    serving,
)


async def refusal(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """Return the error with which a connect is refused, and check that it ends the connection."""
    answer = await introduce(client, params)
    assert answer["ok"] is False, "it must be refused"
    code, _ = await client.closed()
    return answer["error"] | {"close": code}


@pytest.mark.spec("G4")
async def test_the_server_speaks_first_and_then_says_what_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        challenge = client.challenge
        assert challenge["event"] == "connect.challenge"
        assert "seq" not in challenge
        assert set(challenge["payload"]) >= {"nonce", "ts"}
        hello = client.hello
        assert (hello["type"], hello["protocol"]) == ("hello-ok", 4)
        assert set(hello["server"]) == {"version", "bootId", "connId"}
        assert {"connect", "sessions.list", "chat.send", "agent.wait", "policy.explain"} <= set(
            hello["features"]["methods"]
        )
        assert {"port-v1", "events-resume-v1", "history-follow-v1"} <= set(hello["features"]["capabilities"])
        assert {"chat", "session.message", "sessions.changed", "tick", "shutdown"} <= set(hello["features"]["events"])
        snapshot = hello["snapshot"]
        assert snapshot["sessionDefaults"]["mainSessionKey"] == "agent:main:main"
        assert snapshot["presence"][0]["mode"] == "gateway"
        assert snapshot["health"]["ok"] is True
        assert snapshot["uptimeMs"] >= 0
        assert hello["policy"]["tickIntervalMs"] == 30_000
        assert hello["auth"]["role"] == "operator"
        assert set(hello["auth"]["scopes"]) >= {"operator.admin", "operator.read", "operator.write"}
        assert "deviceToken" not in hello["auth"], "a client without a device has no use for one"


@pytest.mark.parametrize(("low", "high", "spoken"), [(3, 3, 3), (4, 4, 4), (3, 4, 4), (4, 9, 4), (1, 3, 3)])
async def test_the_highest_common_protocol_is_spoken(tmp_path: Path, low: int, high: int, spoken: int) -> None:
    async with serving(tmp_path) as served, connected(served, minProtocol=low, maxProtocol=high) as client:
        assert client.hello["protocol"] == spoken


@pytest.mark.parametrize(("low", "high"), [(1, 2), (5, 9), (4, 3)])
async def test_without_a_common_protocol_nobody_is_let_in(tmp_path: Path, low: int, high: int) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        error = await refusal(client, connect_params(minProtocol=low, maxProtocol=high))
        assert (error["code"], error["message"]) == ("INVALID_REQUEST", "protocol mismatch")
        assert error["details"] == {
            "code": "PROTOCOL_MISMATCH",
            "clientMinProtocol": low,
            "clientMaxProtocol": high,
            "expectedProtocol": 4,
            "minimumProbeProtocol": 3,
        }


@pytest.mark.parametrize(
    ("auth", "code", "step"),
    [
        ({"token": "guess"}, "AUTH_TOKEN_MISMATCH", "update_auth_configuration"),
        ({}, "AUTH_TOKEN_MISSING", "update_auth_configuration"),
        ({"token": ""}, "AUTH_TOKEN_MISSING", "update_auth_configuration"),
        ({"deviceToken": "guess"}, "AUTH_TOKEN_MISMATCH", "update_auth_configuration"),
    ],
)
async def test_a_token_that_is_wrong_or_missing(tmp_path: Path, auth: dict[str, str], code: str, step: str) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        error = await refusal(client, connect_params(auth=auth))
        assert (error["code"], error["close"]) == ("INVALID_REQUEST", 1008)
        assert error["details"]["code"] == code
        assert error["details"]["recommendedNextStep"] == step
        assert "guess" not in json.dumps(error)


async def test_who_guesses_too_often_is_told_for_how_long_and_the_owner_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "REFUSAL_SECONDS", 0.01)
    async with serving(tmp_path) as served:
        for _ in range(10):
            async with dialed(served) as client:
                await refusal(client, connect_params(auth={"token": "guess"}))
        async with dialed(served) as client:
            error = await refusal(client, connect_params(auth={"token": "guess"}))
            assert error["details"]["code"] == "AUTH_RATE_LIMITED"
            assert error["details"]["retryAfterMs"] > 0
        async with connected(served) as client:
            assert (await client.ask("health"))["ok"]


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (["operator.read"], {"operator.read"}),
        (["operator.write"], {"operator.read", "operator.write"}),
        (["operator.read", "operator.bogus"], {"operator.read"}),
        ([], set[str]()),
    ],
)
async def test_scopes_narrow_what_the_token_gives(tmp_path: Path, asked: list[str], granted: set[str]) -> None:
    async with serving(tmp_path) as served, connected(served, scopes=asked) as client:
        assert set(client.hello["auth"]["scopes"]) == granted


@pytest.mark.parametrize("method", ["chat.send", "sessions.patch", "sessions.delete"])
async def test_nobody_gets_more_than_the_token_gives(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as served, connected(served, auth={"token": READ_TOKEN}) as client:
        assert client.hello["auth"]["scopes"] == ["operator.read"]
        error = await client.error(method, key="main")
        assert (error["code"], error["details"]["code"]) == ("FORBIDDEN", "MISSING_SCOPE")


@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_a_device_is_paired_by_the_token_and_comes_back_with_its_own(tmp_path: Path, version: str) -> None:
    device = Device()
    async with serving(tmp_path) as served:
        async with dialed(served) as client:
            params = connect_params()
            params["device"] = device.block(client.challenge["payload"]["nonce"], params, version=version)
            answer = await introduce(client, params)
            issued = answer["payload"]["auth"]["deviceToken"]
        for auth in ({"token": issued}, {"deviceToken": issued}):
            async with connected(served, device, auth=auth) as client:
                assert client.hello["auth"]["method"] == "device-token"
                assert client.hello["auth"]["deviceToken"] == issued
        with pytest.raises(Refused):
            async with connected(served, Device(), auth={"token": issued}):
                pass
    file = tmp_path / "devices.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert issued not in file.read_text(), "only its hash is kept"
    async with serving(tmp_path) as served, connected(served, device, auth={"token": issued}) as client:
        assert client.hello["auth"]["method"] == "device-token", "it survives a restart"


@pytest.mark.parametrize("scheme", ["ws", "wss"])
@pytest.mark.parametrize("insecure", [False, True])
async def test_a_device_elsewhere_is_paired_over_tls_or_where_the_owner_says_it_is_safe(
    tmp_path: Path, scheme: str, insecure: bool
) -> None:
    async with serving(tmp_path) as served:
        served.context.insecure = insecure
        answer = await _introduce_from_elsewhere(served.context, scheme)
    if insecure or scheme == "wss":
        assert answer["payload"]["auth"]["deviceToken"]
    else:
        assert answer["error"]["details"]["code"] == "PAIRING_REQUIRED"
        assert "connect over TLS" in answer["error"]["message"]


async def _introduce_from_elsewhere(context: ServerContext, scheme: str) -> dict[str, Any]:
    """Connect a device from another machine, as the server of sockets would hand it over; return the answer."""
    received, sent = asyncio.Queue[Message](), asyncio.Queue[Message]()
    elsewhere = {"type": "websocket", "path": "/", "raw_path": b"/", "root_path": "", "query_string": b""}
    elsewhere |= {"client": ("192.0.2.7", 50_000), "server": ("127.0.0.1", 80), "scheme": scheme, "subprotocols": []}
    scope: dict[str, Any] = {**elsewhere, "headers": [(b"host", b"127.0.0.1")], "extensions": {}}
    scope["state"] = {GUEST: context.guests.enter("192.0.2.7", Mock(is_closing=lambda: False))}
    serving_it = asyncio.create_task(create_app(context)(scope, received.get, sent.put))
    await received.put({"type": "websocket.connect"})
    assert (await sent.get())["type"] == "websocket.accept"
    challenge = json.loads((await sent.get())["text"])
    params = connect_params()
    params["device"] = Device().block(challenge["payload"]["nonce"], params)
    frame = {"type": "req", "id": "c1", "method": "connect", "params": params}
    await received.put({"type": "websocket.receive", "text": json.dumps(frame)})
    answer = json.loads((await sent.get())["text"])
    await received.put({"type": "websocket.disconnect", "code": 1000})
    await serving_it
    return answer


async def test_a_device_token_gives_no_more_than_the_connection_it_was_issued_on(tmp_path: Path) -> None:
    device = Device()
    async with serving(tmp_path) as served:
        async with connected(served, device, scopes=["operator.read"]) as client:
            issued = client.hello["auth"]["deviceToken"]
        async with connected(served, device, auth={"token": issued}) as client:
            assert client.hello["auth"]["scopes"] == ["operator.read"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"id": "0" * 64}, "DEVICE_AUTH_DEVICE_ID_MISMATCH"),
        ({"publicKey": "AAAA"}, "DEVICE_AUTH_DEVICE_ID_MISMATCH"),
        ({"signature": "AAAA"}, "DEVICE_AUTH_SIGNATURE_INVALID"),
        ({"nonce": "another"}, "DEVICE_AUTH_NONCE_MISMATCH"),
    ],
)
async def test_a_device_must_prove_itself(tmp_path: Path, wrong: dict[str, str], code: str) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        params = connect_params()
        params["device"] = Device().block(client.challenge["payload"]["nonce"], params, **wrong)
        error = await refusal(client, params)
        assert (error["details"]["code"], error["close"]) == (code, 1008)


async def test_what_a_device_signed_cannot_be_changed_or_used_again(tmp_path: Path) -> None:
    device = Device()
    async with serving(tmp_path) as served:
        async with dialed(served) as client:
            params = connect_params(scopes=["operator.read"])
            params["device"] = device.block(client.challenge["payload"]["nonce"], params)
            error = await refusal(client, params | {"scopes": ["operator.admin"]})
            assert error["details"]["code"] == "DEVICE_AUTH_SIGNATURE_INVALID"
        async with dialed(served) as client:
            error = await refusal(client, params)
            assert error["details"]["code"] == "DEVICE_AUTH_NONCE_MISMATCH"


async def test_a_clock_that_is_a_year_off_does_not_matter(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        params = connect_params()
        params["device"] = Device().block(client.challenge["payload"]["nonce"], params, signedAt=1_000_000_000_000)
        assert (await introduce(client, params))["ok"] is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"role": "node"}, "invalid role"),
        ({"client": {"id": "cli"}}, "must have required property 'mode'"),
        ({"minProtocol": "3"}, "at /minProtocol: must be integer"),
        ({"client": {"id": "", "mode": "cli"}}, "at /client/id: must NOT have fewer than 1 characters"),
    ],
)
async def test_parameters_of_connect_that_are_wrong(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        error = await refusal(client, connect_params(**changes))
        assert words in error["message"]
        assert error["close"] == 1008


@pytest.mark.parametrize("client_id", ["cli", "openclaw-tui", "gateway-client", "switchboard"])
async def test_any_client_is_welcome_and_may_say_more(tmp_path: Path, client_id: str) -> None:
    who = {"id": client_id, "mode": "ui", "version": "9", "platform": "linux", "tomorrow": 1}
    async with serving(tmp_path) as served, connected(served, client=who, somethingNew={"x": 1}) as client:
        assert client.hello["type"] == "hello-ok"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('{"type":"req","id":"1","method":"health","params":{}}', 1008, "first request must be connect"),
        ('{"type":"event","event":"x"}', 1008, "first request must be connect"),
        ('{"type":"req","id":"1"}', 1008, "must have required property 'method'"),
        ("[]", 1008, "must be an object"),
        ("this is not JSON", 1000, ""),
        ('{"half":', 1000, ""),
        ("x" * (64 * 1024 + 1), 1009, ""),
    ],
)
async def test_a_first_frame_that_is_no_connect(tmp_path: Path, text: str, code: int, words: str) -> None:
    async with serving(tmp_path) as served, dialed(served) as client:
        await client.socket.send(text)
        if words:
            answer = json.loads(await client.socket.recv())
            assert answer["ok"] is False
            assert words in answer["error"]["message"]
        assert (await client.closed())[0] == code


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "HANDSHAKE_SECONDS", 0.05)
    async with serving(tmp_path) as served, dialed(served) as client:
        assert await client.closed() == (1008, "handshake timeout")


async def test_too_many_connections(tmp_path: Path) -> None:
    async with serving(tmp_path, connections=1) as served, connected(served):
        import websockets

        async with websockets.connect(served.url, proxy=None) as socket:
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 1013


async def test_presence_tells_who_comes_and_goes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        who = {"id": "gateway-client", "mode": "backend", "version": "1", "platform": "linux", "displayName": "Other"}
        async with connected(served, client=who, auth={"token": TOKEN}):
            await client.until(lambda frame: frame["event"] == "presence" and "Other" in json.dumps(frame["payload"]))
        since = len(client.events)
        gone = await client.until(
            lambda frame: frame["event"] == "presence" and "Other" not in json.dumps(frame["payload"]), since=since
        )
        assert gone["stateVersion"]["presence"] > 0
        assert gone["stateVersion"]["health"] > 0


async def test_a_farewell_says_nothing_of_a_return_that_nobody_knows(tmp_path: Path) -> None:
    """`restartExpectedMs` is a number or absent in OpenClaw's schema; clients check it."""
    async with serving(tmp_path) as served, connected(served) as client:
        await served.close("going home")
        (told,) = client.of("shutdown")
        assert told == {"reason": "going home"}
