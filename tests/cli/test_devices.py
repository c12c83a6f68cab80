"""`switchboard devices`: who is paired, and the end of it, beside a gateway at work and without one."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.cli.program import Cli, Started, program, started
from tests.support.web_socket import Device, Refused, Served, connected


@contextlib.contextmanager
def served(home: Path) -> Generator[tuple[Started, Served, str]]:
    """Serve in a process of its own; give it, where it listens, and its token."""
    with started("serve", "--port", "0", "--json") as process:
        assert process.process.stdout is not None
        url = json.loads(process.process.stdout.readline())["wsUrl"]
        token = (home / "state" / "gateway.token").read_text().strip()
        yield process, cast("Served", SimpleNamespace(url=url)), token


async def test_a_device_that_is_revoked_is_let_go_at_once_and_does_not_come_back(cli: Cli, home: Path) -> None:
    with served(home) as (process, gateway, token):
        one, other = Device(), Device()
        async with (
            connected(gateway, one, auth={"token": token}) as client,
            connected(gateway, other, auth={"token": token}) as stays,
        ):
            issued = client.hello["auth"]["deviceToken"]
            rows = (await asyncio.to_thread(program, "devices", "list", "--json")).document["devices"]
            assert {row["deviceId"] for row in rows} == {one.id, other.id}
            assert token not in json.dumps(rows)
            said = await asyncio.to_thread(program, "devices", "revoke", one.id[:12])
            assert (said.code, said.out) == (0, f"revoked 1 device: {one.id[:12]}\n")
            await client.closed()
            assert (await stays.ask("health"))["ok"]
        with pytest.raises(Refused):
            async with connected(gateway, one, auth={"deviceToken": issued}):
                pass
        done = await asyncio.to_thread(program, "devices", "revoke", "--all", "--json")
        assert done.document == {"revoked": [other.id]}
        assert process.end(signal.SIGTERM).code == 0
    assert (await asyncio.to_thread(cli, "devices")).out.startswith("no device is paired")


async def test_without_a_gateway_at_work_the_next_one_knows_them_no_more(cli: Cli, home: Path) -> None:
    device = Device()
    with served(home) as (process, gateway, token):
        async with connected(gateway, device, auth={"token": token}) as client:
            issued = client.hello["auth"]["deviceToken"]
        assert process.end(signal.SIGTERM).code == 0
    heads, row = (await asyncio.to_thread(cli, "devices")).out.splitlines()
    assert heads.split() == ["ID", "NAME", "FROM", "PAIRED", "USED", "MAY"]
    assert row.startswith(device.id[:12])
    assert (await asyncio.to_thread(cli, "devices", "revoke", device.id)).code == 0
    with served(home) as (_, gateway, _), pytest.raises(Refused):
        async with connected(gateway, device, auth={"deviceToken": issued}):
            pass


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["revoke"], 2, "revoke takes the id of one device, or --all"),
        (["revoke", "x", "--all"], 2, "revoke takes the id of one device, or --all"),
        (["revoke", "abc"], 3, 'no paired device has the id "abc"'),
        (["list", "abc"], 2, "list takes no device"),
        (["forget"], 2, "expected list or revoke"),
        (["--gateway", "far"], 2, "leave --gateway out"),
    ],
)
def test_wrong_words_are_named(cli: Cli, line: list[str], code: int, words: str) -> None:
    said = cli("devices", *line)
    assert said.code == code
    assert words in said.sentence


def test_a_damaged_file_of_devices_is_said_and_stays(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    path = home / "state" / "devices.json"
    path.write_text('{"version": 2, "devices": [], "devices": []}')
    path.chmod(0o600)
    for line in (["devices"], ["devices", "revoke", "--all"]):
        said = cli(*line)
        assert (said.code, f'nobody is paired: {path} is damaged: the JSON names "devices" twice' in said.err) == (
            1,
            True,
        )
    (found,) = [each for each in cli("doctor", "--json").document["findings"] if each["topic"] == "devices"]
    assert (found["verdict"], "is damaged" in found["found"]) == ("wrong", True)
    assert path.read_text() == '{"version": 2, "devices": [], "devices": []}'


def test_an_owner_that_does_not_answer_keeps_devices_as_they_are(cli: Cli, home: Path) -> None:
    from core.store.lock import OwnerLock

    lock = OwnerLock.acquire(home / "state", "import", 0)
    said = cli("devices", "revoke", "--all")
    lock.release()
    assert (said.code, "does not answer: stop it first" in said.sentence) == (1, True)
