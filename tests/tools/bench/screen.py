"""B9, B10 and B11: the screen under load, with a driver that builds what a terminal would get and throws it away."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from textual.drivers.headless_driver import HeadlessDriver

from console.app import SwitchboardApp
from console.hosts.host import Host
from core.config.paths import Places
from core.model.events import Activity, Delta, DurableEvent, SessionChanged
from tests.tools.bench.seed import LAST_WORDS, PROSE, markdown, seed
from tests.tools.bench.table import Figure, of_runs, percentile

SIZE = (120, 36)
FRAME_BYTES = 40
"""A frame writes more than that; less is the cursor alone."""


class CountingDriver(HeadlessDriver):
    """Not headless as far as Textual's drawing goes: the bytes are built, counted and dropped."""

    written = 0

    @property
    def is_headless(self) -> bool:
        """Say no, so that everything is drawn."""
        return False

    def write(self, data: str) -> None:
        """Count."""
        self.written += len(data)

    def flush(self) -> None:
        """Have nothing to flush."""


class BenchApp(SwitchboardApp):
    """The console, with the moments of its frames."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.runtime = host.runtime
        self.driver_class = CountingDriver
        self.frames: list[float] = []
        self._seen = 0

    def post_display_hook(self) -> None:
        """Note the frame."""
        driver = self._driver
        assert isinstance(driver, CountingDriver)
        if driver.written - self._seen > FRAME_BYTES:
            self.frames.append(time.perf_counter())
        self._seen = driver.written

    async def settle(self, quiet: float = 0.3) -> float:
        """Wait until no frame was drawn for a while; return the moment of the last."""
        last, count = time.perf_counter(), len(self.frames)
        while time.perf_counter() - last < quiet:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            if len(self.frames) != count or time.perf_counter() - start > 0.03:
                count, last = len(self.frames), time.perf_counter()
        return self.frames[-1] if self.frames else last


class Lag:
    """How late a sleep of 5 ms wakes, in ms: what a key would have to wait."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._probe())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        self._task.cancel()

    async def _probe(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.005)
            self.values.append((time.perf_counter() - start - 0.005) * 1e3)


def measure_busy_list() -> list[Figure]:
    """B9: key to paint among 10,000 sessions with 1,000 events a second."""
    return _with_app(_busy_list, session_count=10_000, message_count=100, tool_results=0)


def measure_stream() -> list[Figure]:
    """B10: 100 KB streaming into one message."""
    return _with_app(_stream, session_count=50, message_count=50, tool_results=0)


def measure_open() -> list[Figure]:
    """B11: opening a transcript of 10,000 messages, also after paging to the first and back."""
    return _with_app(_open, session_count=1_000, message_count=10_000, tool_results=500)


def _with_app(bench: Any, **sizes: int) -> list[Figure]:
    async def run() -> list[Figure]:
        with tempfile.TemporaryDirectory() as name:
            state = Path(name) / "state"
            await asyncio.to_thread(seed, state, **sizes)
            host = Host(Places(state, Path(name) / "config.json5", "bench", "bench", config_required=False))
            app = BenchApp(host)
            async with app.run_test(headless=False, size=SIZE):
                await app.settle(0.6)
                figures = await bench(app)
            await host.close()
            return figures

    return asyncio.run(run())


async def _busy_list(app: BenchApp) -> list[Figure]:
    sessions = [row.session for row in app.view_model.book.rows.values()]
    hub = app.runtime.hub
    rev = 10_000_000
    latencies: list[float] = []
    stop = asyncio.Event()

    async def load() -> None:
        nonlocal rev
        start, sent = time.perf_counter(), 0
        while not stop.is_set():
            await asyncio.sleep(0.01)
            due = int((time.perf_counter() - start) * 1_000)
            events: list[DurableEvent] = []
            for number in range(sent, due):
                rev += 1
                old = sessions[number * 7919 % len(sessions)]
                status = ("running", "done", "queued")[number % 3]
                new = old._replace(rev=rev, updated_at=old.updated_at + number, status=status)
                events.append(SessionChanged(rev, new))
                if status == "running":
                    hub.passing(Activity(old.key, "run", f"word {number} of many"))
            hub.publish(events)
            sent = due

    task = asyncio.create_task(load())
    await asyncio.sleep(1.0)
    async with Lag() as lag:
        for number in range(150):
            await asyncio.sleep(0.02)
            count = len(app.frames)
            start = time.perf_counter()
            app.simulate_key("j" if number % 30 < 20 else "k")
            while len(app.frames) == count:
                await asyncio.sleep(0.001)
            latencies.append((app.frames[-1] - start) * 1e3)
    stop.set()
    await task
    return [
        Figure("B9", "key to paint, median", statistics.median(latencies), "ms"),
        Figure("B9", "key to paint, p99", percentile(latencies, 0.99), "ms", 33),
        Figure("B9", "loop lag, p99", percentile(lag.values, 0.99), "ms"),
    ]


async def _stream(app: BenchApp) -> list[Figure]:
    key = app.watch_screen.parts.main.key
    assert key is not None
    text = "".join(f"{markdown(n)}\n\n{PROSE * 3}\n\n" for n in range(100))[:100_000]
    hub = app.runtime.hub
    offset = 0
    step = len(text) // 500
    async with Lag() as lag:
        start, frames = time.perf_counter(), len(app.frames)
        for number in range(500):
            words = text[offset : offset + step]
            hub.passing(Delta(key, "run", 0, "text", offset, words))
            offset += len(words)
            await asyncio.sleep(max(0.0, start + (number + 1) / 50 - time.perf_counter()))
        seconds = time.perf_counter() - start
        rate = (len(app.frames) - frames) / seconds
    return [
        Figure("B10", "frames a second, 0 to 100 KB in 10 s", rate, "/s", 30, at_least=True),
        Figure("B10", "loop lag, p99", percentile(lag.values, 0.99), "ms", 30),
        Figure("B10", "loop lag, worst", max(lag.values), "ms"),
    ]


async def _open(app: BenchApp) -> list[Figure]:
    screen = app.watch_screen
    main = "agent:main:main"
    times: list[float] = []
    again: list[float] = []
    for target in (times, again):
        for _ in range(5):
            await screen.open_sessions.open("agent:main:discord:group:g5")
            await app.settle()
            assert screen.parts.main.key != main
            start = time.perf_counter()
            await screen.open_sessions.open(main)
            target.append(await app.settle(0.2) - start)
            assert screen.parts.main.view.current is not None
            assert LAST_WORDS in screen.parts.main.view.current.text
        screen.parts.main.view.action_first()
        await app.settle()
        for _ in range(60):
            screen.parts.main.view.action_page(1)
            await asyncio.sleep(0.01)
        await app.settle()
        screen.parts.main.view.action_last()
        await app.settle()
    return [
        of_runs("B11", "open a 10,000-message transcript, to paint", times, "s", 0.25),
        of_runs("B11", "the same after paging to the first and back", again, "s", 0.25),
    ]
