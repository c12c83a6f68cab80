"""A full disk refuses in one sentence, loses nothing that was acknowledged, and heals (architecture#ownership)."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.model.errors import Unavailable
from core.store import sessions
from core.store.database import Store, Tx
from tests.support.stores import ROOT, create, opened, other_connection, say

KEY = "agent:main:main"


async def set_limit(store: Store, pages: int) -> None:
    """Let the database grow by that many pages and no more; SQLite then says that the disk is full."""

    def limit(tx: Tx) -> None:
        db = tx.db  # the writer's own connection
        count = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {count + pages}")

    await store.write(limit)


async def test_a_full_database_refuses_and_heals(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await set_limit(store, 20)
        kept = 0

        async def fill() -> None:
            nonlocal kept
            for _ in range(1000):
                await store.write(lambda tx: say(tx, KEY, "x" * 3000))
                kept += 1

        with pytest.raises(Unavailable, match="disk that is full: free some space, nothing acknowledged was lost"):
            await fill()
        assert 0 < kept < 1000
        with pytest.raises(Unavailable):
            await store.write(lambda tx: say(tx, KEY, "x" * 9000))
        await set_limit(store, 100_000)
        await store.write(lambda tx: say(tx, KEY, "y" * 9000))
        other = other_connection(state)
        seqs = [row[0] for row in other.execute("SELECT seq FROM messages ORDER BY id")]
        assert seqs == list(range(1, kept + 2))
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        other.close()
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        assert session.last_seq == kept + 1


async def test_whoever_shares_a_commit_with_it_is_told_the_truth(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        heard: list[object] = []
        store.publish = heard.extend
        await set_limit(store, 20)
        sizes = [10, 100_000, 10, 200_000, 10]
        results = await asyncio.gather(
            *(store.write(lambda tx, size=size: say(tx, KEY, "x" * size)) for size in sizes), return_exceptions=True
        )
        refused = [isinstance(result, Unavailable) for result in results]
        assert refused[1]
        assert refused[3]
        await set_limit(store, 100_000)
        stored = store.db.execute("SELECT length(body) FROM messages ORDER BY seq").fetchall()
        assert len(stored) == refused.count(False), "stored is exactly what was acknowledged"
        assert len(heard) == 2 * refused.count(False), "and nobody heard of anything else"


COMMIT_FAILS = """
import asyncio, json, resource, signal, sys
from pathlib import Path
from core.clock import SystemClock
from core.model.errors import Unavailable
from core.store import sessions
from core.store.database import Store
from tests.support.stores import create, say

async def main():
    state = Path(sys.argv[1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = Store.open(state, SystemClock())
    store.start_writer(sessions.finish)
    await store.write(lambda tx: create(tx, "agent:main:main"))
    said = []
    for round in range(5):
        await store.write(lambda tx: say(tx, "agent:main:main", "before"))
        size = (state / "switchboard.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000 * round, resource.RLIM_INFINITY))
        try:
            await store.write(lambda tx: say(tx, "agent:main:main", "x" * 50_000))
            said.append("accepted")
        except Unavailable as error:
            said.append(error.message)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.write(lambda tx: say(tx, "agent:main:main", "after"))
    store.close()
    print(json.dumps(said))

asyncio.run(main())
"""


def test_a_commit_that_cannot_be_written_is_not_acknowledged(state: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", COMMIT_FAILS, str(state)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    said = json.loads(result.stdout)
    assert len(said) == 5
    assert all(f"the state directory {state} " in sentence for sentence in said), said
    db = other_connection(state)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    bodies = [json.loads(row[0])["content"][0]["text"] for row in db.execute("SELECT body FROM messages ORDER BY seq")]
    assert bodies == ["before"] * 5 + ["after"]
    assert [row[0] for row in db.execute("SELECT seq FROM messages ORDER BY id")] == [1, 2, 3, 4, 5, 6]
    db.close()
