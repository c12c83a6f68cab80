"""Lets a runtime die in the middle of its work, in this process: from one moment on nothing it does reaches the disk.

    doom = Doom(7, "after")
    async with dying(state, doom, clock, live) as life:  # live: a coroutine function that works with the runtime
        await doom.heard.wait()

The moment is a commit of the writer, counted from the start: just before it, just after it and before anybody hears of
it, or some turns of the event loop after everybody has. What is on disk then is what a process that was killed there
would have left; SQLite's own part of that is for the real kills of `tests.tools.kills`.
"""

# It breaks the writer from inside:
# pyright: reportPrivateUsage=false

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from core.clock import Clock
from core.runtime.gateway import Runtime
from core.store import database

Moment = Literal["before", "after", "later"]


@dataclass
class Doom:
    """When a runtime dies.

    Attributes:
        commits: The commit it dies at, counted from 1.
        moment: `before` that commit, `after` it and before its acknowledgement, or `later`.
        turns: With `later`: turns of the event loop from the acknowledgement on.
        dead: Whether it has happened.
    """

    commits: int
    moment: Moment
    turns: int = 0
    dead: bool = False
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def die(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let nothing more reach the disk."""
        self.dead = True
        loop.call_soon_threadsafe(self.heard.set)

    async def die_later(self) -> None:
        """Die after some turns of the loop."""
        for _ in range(self.turns):
            await asyncio.sleep(0)
        self.die(asyncio.get_running_loop())


class MortalWriter(database._Writer):
    """The writer of a store, until it dies; after that it takes jobs and does nothing about them."""

    def __init__(self, store: database.Store, finish: database.Finish, doom: Doom) -> None:
        self._doom = doom
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._tell = store._on_commit
        super().__init__(store._path, store.clock, finish, self._acknowledged)

    def _commit(self, group: Sequence[Any]) -> None:
        if self._doom.dead:
            return
        self._count += 1
        if self._count >= self._doom.commits and self._doom.moment == "before":
            self._doom.die(self._loop)
            return
        super()._commit(group)
        if self._count >= self._doom.commits and self._doom.moment == "after":
            self._doom.die(self._loop)

    def _acknowledged(self, jobs: Sequence[Any]) -> None:
        if self._doom.dead:
            return
        self._tell(jobs)
        if self._count >= self._doom.commits and self._doom.moment == "later":
            self._doom.commits = 1_000_000
            self._loop.create_task(self._doom.die_later())


@contextlib.asynccontextmanager
async def dying(
    state: Path,
    doom: Doom,
    clock: Clock,
    start: Callable[[Runtime], Any],
) -> AsyncGenerator[asyncio.Task[Any]]:
    """Run `start` with a runtime that dies, and bury the runtime at the end without a word to the disk."""
    before = asyncio.all_tasks()
    runtime = Runtime.open(state, clock)
    store = runtime.store
    store.start_writer = lambda finish: setattr(store, "_writer", MortalWriter(store, finish, doom))
    try:
        yield asyncio.create_task(start(runtime))
    finally:
        assert doom.dead, "a runtime is buried when it is dead"
        await bury(runtime, before)


async def bury(runtime: Runtime, before: set[asyncio.Task[Any]]) -> None:
    """Cancel everything that the runtime had under way, and give its files free."""
    if runtime._work is not None:
        runtime._work.engine._stopping = True
        runtime._work.outbox._closed = True
    while tasks := asyncio.all_tasks() - before - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.01)
    runtime._work = None
    runtime._waiters._ends.clear()
    runtime.store.close()
    if runtime._lock is not None:
        runtime._lock.release()
