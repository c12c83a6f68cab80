"""B3 to B7, B12 and the bytes of a turn: the gateway over real sockets, by the method that others were measured with.

`peers` measures the same lines on other gateways in the same run, at the sizes that can be made over their wire.
"""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.tools.bench.seed import seed, seed_talk
from tests.tools.bench.table import Figure, of_runs, percentile
from tests.tools.bench.wire import Address, Wire

SESSIONS = 5_000
MESSAGES = 10_000
MAIN = "agent:main:main"
LONG = "agent:main:long"
SHORT = "agent:main:short"
SHORT_MESSAGES = 200
AT_ONCE = 16
TURNS_EACH = 20
FOLLOWERS = 500
APPENDS = 21
STARTS = 5
PATIENCE = 60
"""Seconds for the lines of one kind, on a gateway that is measured beside ours."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the store of a measured gateway holds."""

    sessions: int = SESSIONS
    messages: int = MESSAGES


def measure_start() -> list[Figure]:
    """B3: cold start of `serve` to hello-ok."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seed(folder / "state", session_count=1_000, message_count=200)
        times = [_start_once(folder) for _ in range(STARTS + 1)][1:]
    return [of_runs("B3", "`serve`, start to hello-ok", times, "s", 0.8)]


def measure_reads() -> list[Figure]:
    """B4 and B5: lists at 5,000 sessions, the newest 200 of 10,000 messages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seed(folder / "state", session_count=SESSIONS, message_count=200)
        for key, count in ((LONG, MESSAGES), (SHORT, SHORT_MESSAGES)):
            seed_talk(folder / "state", key, count)
        with serving(folder) as address:
            return asyncio.run(_reads(address, "", Sizes()))


def measure_appends() -> list[Figure]:
    """B6: from the request to append until another client has the message."""
    with _small() as address:
        return asyncio.run(_appends(address, ""))


def measure_turns() -> list[Figure]:
    """B7 over the wire: `chat.send` to `chat final`, and the bytes a full subscriber gets for a turn."""
    with _small() as address:
        return asyncio.run(_turns(address, "", "say hello", "/s", 100))


def measure_followers() -> list[Figure]:
    """B12: 500 followers of one session over server-sent events."""
    with _small() as address:
        return asyncio.run(_followers(address))


def lines_of(address: Address, who: str, sizes: Sizes, message: str) -> list[Figure]:
    """Measure on any gateway what can be measured on all; the store holds `sizes` already.

    What does not end in time is left out, and said: not every gateway tells of everything that is waited for.
    """

    async def all_lines() -> list[Figure]:
        figures: list[Figure] = []
        parts = {
            "reads": _reads(address, who, sizes),
            "appends": _appends(address, who),
            "turns": _turns(address, who, message, "/s", None),
        }
        for name, part in parts.items():
            try:
                figures += await asyncio.wait_for(part, PATIENCE)
            except TimeoutError:
                print(f"{who}{name} did not end within {PATIENCE} s", flush=True)
        return figures

    return asyncio.run(all_lines())


@contextlib.contextmanager
def serving(folder: Path, *, model: str | None = None) -> Generator[Address]:
    """Run `switchboard serve` on the state in a folder."""
    process, address = _serve(folder, model)
    try:
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


@contextlib.contextmanager
def instant_model() -> Generator[str]:
    """Run an endpoint that answers at once; its URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.tools.bench.turns"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@contextlib.contextmanager
def _small() -> Generator[Address]:
    with tempfile.TemporaryDirectory() as name, instant_model() as model:
        folder = Path(name)
        seed(folder / "state", session_count=1_000, message_count=200)
        seed_talk(folder / "state", LONG, MESSAGES)
        with serving(folder, model=model) as address:
            yield address


def _serve(folder: Path, model: str | None) -> "tuple[subprocess.Popen[str], Address]":
    config = folder / "config.json5"
    config.write_text(json.dumps({"agents": {"defaults": {"maxConcurrent": AT_ONCE}}}))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    if model is not None:
        environment |= {"SWITCHBOARD_MODEL_URL": model, "SWITCHBOARD_MODEL": "instant"}
    command = [str(Path(sys.executable).with_name("switchboard")), "serve", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--state", str(folder / "state"), "--config", str(config)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    token = (folder / "state" / "gateway.token").read_text().strip()
    return process, Address(told["url"].replace("http", "ws", 1), token, folder / "device")


def _start_once(folder: Path) -> float:
    start = time.perf_counter()
    process, address = _serve(folder, None)
    asyncio.run(_hello(address))
    seconds = time.perf_counter() - start
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    return seconds


async def _hello(address: Address) -> None:
    wire = await Wire.open(address)
    await wire.close()


async def _reads(address: Address, who: str, sizes: Sizes) -> list[Figure]:
    wire = await Wire.open(address)
    ours = not who
    first = await wire.timed("sessions.list", {"limit": 50})
    every = await wire.timed("sessions.list", {"limit": sizes.sessions}, times=5)
    search = await wire.timed("sessions.list", {"limit": 50, "search": f"session {sizes.sessions // 2}"})
    long = await wire.timed("chat.history", {"sessionKey": LONG, "limit": 200})
    short = await wire.timed("chat.history", {"sessionKey": SHORT, "limit": 200})
    await wire.close()
    at = f"at {sizes.sessions:,} sessions"
    of = f"newest 200 of {sizes.messages:,} messages"
    figures = [
        of_runs("B4", f"{who}sessions.list, 50 rows {at}", first, "ms", 2 if ours else None),
        of_runs("B4", f"{who}sessions.list, all rows {at}", every, "ms", 80 if ours else None),
        of_runs("B4", f"{who}sessions.list, search {at}", search, "ms", 10 if ours else None),
        of_runs("B5", f"{who}chat.history, {of}", long, "ms", 5 if ours else None),
        Figure(
            "B5",
            f"{who}the same against a transcript of 200",
            statistics.median(long) / statistics.median(short),
            "x",
            1.2 if ours else None,
        ),
    ]
    by_http = await asyncio.to_thread(_http_history, address)
    if not by_http:
        return figures
    return [*figures, of_runs("B5", f"{who}HTTP history, {of}", by_http, "ms", 5 if ours else None)]


def _http_history(address: Address) -> list[float]:
    """Return the ms of reading over HTTP; nothing where that is refused."""
    found: list[float] = []
    path = f"/sessions/{quote(LONG, safe='')}/history?limit=200"
    connection = http.client.HTTPConnection(address.http.removeprefix("http://").rstrip("/"), timeout=30)
    with contextlib.closing(connection):
        for number in range(12):
            start = time.perf_counter()
            connection.request("GET", path, headers=address.headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == http.client.FORBIDDEN:
                return []
            assert len(json.loads(body)["items"]) == 200
            if number:
                found.append((time.perf_counter() - start) * 1e3)
    return found


async def _appends(address: Address, who: str) -> list[Figure]:
    sender, watcher = await Wire.open(address), await Wire.open(address)
    await watcher.call("sessions.messages.subscribe", {"key": LONG})
    heard: asyncio.Queue[float] = asyncio.Queue()

    def listen(name: str, _payload: object) -> None:
        if name == "session.message":
            heard.put_nowait(time.perf_counter())

    watcher.on_event = listen
    found: list[float] = []
    for number in range(APPENDS + 3):
        start = time.perf_counter()
        await sender.call("chat.inject", {"sessionKey": LONG, "message": f"note {number}"})
        if number >= 3:
            found.append((await heard.get() - start) * 1e3)
        else:
            await heard.get()
    figures = [of_runs("B6", f"{who}append to WebSocket subscriber", found, "ms", None if who else 3)]
    try:
        by_http = await asyncio.wait_for(_append_to_follower(address, sender), PATIENCE / 3)
    except TimeoutError:  # OpenClaw 2026.9.6 tells followers over HTTP nothing of what is injected
        by_http = []
    for wire in (sender, watcher):
        await wire.close()
    return (
        [*figures, of_runs("B6", f"{who}append to SSE follower", by_http, "ms", None if who else 3)]
        if by_http
        else figures
    )


async def _append_to_follower(address: Address, sender: Wire) -> list[float]:
    follower = await Follower.open(address)
    if follower is None:
        return []
    found: list[float] = []
    for number in range(APPENDS):
        start = time.perf_counter()
        await sender.call("chat.inject", {"sessionKey": LONG, "message": f"note {number}"})
        await follower.message()
        found.append((time.perf_counter() - start) * 1e3)
    await follower.close()
    return found


class Follower:
    """Reads server-sent events from a bare socket, so that five hundred of them cost little."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address) -> "Follower | None":
        """Follow the long session from its newest message; None where that is refused."""
        host, _, port = address.url.removeprefix("ws://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port.rstrip("/")), limit=1 << 24)
        path = f"/sessions/{quote(LONG, safe='')}/history?limit=1&follow=1"
        head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n"
        writer.write(f"{head}Authorization: Bearer {address.token}\r\n\r\n".encode())
        if b" 200 " not in await reader.readline():
            writer.close()
            return None
        follower = cls(reader, writer)
        await follower._until(b"event: history")
        await follower._until(b"data:")
        return follower

    async def message(self) -> None:
        """Wait for the next message."""
        await self._until(b"event: message")
        await self._until(b"data:")

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        await self._writer.wait_closed()

    async def _until(self, start: bytes) -> None:
        while not (line := await self._reader.readline()).startswith(start):
            assert line, "the stream ended"


async def _turns(address: Address, who: str, message: str, unit: str, least: float | None) -> list[Figure]:
    wire = await Wire.open(address)
    ends: dict[str, asyncio.Future[None]] = {}

    def listen(name: str, payload: dict[str, object]) -> None:
        if name == "chat" and payload.get("state") in {"final", "error", "aborted"}:
            future = ends.get(str(payload["runId"]))
            if future is not None and not future.done():
                future.set_result(None)

    wire.on_event = listen
    acks: list[float] = []

    async def one(number: int, count: int) -> None:
        for _ in range(count):
            run_id = str(uuid.uuid4())
            ends[run_id] = asyncio.get_running_loop().create_future()
            start = time.perf_counter()
            key = f"agent:main:turns-{number}"
            await wire.call("chat.send", {"sessionKey": key, "message": message, "idempotencyKey": run_id})
            acks.append((time.perf_counter() - start) * 1e3)
            await ends[run_id]

    each = TURNS_EACH if least is not None else 3
    await asyncio.gather(*(one(number, 2) for number in range(AT_ONCE)))
    acks.clear()
    start = time.perf_counter()
    await asyncio.gather(*(one(number, each) for number in range(AT_ONCE)))
    rate = AT_ONCE * each / (time.perf_counter() - start)
    await wire.call("sessions.subscribe", {})
    before = wire.received
    await one(0, 1)
    await asyncio.sleep(0.5)  # what follows the end belongs to the turn; nothing says when it is over
    size = (wire.received - before) / 1e3
    await wire.close()
    return [
        Figure("B7", f"{who}turns over the wire, 16 at once", rate, unit, least, at_least=True),
        Figure("B7", f"{who}acknowledgement, median", statistics.median(acks), "ms", 20 if least else None),
        Figure("bytes", f"{who}one turn without tools to a full subscriber", size, "KB"),
    ]


async def _followers(address: Address) -> list[Figure]:
    sender = await Wire.open(address)
    late: list[float] = []
    followers = [follower for _ in range(FOLLOWERS) if (follower := await Follower.open(address)) is not None]
    assert len(followers) == FOLLOWERS
    for number in range(APPENDS + 1):
        start = time.perf_counter()
        await sender.call("chat.inject", {"sessionKey": LONG, "message": f"note {number}"})
        await asyncio.gather(*(follower.message() for follower in followers))
        if number:
            late.append((time.perf_counter() - start) * 1e3)
    await asyncio.gather(*(follower.close() for follower in followers))
    await sender.close()
    return [Figure("B12", f"append to the last of {FOLLOWERS} followers, p99", percentile(late, 0.99), "ms", 100)]
