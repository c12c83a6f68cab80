"""Makes uvicorn look more often whether it is to stop; importing this module does so for the whole process.

It looks ten times a second whether somebody told it to stop, and again whether its connections are gone: two tenths of
a second for each server, of which tests start hundreds.
"""

import asyncio
from typing import Any

import uvicorn.server

_LONGEST = 0.01


class _Asyncio:
    """What uvicorn knows as `asyncio`, with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, _LONGEST))


uvicorn.server.asyncio = _Asyncio()  # type: ignore[assignment]
