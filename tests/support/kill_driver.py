"""A runtime at work that says what it does, line by line, until somebody kills it.

    python -m tests.support.kill_driver STATE send|stream PREFIX

It prints, each as one line that is written at once:

    recovering, ready       around the start of the runtime
    sending ID, ack ID      around the acceptance of a run
    commit, committed       around the COMMIT of the writer, from inside the writer's thread
    saying ID, ended ID     around a run's turn: its first words are out; its end is acknowledged
    wrong WORDS             something that must never be
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

from core.agents.port import AgentEvent, Reply, TextDelta, ToolEnded, Turn
from core.config.settings import ModelSettings, Settings
from core.model.access import OPERATOR
from core.model.messages import Usage, text_block, tool_call_block
from core.model.runs import RunRequest
from core.runtime.gateway import Runtime
from core.store import database, runs

SESSIONS = 24


def mark(line: str) -> None:
    """Say what happens; whole lines of this length arrive whole, also when the process dies right after."""
    os.write(1, f"{line}\n".encode())


class SlowAgent:
    """Streams for a while, calls a tool, streams again.

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

    async def close(self) -> None:
        """Hold nothing."""


def watch_commits() -> None:
    """Have the writer's thread say when it commits."""
    commit = database._Writer._commit

    def watched(writer: Any, group: Sequence[Any]) -> None:
        writer._db.set_trace_callback(lambda statement: mark("commit") if statement == "COMMIT" else None)
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
        mark(f"sending {run_id}")
        ticket = await runtime.start_run(RunRequest(key, f"{run_id} {'x' * size}", run_id, create=True), OPERATOR)
        mark(f"ack {ticket.run_id}")
        if wait or count % 4 == 0:
            outcome = await runtime.wait_run(run_id, None)
            mark(f"ended {run_id}" if outcome.status == "ok" else f"wrong {run_id} is {outcome.state}")


async def work(state: Path, mode: str, prefix: str) -> None:
    """Take the state directory over and work until killed."""
    watch_commits()
    streaming = mode == "stream"
    mark("recovering")
    runtime = Runtime.open(state)
    settings = Settings(max_concurrent=SESSIONS)
    await runtime.start(settings, SlowAgent(0.05 if streaming else 0.001, mark), command="test")
    mark("ready")
    for run in runs.live(runtime.store.db):
        if run.state == "running" and run.run_id not in runtime.active_runs:
            mark(f"wrong {run.run_id} is left running")
    senders = SESSIONS if streaming else 6
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*(send_for_ever(runtime, n, prefix, wait=streaming) for n in range(senders)))


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
