"""The owner answers other windows as soon as it can, also when it could not at its start."""

import asyncio
import logging
from pathlib import Path

import pytest

from console.hosts import answering
from core.config.paths import find_places
from core.remote.native.local import attach
from core.wire.local import SOCKET_NAME
from tests.support.runtimes import running


async def test_what_keeps_it_from_answering_may_pass(
    state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answering, "AGAIN_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, "switchboard.console")
    async with running(state) as runtime:
        (state / SOCKET_NAME).mkdir()
        task = asyncio.create_task(answering.answer(runtime, find_places(str(state)), 0.0))
        async with asyncio.timeout(20):
            while not caplog.messages:
                await asyncio.sleep(0.01)
            (state / SOCKET_NAME).rmdir()
            await task
        gateway = await attach(state)
        await gateway.close()
        await answering.stop(task)
        assert not (state / SOCKET_NAME).exists()
    assert [message.partition(":")[0] for message in caplog.messages] == ["other windows cannot be answered yet"]


async def test_an_owner_that_cannot_answer_still_ends(state: Path) -> None:
    async with running(state) as runtime:
        (state / SOCKET_NAME).mkdir()
        task = asyncio.create_task(answering.answer(runtime, find_places(str(state)), 0.0))
        await asyncio.sleep(0)
        await answering.stop(task)
