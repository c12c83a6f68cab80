"""Runtimes, agents and waiting, for tests of everything that runs."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from core.agents.choose import AgentBackends
from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.channels import Channels
from core.clock import Clock
from core.config.settings import ModelSettings, Settings
from core.gateway import Feed, Gateway
from core.model.access import ALL, OPERATOR, Caller
from core.model.events import DurableEvent
from core.model.messages import Message, Usage, text_block
from core.model.runs import RunRequest, RunTicket
from core.model.sessions import Session
from core.runtime.gateway import Runtime
from core.runtime.runs.turn import Backends
from core.tools.dispatch import dispatch

MAIN = "agent:main:main"


@contextlib.asynccontextmanager
async def running(
    state: Path,
    settings: Settings | None = None,
    backends: Backends | None = None,
    *,
    clock: Clock | None = None,
    run_all: bool = True,
    channels: Channels | None = None,
) -> AsyncGenerator[Runtime]:
    """Open and start a runtime on a state directory, and close it at the end."""
    runtime = Runtime.open(state, clock)
    try:
        backends = backends or AgentBackends(0.0)
        await runtime.start(settings or Settings(), backends, command="test", channels=channels, run_all=run_all)
        yield runtime
    finally:
        await runtime.close()


async def until(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Wait until a condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.002)


async def until_async(condition: Callable[[], Awaitable[object]], *, seconds: float = 30.0) -> None:
    """Wait until a condition that must itself be awaited holds."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.002)


async def quiet(runtime: Runtime) -> None:
    """Wait until what was woken just now has been to the store and back; for tests that nothing happens."""
    for _ in range(3):
        await runtime.store.write(lambda tx: None)


def nobody(events: Sequence[DurableEvent]) -> None:
    """Hear events in place of those who listen."""
    del events


async def call(gateway: Gateway, name: str, caller: Caller = OPERATOR, /, **arguments: object) -> dict[str, Any]:
    """Run a session tool."""
    return await dispatch(gateway, caller, name, arguments)


async def send(gateway: Gateway, key: str, message: str, caller: Caller = OPERATOR, **more: object) -> dict[str, Any]:
    """Run `sessions_send` and wait for the reply."""
    return await call(gateway, "sessions_send", caller, sessionKey=key, message=message, **more)


async def begin(runtime: Runtime, key: str, message: str, caller: Caller = OPERATOR, **more: Any) -> RunTicket:
    """Have a message accepted without waiting for its run."""
    return await runtime.start_run(RunRequest(key, message, create=True, **more), caller)


async def transcript(runtime: Runtime, key: str) -> list[Message]:
    """Return all messages of a session's current transcript."""
    return list((await runtime.history(key, ALL, limit=10_000)).messages)


async def words(runtime: Runtime, key: str) -> list[tuple[str, str]]:
    """Return role and text of all messages of a session's current transcript."""
    return [(message.role, message.text) for message in await transcript(runtime, key)]


async def session(runtime: Runtime, key: str) -> Session:
    """Return a session."""
    return await runtime.get_session(key, ALL)


Play = Callable[[Turn], AsyncGenerator[AgentEvent, None]]


class Agent:
    """A backend that plays what a test wrote, and remembers every turn it was given.

    Attributes:
        turns: The turns so far.
        at_work: Keys of the sessions in which it acts now.
        most_at_work: The highest number of turns at once.
        held: While it is set, every turn waits before it says anything.
    """

    def __init__(self, play: Play | None = None, *, held: bool = False) -> None:
        self.turns: list[Turn] = []
        self.at_work: list[str] = []
        self.most_at_work = 0
        self._play = play or echo
        self._go = asyncio.Event()
        if not held:
            self._go.set()

    def __call__(self, model: ModelSettings | None) -> "Agent":
        """Serve every model."""
        return self

    def hold(self) -> None:
        """Let turns wait until they are released."""
        self._go.clear()

    def release(self) -> None:
        """Let held turns go on."""
        self._go.set()

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        """Play one turn."""
        self.turns.append(turn)
        self.at_work.append(turn.key)
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        try:
            await self._go.wait()
            async with contextlib.aclosing(self._play(turn)) as events:
                async for event in events:
                    yield event
        finally:
            self.at_work.remove(turn.key)

    async def close(self) -> None:
        """Hold nothing."""


async def echo(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Answer with the words of the input."""
    said = f"echo {turn.transcript[-1].text}"
    yield TextDelta(said)
    yield Reply((text_block(said),), Usage(10, 5), "test")


class Listener:
    """Takes everything a feed hands out, in the background, as a console does."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.events: list[Any] = []
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.feed:
            self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def ended(self) -> None:
        """Wait until there is nothing more to hear."""
        await self._task

    async def close(self) -> None:
        """Leave."""
        self.feed.close()
        await self._task


@contextlib.asynccontextmanager
async def listening(runtime: Runtime, *keys: str, after: int | None = None) -> AsyncGenerator[Listener]:
    """Subscribe to a runtime and watch sessions."""
    feed = runtime.subscribe(after)
    for key in keys:
        feed.watch(key)
    listener = Listener(feed)
    try:
        yield listener
    finally:
        await listener.close()
