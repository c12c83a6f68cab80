"""Our console operates their oldest and their newest gateway: the recorded scene, by keys alone."""

from pathlib import Path

import pytest

from tests.tools.peers.gateways import running
from tests.tools.peers.ours_scene import TOOLS, opened

pytestmark = [pytest.mark.peer, pytest.mark.timeout(1200)]


async def test_our_console_operates_their_sessions(outermost: str, tmp_path: Path) -> None:
    with running(outermost, tmp_path / "theirs", TOOLS) as peer:
        async with opened(peer, tmp_path / "ours") as player:
            await player.play()
