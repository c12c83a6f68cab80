"""Real OpenClaw gateways of four generations, each on ports and in a directory of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

VERSIONS: Final = ("2026.4.14", "2026.5.28", "2026.7.35", "2026.9.6")
"""One of each generation, oldest first; the first speaks protocol 3, the others 4."""
OUTERMOST: Final = (VERSIONS[0], VERSIONS[-1])
"""For what takes long, or does not depend on what lies between."""
START: Final = Path(__file__).parent / "start"
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
PEERS: Final = Path(os.environ.get("SWITCHBOARD_PEERS", _CACHE / "switchboard-peers"))
"""Where their programs are; looked up before each test gets a home of its own."""
PLACES: Final = {name: os.environ[name] for name in ("HOME", "SWITCHBOARD_PEERS", "PATH") if name in os.environ}
"""Where the peers are kept: of this machine, not of one test."""
SECONDS: Final = 900
"""The first start downloads a gigabyte."""


@dataclass(frozen=True)
class Peer:
    """A gateway that runs.

    Attributes:
        version: Of its program, one of `VERSIONS`.
        home: Its directory; the gateway's own state is `oc` in it.
    """

    version: str
    url: str
    token: str
    home: Path
    port: int
    model_port: int
    config: str

    def kill(self) -> None:
        """End the gateway at once; its model goes on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((self.home / "gateway.pid").read_text()), signal.SIGKILL)

    def start(self) -> None:
        """Start it again on what it left."""
        _start(self.version, self.home, self.port, self.model_port, self.config)


@contextlib.contextmanager
def running(version: str, home: Path, config: dict[str, Any] | None = None) -> Generator[Peer]:
    """Run a gateway; the test is skipped aloud when it cannot be had."""
    port, model_port = _free_ports()
    written = json.dumps(config or {})
    told = _start(version, home, port, model_port, written)
    try:
        yield Peer(version, told["url"], told["token"], home, port, model_port, written)
    finally:
        subprocess.run([START, "down", "--home", home], check=False, capture_output=True)


def _start(version: str, home: Path, port: int, model_port: int, config: str) -> dict[str, Any]:
    ports = ["--port", str(port), "--model-port", str(model_port)]
    command = [START, "up", "--version", version, *ports, "--home", home, "--config", config]
    try:
        environment = {**os.environ, "SWITCHBOARD_PEERS": str(PEERS)}
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"OpenClaw {version} cannot be had here: {error}")
    if done.returncode:
        pytest.skip(f"OpenClaw {version} cannot be had here: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
