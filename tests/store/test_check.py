"""What does not fit together is found by name, and what can be made anew from the rest is mended."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.model.access import OPERATOR
from core.store.database import DATABASE_NAME
from core.store.maintenance.check import Problem, check
from tests.support.runtimes import MAIN, call, running, send


@pytest.fixture
async def filled(state: Path) -> Path:
    """Return a state directory in which everything has happened once."""
    async with running(state) as runtime:
        for key in (MAIN, "cron:nightly", "agent:main:gone"):
            await send(runtime, key, "say hi")
        await call(runtime, "sessions_spawn", task="say below", attachments=[{"name": "a", "content": "b"}])
        await runtime.drained()
        await runtime.reset(MAIN, OPERATOR)
        await send(runtime, MAIN, "say again")
        await runtime.drained()
        await runtime.delete("agent:main:gone", OPERATOR)
        await runtime.drained()
    return state


@pytest.fixture
def db(filled: Path) -> Iterator[sqlite3.Connection]:
    """Return a connection that may break anything."""
    found = sqlite3.connect(filled / DATABASE_NAME, isolation_level=None)
    yield found
    found.close()


def problems(db: sqlite3.Connection, state: Path, *, is_owned: bool = False) -> list[Problem]:
    """Return what is wrong."""
    return list(check(db, state, is_owned=is_owned))


def mended(db: sqlite3.Connection, state: Path) -> list[Problem]:
    """Mend, and return what is still wrong."""
    for problem in problems(db, state):
        if problem.mend is not None:
            problem.mend(db)
    return problems(db, state)


def test_where_everything_has_happened_once_all_fits(db: sqlite3.Connection, filled: Path) -> None:
    assert problems(db, filled) == []


def test_an_empty_one_fits(state: Path) -> None:
    from core.clock import SystemClock
    from core.store.database import Store

    store = Store.open(state, SystemClock())
    assert problems(store.db, state) == []
    store.close()


BROKEN = {
    "revs": ("UPDATE runs SET rev = 1", "given out twice: "),
    "seqs": ("UPDATE messages SET seq = seq + 1 WHERE session = 1 AND seq >= 2", f"sessions lack messages, .*: {MAIN}"),
    "two": (
        (
            "INSERT INTO messages (session, seq, rev, role, body) SELECT session, seq, rev + 9000, role, body"
            " FROM messages WHERE session = 1 LIMIT 1"
        ),
        f"two messages of a session have one number: {MAIN} 1",
    ),
    "lost": ("UPDATE messages SET session = 9000 WHERE session = 1 AND seq = 1", "messages belong to no session: "),
    "body": ("UPDATE messages SET body = '{' WHERE session = 1 AND seq = 2", f"messages cannot be read, .*: {MAIN} 2"),
    "own": (
        "DELETE FROM transcripts WHERE last_seq IS NULL AND key = 'cron:nightly'",
        "no transcript of their own: cron",
    ),
    "nobody": (
        "INSERT INTO transcripts VALUES ('t', 'agent:main:nobody', 1, NULL, 1)",
        "transcripts belong to no session: t",
    ),
    "gap": ("UPDATE transcripts SET last_seq = 1 WHERE last_seq IS NOT NULL", f"overlap, or leave a gap: {MAIN}"),
    "ended": ("UPDATE runs SET ended_at = NULL WHERE id = 1", "runs are over without an end"),
    "reply": ("UPDATE runs SET reply_seq = 900 WHERE id = 1", "runs answer with a message that is not there"),
    "run": ("UPDATE runs SET key = 'agent:main:nobody' WHERE id = 1", "runs belong to no session"),
    "exchange": ("UPDATE exchanges SET ended_at = NULL", "exchanges are over without an end"),
    "sides": ("UPDATE exchanges SET requester = 'x', target = 'y'", "exchanges have neither of their sessions"),
    "ring": (
        "UPDATE sessions SET spawned_by = key WHERE key = 'cron:nightly'",
        "are their own ancestors: cron:nightly",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rows_that_do_not_fit_are_found_and_left_alone(db: sqlite3.Connection, filled: Path, name: str) -> None:
    unique = db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%UNIQUE%' COLLATE NOCASE")
    for (index,) in unique.fetchall():
        db.execute(f"DROP INDEX {index}")
    statement, words = BROKEN[name]
    db.execute(statement)
    found = problems(db, filled, is_owned=True)
    assert found
    assert any(re.search(words, problem.words) for problem in found), [problem.words for problem in found]
    assert all(problem.mend is None for problem in found)


def one(folder: Path) -> Path:
    """Return the longest transcript."""
    return max(folder.glob("transcripts/*.jsonl"), key=lambda path: path.stat().st_size)


def shorten(state: Path) -> None:
    """Leave out the last message."""
    lines = one(state).read_bytes().splitlines(keepends=True)
    one(state).write_bytes(b"".join(lines[:-1]))


def drop_first(state: Path) -> None:
    """Leave out a message in the middle."""
    lines = one(state).read_bytes().splitlines(keepends=True)
    one(state).write_bytes(b"".join([lines[0], *lines[2:]]))


def garble(state: Path) -> None:
    """Write what is no JSON."""
    one(state).write_bytes(b"{}\nno\n")


def tear(state: Path) -> None:
    """Cut the last line."""
    one(state).write_bytes(one(state).read_bytes()[:-5])


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "behind": (shorten, "transcripts lack the newest messages"),
    "torn": (tear, "transcripts lack the newest messages"),
    "missing": (lambda state: one(state).unlink(), "transcripts lack the newest messages"),
    "gap": (drop_first, "transcripts do not hold what was said in its order"),
    "garbled": (garble, "transcripts cannot be read"),
    "stranger": (lambda state: (state / "transcripts/x.jsonl").touch(0o600), "of sessions that are not there: x.jsonl"),
    "left over": (
        lambda state: (state / ".console.json.0f8fad5b-d9cb-469f-a165-70867728950e").touch(0o600),
        "left by writes that were cut short: .console.json.",
    ),
    "rights": (lambda state: (state / DATABASE_NAME).chmod(0o644), "others may look into files, .*: switchboard.db"),
    "folder": (lambda state: (state / "transcripts").chmod(0o755), "others may look into files, .*: transcripts"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_mended_from_the_rows(db: sqlite3.Connection, filled: Path, name: str) -> None:
    before = {path.name: path.read_bytes() for path in filled.glob("transcripts/*.jsonl")}
    damage, words = FILES[name]
    damage(filled)
    found = problems(db, filled)
    assert any(re.search(words, problem.words) for problem in found), [problem.words for problem in found]
    assert mended(db, filled) == []
    assert {path.name: path.read_bytes() for path in filled.glob("transcripts/*.jsonl")} == before


def test_names_and_indexes_are_made_anew(db: sqlite3.Connection, filled: Path) -> None:
    db.execute("DELETE FROM session_names WHERE rowid = 1")
    db.execute("UPDATE session_names SET key = 'other' WHERE rowid = 2")
    assert [problem.topic for problem in problems(db, filled)] == ["search"]
    assert mended(db, filled) == []
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs_by_key'").fetchone()[0]
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = replace(sql, '(key, id)', '(run_id, id)') WHERE name = 'runs_by_key'")
    db.execute("PRAGMA writable_schema = RESET")
    assert root
    assert [problem.topic for problem in problems(db, filled)] == ["indexes"]
    assert mended(db, filled) == []


def test_what_is_being_written_is_no_problem(db: sqlite3.Connection, filled: Path) -> None:
    shorten(filled)
    (filled / ".gateway.token.0f8fad5b-d9cb-469f-a165-70867728950e").touch(0o600)
    assert problems(db, filled, is_owned=True) == []


def test_links_are_named_and_not_followed(db: sqlite3.Connection, filled: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    (filled / "gateway.token").symlink_to(outside)
    found = mended(db, filled)
    assert [problem.words for problem in found] == ["links lie where files should, and are not followed: gateway.token"]
    assert outside.stat().st_mode & 0o777 == 0o644


def test_a_database_that_is_damaged_is_said_so_first(filled: Path) -> None:
    path = filled / DATABASE_NAME
    with path.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 3 * 4096)
    broken = sqlite3.connect(path, isolation_level=None)
    try:
        found = problems(broken, filled)
        assert found[-1].topic == "database"
        assert found[-1].mend is None
    finally:
        broken.close()
