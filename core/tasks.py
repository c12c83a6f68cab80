"""Background tasks with an owner: they end with it, and what breaks one of them is told; and several in a race."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any


class Tasks:
    """The background tasks of one object.

    Args:
        failed: Is called with the error of each task that broke.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[Any]] = set()

    def __contains__(self, task: object) -> bool:
        return task in self._running

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None]:
        """Do something in the background."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait(self) -> None:
        """Return when the tasks that are under way now have ended."""
        if self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Cancel all tasks, and return when they have ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


@contextlib.asynccontextmanager
async def racing(*work: Coroutine[Any, Any, Any]) -> AsyncGenerator[tuple[asyncio.Task[Any], ...]]:
    """Do several things at once, give their tasks when the first one is over, and cancel all with the block."""
    tasks = tuple(asyncio.get_running_loop().create_task(each) for each in work)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
