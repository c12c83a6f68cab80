"""A store that is closed while it is read refuses what comes, in one sentence, and takes nobody down with it."""

import asyncio
from pathlib import Path

import pytest

from core.model.access import ALL
from core.model.errors import Unavailable
from tests.support.runtimes import MAIN, running, send


@pytest.mark.parametrize("how", ["at once", "on the thread"])
async def test_reading_while_it_is_closed(state: Path, how: str) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hi")

        async def read_until_refused() -> None:
            while True:
                if how == "at once":
                    await runtime.history(MAIN, ALL, limit=100, in_brief=True)
                    await asyncio.sleep(0)
                else:
                    await runtime.search("hi", ALL)

        reading = [asyncio.create_task(read_until_refused()) for _ in range(10)]
        await asyncio.sleep(0)
    for task in reading:
        with pytest.raises(Unavailable, match="is closed here: this process is ending"):
            await task
