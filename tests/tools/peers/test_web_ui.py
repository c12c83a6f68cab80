"""OpenClaw's web UI of the newest generation, in a real browser on `switchboard serve` behind a proxy of one origin."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.tools.peers.browser import browsing, one_origin
from tests.tools.peers.gateways import PEERS, VERSIONS
from tests.tools.peers.ours import Ours
from tests.tools.peers.test_theirs_on_ours import call, ours

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]
__all__ = ["ours"]
NEWEST = VERSIONS[-1]
UNKNOWN = {"unknown": 1}
"""`sessions.observer.visibility`, which tells whether the page is looked at: there are no observers here."""


async def test_their_web_ui_lists_chats_streams_and_aborts(ours: Ours, tmp_path: Path) -> None:
    home = tmp_path / "theirs"
    ui = PEERS / f"openclaw-{NEWEST}" / "node_modules" / "openclaw" / "dist" / "control-ui"
    with ours.at_work():
        call(ours, NEWEST, home, "chat.send", sessionKey="agent:main:other", message="say earlier", idempotencyKey="1")
        async with (
            one_origin(ui, ours.port) as origin,
            browsing(f"{origin}/#token={ours.token}", tmp_path / "profile") as page,
        ):
            await page.wait_for(lambda text: "Connected" in text and "Main Session" in text, "connection")
            await page.wait_for(lambda text: "other" in text, "list of sessions")
            assert await page.click("textarea")
            await page.write("say first words")
            await page.wait_for(lambda text: text.count("first words") >= 2, "reply")
            await page.write("be slow 30")
            await page.wait_for(lambda text: "1 2 3 4 5" in text, "streaming")
            assert "done" not in (await page.text()).rpartition("1 2 3 4 5")[2]
            async with asyncio.timeout(15):
                while not await page.click(".chat-send-btn--stop"):
                    await asyncio.sleep(0.05)
            while len(said := await asyncio.to_thread(replies, ours, home)) < 2:
                await asyncio.sleep(0.05)
        asked, refused = ours.counted("requests"), ours.counted("requests_refused")
    assert {"chat.startup", "chat.send", "chat.abort", "sessions.messages.subscribe", "models.list"} <= set(asked)
    assert refused == UNKNOWN, f"asked for and not answered: {refused}"
    assert "done" not in str(said[-1])


def replies(ours: Ours, home: Path) -> list[Any]:
    """Return what was answered in the main session."""
    history = call(ours, NEWEST, home, "chat.history", sessionKey="main")
    return [message["content"] for message in history["messages"] if message["role"] == "assistant"]
