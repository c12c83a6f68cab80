"""Asking several gateways at once: only those that are reached, and for no longer than a reader waits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from core.gateway import Gateway
from core.model.access import Scope
from core.model.connection import REACHED, unreached
from core.model.errors import SwitchboardError
from core.model.sessions import SearchHit, SearchHits, Unsearched

T = TypeVar("T")
ANSWER_SECONDS: Final = 1.0
"""How long a read over all gateways waits for one of them; a list that comes later follows by itself."""
SEARCH_SECONDS: Final = 3.0
"""How long a search does: what comes later does not follow."""


async def ask_reached(
    gateways: Mapping[str, Gateway],
    read: Callable[[Gateway], Awaitable[T]],
    late: Callable[[str, bool], None] | None = None,
) -> list[T]:
    """Ask all gateways that are reached; those that do not answer in time are left out.

    Args:
        late: Told of each that is left out, and whether it is reached.
    """
    reached = [name for name, gateway in gateways.items() if gateway.connection.state in REACHED]
    if len(gateways) == 1 and reached:  # nobody else waits
        return [await read(gateways[reached[0]])]
    answers = await asyncio.gather(*(_in_time(read(gateways[name])) for name in reached))
    for name in list(gateways):
        answered = name in reached and answers[reached.index(name)]
        if late is not None and not answered:
            late(name, name in reached)
    return [answer[0] for answer in answers if answer]


async def search_in(
    name: str, gateway: Gateway, text: str, scope: Scope, *, limit: int, redacted: bool
) -> list[SearchHit]:
    """Search one gateway of several; when it cannot be searched in time, what is returned says why."""
    reason = unreached(gateway.connection)
    if reason is None:
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                return await gateway.search(text, scope, limit=limit, redacted=redacted)
        except TimeoutError:
            reason = f"it did not answer within {SEARCH_SECONDS:g} s"
        except SwitchboardError as error:
            reason = error.message
    return SearchHits(unsearched=(Unsearched(name or "this machine", reason),))


async def _in_time(answer: Awaitable[T]) -> tuple[T] | tuple[()]:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return (await answer,)
    except (TimeoutError, SwitchboardError):
        return ()
