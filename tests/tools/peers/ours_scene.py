"""Our console on one of OpenClaw's gateways: what the operator does there, step by step, and what must be readable."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Final

from textual import events
from textual.pilot import Pilot

from console.app import SwitchboardApp
from console.hosts.remote_host import RemoteHost
from console.profiles import Profiles
from console.themes import UNICODE_SIGNS
from core.config.paths import Places
from core.config.settings import GatewaySettings, Secret, Settings
from tests.scenes.pictures import MEDIUM, Picture, picture_of, text_of
from tests.tools.peers.gateways import Peer

SCRIPT: Final = Path(__file__).with_name("ours_scene.txt")
PATIENCE: Final = 120.0
"""Seconds until something must be readable; the peers are slow on a busy machine."""
TOOLS: Final = {"gateway": {"tools": {"allow": ["sessions_send", "sessions_spawn"]}}}
"""What the gateway must be configured to allow for the scene."""


class Player:
    """A console on a gateway, and the one who plays the scene."""

    def __init__(self, app: SwitchboardApp, pilot: Pilot[None]) -> None:
        self._app = app
        self._pilot = pilot

    async def play(self) -> None:
        """Play the scene to its end.

        Raises:
            AssertionError: Something cannot be read, or what must not be there can.
        """
        for number, what, words in _steps():
            match what:
                case ">":
                    self._app.post_message(events.Paste(words))
                    await self._pilot.pause()
                    await self._pilot.press("enter")
                case ">>":
                    self._app.post_message(events.Paste(words))
                    await self._pilot.pause()
                case "^":
                    await self._pilot.press(*words.split())
                case _:
                    await self._read(number, what, words)

    def picture(self) -> Picture:
        """Draw what the console shows, without what is different each time."""
        return picture_of(self._app, _same_each_time)

    async def _read(self, number: int, what: str, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            count = max(text.count(words) for text in _columns(text_of(self._app)))
            if count == {"<": max(1, count), "!": 0, "1": 1}[what]:
                return
            if time.monotonic() > deadline:
                shown = "\n".join(text_of(self._app))
                raise AssertionError(f"{SCRIPT.name}:{number}: {what} {words!r} stands there {count} times\n{shown}")
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def opened(peer: Peer, state: Path) -> AsyncGenerator[Player]:
    """Open a console on a gateway."""
    gateway = GatewaySettings(f"openclaw-{peer.version}", peer.url, Secret("literal", peer.token))
    places = Places(state, state / "config.json5", "scene", "scene", config_required=False)
    host = RemoteHost(places, Settings(), Profiles({}, state), [gateway])
    app = SwitchboardApp(host)
    app.signs = UNICODE_SIGNS
    try:
        async with app.run_test(size=MEDIUM) as pilot:
            yield Player(app, pilot)
            app.exit()
    finally:
        await host.close()


def _steps() -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(SCRIPT.read_text(encoding="utf-8").splitlines(), 1):
        what, _, words = line.partition(" ")
        if what and what != "#":
            yield number, what, words


def _columns(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield what stands on a screen, then in its list alone and in its transcript alone, without the line breaks."""
    edge = lines[1].find("│") if len(lines) > 1 else 0  # before the first picture there are no lines
    for part in (lines, [line[:edge] for line in lines], [line[edge + 1 :] for line in lines]):
        yield " ".join(" ".join(part).split())


def _same_each_time(text: str) -> str:
    text = re.sub(r"\b\d\d:\d\d\b", "14:02", text)
    text = re.sub(r"127\.0\.0\.1:\d{5}", "127.0.0.1:18789", text)
    return re.sub(r"live \d+ ms", lambda found: "live " + "9" * (len(found[0]) - 8) + " ms", text)
