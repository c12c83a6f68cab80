"""B1 and B2 of a console whose work is at a gateway elsewhere: `switchboard --gateway ws://…` on a pseudo-terminal."""

import asyncio
import contextlib
import itertools
import statistics
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from pathlib import Path

from tests.support.terminal import Terminal
from tests.tools.bench.gateway import instant_model, serving
from tests.tools.bench.seed import LAST_WORDS, seed
from tests.tools.bench.startup import SWITCHBOARD, environment, page_through
from tests.tools.bench.table import Figure, of_runs, percentile
from tests.tools.bench.wire import Address, Wire

RUNS = 7
MAIN = "agent:main:main"
SESSIONS = 1_000
REQUESTS = 5_000
"""Each makes several events: the message, its session, and of a turn the words."""
A_SECOND = 200
A_TURN_EVERY = 10
LOOK_SECONDS = 0.5


def measure_start() -> list[Figure]:
    """B1 at a gateway: start to rows and transcript, beside the console on a state of its own; it has no budget."""
    with _gateway() as (folder, address):
        seed(folder / "own")
        own = [SWITCHBOARD, "--state", str(folder / "own")]
        ours: list[float] = []
        theirs: list[float] = []
        for run in range(RUNS + 1):
            local = _first_paint(own, folder, address)
            remote = _first_paint(_console(folder, address), folder, address)
            if run:  # the first of each warms the caches
                ours.append(local)
                theirs.append(remote)
    return [
        of_runs("B1", "console on its own state, start to rows and transcript", ours, "s"),
        of_runs("B1", "console at a gateway, start to rows and transcript", theirs, "s"),
    ]


def measure_memory() -> list[Figure]:
    """B2 at a gateway: memory with a transcript open, through traffic and paging; and how late a row shows."""
    with _gateway() as (folder, address), _opened(folder, address) as terminal:
        terminal.settle()
        at_start = terminal.memory_mb()
        late = asyncio.run(_busy(address, terminal))
        terminal.settle()
        after_traffic = terminal.memory_mb()
        page_through(terminal, "marker")
        after_paging = terminal.memory_mb()
    return [
        Figure("B2", "console at a gateway, 1,000 sessions, 10,000 messages open", at_start, "MB", 60),
        Figure("B2", f"the same after {REQUESTS:,} requests of others", after_traffic, "MB", 60),
        Figure("B2", "the same after paging to the first and back", after_paging, "MB", 60),
        Figure("B2", "append elsewhere to its words on the screen, median", statistics.median(late), "ms"),
        Figure("B2", "append elsewhere to its words on the screen, p99", percentile(late, 0.99), "ms"),
    ]


@contextlib.contextmanager
def _gateway() -> Generator[tuple[Path, Address]]:
    with tempfile.TemporaryDirectory() as name, instant_model() as model:
        folder = Path(name)
        seed(folder / "state", session_count=SESSIONS)
        with serving(folder, model=model) as address:
            yield folder, address


@contextlib.contextmanager
def _opened(folder: Path, address: Address) -> Generator[Terminal]:
    with Terminal(_console(folder, address), _environment(folder, address)) as terminal:
        terminal.wait_for(LAST_WORDS)
        yield terminal


async def _busy(address: Address, terminal: Terminal) -> list[float]:
    """Let others work for a while; return how many ms each note took to the screen."""
    wire = await Wire.open(address)
    work = asyncio.create_task(_work(wire))
    late: list[float] = []
    for number in itertools.count():
        words, since, start = f"marker-{number:03}", len(terminal.output), time.perf_counter()
        await wire.call("chat.inject", {"sessionKey": MAIN, "message": words})
        seen = await asyncio.to_thread(terminal.wait_for, words, since=since)
        late.append((seen - start) * 1e3)
        await asyncio.to_thread(_look, terminal)
        if work.done():
            break
    await work
    await wire.close()
    return late


async def _work(wire: Wire) -> None:
    """Make the requests, evenly, over all sessions."""
    start = time.perf_counter()
    asked: set[asyncio.Task[object]] = set()
    for number in range(REQUESTS):
        await asyncio.sleep(max(0.0, start + number / A_SECOND - time.perf_counter()))
        key = f"agent:main:discord:group:g{number * 7919 % (SESSIONS - 1)}"
        message = {"sessionKey": key, "message": f"note {number}: the replay skips the event after a reconnect"}
        turn = {**message, "idempotencyKey": str(uuid.uuid4())}
        call = wire.call("chat.inject", message) if number % A_TURN_EVERY else wire.call("chat.send", turn)
        task = asyncio.create_task(call)
        asked.add(task)
        task.add_done_callback(asked.discard)
    await asyncio.gather(*asked)


def _look(terminal: Terminal) -> None:
    end = time.perf_counter() + LOOK_SECONDS
    while time.perf_counter() < end:
        terminal.read(0.02)


def _first_paint(command: Sequence[str], folder: Path, address: Address) -> float:
    with Terminal(command, _environment(folder, address)) as terminal:
        return terminal.wait_for(LAST_WORDS) - terminal.started


def _console(folder: Path, address: Address) -> list[str]:
    return [SWITCHBOARD, "--state", str(folder / "console"), "--gateway", address.url]


def _environment(folder: Path, address: Address) -> dict[str, str]:
    return environment(folder) | {"SWITCHBOARD_GATEWAY_TOKEN": address.token}
