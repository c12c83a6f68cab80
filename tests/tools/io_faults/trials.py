"""Lets every call of the system on the files of a state directory fail once, and looks whether anything is lost.

    python -m tests.tools.io_faults --count 2000

A process opens a state directory, takes it over, appends, has a message claimed and answered, and another one announced
to a channel; meanwhile one call (open, write, sync, truncate, rename, remove, read) fails with an I/O error, or all
from one on fail as on a full disk, or one writes half. What it acknowledged must be there at the next start, which must
be clean; what it refused, it refused in one sentence. It needs a C compiler.
"""

import asyncio
import contextlib
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core.agents.port import AgentEvent, Reply, Turn
from core.channels import OutgoingText
from core.config.settings import Settings
from core.model.access import OPERATOR, Operator
from core.model.errors import SwitchboardError
from core.model.messages import text_block, user_draft
from core.runtime.gateway import Runtime
from tests.support.invariants import look
from tests.support.runtimes import MAIN, Agent, begin
from tests.support.stores import ROOT, other_connection

OPS: Final = "agent:main:discord:group:ops"
WAYS: Final = {
    "an I/O error": (errno.EIO, 0),
    "a full disk from then on": (errno.ENOSPC, 1),
    "half a write": (errno.ENOSPC, 2),
    "a full disk for a moment": (errno.ENOSPC, 0),
}
_SOURCE: Final = Path(__file__).with_name("io_faults.c")
_SETTINGS: Final = Settings(max_ping_pong_turns=0)
_HANGS_SECONDS: Final = 60
_FOR_EVER: Final = 1 << 40


def compiler() -> str | None:
    """Return the C compiler, None without one."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """Compile what is preloaded."""
    library = folder / "io_faults.so"
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library


class Faults:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
        self._library.fault_disarm.restype = ctypes.c_long

    def arm(self, state: Path, nth: int, way: str) -> None:
        """Let the n-th call from now fail."""
        code, how = WAYS[way]
        self._library.fault_arm(os.fsencode(state), nth, code, how)

    def disarm(self) -> int:
        """Let no call fail any more; return how many there were."""
        return int(self._library.fault_disarm())


class _Channel:
    """A channel that takes everything, and counts."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Take a text."""
        self.taken[outgoing.delivery_id] += 1


async def _announces(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    yield Reply((text_block("told" if turn.kind == "announce" else "yes"),))


@dataclass
class Trial:
    """One failing call, and what came of it."""

    state: Path
    channel: _Channel = field(default_factory=_Channel)
    appended: list[str] = field(default_factory=list[str])
    accepted: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    @contextlib.contextmanager
    def refusals(self, where: str) -> Generator[None]:
        """Take a refusal in one sentence; anything else is a problem."""
        try:
            yield
        except SwitchboardError as error:
            if "\n" in error.message or not error.message:
                self.problems.append(f"{where}: refused with {error.message!r}")
        except TimeoutError:
            pass  # what could not be stored is tried again later
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.problems.append(f"{where}: {place(error)}")

    async def work(self, patience: float) -> None:
        """Do a bit of everything."""
        self._watch_loop()
        with self.refusals("opening"):
            runtime = Runtime.open(self.state)
            try:
                with self.refusals("starting"):
                    await self._start(runtime)
                    await self._use(runtime, patience)
            finally:
                with self.refusals("closing"):
                    await runtime.close()

    async def _start(self, runtime: Runtime) -> None:
        await runtime.start(_SETTINGS, Agent(_announces), command="faults", channels={"discord": self.channel})

    async def _use(self, runtime: Runtime, patience: float) -> None:
        for number in range(3):
            with self.refusals("appending"):
                message = await runtime.append(MAIN, user_draft(f"appended {number}"), OPERATOR)
                self.appended.append(message.id)
        for key, caller in ((MAIN, OPERATOR), (OPS, Operator(MAIN))):
            with self.refusals("sending"):
                ticket = await begin(runtime, key, "hello", caller)
                self.accepted.append(ticket.run_id)
                await runtime.wait_run(ticket.run_id, patience)
        with self.refusals("waiting for the delivery"):
            async with asyncio.timeout(patience):
                await runtime.drained()

    async def look(self) -> None:
        """Start anew, and look whether everything is there and has come to its end."""
        self._watch_loop()
        runtime = Runtime.open(self.state)
        try:
            await self._start(runtime)
            async with asyncio.timeout(20):
                await runtime.drained()
        finally:
            await runtime.close()
        self.problems += look(self.state, self.channel.taken, self.accepted, over=True)
        with contextlib.closing(other_connection(self.state)) as db:
            there = {json.loads(body)["id"] for (body,) in db.execute("SELECT body FROM messages")}
        self.problems += [f"message {each} was acknowledged and is gone" for each in self.appended if each not in there]

    def _watch_loop(self) -> None:
        def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            self.problems.append(f"nobody took {place(error) if error is not None else context.get('message')}")

        asyncio.get_running_loop().set_exception_handler(failed)


def attempt(state: Path, faults: Faults, nth: int, way: str) -> tuple[int, list[str]]:
    """Let one call fail in this process; return how many there were, and the problems."""
    trial = Trial(state)
    faults.arm(state, nth, way)
    asyncio.run(trial.work(0.5 if "from then on" in way else 3.0))
    calls = faults.disarm()
    try:
        asyncio.run(trial.look())
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        trial.problems.append(f"the next start: {place(error)}")
    return calls, trial.problems


def place(error: BaseException) -> str:
    """Return an error with where it came from."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return f"{type(error).__name__}: {error} ({', '.join(f'{Path(f.filename).name}:{f.lineno}' for f in frames)})"


def forked(function: Callable[[], tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Call a function in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(_HANGS_SECONDS)
        try:
            found = function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent reports it
            found = (0, [place(error)])
        with os.fdopen(writing, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    if not text:
        return 0, ["it hung, or died"]
    calls, problems = json.loads(text)
    return calls, problems


def prepared(folder: Path) -> Path:
    """Make the state directory that each trial begins with a copy of."""

    async def prepare() -> None:
        runtime = Runtime.open(folder)
        await runtime.start(_SETTINGS, Agent(_announces), command="faults", channels={"discord": _Channel()})
        for key in (MAIN, OPS):
            ticket = await begin(runtime, key, "hello")
            await runtime.wait_run(ticket.run_id, 10)
        await runtime.close()

    asyncio.run(prepare())
    return folder


def series(count: int, seed: int) -> dict[str, Any]:
    """Try that many failing calls, spread over all there are; return what was found."""
    faults, chance = Faults(), random.Random(seed)
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="io-faults-") as name:
        folder = Path(name)
        forked(lambda: (0, [str(prepared(folder / "template"))]))

        def once(nth: int, way: str) -> tuple[int, list[str]]:
            state = folder / "state"
            shutil.rmtree(state, ignore_errors=True)
            shutil.copytree(folder / "template", state)
            return forked(lambda: attempt(state, faults, nth, way))

        calls, found = once(_FOR_EVER, "an I/O error")
        problems += [f"without a fault: {problem}" for problem in found]
        chosen = [(nth, way) for way in WAYS for nth in range(1, calls + 1)]
        chance.shuffle(chosen)
        for nth, way in (chosen * (count // len(chosen) + 1))[:count]:
            found = once(nth, way)[1]
            problems += [f"call {nth} of {calls}, {way}: {problem}" for problem in found]
    return {"seed": seed, "calls": calls, "tried": count, "problems": problems}


def run(count: int, seed: int, timeout: float | None = None) -> dict[str, Any]:
    """Try failing calls in a process with the library preloaded."""
    with tempfile.TemporaryDirectory(prefix="io-faults-") as name:
        environment = {**os.environ, "LD_PRELOAD": str(build(Path(name)))}
        command = [sys.executable, "-m", "tests.tools.io_faults", "--inside", str(count), str(seed)]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=timeout, check=True
        )
    return dict(json.loads(done.stdout.splitlines()[-1]))
