"""H4, B13: lists, tails and catching up are read through indexes, and cost what they return."""

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from core.model.access import ALL, Agents, One, Tree
from core.model.messages import user_draft
from core.model.sessions import Session, SessionQuery
from core.store import deliveries, exchanges, jsonl, messages, runs, search, sessions
from core.store.database import Store, Tx, last_rev
from core.store.runs import NewRun
from tests.support.stores import create, opened, say, tool_draft

SHORT, LONG = "agent:main:short", "agent:main:long"
LENGTHS = {SHORT: 300, LONG: 6000}


@pytest.fixture
async def store(state: Path) -> AsyncIterator[Store]:
    """Return a store with a short and a long transcript, every third message of a tool, and 400 sessions."""
    async with opened(state) as store:

        def fill(tx: Tx) -> None:
            for number in range(400):
                create(tx, f"agent:a{number % 9}:s{number}")
                say(tx, f"agent:a{number % 9}:s{number}", "hi")
            for key, length in LENGTHS.items():
                create(tx, key)
                for number in range(length):
                    text = f"word{number}"
                    messages.append(tx, key, user_draft(text) if number % 3 else tool_draft(text))

        await store.write(fill)
        yield store


def session(store: Store, key: str) -> Session:
    """Return a session that exists."""
    found = sessions.by_key(store.db, key)
    assert found is not None
    return found


class Explaining:
    """Stands before a connection and notes the plan of everything that it is asked."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.plans: list[str] = []

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Note the plan, then ask."""
        steps = self._db.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        self.plans.append(" / ".join(row[3] for row in steps))
        return self._db.execute(statement, values)


Read = Callable[[sqlite3.Connection], object]


def plans(db: sqlite3.Connection, read: Read) -> list[str]:
    """Return the query plans of everything that a read asks the database."""
    explaining = Explaining(db)
    read(cast("sqlite3.Connection", explaining))
    return explaining.plans


def cost(db: sqlite3.Connection, read: Callable[[], object]) -> int:
    """Return how many hundreds of steps of SQLite's machine a read takes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 20)
    read()
    db.set_progress_handler(None, 0)
    return steps


def no_scan(plan: str, table: str) -> bool:
    """Say whether a plan reads a table through an index only, without sorting."""
    return "TEMP B-TREE" not in plan and not re.search(rf"SCAN {table}(?! USING (COVERING )?INDEX)\b", plan)


@pytest.mark.spec("L2")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        (SessionQuery(limit=50), "sessions_by_update"),
        (SessionQuery(limit=50, offset=50), "sessions_by_update"),
        (SessionQuery(limit=50, updated_after=1), "sessions_by_update"),
        (SessionQuery(limit=50, kinds=("group",)), "sessions_by_update"),
        (SessionQuery(limit=50, kinds=("cron", "hook")), "sessions_by_kind"),
        (SessionQuery(limit=50, agent_id="a3"), "sessions_by_update"),
        (SessionQuery(limit=50, spawned_by="agent:a1:s1"), "sessions_by_parent"),
    ],
)
def test_lists_are_read_through_an_index(store: Store, query: SessionQuery, index: str) -> None:
    plan, _children = plans(store.db, lambda db: sessions.select(db, query, ALL))
    assert f"INDEX {index}" in plan
    narrow = query.spawned_by is not None or "cron" in query.kinds
    assert narrow or no_scan(plan, "sessions"), plan
    assert "SEARCH" in plan or not narrow, plan


@pytest.mark.spec("V5")
@pytest.mark.parametrize("scope", [One("agent:a1:s1"), Tree("agent:a1:s1")])
def test_a_narrow_scope_reads_only_what_it_shows(store: Store, scope: One | Tree) -> None:
    query = SessionQuery(limit=50)
    narrow = cost(store.db, lambda: sessions.select(store.db, query, scope))
    assert narrow < cost(store.db, lambda: sessions.select(store.db, query, ALL)) / 4
    assert [row.key for row in sessions.select(store.db, query, scope).sessions] == ["agent:a1:s1"]


def test_children_are_read_through_an_index(store: Store) -> None:
    _rows, children = plans(store.db, lambda db: sessions.select(db, SessionQuery(limit=50), ALL))
    assert "INDEX sessions_by_parent" in children


def test_sessions_of_one_agent_are_read_through_an_index(store: Store) -> None:
    agents = Agents(frozenset({"a3"}))
    plan, _children = plans(store.db, lambda db: sessions.select(db, SessionQuery(limit=50), agents))
    assert "INDEX sessions_by_update" in plan
    assert no_scan(plan, "sessions"), plan


@pytest.mark.spec("H4")
@pytest.mark.parametrize("include_tools", [True, False])
@pytest.mark.parametrize("before", [None, 200])
def test_history_is_read_through_an_index(store: Store, include_tools: bool, before: int | None) -> None:
    long = session(store, LONG)

    def read(db: sqlite3.Connection) -> object:
        return messages.page(db, long, long.session_id, limit=50, before=before, include_tools=include_tools)

    (plan,) = plans(store.db, read)
    index = "messages_in_order" if include_tools else "messages_said"
    assert f"SEARCH messages USING INDEX {index} (session=? AND seq>? AND seq<?)" in plan
    assert no_scan(plan, "messages"), plan


@pytest.mark.spec("H4")
@pytest.mark.parametrize("include_tools", [True, False])
def test_the_newest_messages_cost_the_same_in_any_transcript(store: Store, include_tools: bool) -> None:
    def tail(key: str) -> int:
        row = session(store, key)
        return cost(
            store.db, lambda: messages.page(store.db, row, row.session_id, limit=50, include_tools=include_tools)
        )

    assert tail(LONG) <= tail(SHORT) * 1.2 + 1


def test_catching_up_costs_what_was_missed(store: Store) -> None:
    now = last_rev(store.db)
    reads: tuple[Read, ...] = (
        lambda db: sessions.changed_since(db, now - 20),
        lambda db: runs.changed_since(db, now - 20),
    )
    for read in reads:
        (plan,) = plans(store.db, read)
        assert "_by_rev (rev>?)" in plan
        assert no_scan(plan, "(sessions|runs)"), plan

    def missed(key: str) -> int:
        newest = store.db.execute(
            "SELECT max(m.rev) FROM messages AS m JOIN sessions AS s ON s.id = m.session WHERE s.key = ?", (key,)
        ).fetchone()[0]
        assert len(messages.since(store.db, key, newest - 10)) == 5
        return cost(store.db, lambda: messages.since(store.db, key, newest - 10))

    assert missed(LONG) <= missed(SHORT) * 1.2 + 1
    (plan,) = plans(store.db, lambda db: messages.since(db, LONG, now - 5))
    assert "INDEX messages_in_order" in plan
    assert no_scan(plan, "m"), plan


def test_bringing_a_file_up_to_date_costs_what_is_new(store: Store) -> None:
    long = session(store, LONG)

    def read(db: sqlite3.Connection) -> object:
        return jsonl.append_new(db, store.directory, LONG, long.session_id)

    assert read(store.db) == LENGTHS[LONG]
    is_there, plan = plans(store.db, read)
    assert no_scan(is_there, "transcripts"), is_there
    assert "INDEX messages_in_order (session=? AND seq>?)" in plan
    assert no_scan(plan, "m"), plan
    assert cost(store.db, lambda: read(store.db)) < 20


async def test_live_runs_are_found_through_an_index(store: Store) -> None:
    def accept(tx: Tx) -> None:
        for number in range(300):
            row = sessions.by_key(tx.db, f"agent:a{number % 9}:s{number}")
            assert row is not None
            runs.accept(tx, row, NewRun(f"r{number}", "turn", 1, ""))
            if number > 3:
                runs.start(tx, f"r{number}")
                runs.end(tx, f"r{number}", runs.End("done"))

    await store.write(accept)
    (plan,) = plans(store.db, lambda db: runs.live(db, "agent:a1:s1"))
    assert "INDEX runs_live" in plan
    assert [run.run_id for run in runs.live(store.db)] == ["r0", "r1", "r2", "r3"]


def test_finding_the_newest_rev_does_not_scan(store: Store) -> None:
    assert cost(store.db, lambda: last_rev(store.db)) < 10


def test_a_rare_word_is_found_without_reading_messages(store: Store) -> None:
    rare = cost(store.db, lambda: search.messages(store.db, "word4711", ALL, limit=10))
    common = cost(store.db, lambda: search.messages(store.db, "word", ALL, limit=10))
    assert rare < 50
    assert common < 400, "newest first, and no more than the limit are read"


async def test_what_is_due_and_what_belongs_together_is_found_through_indexes(store: Store) -> None:
    explaining = Explaining(store.db)
    db = cast("sqlite3.Connection", explaining)
    deliveries.in_state(db, "pending")
    deliveries.in_state(db, "sending")
    deliveries.of_exchange(db, "x")
    sessions.finished_children(db, 5)
    sessions.first_finished_child(db)
    sessions.live_children(db, SHORT)
    exchanges.hops(db, "x")
    exchanges.of_session(db, SHORT, limit=5)
    runs.has_steps(db, "x")
    for plan in explaining.plans:
        assert not re.search(r"SCAN (sessions|exchanges|deliveries|runs)(?! USING INDEX deliveries_open)", plan), plan
