"""Reading forwards through what comes in pages that end at the newest message and are bounded in bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable

from core.model.messages import Message
from core.model.sessions import HistoryPage

Read = Callable[[int, int], Awaitable[HistoryPage]]
"""Reads a page: how many messages at most, and the `seq` before which it ends."""


async def forwards(read: Read, after: int, last: int, step: int) -> AsyncIterator[tuple[tuple[Message, ...], int]]:
    """Read the messages behind one `seq` up to another, in order; with each page comes the `seq` that it reaches.

    A page that did not fit whole is asked for again with as many as did fit, so what is held at once stays bounded: one
    page, and none while the next one is waited for.

    Args:
        step: Messages of a page at most.
    """
    most = step
    while after < last:
        upto = min(after + step, last)
        page = await read(upto - after, upto + 1)
        if step > 1 and page.before is not None and page.before > after + 1:
            step = max(1, min(step // 2, upto + 1 - page.before))
            del page
            continue
        messages = page.messages
        del page
        yield messages, upto
        del messages
        after, step = upto, min(2 * step, most)
