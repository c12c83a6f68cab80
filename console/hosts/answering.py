"""Answering the other windows on a state directory: consoles and commands of the same user, on the socket in it."""

import asyncio
import contextlib
import importlib
import logging
import secrets
from typing import TYPE_CHECKING, Final

from core.config.paths import Places
from core.runtime.gateway import Runtime

if TYPE_CHECKING:
    from console.hosts.service import Company
    from core.server.local import SocketListener

AGAIN_SECONDS: Final = 1.0
"""Between two tries to begin."""
_log = logging.getLogger("switchboard.console")


async def answer(runtime: Runtime, places: Places, wait: float, company: "Company | None" = None) -> "SocketListener":
    """Answer on the socket of a state directory that this process owns, as soon as that can be.

    It begins after `wait` seconds, so that a command that is soon done does without; `company`: see `Company`.
    """
    await asyncio.sleep(wait)
    told = ""
    while True:
        try:
            for module in ("console.hosts.service", "core.server.local"):  # 150 ms of imports
                await asyncio.to_thread(importlib.import_module, module)
            from console.hosts.service import server_context
            from core.server.auth import Auth, Sites
            from core.server.local import listen

            auth = Auth(secrets.token_hex(), None, runtime.store.clock)  # nobody on the socket is asked for a token
            listener = await listen(server_context(runtime, places, auth, Sites(), company=company), places.state)
        except OSError as error:  # no descriptors, a full disk: until it passes, the others read only
            reason = error.strerror or str(error)
            if reason != told:
                _log.warning("other windows cannot be answered yet: %s", reason)
            told = reason
            runtime.readiness.cannot_answer(
                f"other windows on {places.state} cannot be answered: {reason}; tried each second"
            )
        else:
            runtime.readiness.cannot_answer("")
            return listener
        await asyncio.sleep(AGAIN_SECONDS)


async def stop(answering: "asyncio.Task[SocketListener]") -> None:
    """Stop answering; while the directory is still owned."""
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await answering).close()
