"""Answering the other windows on a state directory: consoles and commands of the same user, on the socket in it."""

import asyncio
import contextlib
import importlib
import logging
import secrets
from typing import TYPE_CHECKING

from core.config.paths import Places
from core.runtime.gateway import Runtime

if TYPE_CHECKING:
    from core.server.local import Listener

_log = logging.getLogger("switchboard.console")


async def answer(runtime: Runtime, places: Places, wait: float) -> "Listener | None":
    """Answer on the socket of a state directory that this process owns; None when there can be none.

    Args:
        wait: Seconds before it begins, so that a command that is soon done does without.
    """
    await asyncio.sleep(wait)
    await asyncio.to_thread(_load)  # 150 ms of imports
    from console.service import server_context
    from core.server.auth import Auth, Sites
    from core.server.local import listen

    nobody_has_it = secrets.token_hex()  # whoever reaches the socket is not asked for a token
    auth = Auth(nobody_has_it, None, runtime.store.clock)
    try:
        return await listen(server_context(runtime, places, auth, Sites()), places.state)
    except OSError as error:  # the others then read only, as they would with an older owner
        _log.warning("other windows cannot be answered: %s", error.strerror or error)
        return None


async def stop(answering: "asyncio.Task[Listener | None]") -> None:
    """Stop answering; while the directory is still owned."""
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        listener = await answering
        if listener is not None:
            await listener.close()


def _load() -> None:
    for module in ("console.service", "core.server.local"):
        importlib.import_module(module)
