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
    async def turn(self, key: str, text: str) -> AsyncGenerator[bool]:
        """Wait until those before it are answered, and end its way afterwards.

        Gives False when one of them was refused: this one then stays in the composer, behind the other.
        """
        try:
            async with self._turns[key]:
                yield text in self._texts[key]
        finally:
            if text in self._texts[key]:
                self._texts[key].remove(text)

    def refuse(self, key: str) -> None:
        """Let nothing go that was written to a session behind a message that was refused."""
        self._texts[key].clear()
