"""B7: turns, exchanges and spawns a second, through the whole runtime."""

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil

from core.agents.choose import AgentBackends
from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import ALL, OPERATOR, Operator
from core.model.runs import RunRequest, SpawnSpec
from core.rules.limits import SpawnLimits
from core.rules.ruleset import RuleSet
from core.runtime.gateway import Runtime
from tests.support.model_server import ModelServer, Request, Stream, stream
from tests.tools.bench.table import Figure, percentile

AT_ONCE = 16
TURNS_EACH = 40
EXCHANGES = 320
SPAWNS = 1_000
SPAWNS_AT_ONCE = 8
MAIN = "agent:main:main"
T = TypeVar("T")


def measure_turns() -> list[Figure]:
    """Measure turns of 16 sessions at once, with the builtin agent and with a model over HTTP."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builtin, builtin_acks = asyncio.run(_turns(folder / "builtin", None))
        with subprocess.Popen(
            [sys.executable, "-m", "tests.tools.bench.turns"], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            http, http_acks = asyncio.run(
                _turns(folder / "http", ModelSettings("openai", "instant", "openai-completions", url))
            )
            server.terminate()
    return [
        Figure("B7", "turns, 16 at once, builtin agent", builtin, "/s", 100, at_least=True),
        Figure("B7", "acknowledgement, median", statistics.median(builtin_acks), "ms", 20),
        Figure("B7", "turns, 16 at once, instant model over HTTP", http, "/s", 100, at_least=True),
        Figure("B7", "acknowledgement, median", statistics.median(http_acks), "ms", 20),
        Figure("B7", "acknowledgement, p99", percentile(http_acks, 0.99), "ms"),
    ]


def measure_exchanges() -> list[Figure]:
    """Measure sends with their loop and announce, and a thousand spawns with their results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exchanges = asyncio.run(_with_runtime(folder / "exchanges", Settings(max_concurrent=AT_ONCE), _exchanges))
        rules = RuleSet(spawning=SpawnLimits(max_children=SPAWNS))
        settings = Settings(rules=rules, subagent_max_concurrent=SPAWNS_AT_ONCE)
        seconds, grown, lost = asyncio.run(_with_runtime(folder / "spawns", settings, _spawns))
    return [
        Figure("exchanges", "sends with a loop of 2 turns and the announce, 16 at once", exchanges, "/s"),
        Figure("spawns", "1,000 spawns with their results, 8 at once", seconds, "s"),
        Figure("spawns", "memory that stays after them", grown, "MB"),
        Figure("spawns", "results lost", lost, "", 0),
    ]


async def _with_runtime(state: Path, settings: Settings, measure: Callable[[Runtime], Awaitable[T]]) -> T:
    runtime = Runtime.open(state)
    await runtime.start(settings, AgentBackends(0.0), command="bench")
    try:
        return await measure(runtime)
    finally:
        await runtime.close()


async def _turns(state: Path, model: ModelSettings | None) -> tuple[float, list[float]]:
    settings = Settings(max_concurrent=AT_ONCE)
    if model is not None:
        agent = AgentSettings("main", model=model.ref)
        settings = Settings(max_concurrent=AT_ONCE, agents={"main": agent}, models={model.ref: model})
    acks: list[float] = []

    async def one(runtime: Runtime, number: int, count: int) -> None:
        for _ in range(count):
            start = time.perf_counter()
            ticket = await runtime.start_run(RunRequest(f"agent:main:s{number}", "say hello", create=True), OPERATOR)
            acks.append((time.perf_counter() - start) * 1e3)
            outcome = await runtime.wait_run(ticket.run_id, None)
            assert outcome.status == "ok", outcome.error

    async def measure(runtime: Runtime) -> float:
        await asyncio.gather(*(one(runtime, number, 2) for number in range(AT_ONCE)))  # imports, connections
        acks.clear()
        start = time.perf_counter()
        await asyncio.gather(*(one(runtime, number, TURNS_EACH) for number in range(AT_ONCE)))
        return AT_ONCE * TURNS_EACH / (time.perf_counter() - start)

    return await _with_runtime(state, settings, measure), acks


async def _exchanges(runtime: Runtime) -> float:
    keys = [f"agent:main:s{number}" for number in range(2 * AT_ONCE)]
    for key in keys:
        await runtime.start_run(RunRequest(key, "say hello", create=True), OPERATOR)
    await runtime.drained()
    start = time.perf_counter()
    for number in range(EXCHANGES):
        pair = number % AT_ONCE * 2
        await runtime.start_run(RunRequest(keys[pair], "say hello"), Operator(keys[pair + 1]))
    await runtime.drained()
    seconds = time.perf_counter() - start
    found = runtime.store.db.execute("SELECT count(*) FROM exchanges WHERE outcome = 'done' AND turn = 2").fetchone()[0]
    assert found == EXCHANGES, f"only {found} exchanges went all the way"
    return EXCHANGES / seconds


async def _spawns(runtime: Runtime) -> tuple[float, float, float]:
    await runtime.start_run(RunRequest(MAIN, "say hello", create=True), OPERATOR)
    await runtime.drained()
    before = _memory_mb()
    start = time.perf_counter()
    for number in range(SPAWNS):
        await runtime.start_run(RunRequest("", f"say {number}", spawn=SpawnSpec(MAIN, "main")), OPERATOR)
    await runtime.drained()
    seconds = time.perf_counter() - start
    page = await runtime.history(MAIN, ALL, limit=2 * SPAWNS)
    told = {message.text.split("\nResult: ")[1].split("\n")[0] for message in page.messages if message.provenance}
    return seconds, _memory_mb() - before, SPAWNS - len(told)


def _memory_mb() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


async def _serve() -> None:
    """Be an endpoint that answers at once, until killed."""

    def answer(_request: Request) -> Stream:
        return stream("hello")

    async with ModelServer() as server:
        server.handler = answer
        print(f"{server.url}/v1", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
