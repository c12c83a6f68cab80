"""`python -m tests.tools.peers` draws our console on OpenClaw's gateways and their TUI on ours into `screenshots/`."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.scenes.pictures import Picture
from tests.screenshots import FOLDER
from tests.tools.peers import ours_scene, tui_scene
from tests.tools.peers.gateways import OUTERMOST, PEERS, Peer, running
from tests.tools.peers.ours import Ours, tui


def main() -> int:
    """Play the scenes and draw how they end."""
    for version in OUTERMOST:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with running(version, folder / "theirs", ours_scene.TOOLS) as peer:
                _draw(f"openclaw-{version}-120x36", asyncio.run(_ours(peer, folder / "ours")))
            _draw(f"openclaw-tui-{version}-120x40", _theirs(version, folder))
    return 0


async def _ours(peer: Peer, state: Path) -> Picture:
    async with ours_scene.opened(peer, state) as player:
        await player.play()
        return player.picture()


def _theirs(version: str, folder: Path) -> Picture:
    home = folder / "serving"
    home.mkdir()
    os.environ |= {"SWITCHBOARD_HOME": str(home), "SWITCHBOARD_PEERS": str(PEERS)}
    ours = Ours(home)
    with ours.at_work(), tui(ours, version, folder / "tui") as terminal:
        return tui_scene.play(terminal, ours.url)


def _draw(name: str, picture: Picture) -> None:
    (FOLDER / f"{name}.svg").write_text(picture.svg, encoding="utf-8")
    print(f"{name}.svg  {len(picture.svg) // 1000} KB")


if __name__ == "__main__":
    sys.exit(main())
