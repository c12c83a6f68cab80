"""A second owner, files that are taken away, a disk that fills: nothing is acknowledged, and it is said
(architecture#ownership)."""

import asyncio
import contextlib
import logging
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.gateway import Feed
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged
from core.store import guard, messages, sessions
from core.store.database import Store, last_rev
from core.store.explain import DATABASE_NAME
from core.store.guard import LOCK_NAME, MOST_LOG_PAGES, PAGE_BYTES
from core.store.lock import OwnerLock
from core.store.schema import MIGRATIONS, migrate
from tests.support.runtimes import MAIN, running, send, until
from tests.support.stores import create, opened, other_connection, say

WAL = f"{DATABASE_NAME}-wal"


@contextlib.asynccontextmanager
async def owned(state: Path) -> AsyncGenerator[Store]:
    """Open a store as its owner does, with one session in it."""
    lock = OwnerLock.acquire(state, "test", 0)
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, MAIN))
        await store.write(lambda tx: say(tx, MAIN, "kept"))
        assert store.unready() is None
        yield store
    lock.release()


async def refused(store: Store) -> str:
    """Return the sentence with which a write is refused, and with which the store says that it is not ready."""
    with pytest.raises(Unavailable) as caught:
        await store.write(lambda tx: say(tx, MAIN, "lost"))
    assert caught.value.message == store.unready()
    assert "\n" not in caught.value.message
    return caught.value.message


async def test_whoever_is_superseded_commits_nothing_more(state: Path) -> None:
    async with owned(state) as first:
        (state / LOCK_NAME).unlink()
        second = Store.open(state, SystemClock())
        second.start_writer(sessions.finish)
        (state / LOCK_NAME).touch()
        await second.write(lambda tx: say(tx, MAIN, "by the second"))
        for _ in range(2):
            with pytest.raises(Unavailable):
                await first.write(lambda tx: say(tx, MAIN, "by the first"))
        assert first.unready() is not None
        await second.write(lambda tx: say(tx, MAIN, "and on"))
        rows = second.db.execute("SELECT seq FROM messages ORDER BY id").fetchall()
        assert rows == [(1,), (2,), (3,)]
        second.close()


async def test_a_second_owner_is_noticed_though_no_file_has_changed(state: Path) -> None:
    async with opened(state) as first:
        await first.write(lambda tx: create(tx, MAIN))
        async with opened(state) as second:
            assert "another switchboard has taken over the state directory" in str(first.unready())
            assert "another switchboard has taken over" in await refused(first)
            assert second.unready() is None
            await second.write(lambda tx: say(tx, MAIN, "on"))
        assert "another switchboard has taken over" in await refused(first)


@pytest.mark.parametrize("name", [DATABASE_NAME, WAL, f"{DATABASE_NAME}-shm", LOCK_NAME])
@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
async def test_a_file_that_is_taken_away_is_noticed(state: Path, name: str, way: str) -> None:
    async with owned(state) as store:
        path = state / name
        if way == "removed":
            path.unlink()
        else:
            path.rename(state / "elsewhere")
        if way == "replaced":
            shutil.copy(state / "elsewhere", path)
        said = await refused(store)
        assert said.startswith(f"{path} was {'replaced by another' if way == 'replaced' else 'removed or renamed'}")
        assert "stop this switchboard and start it anew" in said


@pytest.mark.parametrize("way", ["renamed", "removed"])
async def test_a_state_directory_that_is_taken_away_is_noticed(state: Path, way: str) -> None:
    async with owned(state) as store:
        if way == "renamed":
            state.rename(state.with_name("elsewhere"))
        else:
            shutil.rmtree(state)
        assert f"{state} was removed or renamed" in await refused(store)


async def test_what_is_put_back_in_time_goes_on(state: Path) -> None:
    async with owned(state) as store:
        (state / DATABASE_NAME).rename(state / "elsewhere")
        await refused(store)
        (state / "elsewhere").rename(state / DATABASE_NAME)
        await store.write(lambda tx: say(tx, MAIN, "and on"))
        assert store.unready() is None
        assert last_rev(store.db) == 5


async def test_a_file_that_goes_between_commit_and_acknowledgement_is_noticed(state: Path) -> None:
    async with owned(state) as store:
        with pytest.raises(Unavailable, match="removed or renamed"):
            await store.write(lambda tx: (say(tx, MAIN, "lost"), (state / WAL).unlink()))


async def test_whoever_closes_leaves_the_files_of_those_who_came_after_alone(state: Path) -> None:
    async with owned(state):
        (state / DATABASE_NAME).rename(state / "elsewhere.db")
        for name in (WAL, f"{DATABASE_NAME}-shm"):
            (state / name).unlink()
        later = other_connection(state)
        migrate(later, state)
        later.execute("INSERT INTO meta VALUES ('kept', 'yes')")
        assert (state / WAL).stat().st_size > 0
        log = (state / WAL).stat().st_ino
    assert (state / WAL).stat().st_ino == log, "it is not ours to remove"
    with contextlib.closing(other_connection(state)) as another:
        assert another.execute("SELECT value FROM meta WHERE name = 'kept'").fetchone() == ("yes",)
    later.close()


async def test_a_store_whose_files_are_gone_may_be_closed_twice(state: Path) -> None:
    async with owned(state) as store:
        (state / DATABASE_NAME).rename(state / "elsewhere.db")
        store.close()
        store.close()


async def test_the_log_says_it_without_being_asked(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with owned(state):
        with caplog.at_level(logging.ERROR, "switchboard.store"):
            (state / LOCK_NAME).unlink()
            await until(lambda: "owner.lock was removed or renamed" in caplog.text, seconds=5)
    assert caplog.text.count("owner.lock was removed") == 1


async def test_the_database_alone_holds_everything_once_nobody_writes(state: Path, tmp_path: Path) -> None:
    async with owned(state) as store:
        for number in range(40):
            await store.write(lambda tx, number=number: say(tx, MAIN, f"message {number}"))

        def copied() -> int:
            copy = tmp_path / "copy.db"
            shutil.copy(state / DATABASE_NAME, copy)
            db = sqlite3.connect(copy)
            try:
                return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])
            except sqlite3.DatabaseError:
                return 0
            finally:
                db.close()

        await until(lambda: copied() == 41, seconds=10)
    assert not (state / WAL).exists()
    assert copied() == 41


async def test_a_runtime_says_that_it_is_not_ready(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hello")
        assert runtime.unready() is None
        (state / LOCK_NAME).rename(state / "elsewhere")
        assert "owner.lock was removed" in str(runtime.unready())
        (state / "elsewhere").rename(state / LOCK_NAME)
        assert runtime.unready() is None
        store = runtime.store
    assert "is closed here" in str(store.unready())
    assert runtime.unready() is not None


async def test_the_operator_is_told_without_asking(state: Path) -> None:
    async with running(state) as runtime:
        told = list[str]()

        async def hear(feed: Feed) -> None:
            async for event in feed:
                if isinstance(event, ConnectionChanged):
                    told.append(event.connection.detail)

        hearing = asyncio.create_task(hear(runtime.subscribe()))
        (state / LOCK_NAME).rename(state / "elsewhere")
        await until(lambda: len(told) == 1, seconds=10)
        assert "owner.lock was removed" in told[0]
        assert (runtime.connection.state, runtime.connection.detail) == ("live", told[0])
        (state / "elsewhere").rename(state / LOCK_NAME)
        await until(lambda: told[1:] == [""], seconds=10)
        runtime.readiness.cannot_answer("other windows cannot be answered")
        await until(lambda: runtime.connection.detail != "", seconds=10)
        assert runtime.unready() == "other windows cannot be answered"
        runtime.readiness.cannot_answer("")
        assert runtime.unready() is None
        hearing.cancel()


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets the bytes that are free on the disk."""

    class Disk:
        f_blocks = 2048
        f_frsize = 1
        f_bavail = 0

    disk = Disk()

    def leave(room: int) -> None:
        disk.f_bavail = room

    def looked_at(_path: object) -> Disk:
        return disk

    monkeypatch.setattr(guard.os, "statvfs", looked_at)
    return leave


async def test_a_disk_is_full_before_what_is_stored_could_not_be_folded_back(
    state: Path, free: Callable[[int], None]
) -> None:
    free(8 * 2**20)
    async with owned(state) as store:
        pages = store.db.execute("PRAGMA page_size").fetchone()[0]
        assert pages == PAGE_BYTES
        free(2**20)
        assert "is on a disk that is full but for 1,024 KB" in await refused(store)
        assert "free some space, nothing acknowledged was lost" in await refused(store)
        free(2 * 2**20)
        await store.write(lambda tx: say(tx, MAIN, "and on"))
        assert store.unready() is None


@pytest.mark.parametrize(("room", "pages"), [(8 * 2**20, 256), (2**20, 100), (2**40, MOST_LOG_PAGES)])
async def test_the_log_takes_a_small_part_of_a_small_disk(
    state: Path, free: Callable[[int], None], room: int, pages: int
) -> None:
    free(room)
    async with owned(state) as store:
        for _ in range(60):
            await store.write(lambda tx: say(tx, MAIN, "x" * 40_000))
        largest = (state / WAL).stat().st_size
        assert largest <= max(pages, 700) * PAGE_BYTES if pages == MOST_LOG_PAGES else largest <= (pages + 60) * 4200


async def test_rows_in_one_place_are_given_their_own_when_a_database_is_migrated(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, MAIN))
        for text in ("one", "two", "three", "four"):
            await store.write(lambda tx, text=text: say(tx, MAIN, text))
    db = other_connection(state)
    db.execute("PRAGMA user_version = 4")
    for statement in _OLDER:
        db.execute(statement)
    db.execute(
        "UPDATE messages SET seq = 2, rev = (SELECT rev FROM messages WHERE seq = 2),"
        " body = replace(body, '\"seq\":3', '\"seq\":2') WHERE seq = 3"
    )
    db.execute("UPDATE sessions SET rev = 2")
    db.execute(
        "INSERT INTO sessions (stored_key, session_id, rev, agent_id, kind, chat_type, channel, created_at, updated_at)"
        " VALUES ('agent:main:x', 'x', 2, 'main', 'other', 'direct', 'unknown', 1, 1)"
    )
    db.close()
    async with opened(state) as store:
        session = sessions.by_key(store.db, MAIN)
        assert session is not None
        found = messages.page(store.db, session, session.session_id, limit=10).messages
        assert [(m.seq, m.text) for m in found] == [(1, "one"), (2, "two"), (4, "four"), (5, "three")]
        assert session.last_seq == 5
        revs = [row[0] for row in store.db.execute("SELECT rev FROM messages UNION ALL SELECT rev FROM sessions")]
        assert len(revs) == len(set(revs)) == 6
        await store.write(lambda tx: say(tx, MAIN, "six"))
        with pytest.raises(Unavailable, match="UNIQUE constraint failed"):
            await store.write(lambda tx: tx.db.execute("UPDATE messages SET seq = 1"))
    assert "1 messages stood in the place of others" in caplog.text


_OLDER = (
    "DROP TABLE overrides",
    "DROP TABLE spent_runs",
    "DELETE FROM meta WHERE name IN ('epoch', 'files_rev')",
    "DROP INDEX messages_by_rev",
    "DROP INDEX messages_in_order",
    "DROP INDEX messages_said",
    "CREATE INDEX messages_in_order ON messages (session, seq, role)",
    *(
        statement
        for table in ("sessions", "runs", "exchanges", "deliveries", "gone")
        for statement in (f"DROP INDEX {table}_by_rev", f"CREATE INDEX {table}_by_rev ON {table} (rev)")
    ),
)
assert MIGRATIONS[4] == "unique.sql"
