"""Changes that are asked for twice and done once: a client whose connection was lost does not know whether the first
request arrived."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from core.model.errors import Conflict, SwitchboardError, Unavailable

KEPT: Final = 256
"""Changes whose answers are remembered, the newest ones."""
_log = logging.getLogger("switchboard.server")


class AnsweredRequests:
    """The changes of late, by the idempotency key that the client gave.

    A change goes on when the client that asked is gone; whoever asks again with the same key waits for the same answer.
    """

    def __init__(self) -> None:
        self._answers: dict[str, tuple[str, asyncio.Task[Any]]] = {}

    def __len__(self) -> int:
        """How many changes are remembered."""
        return len(self._answers)

    async def once(self, key: str, what: str, change: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any answer
        """Make the change, or return what came of it when it was made before.

        Args:
            what: Method and parameters as text.

        Raises:
            Conflict: The key stands for another change.
            Unavailable: It could not be made now; whoever asks again with the key has it tried again.
        """
        known = self._answers.get(key)
        if known is not None and _failed_for_now(known[1]):
            known = None
        if known is None:
            task = asyncio.ensure_future(change())
            self._answers[key] = known = (what, task)
            self._forget_old()
        if known[0] != what:
            raise Conflict("this idempotency key stands for another request: choose a new one for each")
        try:
            await asyncio.wait([known[1]])
        except asyncio.CancelledError:  # whoever asked is gone, and the change goes on
            known[1].add_done_callback(_look)
            raise
        return known[1].result()

    def _forget_old(self) -> None:
        while len(self._answers) > KEPT:
            oldest = next((key for key, (_, task) in self._answers.items() if task.done()), None)
            if oldest is None:
                return
            del self._answers[oldest]


def _failed_for_now(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or isinstance(task.exception(), Unavailable))


def _look(task: asyncio.Task[Any]) -> None:
    """Look at how a change ended whose client is gone: what is no refusal stands in the log."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SwitchboardError):
        _log.error("a change failed that a client asked for", exc_info=error)
