"""Steady traffic, and what of the process grows under it.

    python -m tests.tools.steady --minutes 15
    python -m tests.tools.steady --minutes 3 --trace

A runtime on a fresh state directory: messages at a fixed rate to a few sessions, one send in ten from another session
(with what follows it), one in fifty a sub-agent, some waits that run out, and one that listens to everything. Each line
of the table has the resident memory and the sizes of everything that could grow (`sizes`). What it prints last is how
much the memory grew after the first two minutes.
"""

# It measures what grows inside:
# pyright: reportPrivateUsage=false

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Sized
from pathlib import Path
from typing import Any, Final, cast

from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.config.settings import Settings
from core.model.access import OPERATOR, Operator
from core.model.messages import Usage, text_block
from core.model.runs import RunRequest, SpawnSpec
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, Agent, Listener

SENDS_A_SECOND: Final = 27.0
"""Each is answered: 54 messages a second."""
SESSIONS: Final = 20
WARM_SECONDS: Final = 120.0


async def answers(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Answer in a few pieces, as a model does."""
    said = "" if turn.kind in {"reply", "announce"} else f"the answer to {turn.transcript[-1].text[:200]}"
    for word in said.split():
        yield TextDelta(f"{word} ")
    yield Reply((text_block(said or "REPLY_SKIP"),), Usage(100, 20), "test")


def sizes(runtime: Runtime, listener: Listener) -> dict[str, int]:
    """Return the size of everything in a runtime that could grow with what it has done."""
    work = runtime._work
    assert work is not None
    lanes, writer = work.engine._scheduler, runtime.store._writer
    assert writer is not None
    kept: list[object] = list(vars(runtime._files).values())
    return {
        "runs": len(work.engine._active),
        "lanes": len(lanes._queues),
        "opened": len(lanes._opened),
        "away": len(lanes._away) + len(lanes._returning),
        "live": len(work._turns.live),
        "waits": sum(map(len, runtime._waiters._ends.values())) + len(runtime._waiters._ends),
        "feeds": len(runtime.hub.feeds),
        "queued": sum(feed.pending for feed in runtime.hub.feeds),
        "files": sum(len(cast("Sized", value)) for value in kept if isinstance(value, dict | set | list)),
        "rows": len(writer._rows),
        "tasks": len(asyncio.all_tasks()),
    }


class Traffic:
    """Messages at a rate.

    Attributes:
        sent: How many so far.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.sent = 0
        self._runtime = runtime

    async def one(self) -> None:
        """Send the next message."""
        number = self.sent
        self.sent += 1
        key = f"agent:main:steady{number % SESSIONS}"
        text = f"question {number} " + "with some more words " * 10
        if number % 50 == 49 and number > SESSIONS:
            await self._runtime.start_run(RunRequest("", text, spawn=SpawnSpec(key, "main", cleanup=True)), OPERATOR)
            return
        caller = Operator(MAIN) if number % 10 == 9 and number > SESSIONS else OPERATOR
        ticket = await self._runtime.start_run(RunRequest(key, text, create=True), caller)
        if number % 5 == 0:
            await self._runtime.wait_run(ticket.run_id, 0.0001)

    async def go_on(self, seconds: float, rate: float) -> None:
        """Send at a rate for that long."""
        began, first = time.monotonic(), self.sent
        while (elapsed := time.monotonic() - began) < seconds:
            while self.sent - first < elapsed * rate:
                await self.one()
            await asyncio.sleep(0.02)


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def watch(state: Path, minutes: float, rate: float, *, trace: bool) -> float:
    """Print the table, and return by how many megabytes the memory grew after the first two minutes."""
    runtime = Runtime.open(state)
    agent = Agent(answers)
    agent.turns = Forgetful()
    await runtime.start(Settings(), agent, command="steady")
    listener = Listener(runtime.subscribe())
    listener.events = Forgetful()
    listener.feed.watch(None)
    await runtime.start_run(RunRequest(MAIN, "hello", create=True), OPERATOR)
    traffic, began, warm = Traffic(runtime), time.monotonic(), 0.0
    step = min(30.0, minutes * 60 / 6)
    before = None
    try:
        while (elapsed := time.monotonic() - began) < minutes * 60:
            await traffic.go_on(step, rate)
            now = resident()
            warm = now if elapsed <= WARM_SECONDS - step / 2 or not warm else warm
            found = "  ".join(f"{name} {size}" for name, size in sizes(runtime, listener).items())
            print(f"{elapsed + step:6.0f} s  {traffic.sent:7,} sent  {now:6.1f} MB  {found}", flush=True)
            if trace and before is None and elapsed + step >= min(WARM_SECONDS, minutes * 20):
                gc.collect()
                tracemalloc.start(8)
                before = tracemalloc.take_snapshot()
        grown = resident() - warm
        if before is not None:
            gc.collect()
            for entry in tracemalloc.take_snapshot().compare_to(before, "lineno")[:15]:
                print(entry)
    finally:
        await listener.close()
        await runtime.close()
    return grown


class Forgetful(list[Any]):
    """A list that keeps nothing."""

    def append(self, _event: Any) -> None:
        """Forget it."""


def main() -> int:
    """Run it; 1 when the memory grew by more than 3 MB."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.steady")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=SENDS_A_SECOND, help="messages sent a second")
    parser.add_argument("--trace", action="store_true", help="show which lines hold more in the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        grown = asyncio.run(watch(Path(name) / "state", options.minutes, options.rate, trace=options.trace))
    print(f"grew by {grown:+.1f} MB after the first {WARM_SECONDS / 60:g} minutes")
    return int(abs(grown) > 3.0)


if __name__ == "__main__":
    sys.exit(main())
