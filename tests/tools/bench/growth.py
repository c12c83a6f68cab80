"""B13: what reads cost in a store a hundred times as large, or ten times in the short form."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from core.clock import SystemClock
from core.model.access import ALL
from core.model.messages import Draft, text_block, user_draft
from core.model.sessions import SessionQuery
from core.runtime.gateway import Runtime
from core.store import messages, sessions
from core.store.database import Store, Tx
from core.store.sessions import SessionInsert
from tests.tools.bench.seed import PROSE
from tests.tools.bench.table import Figure

EACH = 50
TIMES = 200
SMALL, SHORT, LONG = 1_000, 10_000, 100_000
BATCH = 40
LIST, TAIL = "list, newest 50", "tail, newest 50"
BUDGETED = {LIST, TAIL}


def measure_growth() -> list[Figure]:
    """Compare 10,000 sessions with 1,000; 50 messages each."""
    return _compare(SHORT)


def measure_growth_long() -> list[Figure]:
    """Compare 100,000 sessions, 5 million messages, with 1,000."""
    return _compare(LONG)


def _compare(large: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        before, after = (asyncio.run(_measure(Path(name) / str(count), count)) for count in (SMALL, large))
    figures: list[Figure] = []
    for what, least in before.items():
        size, is_budgeted = f"{large:,} sessions, {large * EACH:,} messages", what in BUDGETED
        figures += [
            Figure("B13", f"{what}, {size}", after[what], "ms"),
            Figure("B13", f"{what}, against {SMALL:,}", after[what] / least, "x", 1.5 if is_budgeted else None),
        ]
    return figures


async def _measure(state: Path, count: int) -> dict[str, float]:
    await _fill(state, count)
    runtime = Runtime.open(state)
    keys = [f"agent:main:discord:group:g{count * n // TIMES}" for n in range(TIMES)]
    found = {
        LIST: await _median(lambda _: runtime.list_sessions(SessionQuery(limit=50), ALL)),
        "list, 50 by name": await _median(
            lambda n: runtime.list_sessions(SessionQuery(limit=50, search=keys[n][-6:]), ALL)
        ),
        TAIL: await _median(lambda n: runtime.history(keys[n], ALL, limit=50, in_brief=True)),
        "search, a rare word": await _median(lambda n: runtime.search(f"needle{count * n // TIMES}x", ALL)),
        "search, a word of every message": await _median(lambda _: runtime.search("gateway", ALL)),
    }
    await runtime.close()
    return found


async def _median(read: Callable[[int], Awaitable[object]]) -> float:
    times: list[float] = []
    for number in range(TIMES):
        start = time.perf_counter()
        await read(number)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


async def _fill(state: Path, count: int) -> None:
    store = Store.open(state, SystemClock())
    store.start_writer(sessions.finish)
    try:
        for start in range(0, count, BATCH):
            await store.write(lambda tx, start=start: _sessions(tx, range(start, min(start + BATCH, count))))
    finally:
        store.close()


def _sessions(tx: Tx, numbers: range) -> None:
    for number in numbers:
        key = f"agent:main:discord:group:g{number}"
        sessions.create(tx, SessionInsert(key, "main", label=f"session {number}"))
        messages.append(tx, key, user_draft(f"needle{number}x: which region first, eu or us?"))
        for _ in range(EACH - 1):
            messages.append(tx, key, Draft("assistant", (text_block(PROSE),), model="p/m", stop_reason="stop"))
