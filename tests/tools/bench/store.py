"""B8: durable appends, each acknowledged after its commit, beside plain SQLite on the same disk."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from core.clock import SystemClock
from core.model.messages import Draft, text_block
from core.store import messages, sessions
from core.store.database import Store
from core.store.sessions import SessionInsert
from tests.tools.bench.table import Figure, percentile

ALONE = 300
SESSIONS = 100
EACH = 400
DRAFT = Draft("assistant", (text_block("x " * 165),), stop_reason="stop")


def measure_appends() -> list[Figure]:
    """Measure one after the other, and a hundred sessions at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, plain_rate = _plain(folder / "plain.db")
        alone, rate = asyncio.run(_ours(folder / "state"))
    return [
        Figure("B8", "plain SQLite, one insert a commit, median", plain, "ms"),
        Figure("B8", "append alone, median", statistics.median(alone), "ms", 1.5),
        Figure("B8", "append alone, p99", percentile(alone, 0.99), "ms"),
        Figure("B8", "appends from 100 sessions", rate, "/s", 15_000, at_least=True),
        Figure("B8", "plain SQLite, rows in groups of 100", plain_rate, "/s"),
    ]


def _plain(path: Path) -> tuple[float, float]:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE m (id INTEGER PRIMARY KEY, t);"
    )
    times: list[float] = []
    for _ in range(ALONE):
        start = time.perf_counter()
        db.execute("INSERT INTO m (t) VALUES (?)", ("x" * 400,))
        times.append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    for _ in range(EACH):
        db.execute("BEGIN")
        for _ in range(SESSIONS):
            db.execute("INSERT INTO m (t) VALUES (?)", ("x" * 400,))
        db.execute("COMMIT")
    rate = SESSIONS * EACH / (time.perf_counter() - start)
    db.close()
    return statistics.median(times), rate


async def _ours(state: Path) -> tuple[list[float], float]:
    store = Store.open(state, SystemClock())
    store.start_writer(sessions.finish)
    keys = [f"agent:main:discord:group:g{number}" for number in range(SESSIONS)]
    for key in keys:
        await store.write(lambda tx, key=key: sessions.create(tx, SessionInsert(key, "main")))
    alone: list[float] = []
    for _ in range(ALONE):
        start = time.perf_counter()
        await store.write(lambda tx: messages.append(tx, keys[0], DRAFT))
        alone.append((time.perf_counter() - start) * 1e3)

    async def one(key: str) -> None:
        for _ in range(EACH):
            await store.write(lambda tx: messages.append(tx, key, DRAFT))

    start = time.perf_counter()
    await asyncio.gather(*(one(key) for key in keys))
    rate = SESSIONS * EACH / (time.perf_counter() - start)
    store.close()
    return alone, rate
