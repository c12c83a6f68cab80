"""Kills a working runtime with SIGKILL, again and again, and looks whether anything that was acknowledged is gone.

    python -m tests.support.kills --count 20

kills until each phase was hit that often, logs each kill, and prints a table. The phases: before the acknowledgement (a
message was given to the writer), in the commit, streaming (runs are at work and nothing is being written), recovering.
"""

import argparse
import asyncio
import contextlib
import json
import random
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.config.settings import Settings
from core.runtime.gateway import Runtime
from core.store import runs
from tests.support.kill_driver import SlowAgent
from tests.support.stores import ROOT, other_connection

ACCEPTING, COMMIT, STREAMING, RECOVERING = "before the acknowledgement", "in the commit", "streaming", "recovering"
IDLE = "nothing under way"
PHASES = (STREAMING, RECOVERING, ACCEPTING, COMMIT)
_MODES = {ACCEPTING: "send", COMMIT: "send", STREAMING: "stream", RECOVERING: "stream"}
_SIGNS = {ACCEPTING: "sending", COMMIT: "commit", STREAMING: "saying", RECOVERING: "recovering"}
_DELAYS = {ACCEPTING: 0.0004, COMMIT: 0.0004, STREAMING: 0.08, RECOVERING: 0.02}
"""Seconds at most between the sign and the kill; a phase is hit when it is still under way then."""


@dataclass
class Report:
    """What a series of kills came to.

    Attributes:
        acknowledged: Ids of all runs whose acceptance was acknowledged.
        ended: Ids of those whose end was acknowledged too.
        problems: Everything that must not be; empty when all is well.
    """

    kills: Counter[str] = field(default_factory=Counter[str])
    acknowledged: set[str] = field(default_factory=set[str])
    ended: set[str] = field(default_factory=set[str])
    problems: list[str] = field(default_factory=list[str])
    log: list[str] = field(default_factory=list[str])


def campaign(state: Path, count: int, *, seed: int, seconds: float, echo: bool = False) -> Report:
    """Kill until each phase was hit `count` times, or the time is up; then recover and compare."""
    report, dice, end = Report(), random.Random(seed), time.monotonic() + seconds
    number = 0
    while any(report.kills[phase] < count for phase in PHASES) and time.monotonic() < end:
        left = left_running(state)
        wanted = min(PHASES, key=lambda phase: report.kills[phase])
        wanted = STREAMING if wanted == RECOVERING and not left else wanted
        number += 1
        lines = kill_once(state, wanted, f"k{number}", dice)
        found = phase_of(lines, left)
        report.kills[found] += 1
        take_in(report, lines)
        report.log.append(
            f"kill {number}: {found} ({left} runs to recover, {len(report.acknowledged)} acknowledged so far)"
        )
        if echo:
            print(report.log[-1], flush=True)
        report.problems += look(state, report)
    report.problems += asyncio.run(recover(state, report))
    return report


def left_running(state: Path) -> int:
    """Return how many runs the last process left under way."""
    if not state.exists():
        return 0
    with contextlib.closing(other_connection(state)) as db:
        return db.execute("SELECT count(*) FROM runs WHERE state = 'running'").fetchone()[0]


def kill_once(state: Path, wanted: str, prefix: str, dice: random.Random) -> list[str]:
    """Start a runtime, kill it when it shows the sign of a phase, and return what it had said."""
    command = [sys.executable, "-m", "tests.support.kill_driver", str(state), _MODES[wanted], prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, bufsize=0) as process:
        assert process.stdout is not None
        data = b""
        signs = dice.randint(1, 40) if wanted in {ACCEPTING, COMMIT} else 1 if wanted == RECOVERING else 24
        sign = f"{_SIGNS[wanted]}".encode()
        while sum(line.split()[:1] == [sign] for line in data.split(b"\n")[:-1]) < signs:
            ready, _, _ = select.select([process.stdout], [], [], 30)
            piece = process.stdout.read(65_536) if ready else b""
            assert piece, f"the driver fell silent: {data[-300:]!r}"
            data += piece
        pause = time.perf_counter() + dice.random() * _DELAYS[wanted]
        while time.perf_counter() < pause:
            pass
        process.send_signal(signal.SIGKILL)
        data += process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    return data.decode().split("\n")[:-1]


def phase_of(lines: list[str], left: int) -> str:
    """Return what was under way when the last line had been written.

    Args:
        left: Runs that were there to be recovered.
    """
    if "ready" not in lines:
        return RECOVERING if left else IDLE
    marks = [line for line in lines if line in {"commit", "committed"}]
    if marks[-1:] == ["commit"]:
        return COMMIT
    done = {line.split()[1] for line in lines if line.startswith("ack ")}
    if any(line.split()[1] not in done for line in lines if line.startswith("sending ")):
        return ACCEPTING
    over = {line.split()[1] for line in lines if line.startswith("ended ")}
    return STREAMING if any(line.split()[1] not in over for line in lines if line.startswith("saying ")) else IDLE


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


def look(state: Path, report: Report) -> Iterator[str]:
    """Compare the files, as the dead process left them, with what it had promised."""
    db = other_connection(state)
    with contextlib.closing(db):
        (health,) = db.execute("PRAGMA integrity_check").fetchone()
        if health != "ok":
            yield f"integrity_check: {health}"
        yield from missing_or_doubled(db, report)
        counted = db.execute("SELECT session, count(*), max(seq) FROM messages GROUP BY session")
        for number, count, last in counted:
            if count != last:
                yield f"session {number} has {count} messages and the last is number {last}"
        for key, last, newest in db.execute(
            "SELECT s.key, s.last_seq, max(m.seq) FROM sessions AS s JOIN messages AS m ON m.session = s.id"
            " GROUP BY s.key"
        ):
            if last != newest:
                yield f"the row of {key} says {last} and its last message is {newest}"


def missing_or_doubled(db: sqlite3.Connection, report: Report) -> Iterator[str]:
    """Find acknowledged runs and inputs that are not there exactly once, and ends that are not there."""
    states = dict(db.execute("SELECT run_id, state FROM runs"))
    inputs = Counter(run_id for (run_id,) in db.execute("SELECT run_id FROM messages WHERE role = 'user'"))
    for run_id in report.acknowledged:
        if run_id not in states or inputs[run_id] != 1:
            yield f"{run_id} was acknowledged and is there as {states.get(run_id)} with {inputs[run_id]} inputs"
    for run_id in report.ended:
        if states.get(run_id) != "done":
            yield f"{run_id} had ended and is {states.get(run_id)}"
    for run_id, count in inputs.items():
        if count != 1 or run_id not in states:
            yield f"{run_id} has {count} inputs and is {states.get(run_id)}"


async def recover(state: Path, report: Report) -> list[str]:
    """Take the directory over as the next process does, finish what is queued, and look at everything once more."""
    problems: list[str] = []
    runtime = Runtime.open(state)
    await runtime.start(Settings(), SlowAgent(0, lambda line: None), command="test")
    left = [run.run_id for run in runs.live(runtime.store.db) if run.state == "running"]
    problems += [f"{run_id} is left running" for run_id in left if run_id not in runtime.active_runs]
    await runtime.drained()
    problems += [f"{run.run_id} never ended" for run in runs.live(runtime.store.db)]
    unanswered = runtime.store.db.execute(
        "SELECT run_id FROM runs WHERE state = 'done' AND (SELECT count(*) FROM messages"
        " WHERE run_id = runs.run_id AND role = 'assistant') <> 2"
    )
    problems += [f"{run_id} is done and has not its two replies" for (run_id,) in unanswered]
    await runtime.close()
    problems += look(state, report)
    for path in (state / "transcripts").glob("*.jsonl"):
        seqs = [json.loads(line).get("message", {}).get("seq", 0) for line in path.read_text().split("\n")[:-1]]
        if seqs != list(range(len(seqs))):
            problems.append(f"{path.name} is not whole: {seqs[:5]}…")
    return problems


def main() -> int:
    """Run the long form from the command line."""
    parser = argparse.ArgumentParser(description="Kill a working runtime and look what is lost.")
    parser.add_argument("--count", type=int, default=20, help="kills of each phase, at least")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after that long")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = campaign(
            Path(name) / "state", arguments.count, seed=arguments.seed, seconds=arguments.seconds, echo=True
        )
    print(f"\nseed {arguments.seed}\n{'phase':<28} kills")
    for phase in (*PHASES, IDLE):
        print(f"{phase:<28} {report.kills[phase]:>5}")
    print(f"{'all':<28} {report.kills.total():>5}")
    print(f"acknowledged runs {len(report.acknowledged)}, of which ended {len(report.ended)}")
    print(f"problems {len(report.problems)}", *report.problems[:20], sep="\n  ")
    return 1 if report.problems or any(report.kills[phase] < arguments.count for phase in PHASES) else 0


if __name__ == "__main__":
    sys.exit(main())
