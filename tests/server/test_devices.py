"""Paired devices: who pushes out whom, and how they lose their rights (protocol#pairing)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.model.errors import Unavailable
from core.runtime.gateway import Runtime
from core.server.auth import Auth
from core.server.devices import MAX_DEVICES, MAX_OF_NETWORK, MAX_TOKENS, Devices
from tests.support.clock import FakeClock
from tests.support.runtimes import running
from tests.support.web_socket import READ_TOKEN, TOKEN, Device, Refused, connected, listening, serving

READING, OWNING = {"operator.read"}, {"operator.read", "operator.write", "operator.admin"}
ISSUER = "of these tests"


async def issued(devices: Devices, device_id: str, now: int, **more: Any) -> str:
    """Pair a device."""
    scopes = more.pop("scopes", READING)
    return await devices.issue(device_id, scopes, now, issuer=ISSUER, **more)


def holds(devices: Devices, device_id: str, token: str, now: int = 0) -> bool:
    """Whether a token is still worth something."""
    return devices.check(device_id, token, {ISSUER}, now) is not None


async def test_tokens_of_one_device_are_forgotten_one_after_the_other(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    tokens = [await issued(devices, "d", now) for now in range(MAX_TOKENS + 1)]
    again = Devices(tmp_path)
    assert not holds(again, "d", tokens[0])
    assert all(holds(again, "d", each) for each in tokens[1:])
    assert not holds(again, "other", tokens[1])


async def test_a_program_with_few_rights_takes_no_token_from_one_with_more(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    owning = [await issued(devices, "d", now, scopes=OWNING) for now in range(MAX_TOKENS)]
    with pytest.raises(Unavailable):
        await issued(devices, "d", 10)
    assert all(holds(devices, "d", each) for each in owning)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{broken", "that is not JSON"),
        ("[]", "no list of devices"),
        ('{"d": [{"hash": "x"}]}', "no list of devices"),
        ('{"version": 2, "devices": [{}]}', "no list of devices"),
        ('{"version": 2, "devices": [], "devices": []}', 'names "devices" twice'),
        ('{"version": NaN, "devices": []}', "NaN is no number"),
        ('{"version": 1e999, "devices": []}', "1e999 is larger"),
        (f'{{"version": {"1" * 5000}, "devices": []}}', "more than 4,300 digits"),
        ("[" * 200_000, "too deep"),
    ],
    ids=lambda each: str(each)[:25],
)
async def test_a_file_of_devices_that_is_broken_pairs_nobody(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "devices.json").write_text(text)
    devices = Devices(tmp_path)
    assert not devices.knows("d")
    assert devices.problem.startswith(f"{tmp_path / 'devices.json'} is damaged: ")
    assert why in devices.problem
    token = await issued(devices, "d", 1)
    assert not devices.problem
    again = Devices(tmp_path)
    assert holds(again, "d", token)
    assert not again.problem


async def test_a_token_of_no_time_pairs_nobody(tmp_path: Path) -> None:
    await issued(Devices(tmp_path), "d", 12345)
    path = tmp_path / "devices.json"
    path.write_text(path.read_text().replace("12345", "1" + "0" * 400))
    devices = Devices(tmp_path)
    assert not devices.paired()
    assert "no list of devices" in devices.problem


async def test_whoever_only_reads_pushes_out_nobody_with_more_rights(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    owner = await issued(devices, "owner", 1, scopes=OWNING)
    first = await issued(devices, "r0", 2)
    second = await issued(devices, "r1", 3)
    assert holds(devices, "r0", first, now=10_000), "it is used, and so the other one goes first"
    for n in range(2, MAX_DEVICES + 1):
        await issued(devices, f"r{n}", 100 + n)
    assert holds(devices, "owner", owner)
    assert holds(devices, "r0", first)
    assert not holds(devices, "r1", second)
    assert len(devices.paired()) == MAX_DEVICES + 1


async def test_one_network_takes_no_room_from_others(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    here = await issued(devices, "here", 1)
    tokens = [await issued(devices, f"d{n}", 2 + n, network="192.0.2.1") for n in range(MAX_OF_NETWORK + 1)]
    assert holds(devices, "here", here)
    assert [holds(devices, f"d{n}", token) for n, token in enumerate(tokens)] == [False] + [True] * MAX_OF_NETWORK


async def test_520_pairings_of_a_reader_leave_the_owner_paired(tmp_path: Path) -> None:
    owner = Device()
    async with serving(tmp_path) as served:
        async with connected(served, owner) as client:
            own = client.hello["auth"]["deviceToken"]
        reader = served.context.auth.issuer(served.context.auth.check(READ_TOKEN, peer="127.0.0.1"))
        for n in range(520):
            await served.context.devices.issue(f"reader {n}", READING, 10**15 + n, issuer=reader)
        async with connected(served, owner, auth={"token": own}) as client:
            assert client.hello["auth"]["method"] == "device-token"


# Revocation


def test_an_issuer_is_a_token_and_tells_nothing_of_it() -> None:
    clock = FakeClock()
    one, other = Auth(TOKEN, READ_TOKEN, clock), Auth(TOKEN + "x", READ_TOKEN, clock)
    assert one.issuers.isdisjoint(other.issuers), "the reading token's devices go with the gateway's token too"
    changed = Auth(TOKEN, READ_TOKEN + "x", clock)
    assert len(one.issuers & changed.issuers) == 1
    owner = one.check(TOKEN, peer="127.0.0.1")
    assert one.issuer(owner) in changed.issuers
    assert TOKEN not in one.issuer(owner)


async def test_a_token_is_worth_nothing_once_its_issuer_is_no_more(tmp_path: Path) -> None:
    """Also before, or without, the file being rid of it: that may not be writable."""
    devices = Devices(tmp_path)
    token = await issued(devices, "d", 1)
    assert holds(devices, "d", token)
    assert devices.check("d", token, {"another one"}, 2) is None
    assert devices.check("d", token, {"another one", ISSUER}, 2) is not None


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_new_gateway_token_ends_every_device_token(tmp_path: Path, read_only: bool) -> None:
    device = Device()
    async with running(tmp_path) as runtime:
        async with (
            listening(runtime, tmp_path) as served,
            connected(served, device, auth={"token": READ_TOKEN if read_only else TOKEN}) as client,
        ):
            token = client.hello["auth"]["deviceToken"]
        async with listening(runtime, tmp_path) as served, connected(served, device, auth={"token": token}):
            assert served.context.devices.knows(device.id), "the same token: it stays paired"
        async with listening(runtime, tmp_path, token="a-new-gateway-token") as served:
            assert served.context.devices.paired() == []
            for auth in ({"token": token}, {"deviceToken": token}):
                with pytest.raises(Refused):
                    async with connected(served, device, auth=auth):
                        pass
        async with listening(runtime, tmp_path) as served:  # a token that comes back brings nothing back
            with pytest.raises(Refused):
                async with connected(served, device, auth={"token": token}):
                    pass


async def test_devices_are_listed_and_revoked_and_end_at_once(tmp_path: Path) -> None:
    one, other = Device(), Device()
    async with (
        serving(tmp_path) as served,
        connected(served, one) as client,
        connected(served, other, scopes=["operator.read"]) as reader,
        connected(served) as owner,
    ):
        found = (await owner.ask("device.pair.list"))["paired"]
        assert {each["deviceId"]: each["scopes"] for each in found} == {
            one.id: sorted(client.hello["auth"]["scopes"]),
            other.id: ["operator.read"],
        }
        assert client.hello["auth"]["deviceToken"] not in str(found)
        assert (await reader.error("device.pair.list"))["details"]["code"] == "MISSING_SCOPE"
        assert (await reader.error("device.pair.remove", deviceId=one.id))["details"]["code"] == "MISSING_SCOPE"
        assert "unknown deviceId" in (await owner.error("device.pair.remove", deviceId="0" * 64))["message"]
        assert await owner.ask("device.pair.remove", deviceId=other.id) == {"deviceId": other.id}
        assert await reader.closed() == (1008, "device removed")
        token = reader.hello["auth"]["deviceToken"]
        with pytest.raises(Refused):
            async with connected(served, other, auth={"token": token}):
                pass
        assert (await client.ask("health"))["ok"], "the others stay"
        revoked = await client.ask("device.token.revoke", deviceId=one.id, role="operator")
        assert revoked["deviceId"] == one.id, "whoever revokes itself hears that it is done"
        assert (await client.closed())[0] == 1008
        assert (await owner.ask("device.pair.list")) == {"pending": [], "paired": []}
    assert Devices(tmp_path).paired() == []


async def test_what_is_revoked_on_the_socket_ends_over_the_network(tmp_path: Path) -> None:
    device = Device()
    async with serving(tmp_path) as served, connected(served, device) as client:
        assert await served.context.devices.revoke(device.id)
        assert (await client.closed())[0] == 1008


async def test_a_paired_device_with_a_stale_token_comes_in_with_its_own(tmp_path: Path) -> None:
    device = Device()
    async with serving(tmp_path) as served:
        async with connected(served, device) as client:
            token = client.hello["auth"]["deviceToken"]
        with pytest.raises(Refused) as refused:
            async with connected(served, device, auth={"token": "stale"}):
                pass
        details = refused.value.error["details"]
        assert details["code"] == "AUTH_TOKEN_MISMATCH"
        assert details["canRetryWithDeviceToken"] is True
        assert details["recommendedNextStep"] == "retry_with_device_token"
        async with connected(served, device, auth={"token": "stale", "deviceToken": token}) as client:
            assert client.hello["auth"]["method"] == "device-token"
        with pytest.raises(Refused) as refused:
            async with connected(served, device, auth={"token": "stale", "deviceToken": "stale too"}):
                pass
        assert refused.value.error["details"]["canRetryWithDeviceToken"] is False, "it has tried that"


async def test_pairings_at_once_all_hold(runtime: Runtime, tmp_path: Path) -> None:
    async with listening(runtime, tmp_path) as served:
        devices = [Device() for _ in range(8)]

        async def paired(device: Device) -> str:
            async with connected(served, device) as client:
                return client.hello["auth"]["deviceToken"]

        tokens = await asyncio.gather(*map(paired, devices))
        assert len(served.context.devices.paired()) == 8
        for device, token in zip(devices, tokens, strict=True):
            async with connected(served, device, auth={"token": token}):
                pass
