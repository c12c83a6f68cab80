"""Peers that want to do harm to a real server in a process of its own, and what it cost: memory, and others' patience.

    python -m tests.tools.attack [--count 100] [--minutes 0.3] [NAME ...]

prints a line for each attack; it ends with 1 when one of them costs more than it may.
"""

import argparse
import asyncio
import base64
import contextlib
import http.client
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from core.model.access import OPERATOR
from core.model.messages import user_draft
from tests.support.runtimes import MAIN, running, send

TEXT, CONTINUED, PING = 0x1, 0x0, 0x9
MEGABYTE: Final = 1024 * 1024
LONG_MESSAGES: Final = 300
LONG_CHARS: Final = 500_000
ANSWER_SECONDS: Final = 60.0
"""How long a long answer may take on a busy machine."""
_HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Half: "
_UPGRADE = (
    "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n"
)


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, length: int | None = None) -> bytes:
    """Return a frame of a client, masked with zeros; `length` may promise more than there is."""
    size = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    else:
        head += b"\xfe" + struct.pack("!H", size) if size < 65_536 else b"\xff" + struct.pack("!Q", size)
    return head + b"\0\0\0\0" + payload


@dataclass(frozen=True, slots=True)
class Target:
    """A server under attack.

    Attributes:
        log: Where it writes what went wrong.
    """

    pid: int
    port: int
    token: str
    log: Path

    def memory(self) -> float:
        """Return what it holds in memory, in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    @contextlib.asynccontextmanager
    async def dialed(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection that takes in little unless it is read; it is cut off in the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=65_536)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def upgraded(self) -> AsyncGenerator[asyncio.StreamWriter]:
        """Open a WebSocket that reads nothing after the upgrade."""
        async with self.dialed() as (reader, writer):
            writer.write(_UPGRADE.format(base64.b64encode(os.urandom(16)).decode()).encode())
            await reader.readuntil(b"\r\n\r\n")
            yield writer


@dataclass(frozen=True, slots=True)
class Asked:
    """How much of an attack there is to be."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What an attack cost.

    Attributes:
        memory: MB more at its height.
        wait: Seconds that a good client waited at most.
        failed: Answers that a good client did not get.
    """

    name: str
    memory: float
    wait: float
    failed: int
    most_memory: float
    most_wait: float

    @property
    def too_much(self) -> bool:
        """Whether it costs more than it may."""
        return self.memory > self.most_memory or self.wait > self.most_wait or self.failed > 0

    def line(self) -> str:
        """Return it for reading."""
        mark = "TOO MUCH" if self.too_much else "ok"
        memory = f"{self.memory:+7.1f} of {self.most_memory:.0f} MB"
        wait = f"{self.wait * 1000:6.0f} of {self.most_wait * 1000:.0f} ms"
        return f"{self.name:16} {memory}  {wait}  {self.failed} failed  {mark}"


async def half_frames(target: Target, asked: Asked) -> None:
    """Promise 8 MB and send half of it, many times at once."""

    async def one() -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with target.upgraded() as writer, asyncio.timeout(asked.seconds):
                writer.write(frame(TEXT, b"x" * (4 * MEGABYTE), length=8 * MEGABYTE))
                await writer.drain()
                await asyncio.sleep(asked.seconds)

    await asyncio.gather(*(one() for _ in range(asked.count)))


async def pings(target: Target, asked: Asked) -> None:
    """Ask for pongs without reading one."""
    await _flood(target, b"", 1000 * frame(PING, b"x" * 125), asked.seconds)


async def fragments(target: Target, asked: Asked) -> None:
    """Send one message in a million parts."""
    await _flood(target, frame(TEXT, b"x", fin=False), 10_000 * frame(CONTINUED, b"x", fin=False), asked.seconds)


async def half_requests(target: Target, asked: Asked) -> None:
    """Open twenty times as many connections, with half a request on each."""

    async def one() -> None:
        with contextlib.suppress(OSError):
            async with target.dialed() as (_, writer):
                writer.write(_HALF)
                await asyncio.sleep(asked.seconds)

    await asyncio.gather(*(one() for _ in range(21 * asked.count)))


async def long_history(target: Target, asked: Asked) -> None:
    """Ask for all of a long transcript, three at once, until it is there."""
    del asked

    async def one() -> None:
        path, size = "/sessions/main/history?limit=1000", 0
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        async with target.dialed() as (reader, writer), asyncio.timeout(ANSWER_SECONDS):
            writer.write(f"{head}Authorization: Bearer {target.token}\r\n\r\n".encode())
            while data := await reader.read(65_536):
                size += len(data)
        assert size > MEGABYTE, "it is answered"

    await asyncio.gather(*(one() for _ in range(3)))


async def followers(target: Target, asked: Asked) -> None:
    """Follow the long transcript, many times at once, and read nothing; every second one missed all of it."""
    path = "/sessions/main/history?limit=1000"
    allowed = {"Authorization": f"Bearer {target.token}"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=30)) as connection:
        connection.request("GET", "/sessions/main/history?limit=1", headers=allowed)
        session_id: str = json.loads(connection.getresponse().read())["sessionId"]

    async def one(place: str) -> None:
        with contextlib.suppress(OSError):
            async with target.dialed() as (_, writer):
                cast("asyncio.Transport", writer.transport).pause_reading()
                head = f"GET {path}&follow=1 HTTP/1.1\r\nHost: localhost\r\n{place}"
                writer.write(f"{head}Authorization: Bearer {target.token}\r\n\r\n".encode())
                await asyncio.sleep(asked.seconds)

    places = ("", f"Last-Event-ID: {session_id}:0\r\n")
    await asyncio.gather(*(one(places[n % 2]) for n in range(asked.count)))


async def guesses(target: Target, asked: Asked) -> None:
    """Guess tokens from this machine, while its owner works."""

    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n"

    async def one() -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with target.dialed() as (reader, writer), asyncio.timeout(asked.seconds):
                while True:
                    writer.write(request)
                    await reader.readuntil(b"}}")

    await asyncio.gather(*(one() for _ in range(asked.count)))


async def bad_headers(target: Target, asked: Asked) -> None:
    """Send headers that no parser likes, and see that the log does not grow with them."""
    before = target.log.stat().st_size if target.log.exists() else 0
    bad = ["Origin: http://[", "Origin: http://a]b", "Host: [::1", "Authorization: \xff", "Cookie: ;;="]
    for n in range(28 * asked.count):
        head = f"GET /sessions/main/history HTTP/1.1\r\nHost: localhost\r\n{bad[n % len(bad)]}\r\n\r\n"
        with contextlib.suppress(OSError):
            async with target.dialed() as (reader, writer):
                writer.write(head.encode("latin-1"))
                assert b" 500 " not in await reader.readline(), bad[n % len(bad)]
    after = target.log.stat().st_size if target.log.exists() else 0
    assert after - before < 64 * 1024, f"the log grew by {after - before} bytes"


ATTACKS: Final[dict[str, tuple[Callable[[Target, Asked], Awaitable[None]], float, float]]] = {
    "half-frames": (half_frames, 20, 1.0),
    "pings": (pings, 5, 1.0),
    "fragments": (fragments, 5, 1.0),
    "half-requests": (half_requests, 64, 1.0),
    "long-history": (long_history, 40, 0.1),
    "followers": (followers, 100, 0.1),
    "guesses": (guesses, 20, 1.0),
    "bad-headers": (bad_headers, 5, 1.0),
}
"""By name, with the MB and the seconds of others' patience that each may cost."""


async def _flood(target: Target, first: bytes, again: bytes, seconds: float) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with target.upgraded() as writer, asyncio.timeout(seconds):
            writer.write(first)
            while True:
                writer.write(again)
                await writer.drain()


class _Bystander(threading.Thread):
    """A client with the token that asks again and again, and notes how long it waits; and how much memory there is."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.memory = target.memory()
        self.wait = 0.0
        self.failed = 0
        self._target = target
        self._ended = threading.Event()

    def run(self) -> None:
        headers = {"authorization": f"Bearer {self._target.token}", "connection": "close"}
        while not self._ended.wait(0.02):
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self._target.port, timeout=30)
            try:
                connection.request("GET", "/metrics", headers=headers)
                self.failed += connection.getresponse().status != 200
            except OSError:
                self.failed += 1
            finally:
                connection.close()
            self.wait = max(self.wait, time.monotonic() - began)
            self.memory = max(self.memory, self._target.memory())

    def end(self) -> None:
        self._ended.set()
        self.join()


async def attack(target: Target, name: str, asked: Asked) -> Cost:
    """Carry one attack out."""
    run, most_memory, most_wait = ATTACKS[name]
    before, bystander = target.memory(), _Bystander(target)
    bystander.start()
    try:
        await run(target, asked)
    finally:
        bystander.end()
    return Cost(name, bystander.memory - before, bystander.wait, bystander.failed, most_memory, most_wait)


@contextlib.contextmanager
def target(home: Path) -> Generator[Target]:
    """Serve what lies in a folder, in a process of its own."""
    command = [sys.executable, "-m", "console", "serve", "--json", "--port", "0"]
    environment = os.environ | {"SWITCHBOARD_HOME": str(home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    try:
        assert process.stdout is not None
        facts: dict[str, Any] = json.loads(process.stdout.readline())
        token = (home / "state" / "gateway.token").read_text().strip()
        yield Target(process.pid, facts["port"], token, home / "state" / "switchboard.log")
    finally:
        process.terminate()
        process.communicate(timeout=30)


async def prepare(home: Path, long_messages: int) -> None:
    """Make a state with one session that holds long messages."""
    async with running(home / "state") as runtime:
        await send(runtime, MAIN, "say one")
        for n in range(long_messages):
            await runtime.append(MAIN, user_draft(f"{n % 10}" * LONG_CHARS), OPERATOR)


def main() -> int:
    """Run the attacks and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.3)
    parser.add_argument("names", nargs="*", default=list(ATTACKS), help=", ".join(ATTACKS))
    options = parser.parse_args()
    costs = list[Cost]()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        asyncio.run(prepare(home, LONG_MESSAGES if {"long-history", "followers"} & set(options.names) else 0))
        with target(home) as server:
            warm = Asked(5, 1.0)
            asyncio.run(attack(server, "guesses", warm))  # everything is loaded then
            for name in options.names:
                costs.append(asyncio.run(attack(server, name, Asked(options.count, 60 * options.minutes))))
                sys.stdout.write(f"{costs[-1].line()}\n")
                sys.stdout.flush()
    return 1 if any(cost.too_much for cost in costs) else 0


if __name__ == "__main__":
    sys.exit(main())
