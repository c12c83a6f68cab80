"""The device's key and the tokens of gateways: made once, kept for themselves, given to nobody else."""

import base64
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.model.errors import Unauthorized, Unavailable
from core.remote.credentials import DeviceTokens
from core.remote.identity import load_device
from core.remote.profile import Origin, parse_url
from tests.remote.scripted import NONCE, NOW, Conversation, linked, scripted
from tests.support.clock import FakeClock


def test_the_device_key_is_made_once_however_many_want_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        devices = list(pool.map(load_device, [tmp_path] * 32))
    assert len({device.id for device in devices}) == 1
    path = tmp_path / "identity" / "device.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["device.json"], "nothing half-written stays"
    assert load_device(tmp_path).id == devices[0].id


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"privateKey": "short"}', '{"privateKey": 7}', "\x00", "[" * 200_000, "1" * 5000],
    ids=lambda each: each[:25],
)
def test_a_broken_key_file_is_one_sentence_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "identity" / "device.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(Unavailable, match="does not hold a device key"):
        load_device(tmp_path)
    assert path.read_text() == text


def test_a_key_that_is_named_twice_is_nobodys(tmp_path: Path) -> None:
    load_device(tmp_path)
    path = tmp_path / "identity" / "device.json"
    key = json.loads(path.read_text())["privateKey"]
    path.write_text(f'{{"version": 1, "privateKey": "{key}", "privateKey": "{key}"}}')
    with pytest.raises(Unavailable, match="does not hold a device key"):
        load_device(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"ws://a": "1", "ws://a": "2"}', 'names "ws://a" twice'),
        ('{"ws://a": NaN}', "NaN is no number"),
        ('{"ws://a": 1e999}', "1e999 is larger than any"),
        (f'{{"ws://a": {"1" * 5000}}}', "more than 4,300 digits"),
        ("[" * 200_000, "too deep"),
        ("{", "not JSON"),
    ],
    ids=lambda each: str(each)[:25],
)
def test_broken_tokens_of_gateways_are_one_sentence_and_stay(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "identity" / "device-tokens.json"
    path.parent.mkdir()
    path.write_text(text)
    tokens, origin = DeviceTokens(tmp_path), Origin("ws", "a", 80)
    for asked in (lambda: tokens.get(origin), lambda: tokens.put(origin, "new")):
        with pytest.raises(Unavailable, match=f"device-tokens.json is damaged .*{why}.*: remove it"):
            asked()
    assert path.read_text() == text


async def test_the_introduction_is_signed_as_gateways_check_it(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    async def script(conversation: Conversation) -> None:
        seen.append(await conversation.greet())
        await conversation.stay()

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, FakeClock(NOW)) as link:
        await link.open()
    params = seen[0]
    device, client = params["device"], params["client"]
    key = _decode(device["publicKey"])
    parts = ["v3", device["id"], client["id"], client["mode"], params["role"], ",".join(params["scopes"])]
    parts += [str(NOW), params["auth"]["token"], NONCE, client["platform"].lower(), ""]
    Ed25519PublicKey.from_public_bytes(key).verify(_decode(device["signature"]), "|".join(parts).encode())
    assert (params["minProtocol"], params["maxProtocol"]) == (3, 4)
    assert client["displayName"] == "Switchboard"


async def test_a_device_token_is_kept_for_its_origin_alone(tmp_path: Path) -> None:
    given: list[object] = []

    async def script(conversation: Conversation) -> None:
        auth = {"role": "operator", "scopes": ["operator.read"], "deviceToken": "device-token-1"}
        params = await conversation.greet(auth=auth)
        given.append(params.get("auth"))
        await conversation.stay()

    async with scripted(script) as one, scripted(script) as other:
        async with linked(one.port, tmp_path, FakeClock()) as link:
            await link.open()
        async with linked(one.port, tmp_path, FakeClock(), token=None) as link:
            await link.open()
        path = tmp_path / "identity" / "device-tokens.json"
        assert json.loads(path.read_text()) == {f"ws://127.0.0.1:{one.port}": "device-token-1"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with linked(other.port, tmp_path, FakeClock(), token=None) as link:
            await link.open()
    assert given == [{"token": "secret-token"}, {"token": "device-token-1"}, None]


async def test_a_wrong_token_makes_room_for_the_devices_and_a_revoked_one_is_forgotten(tmp_path: Path) -> None:
    given: list[str] = []

    async def script(conversation: Conversation) -> None:
        await conversation.challenge()
        request = await conversation.next()
        given.append(request["params"]["auth"]["token"])
        kind = "AUTH_TOKEN_MISMATCH" if given[-1] == "secret-token" else "AUTH_DEVICE_TOKEN_MISMATCH"
        await conversation.refuse(request, "INVALID_REQUEST", "no", details={"code": kind})

    async with scripted(script) as gateway:
        tokens, origin = DeviceTokens(tmp_path), Origin("ws", "127.0.0.1", gateway.port)
        tokens.put(origin, "device-token-1")
        async with linked(gateway.port, tmp_path, FakeClock()) as link:
            with pytest.raises(Unauthorized, match="no longer accepts this device's token"):
                await link.open()
        assert given == ["secret-token", "device-token-1"]
        assert tokens.get(origin) is None


def test_origins_differ_by_scheme_host_and_port(tmp_path: Path) -> None:
    tokens = DeviceTokens(tmp_path)
    tokens.put(parse_url("wss://Example.org/path")[0], "kept")
    assert tokens.get(parse_url("https://example.org:443")[0]) == "kept"
    for url in ("ws://example.org:443", "wss://example.org:444", "wss://www.example.org", "wss://example.org.evil"):
        assert tokens.get(parse_url(url)[0]) is None


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
