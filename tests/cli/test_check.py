"""`switchboard check`: what it says, what it mends, and when it does not."""

import sqlite3
from pathlib import Path

from core.store.database import DATABASE_NAME
from core.store.lock import OwnerLock
from tests.cli.program import Cli


def test_what_fits_is_said_in_one_line(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    done = cli("check")
    assert (done.code, done.out) == (0, f"✓ {home}/state: 1 session, 2 messages: everything fits together\n")
    assert cli("check", "--json").document == {
        "ok": True,
        "stateDir": f"{home}/state",
        "sessions": 1,
        "messages": 2,
        "problems": [],
    }


def test_what_can_be_mended_is_mended_and_the_rest_is_said(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    (transcript,) = (home / "state" / "transcripts").iterdir()
    whole = transcript.read_bytes()
    transcript.unlink()
    done = cli("check")
    assert (done.code, done.out.splitlines()) == (
        1,
        [
            "× files: transcripts lack the newest messages: agent:main:main",
            "  → `switchboard check --mend` mends it",
        ],
    )
    done = cli("check", "--mend")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "✓ files: transcripts lack the newest messages: agent:main:main: mended",
            f"✓ {home}/state: 1 session, 2 messages: everything fits together",
        ],
    )
    assert transcript.read_bytes() == whole
    db = sqlite3.connect(home / "state" / DATABASE_NAME)
    with db:
        db.execute("UPDATE runs SET ended_at = NULL")
    db.close()
    transcript.unlink()
    document = cli("check", "--mend", "--json").document
    assert document["ok"] is False
    assert [(each["topic"], each["mended"]) for each in document["problems"]] == [("files", True), ("runs", False)]
    said = cli("check")
    assert said.code == 1
    assert said.out.splitlines()[1] == "  → nothing here can mend that: restore a backup, or go on with what is there"


def test_beside_an_owner_it_looks_and_does_not_mend(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    lock = OwnerLock.acquire(home / "state", "serve", 0)
    try:
        assert cli("check").code == 0
        refused = cli("check", "--mend")
    finally:
        lock.release()
    assert (refused.code, "is owned by switchboard serve" in refused.sentence) == (1, True)


def test_where_nothing_is_nothing_is_made(cli: Cli, home: Path) -> None:
    for line in (["check"], ["check", "--mend"]):
        said = cli(*line)
        assert (said.code, "there is nothing to check" in said.sentence) == (3, True)
    assert not (home / "state").exists()


def test_a_database_that_cannot_be_read_is_one_sentence(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    (home / "state" / DATABASE_NAME).write_bytes(b"no database" * 1000)
    said = cli("check")
    assert (said.code, "is not a database" in said.sentence) == (1, True)


def test_a_database_that_was_copied_without_anything_beside_it_is_said_to_be_that(cli: Cli, home: Path) -> None:
    cli("send", "main", "hello")
    state = home / "state"
    for path in (state / "transcripts").iterdir():
        path.unlink()
    assert "transcripts lack the newest messages" in cli("check").out, "the folder is its own"
    (state / "transcripts").rmdir()
    alone = "no transcripts lie beside a database that knows 1: if it was copied alone, the newest messages may be"
    (found,) = cli("check", "--json").document["problems"]
    assert (found["topic"], found["found"].startswith(alone)) == ("files", True)
    noted = {each["topic"]: each for each in cli("doctor", "--json").document["findings"]}["files"]
    assert (noted["verdict"], noted["found"].startswith(alone)) == ("note", True)
    assert cli("check", "--mend").code == 0
    assert len(list((state / "transcripts").iterdir())) == 1, "they are written anew"
    assert cli("check").code == 0


def test_a_database_that_was_copied_alone_is_told_from_a_new_one(cli: Cli, home: Path) -> None:
    """Nothing is removed for it: the transcripts may be the only copy."""
    cli("send", "main", "hello")
    database = home / "state" / DATABASE_NAME
    older = database.read_bytes()
    cli("send", "main", "hello again")
    database.write_bytes(older)
    ahead = "× database: transcripts hold more than the database: agent:main:main: it was probably copied without"
    assert ahead in cli("check", "--mend").out
    database.unlink()
    files = {path: path.read_bytes() for path in (home / "state" / "transcripts").iterdir()}
    done = cli("check", "--mend")  # nothing is there to check
    assert done.code == 3
    assert cli("list").code == 0  # makes an empty one
    lost = "1 transcripts lie beside a database that knows 0: it was probably copied without its switchboard.db-wal"
    done = cli("check", "--mend")
    assert (done.code, lost in done.out, "`switchboard restore`" in done.out) == (1, True, True)
    found = {each["topic"]: each for each in cli("doctor", "--json").document["findings"]}
    assert (found["database"]["verdict"], lost in found["database"]["found"]) == ("wrong", True)
    assert {path: path.read_bytes() for path in (home / "state" / "transcripts").iterdir()} == files
