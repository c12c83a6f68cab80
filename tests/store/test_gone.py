"""What is deleted is gone from every table and every index, and a tombstone tells of it (architecture#order)."""

import sqlite3
import uuid
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.model.access import ALL
from core.model.errors import NotFound
from core.model.events import SessionGone
from core.model.messages import user_draft
from core.model.sessions import Session, SessionQuery
from core.store import deliveries, exchanges, gone, messages, runs, search, sessions
from core.store.database import Store, Tx, last_rev, store_id
from core.store.deliveries import NewDelivery
from core.store.exchanges import NewExchange
from core.store.runs import NewRun
from core.store.schema import MIGRATIONS, migrate, schema_version
from tests.support.stores import create, opened, other_connection, say

KEPT, GONE, OTHER = "agent:main:main", "agent:main:discord:group:gone", "agent:main:other"
TABLES = ("messages", "transcripts", "runs", "exchanges", "deliveries", "session_names", "sessions")


def found(db: sqlite3.Connection, text: str) -> list[str]:
    """Return the keys of the sessions in which a word is found."""
    return [hit.key for hit in search.messages(db, text, ALL, limit=50)]


def require(tx: Tx, key: str) -> Session:
    session = sessions.by_key(tx.db, key)
    assert session is not None
    return session


def fill(tx: Tx) -> None:
    """Make two sessions that say the same words, with names, runs and old transcripts."""
    for key in (KEPT, GONE):
        create(tx, key, label=f"label of {key}")
        say(tx, key, "shared words, and 'quotes' \0 and ünïcode")
        say(tx, key, "x " * 70_000)  # the index holds the first part only
        sessions.new_transcript(tx, require(tx, key))
        say(tx, key, f"only {key.rpartition(':')[2]}zz")
        runs.accept(tx, require(tx, key), NewRun(f"run of {key}", "turn", 3, ""))


def exchange(tx: Tx, name: str, requester: str, target: str) -> None:
    """Let an exchange end with an announce that failed."""
    exchanges.begin(tx, NewExchange(name, "send", requester, target, 0, 1, name))
    exchanges.update(tx, name, state="ended", outcome="done")
    deliveries.add(tx, NewDelivery(name, target, "discord", "group:gone", None, "words", "failed", "no"))


async def test_nothing_of_a_deleted_session_is_left_and_the_others_keep_all(state: Path) -> None:
    async with opened(state) as store:
        await store.write(fill)
        db = store.db
        rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
        assert found(db, "shared") == [GONE, KEPT]
        before = last_rev(db)
        ids = {row[0] for row in db.execute("SELECT session_id FROM transcripts WHERE key = ?", (GONE,))}
        events: list[object] = []
        store.publish = events.extend
        assert set(await store.write(lambda tx: gone.delete(tx, require(tx, GONE)))) == ids
        assert found(db, "shared") == found(db, "x") == [KEPT]
        assert found(db, "gonezz") == []
        left = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
        assert left == {table: count // 2 for table, count in rows.items()}
        assert not sessions.select(db, SessionQuery(search="group:gone"), ALL).sessions
        (tombstone,) = gone.since(db, before)
        assert events == [tombstone]
        assert tombstone.rev == last_rev(db)
        assert tombstone.session_id in ids
        assert db.execute("INSERT INTO message_words (message_words) VALUES ('integrity-check')").fetchall() == []


async def test_words_of_one_group_are_written_and_forgotten_in_order(state: Path) -> None:
    async with opened(state) as store:

        def at_once(tx: Tx) -> None:
            create(tx, GONE)
            say(tx, GONE, "first")
            gone.delete(tx, require(tx, GONE))
            create(tx, GONE)  # its row and its message get the numbers of the deleted ones
            say(tx, GONE, "second")

        await store.write(at_once)
        assert found(store.db, "first") == []
        assert found(store.db, "second") == [GONE]
        session = sessions.by_key(store.db, GONE)
        assert session is not None
        assert session.last_seq == 1


async def test_an_exchange_stays_as_long_as_one_of_its_sides_does(state: Path) -> None:
    async with opened(state) as store:

        def prepare(tx: Tx) -> None:
            for key in (KEPT, GONE, OTHER):
                create(tx, key)
            exchange(tx, "with kept", KEPT, GONE)
            exchange(tx, "with other", GONE, OTHER)

        await store.write(prepare)
        await store.write(lambda tx: gone.delete(tx, require(tx, GONE)))
        assert [each.exchange_id for each in exchanges.of_session(store.db, GONE, limit=9)] == [
            "with other",
            "with kept",
        ]
        given_up = deliveries.of_exchange(store.db, "with kept")
        assert given_up is not None
        assert (given_up.state, given_up.reason) == ("skipped", "its session was deleted")
        others = deliveries.of_exchange(store.db, "with other")
        assert others is not None
        assert others.state == "failed", "it is of the session that is left"
        await store.write(lambda tx: gone.delete(tx, require(tx, OTHER)))
        assert [each.exchange_id for each in exchanges.of_session(store.db, GONE, limit=9)] == ["with kept"]
        assert deliveries.of_exchange(store.db, "with other") is None


async def test_a_write_that_fails_deletes_nothing(state: Path) -> None:
    async with opened(state) as store:
        await store.write(fill)

        def fails(tx: Tx) -> None:
            gone.delete(tx, require(tx, GONE))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await store.write(fails)
        assert found(store.db, "shared") == [GONE, KEPT]
        await store.write(lambda tx: messages.append(tx, GONE, user_draft("more")))
        assert gone.since(store.db, 0) == []


async def test_nothing_is_appended_to_what_was_deleted_just_before(state: Path) -> None:
    async with opened(state) as store:
        await store.write(fill)
        await store.write(lambda tx: gone.delete(tx, require(tx, GONE)))
        with pytest.raises(NotFound, match="does not exist any more"):
            await store.write(lambda tx: say(tx, GONE, "late"))


async def test_a_database_of_the_version_before_is_migrated(state: Path) -> None:
    state.mkdir()
    db = other_connection(state)
    migrate(db, state, ("schema.sql", "exchanges.sql"))
    db.execute(
        "INSERT INTO sessions (key, session_id, rev, agent_id, kind, chat_type, channel, created_at, updated_at)"
        " VALUES (?, 'an id', 7, 'main', 'group', 'group', 'discord', 1, 1)",
        (GONE,),
    )
    db.execute("INSERT INTO transcripts (session_id, key, first_seq, started_at) VALUES ('an id', ?, 1, 1)", (GONE,))
    assert schema_version(db) == 2
    db.close()
    async with opened(state) as store:
        assert schema_version(store.db) == len(MIGRATIONS)
        await store.write(lambda tx: say(tx, GONE, "still here"))
        await store.write(lambda tx: gone.delete(tx, require(tx, GONE)))
        assert gone.since(store.db, 7) == [SessionGone(last_rev(store.db), GONE, "an id")]


def test_each_store_has_an_id_of_its_own_that_stays(tmp_path: Path) -> None:
    def id_of(directory: Path) -> str:
        store = Store.open(directory, SystemClock())
        try:
            return store_id(store.db)
        finally:
            store.close()

    ids = [id_of(tmp_path / name) for name in ("a", "b", "a")]
    assert ids[0] == ids[2] != ids[1]
    assert all(str(uuid.UUID(text)) == text and uuid.UUID(text).version == 4 for text in ids)
