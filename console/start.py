"""Opens the console: state first, then the screen with what is stored; everything heavy after its first picture."""

import asyncio
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from console.hosts.remote_host import AnyHost, open_elsewhere, open_host, read_known
from core.child_process import in_child_process
from core.config.gateways import LOCAL
from core.config.paths import find_places
from core.model.errors import Invalid

if TYPE_CHECKING:
    from console.startup import Scene


def run_console(state: str | None, config: str | None, gateways: str | None = None, *, demo: bool) -> int:
    """Open the console and return the exit code when it is closed.

    Args:
        gateways: Names or addresses of gateways, with commas between; None for the bundled runtime.

    Raises:
        SwitchboardError: The state directory or a gateway's name cannot be used, or there is no terminal.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise Invalid("the console needs a terminal: run it in one, or use a command such as `switchboard list`")
    if os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        raise Invalid(
            "the console cannot draw here, TERM says so: set TERM, or use a command such as `switchboard list`"
        )
    if demo:
        if gateways is not None:
            raise Invalid("the demo plays on a state of its own: leave --gateway out")
        from console.cli.demo import open_demo, play

        with open_demo() as host:
            return asyncio.run(_show(host, partial(play, host), "demo, on a temporary state"))
    return asyncio.run(_open(state, config, gateways))


async def _open(state: str | None, config: str | None, gateways: str | None) -> int:
    places = find_places(state, config)
    if gateways is None or gateways == LOCAL:
        return await _show(open_host(places, gateways))
    reading = asyncio.get_running_loop().run_in_executor(None, lambda: in_child_process(read_known, places))
    import console.app  # noqa: F401  # pyright: ignore[reportUnusedImport] - takes as long as reading, at once with it

    return await _show(open_elsewhere(places, gateways, await reading))


async def _show(host: AnyHost, scene: "Scene | None" = None, where: str = "") -> int:
    from console.app import SwitchboardApp

    app = SwitchboardApp(host, where=where, scene=scene)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, app.exit)
    try:
        await app.run_async()
    finally:
        app.remember()
        await app.gateways.close()
        await host.close()
    return app.return_code or 0
