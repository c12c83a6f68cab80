"""The lines of the gateway's bench on other gateways and on ours, at the same sizes, in one run.

Sizes are what can be made over their wire in a minute; needs the peers of `tests/tools/peers`.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from websockets.exceptions import WebSocketException

from tests.tools.bench.gateway import LONG, SHORT, SHORT_MESSAGES, Sizes, instant_model, lines_of, serving
from tests.tools.bench.table import Figure
from tests.tools.bench.wire import Address, Wire

START: Final = Path(__file__).parent.parent / "peers" / "start"
VERSIONS: Final = ("2026.9.6", "2026.4.14")
FIRST_PORT: Final = 21_001
SIZES: Final = Sizes(sessions=200, messages=1_000)


def measure_peers() -> list[Figure]:
    """Measure ours, and the newest and the oldest generation of theirs."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name, instant_model() as model:
        folder = Path(name)
        with serving(folder, model=model) as address:
            asyncio.run(_fill(address))
            figures += lines_of(address, "switchboard: ", SIZES, "say hello")
        for number, version in enumerate(VERSIONS):
            figures += _measure_peer(folder / version, version, FIRST_PORT + 200 * number)
    return figures


def _measure_peer(home: Path, version: str, port: int) -> list[Figure]:
    started = _peer("up", "--version", version, "--port", str(port), "--home", str(home))
    told = json.loads(started)
    try:
        address = Address(told["url"], told["token"], home / "device")
        asyncio.run(_ready(address))
        asyncio.run(_fill(address))
        asyncio.run(_ready(address))  # it may have hung up on everybody meanwhile, to read its configuration again
        return lines_of(address, f"openclaw {version}: ", SIZES, "SAY hello")
    finally:
        _peer("down", "--home", str(home))


def _peer(*arguments: str) -> str:
    done = subprocess.run([str(START), *arguments], stdout=subprocess.PIPE, stderr=sys.stderr, text=True, check=True)
    return done.stdout


async def _ready(address: Address) -> None:
    """Wait until a gateway lets clients in: it refuses them for a while after its start."""
    for left in range(60, -1, -1):
        try:
            wire = await Wire.open(address)
        except (RuntimeError, WebSocketException, OSError):
            if not left:
                raise
            await asyncio.sleep(0.5)
        else:
            await wire.close()
            return


async def _fill(address: Address) -> None:
    wire = await Wire.open(address)
    for number in range(SIZES.sessions):
        await wire.call("sessions.create", {"key": f"agent:main:s{number}", "label": f"session {number}"})
    for key, count in ((LONG, SIZES.messages), (SHORT, SHORT_MESSAGES)):
        await wire.call("sessions.create", {"key": key})
        for number in range(count):
            await wire.call("chat.inject", {"sessionKey": key, "message": f"{number}: {'some words ' * 20}"})
    await wire.close()
