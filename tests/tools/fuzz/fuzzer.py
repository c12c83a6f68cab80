"""Thousands of requests, right and wrong, against a real server over real sockets; and what must hold afterwards.

    python -m tests.tools.fuzz --count 20000 [--seed N]

prints a table of what was asked and what succeeded, how memory and open files went, and every finding; it ends with 1
when there is one.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

import websockets
from websockets.frames import CloseCode

from core.config.settings import Settings
from core.model.access import ALL, OPERATOR, Operator
from core.model.errors import SwitchboardError
from core.model.sessions import NewSession, SessionPatch, SessionQuery
from core.runtime.gateway import Runtime
from core.server.conversation.conversation import HANDSHAKE_BYTES
from core.server.devices import Devices
from core.server.http.answers import TOOLS_PATH
from core.store.explain import DATABASE_NAME
from tests.support.invariants import look
from tests.support.runtimes import MAIN, begin, call, running, until_async
from tests.support.servers import READ_ONLY, TOKEN, Served, served
from tests.support.stores import other_connection
from tests.tools.fuzz.asks import CONNECT, FRAME, ROUTES, SURE, TARGETS, Ask, Fetch, plain, rounds
from tests.tools.fuzz.client import Line, introduce, written
from tests.tools.fuzz.values import KEPT_FEED, Ref

ANSWER_SECONDS: Final = 30.0
"""After so long without an answer a request hangs."""
AT_ONCE: Final = 8
MOST_GROWTH: Final = 48
"""MB by which the process may grow in the second half, store and hypothesis among it."""
BATCH: Final = 1_000
LINES: Final[tuple[dict[str, Any], ...]] = (
    {"caps": []},
    {"caps": ["tool-events"], "maxProtocol": 3},
    {"caps": ["port-v1"]},
    {"auth": READ_ONLY},
)
_NATIVE: Final = 2
ROOM: Final = "agent:main:discord:group:ops"
SEEDED: Final = (
    MAIN,
    ROOM,
    "agent:main:other",
    "agent:main:ü漢🙂",
    "agent:main:a/b?c#d%2F e",
    "cron:job",
    "agent:main:thread:9",
)
_HELLO: Final = {
    "minProtocol": 3,
    "maxProtocol": 4,
    "client": {"id": "cli", "version": "1", "platform": "Linux", "mode": "cli"},
    "role": "operator",
    "scopes": ["operator.admin", "operator.read", "operator.write"],
}


@dataclass(slots=True)
class Report:
    """What came of it.

    Attributes:
        on_sessions: Requests that named a session that exists, or a run, exchange or delivery of one.
        memory: MB of this process, after each batch.
        files: Open file descriptors before and after.
        findings: What must not be, one sentence each.
    """

    count: int = 0
    asked: Counter[str] = field(default_factory=Counter[str])
    succeeded: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    on_sessions: int = 0
    cut: int = 0
    memory: list[float] = field(default_factory=list[float])
    files: tuple[int, int] = (0, 0)
    findings: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    def least(self) -> int:
        """Return how often the method succeeded that succeeded least."""
        return min(self.succeeded[target] for target in TARGETS)

    def lines(self) -> Iterable[str]:
        """Return all of it as text."""
        for target in (*TARGETS, FRAME):
            yield f"{target:32} {self.asked[target]:6} {self.succeeded[target]:6}"
        share = 100 * self.on_sessions / max(1, self.count)
        yield f"{self.count} requests in {self.seconds:.0f} s, {share:.0f} % on sessions that exist, {self.cut} cut off"
        yield f"memory in MB: {' '.join(f'{each:.0f}' for each in self.memory)}; open files: {self.files}"
        yield from self.findings


class World:
    """What there is to ask for.

    Attributes:
        existing: How many of the things of the request at hand were there.
    """

    def __init__(self, runtime: Runtime, devices: Devices) -> None:
        self._runtime = runtime
        self._devices = devices
        self._things: dict[str, list[Any]] = {}
        self._number = 0
        self._spares: set[str] = set()

    async def look(self) -> None:
        """See what there is now."""
        runtime = self._runtime
        sessions = (await runtime.list_sessions(SessionQuery(archived=None, limit=400), ALL)).sessions
        kept = sorted((each for each in sessions if each.key in SEEDED), key=lambda each: SEEDED.index(each.key))
        some = kept + [each for each in sessions if each.key not in self._spares.union(SEEDED)][:60]
        runs = [run.run_id for key in (MAIN, ROOM) for run in await runtime.runs(key, ALL, limit=50)]
        failed = await runtime.deliveries(states=("failed",), limit=200)
        self._things = {
            "key": [each.key for each in some],
            "id": [each.session_id for each in some],
            "session": [each._asdict() for each in some],
            "run": runs,
            "exchange": [exchange.exchange_id for exchange, _ in await runtime.exchanges(MAIN, limit=50)],
            "delivery": [each.delivery_id for each in failed],
            "cursor": [max(0, max(each.rev for each in some) - 3)],
        }

    async def announce(self, count: int) -> None:
        """Have something announced in a room whose channel there is not: deliveries that the operator has to see to."""
        runtime = self._runtime
        await runtime.archive(ROOM, OPERATOR, archived=False)
        for key in (MAIN, ROOM):
            await runtime.patch(key, SessionPatch({"sendPolicy": None}), OPERATOR)
        for number in range(count - len(await runtime.deliveries(states=("failed",), limit=count)) if count else 0):
            acting = Operator(acting_for=MAIN)
            await call(runtime, "sessions_send", acting, sessionKey=ROOM, message=f"say {number}", timeoutSeconds=0)
        await until_async(lambda: _is_quiet(runtime), seconds=60)

    async def fill(self, value: Any, used: Counter[str]) -> Any:
        """Return a value with what its `Ref` stand for; `used` counts those that exist."""
        if isinstance(value, Ref):
            return await self._find(value, used)
        if isinstance(value, dict):
            return {name: await self.fill(each, used) for name, each in cast("dict[Any, Any]", value).items()}
        if isinstance(value, list):
            return [await self.fill(each, used) for each in cast("list[Any]", value)]
        return value

    async def _find(self, ref: Ref, used: Counter[str]) -> Any:
        if ref.thing == "fresh":
            self._number += 1
            return ref.pattern.format(f"{self._number}-{ref.place}")
        if ref.thing == "device":
            self._number += 1
            name = f"device {self._number}"
            await self._devices.issue(name, ("operator.read",), self._number, issuer="the fuzz")
            return name
        if ref.thing == "spare":
            used["spare"] += 1
            made = await self._runtime.create(NewSession(), OPERATOR)
            self._spares.add(made.key)
            return made.key
        known = self._things["delivery" if ref.thing == "doomed" else ref.thing]
        if not known:
            return "nothing"
        if ref.thing != "cursor":
            used[ref.thing] += 1
        place = ref.place % len(known)
        return known.pop(place) if ref.thing == "doomed" else known[place]


class Fuzz:
    """One fuzzing of one server."""

    def __init__(self, server: Served, report: Report) -> None:
        self._server = server
        self._report = report
        self._world = World(server.runtime, server.context.devices)
        self._lines = [Line(server.door.url("ws"), _hello(**changes)) for changes in LINES]
        self._cutting = False

    async def ask(self, ask: Ask) -> None:
        """Ask once."""
        await self._world.look()
        await self._ask(ask)

    async def batch(self, asks: list[Ask]) -> None:
        """Ask all of it, some at once; then some once more over a connection that is cut."""
        queue = iter(asks)
        await self._world.announce(min(40, len(asks) // 20))
        await self._world.look()
        await self._lines[_NATIVE].ask("port.subscribe", {"feed": KEPT_FEED, "turn": 1})
        await asyncio.gather(*(self._work(queue) for _ in range(AT_ONCE)))
        self._cutting = True
        doomed, line = asks[: AT_ONCE * 2], self._lines[0]
        pending = [asyncio.ensure_future(self._ask(replace(ask, line=0))) for ask in doomed]
        await asyncio.sleep(0)
        line.cut()
        await asyncio.gather(*pending)
        self._cutting = False

    async def plain(self) -> None:
        """Ask for each target as simply as can be; what is not answered well is a finding."""
        await self._world.announce(8)
        await self._lines[_NATIVE].ask("port.subscribe", {"feed": KEPT_FEED, "turn": 1})
        for ask in plain():
            refused = Counter(self._report.refused)
            await self.ask(ask)
            if not self._report.succeeded[ask.target]:
                words = ", ".join(self._report.refused - refused)
                self._report.findings.append(f"{ask.target}: a plain request does not succeed: {words}")

    async def close(self) -> None:
        """Hang up everywhere."""
        for line in self._lines:
            await line.close()

    async def _work(self, asks: Iterable[Ask]) -> None:
        for number, ask in enumerate(asks, 1):
            await self._ask(ask)
            if number % 10 == 0:
                await self._world.look()

    async def _ask(self, ask: Ask) -> None:
        report, used = self._report, Counter[str]()
        report.count += 1
        report.asked[ask.target] += 1
        content: Any = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                fetch = ask.content if isinstance(ask.content, Fetch) else None
                content = await self._world.fill(_fields(fetch) if fetch is not None else ask.content, used)
                outcome = await self._send(ask, content)
        except TimeoutError:
            outcome = f"no answer in {ANSWER_SECONDS:g} s"
        except (ConnectionError, asyncio.IncompleteReadError, websockets.ConnectionClosed) as error:
            outcome = "" if self._cutting else f"the connection ended: {error}"
            report.cut += self._cutting
        report.on_sessions += bool(used)
        if outcome:
            report.findings.append(f"{ask.target}: {outcome} when asked {repr(content)[:600]}")

    async def _send(self, ask: Ask, content: Any) -> str:
        """Ask, and return what must not be."""
        if ask.target in ROUTES:
            return await self._fetch(ask.target, Fetch(**content))
        if ask.target == CONNECT:
            return await self._connect(ask, content)
        line = self._lines[self._line_of(ask)]
        if ask.target == FRAME:
            await line.tell(content)
            frame = await line.ask("health", {})
            return "" if frame["ok"] else f"health is refused: {frame['error']}"
        answers = 2 if ask.target == "agent" else 1
        return self._judge(ask, await line.ask(ask.target, content, answers=answers))

    def _line_of(self, ask: Ask) -> int:
        """Return the connection for a request; the last one may only read, and gets few."""
        if not ask.good and ask.line % 10 == 0:
            return len(LINES) - 1
        return _NATIVE if ask.good and ask.target.startswith("port.") and self._cutting is False else ask.line % 3

    def _judge(self, ask: Ask, frame: dict[str, Any]) -> str:
        """Return what must not be of an answer: a right request may be refused for the state of things only."""
        target = ask.target
        if frame["ok"]:
            self._report.succeeded[target] += 1
            return ""
        error = frame["error"]
        message, code = str(error["message"]), error.get("details", {}).get("code")
        self._report.refused[f"{target}: {message[:90]}"] += 1
        malformed = message.startswith(f"invalid {target} params")
        if "failed inside" in message or not message:
            return message or "it is refused without a word"
        if malformed and (error["code"], code) != ("INVALID_REQUEST", "INVALID"):
            return f"{error['code']}, {code} for what is malformed: {message}"
        if ask.good and (malformed or (target in SURE and not self._cutting)):
            return f"it is right, and refused: {message}"
        return ""

    async def _connect(self, ask: Ask, params: Any) -> str:
        text = json.dumps(params).replace("{token}", TOKEN)
        async with websockets.connect(self._server.door.url("ws"), max_size=None, proxy=None) as socket:
            try:
                return self._judge(ask, await introduce(socket, json.loads(text)))
            except websockets.ConnectionClosed:
                if len(text) < HANDSHAKE_BYTES or socket.close_code != CloseCode.MESSAGE_TOO_BIG:
                    raise
                return ""  # a stranger's first frame may be only so large

    async def _fetch(self, target: str, fetch: Fetch) -> str:
        host, status, answer = f"127.0.0.1:{self._server.door.port}", 0, b""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.door.port)
        try:
            writer.write(written(fetch, host))
            if fetch.verb == "CONNECT":
                writer.write_eof()
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            if status == 101:
                return "it was upgraded"
            answer = await reader.readuntil(b"\n") if b"event-stream" in head else await reader.read()
        except asyncio.IncompleteReadError as error:
            return f"the connection ended after {error.partial!r}"
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if (status == 200 and fetch.verb == "GET") or (status == 200 and fetch.path.startswith(TOOLS_PATH)):
            self._report.succeeded[target] += 1
        else:
            self._report.refused[f"{target}: {status} {answer[:120]!r}"] += 1
        return "" if status in fetch.wants else f"{status}, not {fetch.wants}: {answer[:300]!r}"


def _fields(fetch: Fetch) -> dict[str, Any]:
    return {each.name: getattr(fetch, each.name) for each in fields(fetch)}


def _hello(**changes: Any) -> dict[str, Any]:
    token = changes.pop("auth", TOKEN)
    return {**_HELLO, "caps": [], "auth": {"token": token}, **changes}


class _Log(logging.Handler):
    """Keeps what is logged as wrong."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one; asyncio says of a client that was cut off in the middle of many frames what we know, and parameters
        that are not known are what is asked here."""
        said = record.getMessage()
        if said != "socket.send() raised exception." and not said.endswith("means nothing here: it is ignored"):
            self.said.append(self.format(record)[-2_000:])


@contextlib.asynccontextmanager
async def fuzzed(state: Path, report: Report) -> AsyncGenerator[Fuzz]:
    """Serve a runtime that has some sessions, give what asks it, and look at all that must hold in the end."""
    log, started = _Log(), time.monotonic()
    for name in ("switchboard", "asyncio", "uvicorn"):
        logging.getLogger(name).addHandler(log)
    try:
        async with running(state, Settings(max_ping_pong_turns=1)) as runtime:
            await _seed(runtime)
            async with served(runtime) as server:
                fuzz = Fuzz(server, report)
                await fuzz.batch(rounds(AT_ONCE, 0))  # everything that is made once is there now
                await fuzz.close()
                await _settled(server, runtime)
                tasks, files = _tasks(), open_files()
                report.__init__()
                yield fuzz
                await fuzz.close()
                report.findings += [f"left over: {each}" for each in await _settled(server, runtime)]
                left = open_files()
                report.files = files.total(), left.total()
                report.findings += [f"left open: {each}" for each in left - files]
                report.findings += [f"left over: {each}" for each in _tasks() - tasks]
        grown = report.memory[-1] - report.memory[len(report.memory) // 2] if report.memory else 0
        if grown > MOST_GROWTH:
            report.findings.append(f"memory grew by {grown:.0f} MB in the second half")
        report.findings += [f"the store: {each}" for each in look(state, {}, [], over=True, steered=True)]
    finally:
        for name in ("switchboard", "asyncio", "uvicorn"):
            logging.getLogger(name).removeHandler(log)
        report.findings += [f"logged: {each}" for each in log.said]
        report.seconds = time.monotonic() - started


async def _seed(runtime: Runtime) -> None:
    """Make sessions of several kinds, with some words in them."""
    for key in SEEDED:
        with contextlib.suppress(SwitchboardError):
            await begin(runtime, key, "hello words")
    await runtime.create(NewSession("cron:job"), OPERATOR)
    await until_async(lambda: _is_quiet(runtime), seconds=60)


async def _settled(server: Served, runtime: Runtime) -> list[str]:
    """Wait until nothing is at work; return what stays."""
    metrics = server.context.metrics
    gauges = ("conversations", "followers")

    async def quiet() -> bool:
        return not any(metrics.value(name) for name in gauges) and await _is_quiet(runtime)

    try:
        await until_async(quiet, seconds=60)
    except AssertionError:
        return [f"{name} {metrics.value(name)}" for name in gauges] + _at_work(runtime)
    await asyncio.sleep(0.3)  # presence is told that late
    return [f"errors {metrics.value('errors')}"] if metrics.value("errors") else []


async def _is_quiet(runtime: Runtime) -> bool:
    await asyncio.sleep(0.02)
    return not _at_work(runtime)


def _at_work(runtime: Runtime) -> list[str]:
    with contextlib.closing(other_connection(runtime.store.directory)) as db:
        return [
            *(f"run {run}" for (run,) in db.execute("SELECT run_id FROM runs WHERE state IN ('queued', 'running')")),
            *(f"exchange {each}" for (each,) in db.execute("SELECT exchange_id FROM exchanges WHERE state != 'ended'")),
            *(
                f"delivery {each}"
                for (each,) in db.execute("SELECT delivery_id FROM deliveries WHERE state IN ('pending', 'sending')")
            ),
        ]


def _tasks() -> Counter[str]:
    """Return what runs beside the tests, without what a runtime does in its own time."""
    names = Counter(str(task.get_coro()).split(" at ")[0] for task in asyncio.all_tasks())
    return Counter({name: count for name, count in names.items() if "Sweep." not in name})


def open_files() -> Counter[str]:
    """Return what this process has open, with how often, sockets and pipes by their kind.

    Left out is the database's own file: SQLite keeps the descriptor of a connection that was closed for the next one as
    long as another one has a lock on the file, so how many there are tells how many connections there ever were at
    once. A connection that is open is counted by the log it reads (`-wal`).
    """
    found = Counter[str]()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder itself, which was open to be listed
            found[path.readlink().name.partition(":")[0]] += 1
    del found[DATABASE_NAME]
    return found


def _megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def fuzz_server(state: Path, count: int, number: int) -> Report:
    """Ask a server that many times; `number` is the seed."""
    report = Report()
    async with fuzzed(state, report) as fuzz:
        await fuzz.plain()
        report.count = report.on_sessions = 0
        while report.count < count:
            await fuzz.batch(rounds(min(BATCH, count - report.count), number + report.count))
            report.memory.append(_megabytes())
            if count > BATCH:
                print(
                    f"{report.count:6} requests, {report.memory[-1]:.0f} MB, {len(report.findings)} findings",
                    flush=True,
                )
    return report
