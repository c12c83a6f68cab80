"""Opens the console: state first, then the screen with what is stored; everything heavy after its first picture."""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from console.host import Host
from core.config.paths import find_places
from core.model.errors import Invalid

if TYPE_CHECKING:
    from console.app import Scene


def run_console(state: str | None, config: str | None, *, demo: bool) -> int:
    """Open the console and return the exit code when it is closed.

    Raises:
        SwitchboardError: The state directory cannot be used, or there is no terminal.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise Invalid("the console needs a terminal: run it in one, or use a command such as `switchboard list`")
    if os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        raise Invalid(
            "the console cannot draw here, TERM says so: set TERM, or use a command such as `switchboard list`"
        )
    if demo:
        from console.demo import open_demo

        with open_demo() as opened:
            return asyncio.run(_show(opened.host, opened.play, "demo, on a temporary state"))
    return asyncio.run(_show(Host(find_places(state, config))))


async def _show(host: Host, scene: "Scene | None" = None, where: str = "local") -> int:
    from console.app import SwitchboardApp

    app = SwitchboardApp(host, where=where, scene=scene)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, app.exit)
    try:
        await app.run_async()
    finally:
        app.remember()
        await host.close()
    return app.return_code or 0
