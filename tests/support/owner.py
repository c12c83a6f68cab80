"""The owner of a state directory as a process of its own, which answers on its socket; and somebody who listens there.

python -m tests.support.owner own STATE PACE     runs work until it is ended; prints `ready`
python -m tests.support.owner hear STATE         prints `hearing`, then each message as `role text`
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from core.agents.choose import AgentBackends
from core.model.events import MessageAppended
from core.remote.native.local import attach
from core.server.local import listen
from tests.contract.ways import own_context
from tests.support.runtimes import running
from tests.support.stores import ROOT


@contextlib.asynccontextmanager
async def process(*arguments: object) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start such a process, wait for its first line, and kill it at the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.owner",
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert started.stdout is not None
    try:
        assert await started.stdout.readline(), "it said nothing"
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


async def _own(state: Path, pace: float) -> None:
    async with running(state, backends=AgentBackends(pace)) as runtime:
        await listen(own_context(runtime, state), state)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _hear(state: Path) -> None:
    gateway = await attach(state)
    feed = gateway.subscribe()
    feed.watch(None)
    await gateway.models()
    print("hearing", flush=True)
    async for event in feed:
        if isinstance(event, MessageAppended):
            print(event.message.role, event.message.text, flush=True)


if __name__ == "__main__":
    what, directory, *more = sys.argv[1:]
    asyncio.run(_own(Path(directory), float(more[0])) if what == "own" else _hear(Path(directory)))
