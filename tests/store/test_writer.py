"""One writer, group commit, acknowledged after the commit, numbers of order (architecture#loop-and-writer)."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from core.model.access import ALL
from core.model.errors import Invalid, Unavailable
from core.model.events import MessageAppended, SessionChanged
from core.store import messages, search, sessions
from core.store.database import Store, Tx, last_rev
from tests.support.clock import FakeClock
from tests.support.stores import create, opened, other_connection, say

KEY = "agent:main:main"

SEQS = "SELECT m.seq FROM messages AS m JOIN sessions AS s ON s.id = m.session WHERE s.key = ? ORDER BY m.id"


def count(db: sqlite3.Connection, table: str = "messages") -> int:
    """Return how many rows a table has."""
    return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


async def test_what_is_acknowledged_is_seen_by_everybody(state: Path) -> None:
    async with opened(state) as store:
        other = other_connection(state)
        await store.write(lambda tx: create(tx, KEY))
        assert count(other, "sessions") == 1
        for number in range(1, 6):
            await store.write(lambda tx: say(tx, KEY, "hi"))
            assert count(other) == number
        other.close()


async def test_what_is_acknowledged_is_there_after_reopening(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "kept"))
    async with opened(state) as store:
        kept = messages.at(store.db, KEY, 1)
        assert kept is not None
        assert kept.text == "kept"


async def test_writes_that_arrive_together_share_one_commit(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        commits: list[str] = []
        started, go_on = threading.Event(), threading.Event()

        def block(tx: Tx) -> None:
            tx.db.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
            started.set()
            go_on.wait()

        first = asyncio.ensure_future(store.write(block))
        await asyncio.to_thread(started.wait)
        others = [asyncio.ensure_future(store.write(lambda tx: say(tx, KEY, "hi"))) for _ in range(100)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *others)
        assert len(commits) == 2


async def test_one_bad_write_in_a_group_harms_no_other(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))

        def bad(tx: Tx) -> None:
            say(tx, KEY, "must vanish")
            raise Invalid("no")

        def broken(tx: Tx) -> None:
            say(tx, KEY, "must vanish too")
            raise ZeroDivisionError

        def wrong_sql(tx: Tx) -> None:
            say(tx, KEY, "must vanish as well")
            tx.db.execute("SELECT * FROM nothing")

        writes = [store.write(lambda tx, n=n: say(tx, KEY, f"good {n}")) for n in range(3)]
        results = await asyncio.gather(
            writes[0], store.write(bad), writes[1], store.write(broken), store.write(wrong_sql), writes[2],
            return_exceptions=True,
        )  # fmt: skip
        assert [type(result) for result in results] == [
            type(None), Invalid, type(None), ZeroDivisionError, Unavailable, type(None)
        ]  # fmt: skip
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        page = messages.page(store.db, session, session.session_id, limit=10)
        assert [(m.seq, m.text) for m in page.messages] == [(1, "good 0"), (2, "good 1"), (3, "good 2")]
        await store.write(lambda tx: say(tx, KEY, "next"))
        assert search.messages(store.db, "vanish", ALL, limit=5) == []
        assert len(search.messages(store.db, "good", ALL, limit=5)) == 3


async def test_subscribers_hear_of_what_was_committed_and_nothing_else(state: Path) -> None:
    async with opened(state) as store:
        heard: list[object] = []
        store.publish = heard.extend
        seen_by_other: list[int] = []
        other = other_connection(state)
        await store.write(lambda tx: create(tx, KEY))

        def listen(events: object) -> None:
            heard.extend(events)  # type: ignore[call-overload] - a list of events
            seen_by_other.append(count(other))

        heard.clear()
        store.publish = listen
        with pytest.raises(ZeroDivisionError):
            await store.write(lambda tx: (say(tx, KEY, "never"), 1 // 0))
        await store.write(lambda tx: say(tx, KEY, "hi"))
        assert seen_by_other == [1]
        session, message = sorted(heard, key=lambda event: isinstance(event, MessageAppended))
        assert isinstance(session, SessionChanged)
        assert session.session.last_seq == 1
        assert isinstance(message, MessageAppended)
        assert message.message.text == "hi"
        other.close()


async def test_seq_is_dense_and_rev_rises_under_concurrency(state: Path) -> None:
    keys = [f"agent:main:s{n}" for n in range(7)]
    async with opened(state) as store:
        heard: list[int] = []
        store.publish = lambda events: heard.extend(event.rev for event in events)

        def setup(tx: Tx) -> None:
            for key in keys:
                create(tx, key)

        await store.write(setup)

        async def writer(number: int) -> None:
            for n in range(40):
                await store.write(lambda tx, key=keys[(number + n) % 7]: say(tx, key, f"{number}"))

        await asyncio.gather(*(writer(number) for number in range(10)))
        total = 0
        for key in keys:
            seqs = [row[0] for row in store.db.execute(SEQS, (key,))]
            assert seqs == list(range(1, len(seqs) + 1))
            total += len(seqs)
        assert total == 400
        assert heard == sorted(set(heard)), "every change has a number of its own, told in order"
        stored = [row[0] for row in store.db.execute("SELECT rev FROM messages UNION ALL SELECT rev FROM sessions")]
        assert len(stored) == len(set(stored))
        assert max(stored) == last_rev(store.db)
    async with opened(state) as store:
        store.publish = lambda events: heard.extend(event.rev for event in events)
        await store.write(lambda tx: say(tx, keys[0], "after a restart"))
        assert heard == sorted(set(heard))


async def test_a_cancelled_wait_does_not_undo_a_write(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        write = asyncio.ensure_future(store.write(lambda tx: say(tx, KEY, "stands")))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        await store.write(lambda tx: say(tx, KEY, "next"))
        assert count(store.db) == 2


async def test_closing_finishes_what_was_accepted(state: Path) -> None:
    store = Store.open(state, FakeClock())
    store.start_writer(sessions.finish)
    await store.write(lambda tx: create(tx, KEY))
    waiting = [asyncio.ensure_future(store.write(lambda tx: say(tx, KEY, "hi"))) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    await asyncio.gather(*waiting)
    db = other_connection(state)
    assert count(db) == 50
    db.close()
    with pytest.raises(Unavailable, match="reading only"):
        await store.write(lambda tx: say(tx, KEY, "late"))


async def test_closing_at_once_finishes_what_was_taken_in_the_same_breath(state: Path) -> None:
    for round_ in range(20):
        store = Store.open(state, FakeClock())
        store.start_writer(sessions.finish)
        write = asyncio.ensure_future(store.write(lambda tx, n=round_: create(tx, f"agent:main:s{n}")))
        await asyncio.sleep(0)
        store.close()
        await asyncio.wait_for(write, 5)
    db = other_connection(state)
    assert count(db, "sessions") == 20
    db.close()


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "\n\n a \x0b b", "a\x85b", "a\t b"])
async def test_the_preview_has_no_line_breaks(state: Path, text: str) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, text + " and more" * 100))
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        assert session.preview is not None
        assert session.preview.startswith("a b and more")
        assert len(session.preview) <= 160


async def test_a_store_without_a_writer_refuses_to_write(state: Path) -> None:
    store = Store.open(state, FakeClock())
    with pytest.raises(Unavailable, match="reading only"):
        await store.write(lambda tx: create(tx, KEY))
    store.close()


async def test_a_scan_cannot_write(state: Path) -> None:
    async with opened(state) as store:
        with pytest.raises(Unavailable):
            await store.scan(lambda db: db.execute("DELETE FROM sessions"))


async def test_times_come_from_the_clock(state: Path) -> None:
    clock = FakeClock(1_234_000)
    async with opened(state, clock) as store:
        await store.write(lambda tx: create(tx, KEY))
        await clock.advance(5)
        await store.write(lambda tx: say(tx, KEY, "hi"))
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        assert (session.created_at, session.updated_at) == (1_234_000, 1_239_000)
        message = messages.at(store.db, KEY, 1)
        assert message is not None
        assert message.timestamp == 1_239_000
