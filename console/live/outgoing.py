"""What was written in the composer and is on its way, while the operator writes on."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator


class Outgoing:
    """Messages that the gateways have not accepted yet; those of one session go in the order in which they came."""

    def __init__(self) -> None:
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def rest(self, key: str, draft: str) -> str:
        """Return what of a draft is not on its way yet: what is stays in the composer until it is accepted."""
        return draft.removeprefix("".join(self._texts[key]))

    def add(self, key: str, text: str) -> None:
        """Note that a message goes to a session; `turn` goes with it."""
        self._texts[key].append(text)

    @contextlib.asynccontextmanager
    async def turn(self, key: str, text: str) -> AsyncGenerator[None]:
        """Wait until those before it are answered, and end its way afterwards."""
        try:
            async with self._turns[key]:
                yield
        finally:
            self._texts[key].remove(text)


def without(draft: str, sent: str) -> str:
    """Return what stays of a draft of which something was sent: what was written after it."""
    return draft.replace(sent, "", 1)
