"""Our gateway for OpenClaw's clients to work on, and how they are started."""

import json
import os
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.program import started
from tests.support.terminal import Terminal
from tests.tools.peers.gateways import START
from tests.tools.peers.tui_scene import COLUMNS, ROWS


class Ours:
    """Our gateway at work.

    Attributes:
        port: The same one after it was started anew.
    """

    def __init__(self, home: Path, port: int = 0) -> None:
        self.home = home
        self.port = port
        self.token = ""

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"ws://127.0.0.1:{self.port}"

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Run it."""
        with started("serve", "--json", "--port", str(self.port)) as process:
            assert process.process.stdout is not None
            facts = json.loads(process.process.stdout.readline())
            self.port = facts["port"]
            self.token = (self.home / "state" / "gateway.token").read_text().strip()
            yield

    def counted(self, name: str) -> dict[str, int]:
        """Return a counter of the requests, by method."""
        answer = httpx.get(
            f"http://127.0.0.1:{self.port}/metrics", headers={"authorization": f"Bearer {self.token}"}, trust_env=False
        )
        found = re.findall(rf'^switchboard_{name}_total{{method="(.*)"}} (\d+)$', answer.text, re.MULTILINE)
        return {method: int(count) for method, count in found}


def command(version: str, home: Path, kind: str, *arguments: str) -> list[str]:
    """Return a command line of one of their programs."""
    options = ["--version", version, "--home", str(home)]
    return [str(START), kind, *options, "--", *arguments]


def run(version: str, home: Path, *arguments: str) -> Any:
    """Run their command line and return the JSON that it prints."""
    done = subprocess.run(
        command(version, home, "oc", *arguments), check=False, capture_output=True, text=True, timeout=900
    )
    if done.returncode == 127 or "npm error" in done.stderr:
        pytest.skip(f"the client of {version} cannot be had here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, f"{arguments}: {done.stdout[-500:]} {done.stderr[-500:]}"
    return json.loads(done.stdout[done.stdout.index("{") :])


def tui(ours: Ours, version: str, home: Path) -> Terminal:
    """Start their TUI on our gateway, and wait until it is connected."""
    arguments = command(version, home, "tui", "--url", ours.url, "--token", ours.token)
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    terminal = Terminal(arguments, environment, columns=COLUMNS, rows=ROWS)
    terminal.wait_for("connected", seconds=900.0)
    return terminal
