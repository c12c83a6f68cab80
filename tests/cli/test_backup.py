"""`switchboard backup` and `restore`: beside an owner at work and without one."""

import hashlib
import json
import signal
from pathlib import Path

import pytest

from tests.cli.program import Cli, program, started

LISTED = ("list", "--json")


def keys(cli: Cli, state: Path) -> set[str]:
    """Return the keys of a state directory's sessions."""
    return {row["key"] for row in cli(*LISTED, "--state", str(state)).document["sessions"]}


def test_a_backup_beside_an_owner_at_work_is_of_one_moment(cli: Cli, home: Path, tmp_path: Path) -> None:
    with started("serve", "--port", "0", "--json") as owner:
        assert owner.process.stdout is not None
        assert owner.process.stdout.readline()
        sending = [started("send", f"agent:main:s{n}", "hello", "--detach") for n in range(3)]
        with sending[0] as one, sending[1] as two, sending[2] as three:
            made = program("backup", str(tmp_path / "b.tar"), "--json")
            assert [each.end().code for each in (one, two, three)] == [0, 0, 0]
        assert made.code == 0, made.err
        refused = program("restore", str(tmp_path / "b.tar"), "--force")
        assert (refused.code, "is owned by switchboard serve" in refused.sentence) == (1, True)
        assert owner.end(signal.SIGTERM).code == 0
    document = made.document
    assert document["sha256"] == hashlib.sha256((tmp_path / "b.tar").read_bytes()).hexdigest()
    assert (tmp_path / "b.tar").stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    back = cli("restore", str(tmp_path / "b.tar"), "--state", str(other), "--json").document
    assert (back["stateDir"], back["oldStateDir"]) == (str(other), None)
    assert len(keys(cli, other)) == document["sessions"] <= 3
    assert keys(cli, other) <= {f"agent:main:s{n}" for n in range(3)}
    assert cli("send", "main", "it goes on", "--state", str(other)).code == 0


def test_what_is_said_of_a_backup_and_of_a_restore(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("send", "main", "hello")
    file = tmp_path / "b.tar"
    made = cli("backup", str(file))
    assert made.code == 0
    first, second, third = made.out.splitlines()
    assert first == f"{file}: 1 session, 2 messages, {file.stat().st_size:,} bytes, verified"
    assert second == f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert third.startswith("not in it: keys and tokens (gateway.token, ")
    assert cli("backup", str(file)).sentence == f"{file} exists already: choose another name for the backup"
    cli("send", "main", "more")
    refused = cli("restore", str(file))
    assert (refused.code, "is not empty" in refused.sentence) == (1, True)
    back = cli("restore", str(file), "--force")
    assert back.code == 0
    was, old = back.out.splitlines()
    assert was.startswith(f"{home}/state: 1 session, 2 messages, as of ")
    kept = old.removeprefix("what was there before is ").partition(":")[0]
    counts = [
        len(cli("history", "main", "--json", "--state", each).document["messages"]) for each in (f"{home}/state", kept)
    ]
    assert counts == [2, 4]


@pytest.mark.parametrize("line", [["backup"], ["restore"], ["backup", ""]])
def test_a_file_has_to_be_named(cli: Cli, line: list[str]) -> None:
    assert cli(*line).code == 2


def test_a_gateway_elsewhere_is_not_backed_up_from_here(cli: Cli, tmp_path: Path) -> None:
    refused = cli("--gateway", "ws://127.0.0.1:1", "backup", str(tmp_path / "b.tar"), "--json")
    assert (refused.code, json.loads(refused.out)["code"]) == (2, "invalid")
