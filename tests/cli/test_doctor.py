"""`switchboard doctor` on the state directory: rights, links, the owner, backups, devices, the token."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.store.database import DATABASE_NAME
from tests.cli.program import Cli, started


@pytest.fixture
def state(home: Path, cli: Cli) -> Path:
    """Return a state directory with one session."""
    assert cli("send", "main", "hello").code == 0
    return home / "state"


def findings(cli: Cli) -> dict[str, list[str]]:
    """Return what is not in order, by its verdict, with the advice."""
    found: dict[str, list[str]] = {"ok": [], "note": [], "wrong": []}
    for each in cli("doctor", "--json").document["findings"]:
        found[each["verdict"]].append(f"{each['topic']}: {each['found']} -> {each['advice']}")
    return found


def test_where_all_is_well_nothing_of_the_state_is_noted(cli: Cli, state: Path) -> None:
    found = findings(cli)
    assert found["wrong"] == []
    assert [line.partition(":")[0] for line in found["note"] if not line.startswith("terminal")] == ["model"]
    assert any(line.startswith("backup: none in ") for line in found["ok"])
    assert any(line.startswith("token: none yet") for line in found["ok"])
    assert any(line.startswith("devices: none paired") for line in found["ok"])


def weak(state: Path) -> None:
    """Keep a token that is guessed at once."""
    (state / "gateway.token").write_text("abc\n")
    (state / "gateway.token").chmod(0o600)


def link(state: Path) -> None:
    """Put a link where the log should be."""
    (state / "console.json").symlink_to("/etc/hostname")


def behind(state: Path) -> None:
    """Lose a transcript."""
    (path,) = (state / "transcripts").iterdir()
    path.unlink()


RISKS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "token": (weak, "wrong", "has 3 of at least 8 characters -> `openssl rand -hex 32` prints a good one"),
    "link": (link, "wrong", "links lie where files should, and are not followed: console.json"),
    "rights": (
        lambda state: (state / DATABASE_NAME).chmod(0o644),
        "note",
        "others may look into files, or change them",
    ),
    "behind": (behind, "note", "transcripts lack the newest messages: agent:main:main -> `switchboard check --mend`"),
    "state": (lambda state: state.chmod(0o770), "wrong", "others may write to the folder"),
}


@pytest.mark.parametrize("name", RISKS)
def test_what_is_at_risk_is_said(cli: Cli, state: Path, name: str) -> None:
    damage, verdict, words = RISKS[name]
    damage(state)
    found = findings(cli)
    assert any(words in line for line in found[verdict]), found


def test_a_folder_above_that_others_may_write_to(cli: Cli, state: Path) -> None:
    state.parent.chmod(0o777)
    try:
        (line,) = [line for line in cli("doctor", "--json").document["findings"] if "may write to" in line["found"]][:1]
    finally:
        state.parent.chmod(0o700)
    assert f"chmod go-w {state.parent}" in line["advice"] + line["found"]


def test_the_newest_backup_is_named(cli: Cli, state: Path) -> None:
    (state / "backups").mkdir(0o700)
    for number in (1, 2):
        path = state / "backups" / f"{number}.tar"
        assert cli("backup", str(path)).code == 0
        os.utime(path, (number * 1e9, number * 1e9))
    assert any(line.startswith(f"backup: {path}, of 2033-05-18") for line in findings(cli)["ok"])


def test_beside_an_owner_its_wal_and_its_socket_are_looked_for(cli: Cli, state: Path) -> None:
    with started("serve", "--port", "0", "--json") as owner:
        assert owner.process.stdout is not None
        assert json.loads(owner.process.stdout.readline())["status"] == "serving"
        found = findings(cli)
        assert [line for line in found["wrong"] + found["note"] if line.startswith("owner")] == []
        assert any(line.startswith("token: ") for line in found["ok"])
        (state / f"{DATABASE_NAME}-wal").unlink()
        assert any("switchboard.db-wal is gone" in line for line in findings(cli)["wrong"])
        owner.end(signal.SIGTERM)


def test_the_owner_is_asked_whether_it_accepts_work(cli: Cli, state: Path) -> None:
    with started("serve", "--port", "0", "--json") as owner:
        assert owner.process.stdout is not None
        assert json.loads(owner.process.stdout.readline())["status"] == "serving"
        assert [line for line in findings(cli)["wrong"] if line.startswith("owner")] == []
        (state / f"{DATABASE_NAME}-shm").rename(state / "elsewhere")
        said = [line for line in findings(cli)["wrong"] if line.startswith("owner")]
        assert len(said) == 1
        assert f"it accepts no work now: {state / DATABASE_NAME}-shm was r" in said[0]
        owner.process.send_signal(signal.SIGSTOP)
        try:
            assert any("owner: it does not answer" in line for line in findings(cli)["wrong"])
        finally:
            owner.process.send_signal(signal.SIGCONT)


def test_what_is_folded_into_the_database_is_not_said_to_be_missing_in_it(cli: Cli, state: Path) -> None:
    with started("serve", "--port", "0", "--json") as owner:
        assert owner.process.stdout is not None
        assert json.loads(owner.process.stdout.readline())["status"] == "serving"
        assert cli("send", "main", "hello again").code == 0
        until = time.monotonic() + 20
        while any("not in switchboard.db alone" in line for line in findings(cli)["ok"]):
            assert time.monotonic() < until, "the log was never folded"
        assert (state / f"{DATABASE_NAME}-wal").stat().st_size > 0
        db = sqlite3.connect(f"file:{state / DATABASE_NAME}?immutable=1", uri=True)
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (4,)
        db.close()
        owner.end(signal.SIGTERM)
