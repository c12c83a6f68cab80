"""Runtimes at work that say what they do, line by line, until somebody kills them.

    python -m tests.tools.kills.driver PORT

Imports everything once, then waits for lines `STATE MODE PREFIX` and forks a process for each: that one takes the state
directory over and works until it is killed. Modes: `send` and `stream` give single messages to many sessions,
`exchange` has sessions send to each other and spawn, with announces to a channel on that port. In every mode somebody
makes sessions and deletes them, and sets overrides on keys without a session. Every mode goes on with what the one
before left.

Each of these is one line, written at once:

    pid PID, dead           around the life of a forked process
    recovering, ready       around the start of the runtime
    sending ID, ack ID      around the acceptance of a run
    commit, committed       around the COMMIT of the writer, from inside the writer's thread
    saying ID, ended ID     around a run's turn: its first words are out; its end is acknowledged
    replying ID             a turn of a reply-back loop is at work
    announcing ID           an announce step is at work
    delivering ID           a channel is being asked
    creating KEY, created KEY ID            around the creation of a session with that id
    deleting KEY RUN, deleted KEY           around the deletion of a session in which that run had ended
    overriding KEY WORD, overridden KEY     around an override of the send policy of a key without a session
    wrong WORDS             something that must never be
"""

# It looks on at the writer from inside:
# pyright: reportPrivateUsage=false

import asyncio
import contextlib
import os
import sys
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

from core.agents.port import AgentEvent, Reply, TextDelta, ToolEnded, Turn
from core.channels import OutgoingText
from core.config.settings import ModelSettings, Settings
from core.model.access import OPERATOR, Operator
from core.model.messages import Usage, text_block, tool_call_block
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import NewSession, SessionPatch
from core.rules.limits import SpawnLimits
from core.rules.ruleset import RuleSet
from core.runtime.gateway import Runtime
from core.runtime.work import Work
from core.store import database, runs
from core.tools.dispatch import schemas
from tests.support.channel_sink import HttpChannel

SESSIONS = 24
PAIRS = 6
SETTINGS = Settings(
    rules=RuleSet(spawning=SpawnLimits(max_children=1000)), max_concurrent=SESSIONS + 1, max_ping_pong_turns=2
)


def mark(line: str) -> None:
    """Say what happens; whole lines of this length arrive whole, also when the process dies right after."""
    os.write(1, f"{line}\n".encode())


class SlowAgent:
    """Streams for a while, calls a tool, streams again; in an exchange it answers and announces, or skips.

    Args:
        pause: Seconds between two pieces.
        say: Is told when a turn has said its first words.
    """

    def __init__(self, pause: float, say: Callable[[str], None]) -> None:
        self._pause = pause
        self._say = say

    def __call__(self, model: ModelSettings | None) -> "SlowAgent":
        """Serve every model."""
        return self

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        """Play one turn."""
        if turn.kind in {"reply", "announce"}:
            async for event in self._answer(turn, "REPLY_SKIP" if turn.kind == "reply" else "ANNOUNCE_SKIP"):
                yield event
            return
        words = "word " * 8
        yield TextDelta(words)
        self._say(f"saying {turn.run_id}")
        await asyncio.sleep(self._pause)
        yield Reply((text_block(words), tool_call_block("c", "agents_list", {})), Usage(1, 1), stop_reason="toolUse")
        yield ToolEnded("c", "agents_list", await turn.call_tool("c", "agents_list", {}))
        for _ in range(8):
            yield TextDelta(words)
            await asyncio.sleep(self._pause)
        yield Reply((text_block(f"answer to {turn.transcript[-1].text[:60]}"),), Usage(1, 1))

    async def _answer(self, turn: Turn, skip: str) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("so ")
        self._say(f"{'replying' if turn.kind == 'reply' else 'announcing'} {turn.run_id}")
        await asyncio.sleep(self._pause)
        skips = zlib.crc32(turn.run_id.encode()) % 6 == 0
        yield Reply((text_block(skip if skips else f"{turn.kind} of {turn.run_id}"),), Usage(1, 1))

    async def close(self) -> None:
        """Hold nothing."""


class ToldChannel(HttpChannel):
    """A channel that says when it is asked."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Post one text."""
        mark(f"delivering {outgoing.delivery_id}")
        await super().deliver(outgoing)


def watch_commits() -> None:
    """Have the writer's thread say when it commits."""
    commit = database._Writer._commit

    def tell(statement: str) -> None:
        if statement == "COMMIT":
            mark("commit")

    def watched(writer: Any, group: Sequence[Any]) -> None:
        writer._db.set_trace_callback(tell)
        commit(writer, group)
        mark("committed")

    database._Writer._commit = watched  # type: ignore[method-assign] - to look on, not to change


async def send_for_ever(runtime: Runtime, number: int, prefix: str, *, wait: bool) -> None:
    """Send one message after the other into one session."""
    key, count = f"agent:main:s{number}", 0
    while True:
        count += 1
        run_id = f"{prefix}-{number}-{count}"
        size = 60_000 if count % 5 == 0 else 10
        await accept(runtime, RunRequest(key, f"{run_id} {'x' * size}", run_id, create=True), OPERATOR)
        if wait or count % 4 == 0:
            await ended(runtime, run_id)


async def exchange_for_ever(runtime: Runtime, number: int, prefix: str) -> None:
    """Have one session send to a group, and the group spawn, in turn."""
    asker, group = f"agent:main:asker{number}", f"agent:main:discord:group:g{number}"
    for key in (asker, group):
        run_id = f"hello {key}"
        if runs.by_id(runtime.store.db, run_id) is None:
            await accept(runtime, RunRequest(key, run_id, run_id, create=True), OPERATOR)
    count = 0
    while True:
        count += 1
        run_id = f"{prefix}-x{number}-{count}"
        if count % 3:
            request, caller = RunRequest(group, run_id, run_id), Operator(asker)
        else:
            request = RunRequest("", run_id, run_id, spawn=SpawnSpec(group, "main", cleanup=count % 2 == 0))
            caller = Operator(group)
        await accept(runtime, request, caller)
        await ended(runtime, run_id)


async def delete_for_ever(runtime: Runtime, prefix: str) -> None:
    """Override the send policy of a key without a session; make a session, use it once and delete it; and so on."""
    count = 0
    while True:
        count += 1
        run_id = f"{prefix}-b{count}"
        waiting, brief = f"agent:main:waiting-{run_id}", f"agent:main:brief-{run_id}"
        word = "deny" if count % 2 else "allow"
        mark(f"overriding {waiting} {word}")
        await runtime.patch(waiting, SessionPatch({"sendPolicy": word}), OPERATOR)
        mark(f"overridden {waiting}")
        if count % 3 == 0:
            await create(runtime, waiting)
        await create(runtime, brief)
        await accept(runtime, brief_request(brief, run_id), OPERATOR)
        await ended(runtime, run_id)
        mark(f"deleting {brief} {run_id}")
        await runtime.delete(brief, OPERATOR)
        mark(f"deleted {brief}")


def brief_request(key: str, run_id: str) -> RunRequest:
    """Return the one message to a session that is deleted afterwards; the same each time."""
    return RunRequest(key, f"{run_id} {'x' * 10}", run_id, create=True)


async def create(runtime: Runtime, key: str) -> None:
    """Make a session."""
    mark(f"creating {key}")
    session = await runtime.create(NewSession(key), OPERATOR)
    mark(f"created {key} {session.session_id}")


async def accept(runtime: Runtime, request: RunRequest, caller: Operator) -> None:
    """Have a run accepted."""
    mark(f"sending {request.run_id}")
    ticket = await runtime.start_run(request, caller)
    mark(f"ack {ticket.run_id}")


async def ended(runtime: Runtime, run_id: str) -> None:
    """Wait for the end of a run, which is a good one."""
    outcome = await runtime.wait_run(run_id, None)
    mark(f"ended {run_id}" if outcome.status == "ok" else f"wrong {run_id} is {outcome.state}")


async def work(state: Path, mode: str, prefix: str, port: int) -> None:
    """Take the state directory over and work until killed."""
    watch_commits()
    mark("recovering")
    runtime = Runtime.open(state)
    agent = SlowAgent(0.05 if mode == "stream" else 0.001, mark)
    await runtime.start(SETTINGS, agent, command="test", channels={"discord": ToldChannel("discord", port)})
    mark("ready")
    for run in runs.live(runtime.store.db):
        if run.state == "running" and run.run_id not in runtime.active_runs:
            mark(f"wrong {run.run_id} is left running")
    if mode == "exchange":
        working = [exchange_for_ever(runtime, number, prefix) for number in range(PAIRS)]
    else:
        count = SESSIONS if mode == "stream" else 6
        working = [send_for_ever(runtime, number, prefix, wait=mode == "stream") for number in range(count)]
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*working, delete_for_ever(runtime, prefix))


def fork_for_ever(port: int) -> None:
    """Fork a process for each line of standard input."""
    schemas()  # and what it imports
    assert Work
    for line in sys.stdin:
        state, mode, prefix = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.run(work(Path(state), mode, prefix, port))
            os._exit(1)
        mark(f"pid {pid}")
        os.waitpid(pid, 0)
        mark("dead")


if __name__ == "__main__":
    fork_for_ever(int(sys.argv[1]))
