"""Opening a state directory: new, older, newer, damaged, not ours to write (architecture#files)."""

import os
import sqlite3
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.model.errors import Unavailable
from core.store import messages, sessions
from core.store.database import Store
from core.store.explain import DATABASE_NAME
from core.store.schema import MIGRATIONS, migrate, schema_version
from tests.support.stores import as_nobody, create, opened, other_connection, say

KEY = "agent:main:main"
OPEN = """
    import sys
    from pathlib import Path
    from core.clock import SystemClock
    from core.model.errors import SwitchboardError
    from core.store.database import Store
    drop_rights()
    try:
        store = Store.open(Path(sys.argv[1]), SystemClock())
        print("opened", store.db.execute("SELECT count(*) FROM sessions").fetchone()[0])
        store.close()
    except SwitchboardError as error:
        print(error.code, error.message)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that everybody can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def open_and_close(directory: Path) -> None:
    """Open a store and close it again."""
    Store.open(directory, SystemClock()).close()


def refusal(directory: Path) -> str:
    """Return the sentence with which a directory is refused."""
    with pytest.raises(Unavailable) as caught:
        open_and_close(directory)
    assert str(directory) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value.message


async def test_a_new_directory_gets_the_newest_schema_and_is_private(state: Path) -> None:
    old = os.umask(0)
    try:
        async with opened(state / "deep") as store:
            assert schema_version(store.db) == len(MIGRATIONS)
            assert store.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert store.db.execute("PRAGMA synchronous").fetchone() == (2,)
            await store.write(lambda tx: create(tx, KEY))
            files = {path.name: path.stat().st_mode & 0o777 for path in (state / "deep").iterdir()}
            assert files == dict.fromkeys((DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"), 384)
            assert (state / "deep").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(old)


async def test_an_older_database_is_migrated_and_keeps_everything(state: Path, tmp_path: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "kept"))
    extra = tmp_path / "extra.sql"
    extra.write_text(
        "-- adds a column; and a trigger with a ; inside\n"
        "ALTER TABLE sessions ADD COLUMN mood TEXT;\n"
        "CREATE TRIGGER moody AFTER UPDATE OF label ON sessions BEGIN\n"
        "  UPDATE sessions SET mood = 'changed;' WHERE id = new.id;\nEND;\n"
    )
    db = other_connection(state)
    migrate(db, state, (*MIGRATIONS, str(extra)))
    assert schema_version(db) == len(MIGRATIONS) + 1
    db.execute("UPDATE sessions SET label = 'x'")
    assert db.execute("SELECT mood, last_seq FROM sessions").fetchall() == [("changed;", 1)]
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    migrate(db, state, (*MIGRATIONS, str(extra)))
    db.close()


async def test_a_migration_that_fails_leaves_the_database_as_it_was(state: Path, tmp_path: Path) -> None:
    open_and_close(state)
    extra = tmp_path / "extra.sql"
    extra.write_text("CREATE TABLE half (id);\nALTER TABLE nothing ADD COLUMN x;\n")
    db = other_connection(state)
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, state, (*MIGRATIONS, str(extra)))
    assert schema_version(db) == len(MIGRATIONS)
    assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
    db.close()
    open_and_close(state)


def test_a_newer_database_is_refused_and_left_alone(state: Path) -> None:
    open_and_close(state)
    db = other_connection(state)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    before = (state / DATABASE_NAME).read_bytes()
    said = refusal(state)
    assert f"newer version (schema {len(MIGRATIONS) + 1}, this one knows {len(MIGRATIONS)})" in said
    assert "upgrade switchboard, or choose another with --state DIR" in said
    assert (state / DATABASE_NAME).read_bytes() == before


def test_several_may_open_a_new_directory_at_once(state: Path) -> None:
    barrier, problems = threading.Barrier(6), list[BaseException]()

    def open_one() -> None:
        barrier.wait()
        try:
            open_and_close(state)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            problems.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_file_that_is_no_database(state: Path) -> None:
    state.mkdir()
    (state / DATABASE_NAME).write_bytes(b"this is no database at all\n" * 100)
    assert "is not a database: move it away to start anew" in refusal(state)


async def damage(state: Path, start: float) -> None:
    """Make a database with something in it, and turn what follows a part of it into noise."""
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        for number in range(100):
            await store.write(lambda tx, number=number: say(tx, KEY, f"message {number} " * 100))
    path = state / DATABASE_NAME
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(int(size * start) // 4096 * 4096 or 4096)
        file.write(os.urandom(size - file.tell()))


async def test_a_damaged_database_is_refused(state: Path) -> None:
    await damage(state, 0)
    assert "holds a damaged switchboard.db: restore a copy, or move it away" in refusal(state)


async def test_damage_that_shows_later_is_explained_too(state: Path) -> None:
    await damage(state, 0.7)
    store = Store.open(state, SystemClock())
    with pytest.raises(Unavailable, match=r"holds a damaged switchboard\.db: restore a copy"):
        await store.scan(lambda db: [messages.at(db, KEY, seq) for seq in range(1, 101)])
    store.close()


@pytest.mark.parametrize("table", ["messages", "meta", "sessions", "runs", "message_words"])
async def test_a_table_that_is_not_there_is_damage(state: Path, table: str) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
    db = other_connection(state)
    db.execute(f"DROP TABLE {table}")
    db.close()
    assert "holds a damaged switchboard.db: restore a copy, or move it away" in refusal(state)


def test_a_file_in_place_of_the_directory(state: Path) -> None:
    state.write_text("")
    assert "is a file: remove it, or choose a folder with --state DIR" in refusal(state)
    assert "lies below a file" in refusal(state / "below")


@pytest.mark.parametrize("mode", [0o555, 0o700])
def test_a_directory_of_somebody_else(public: Path, mode: int) -> None:
    directory = public / "state"
    directory.mkdir()
    directory.chmod(mode)
    if os.getuid() != 0:
        directory.chmod(0o555 if mode == 0o555 else 0)
        expected = f"unavailable the state directory {directory} cannot be used: check its permissions"
    else:
        expected = f"unavailable the folder {directory} belongs to root, not to nobody: work as that user"
    result = as_nobody(OPEN, directory)
    assert "Traceback" not in result.stderr
    assert result.stdout.startswith(expected)
    directory.chmod(0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of somebody else")
def test_a_database_that_may_only_be_read(public: Path) -> None:
    directory = public / "state"
    open_and_close(directory)
    directory.chmod(0o755)
    (directory / DATABASE_NAME).chmod(0o644)
    result = as_nobody(OPEN, directory)
    assert "Traceback" not in result.stderr
    assert result.stdout.startswith(f"unavailable the folder {directory} belongs to root, not to nobody:")


async def test_text_that_utf8_cannot_hold_and_text_with_nulls(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "half \ud83d of a pair"))
        await store.write(lambda tx: say(tx, KEY, "a null \0 inside"))
        one, two = messages.at(store.db, KEY, 1), messages.at(store.db, KEY, 2)
        assert one is not None
        assert two is not None
        assert (one.text, two.text) == ("half \ufffd of a pair", "a null \0 inside")
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        assert session.preview == "a null \0 inside"
    async with opened(state) as store:
        assert messages.at(store.db, KEY, 1) == one


def test_a_disk_that_is_full_when_the_directory_is_made(state: Path) -> None:
    limit = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    """
    result = as_nobody(textwrap.dedent(limit) + textwrap.dedent(OPEN.replace("drop_rights()", "pass")), state)
    assert "Traceback" not in result.stderr, result.stderr
    assert result.stdout.startswith(f"unavailable the state directory {state} ")
