"""Kills a working runtime with SIGKILL, again and again, and looks whether anything is gone, doubled or only claimed.

    python -m tests.tools.kills --count 143

kills until each of the seven phases was hit that often (143: a thousand kills and more), logs each kill, and prints a
table. The phases: before the acknowledgement (a message was given to the writer), in the commit, streaming (runs are at
work and nothing is being written), a turn of a reply-back loop, an announce step, delivering (a channel is being
asked), recovering. The channel is a real server in this process; now and then it is busy, refuses, or hangs up.
Meanwhile sessions are deleted and overrides set (`tests.tools.kills.promises`).
"""

import asyncio
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from core.model.access import All
from core.model.sessions import SessionQuery
from core.runtime.gateway import Runtime
from core.store import runs
from tests.support.channel_sink import Accept, Answer, Busy, ChannelSink, Die, Post, Refuse
from tests.support.invariants import look
from tests.support.runtimes import until
from tests.support.stores import ROOT, other_connection
from tests.tools.kills.driver import SETTINGS, SlowAgent
from tests.tools.kills.promises import Promises

ACCEPTING, COMMIT, STREAMING, RECOVERING = "before the acknowledgement", "in the commit", "streaming", "recovering"
LOOP, ANNOUNCE, DELIVERING = "a turn of a loop", "an announce step", "delivering"
IDLE = "nothing under way"
PHASES = (STREAMING, LOOP, ANNOUNCE, DELIVERING, RECOVERING, ACCEPTING, COMMIT)
KILLS_A_DIRECTORY = 50
_MODES = {ACCEPTING: "send", COMMIT: "send", STREAMING: "stream"}
_SIGNS = {
    ACCEPTING: "sending",
    COMMIT: "commit",
    STREAMING: "saying",
    RECOVERING: "recovering",
    LOOP: "replying",
    ANNOUNCE: "announcing",
    DELIVERING: "delivering",
}
_DELAYS = {STREAMING: 0.08, RECOVERING: 0.02, LOOP: 0.002, ANNOUNCE: 0.002, DELIVERING: 0.001}
"""Seconds at most between the sign and the kill, else 0.4 ms; a phase is hit when it is still under way then."""


@dataclass
class Report:
    """What a series of kills came to.

    Attributes:
        acknowledged: Ids of all runs whose acceptance was acknowledged, in the state directory at hand; without those
            of sessions that somebody began to delete.
        ended: Ids of those whose end was acknowledged too.
        promises: What was acknowledged of sessions and overrides there.
        problems: Everything that must not be; empty when all is well.
        counted: What there was in all state directories, by name.
    """

    kills: Counter[str] = field(default_factory=Counter[str])
    acknowledged: set[str] = field(default_factory=set[str])
    ended: set[str] = field(default_factory=set[str])
    promises: Promises = field(default_factory=Promises)
    problems: list[str] = field(default_factory=list[str])
    log: list[str] = field(default_factory=list[str])
    counted: Counter[str] = field(default_factory=Counter[str])


class Sink:
    """A channel sink on a thread and a loop of its own; use it with `with`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.sink = ChannelSink()
        self.sink.handler = self._answer

    def __enter__(self) -> Self:
        """Start to listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.sink.listen(), self._loop).result()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        asyncio.run_coroutine_threadsafe(self.sink.shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def taken(self) -> Counter[str]:
        """How often the channel has the text of each delivery."""
        return Counter(post.delivery_id for post in list(self.sink.taken))

    def clear(self) -> None:
        """Forget what was posted."""
        self.sink.taken.clear()

    def _answer(self, _post: Post) -> Answer:
        number = len(self.sink.posts)
        if number % 11 == 0:
            return Busy()
        return Die() if number % 17 == 0 else Refuse("no") if number % 23 == 0 else Accept()


class Driver:
    """The process that forks what is killed; use it with `with`."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "tests.tools.kills.driver", str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, bufsize=0)

    def __enter__(self) -> Self:
        """Have it ready."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self._process.communicate()

    def kill_once(self, state: Path, wanted: str, prefix: str, dice: random.Random) -> list[str]:
        """Start a runtime, kill it when it shows the sign of a phase, and return what it had said."""
        assert self._process.stdin is not None
        mode = _MODES.get(wanted, "exchange")
        mode = dice.choice(("stream", "exchange")) if wanted == RECOVERING else mode
        self._process.stdin.write(f"{state} {mode} {prefix}\n".encode())
        signs = 1 if wanted == RECOVERING else 24 if wanted == STREAMING else dice.randint(1, 40)
        sign, lines = _SIGNS[wanted], list[str]()
        while sum(line.split()[0] == sign for line in lines) < signs or not any(line[:3] == "pid" for line in lines):
            lines = self._read(lines)
        pause = time.perf_counter() + dice.random() * _DELAYS.get(wanted, 0.0004)
        while time.perf_counter() < pause:
            pass
        (pid,) = (int(line.split()[1]) for line in lines if line.startswith("pid "))
        os.kill(pid, signal.SIGKILL)
        while lines[-1] != "dead":
            lines = self._read(lines)
        return [line for line in lines if line != "dead" and not line.startswith("pid ")]

    def _read(self, lines: list[str]) -> list[str]:
        """Return the lines so far with at least one more."""
        assert self._process.stdout is not None
        data = b""
        while not data.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], 30)
            piece = self._process.stdout.read(65_536) if ready else b""
            assert piece, f"the driver fell silent: {lines[-5:]}"
            data += piece
        return lines + data.decode().split("\n")[:-1]


def campaign(folder: Path, count: int, *, seed: int, seconds: float, echo: bool = False) -> Report:
    """Kill until each phase was hit `count` times, or the time is up.

    Every so many kills the directory is recovered, drained and compared, and a new one begun.
    """
    report, dice, end = Report(), random.Random(seed), time.monotonic() + seconds
    number = 0

    def goes_on() -> bool:
        return any(report.kills[phase] < count for phase in PHASES) and time.monotonic() < end

    with Sink() as sink, Driver(sink.sink.port) as driver:
        while goes_on():
            state = folder / f"state{number}"
            for _ in range(KILLS_A_DIRECTORY):
                number += 1
                one_more(state, number, report, dice, driver, sink)
                if echo:
                    print(report.log[-1], flush=True)
                if not goes_on():
                    break
            report.problems += asyncio.run(recover(state, report, sink))
            count_up(state, report)
            report.acknowledged.clear()
            report.ended.clear()
            report.promises = Promises()
            sink.clear()
    return report


def one_more(state: Path, number: int, report: Report, dice: random.Random, driver: Driver, sink: Sink) -> None:
    """Kill once, in the phase that was hit least, and look."""
    before = under_way(state)
    wanted = min(PHASES, key=lambda phase: report.kills[phase])
    wanted = DELIVERING if wanted == RECOVERING and not before else wanted
    lines = driver.kill_once(state, wanted, f"k{number}", dice)
    found = phases_of(lines, before, under_way(state))
    phase = wanted if wanted in found else next((each for each in PHASES if each in found), IDLE)
    report.kills[phase] += 1
    take_in(report, lines)
    report.log.append(
        f"kill {number}: {phase} ({len(before)} phases to recover from, {len(report.acknowledged)} runs acknowledged"
        " so far)"
    )
    report.problems += [f"after kill {number}, {phase}: {problem}" for problem in problems(state, report, sink)]


def under_way(state: Path) -> set[str]:
    """Return what the rows say was under way when the process died."""
    if not state.exists():
        return set()
    with contextlib.closing(other_connection(state)) as db:
        kinds = {kind for (kind,) in db.execute("SELECT kind FROM runs WHERE state = 'running'")}
        sending = db.execute("SELECT count(*) FROM deliveries WHERE state = 'sending'").fetchone()[0]
    names = {"reply": LOOP, "announce": ANNOUNCE}
    return {names.get(kind, STREAMING) for kind in kinds} | ({DELIVERING} if sending else set())


def phases_of(lines: list[str], before: set[str], after: set[str]) -> set[str]:
    """Return what was under way when the last line had been written.

    Args:
        before: What there was to be recovered.
        after: What the rows say is under way now.
    """
    if "ready" not in lines:
        return {RECOVERING} if before else set()
    found = after - {STREAMING}
    marks = [line for line in lines if line in {"commit", "committed"}]
    if marks[-1:] == ["commit"]:
        return found | {COMMIT}
    done = {line[4:] for line in lines if line.startswith("ack ")}
    if any(line[8:] not in done for line in lines if line.startswith("sending ")):
        return found | {ACCEPTING}
    over = {line.split()[1] for line in lines if line.startswith("ended ")}
    streams = any(line.split()[1] not in over for line in lines if line.startswith("saying "))
    return found | ({STREAMING} if streams else set())


def take_in(report: Report, lines: list[str]) -> None:
    """Note what the dead process had promised."""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "ack":
            report.acknowledged.add(rest)
        elif word == "ended":
            report.ended.add(rest)
        elif word == "wrong":
            report.problems.append(rest)
        else:
            report.promises.take_in(word, rest)
    brief = {deletion.run_id for deletion in report.promises.deletions.values()}
    report.acknowledged -= brief
    report.ended -= brief


def problems(state: Path, report: Report, sink: Sink, *, over: bool = False) -> list[str]:
    """Compare the files with what was promised, and with what the channel has."""
    found = list(look(state, sink.taken, report.acknowledged, over=over))
    with contextlib.closing(other_connection(state)) as db:
        states = dict(db.execute("SELECT run_id, state FROM runs"))
        found += report.promises.problems(state, db)
    return found + [f"{run_id} had ended and is {states.get(run_id)}" for run_id in report.ended - _done(states)]


def _done(states: dict[str, str]) -> set[str]:
    return {run_id for run_id, state in states.items() if state == "done"}


async def recover(state: Path, report: Report, sink: Sink) -> list[str]:
    """Take the directory over as the next process does, finish what is left, and look at everything once more."""
    found: list[str] = []
    runtime = Runtime.open(state)
    channels = {"discord": sink.sink.channel("discord")}
    await runtime.start(SETTINGS, SlowAgent(0, lambda line: None), command="test", channels=channels)
    left = [run.run_id for run in runs.live(runtime.store.db) if run.state == "running"]
    found += [f"{run_id} is left running" for run_id in left if run_id not in runtime.active_runs]
    found += await report.promises.ask_again(runtime)
    await runtime.drained()
    listed = (await runtime.list_sessions(SessionQuery(), All())).sessions
    policies = {session.key: session.send_policy for session in listed}
    found += report.promises.broken_overrides(await runtime.overrides(), policies)
    still_open = "SELECT count(*) FROM deliveries WHERE state IN ('pending', 'sending')"
    await until(lambda: runtime.store.db.execute(still_open).fetchone()[0] == 0, seconds=60)
    await runtime.close()
    found += problems(state, report, sink, over=True)
    for path in (state / "transcripts").glob("*.jsonl"):
        seqs = [json.loads(line).get("message", {}).get("seq", 0) for line in path.read_text().split("\n")[:-1]]
        if seqs != list(range(len(seqs))):
            found.append(f"{path.name} is not whole: {seqs[:5]}…")
    return found


def count_up(state: Path, report: Report) -> None:
    """Add what a directory holds to the figures."""
    report.counted["runs acknowledged"] += len(report.acknowledged)
    report.counted["ends acknowledged"] += len(report.ended)
    report.counted["deletions acknowledged"] += len(report.promises.deleted)
    report.counted["deletions cut short"] += len(report.promises.deletions) - len(report.promises.deleted)
    patched = report.promises.overrides.values()
    report.counted["overrides acknowledged"] += sum(each.acknowledged for each in patched)
    report.counted["overrides cut short"] += sum(not each.acknowledged for each in patched)
    with contextlib.closing(other_connection(state)) as db:
        for kind, outcome, number in db.execute("SELECT kind, outcome, count(*) FROM exchanges GROUP BY 1, 2"):
            report.counted[f"{kind} {outcome}"] += number
        for run_state, number in db.execute("SELECT state, count(*) FROM runs GROUP BY 1"):
            report.counted[f"runs {run_state}"] += number
        for name, number in db.execute("SELECT state, count(*) FROM deliveries GROUP BY 1"):
            report.counted[f"deliveries {name}"] += number
