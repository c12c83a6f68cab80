"""An owner that was stopped holds nobody up: a clear answer within some seconds, and reading goes on."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from console.hosts.host import Host
from core.model.access import ALL, OPERATOR
from core.model.errors import Conflict
from core.model.sessions import SessionPatch, SessionQuery
from tests.hosts.test_host import MAIN, hosted, places, say, until
from tests.support.owner import process

PATIENCE = 12.0
"""Seconds within which everybody knows, on a busy machine."""


async def test_an_owner_that_was_stopped_holds_nobody_up(state: Path) -> None:
    async with process("own", state, 0.0) as owner, hosted(state) as other:
        assert not other.owns
        assert await say(other, "say before") == "before"
        owner.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            answers = await asyncio.gather(
                say(other, "say into the void"),
                other.runtime.patch(MAIN, SessionPatch({"label": "x"}), OPERATOR),
                return_exceptions=True,
            )
            assert time.monotonic() - began < PATIENCE
            assert isinstance(answers[0], Conflict)
            assert "which does not answer" in answers[0].message
            assert isinstance(answers[1], Exception)
            page = await other.runtime.list_sessions(SessionQuery(), ALL)
            assert [row.key for row in page.sessions] == [MAIN]
            assert (await other.runtime.history(MAIN, ALL, limit=1)).messages[0].text == "before"
            assert "which does not answer" in (other.runtime.refusal("send") or "")
            await newcomer(state)
        finally:
            owner.send_signal(signal.SIGCONT)
        await until(lambda: other.runtime.connection.state == "live")
        assert await say(other, "say after") == "after"


async def newcomer(state: Path) -> None:
    """Check that somebody who comes now reads and is told."""
    began, host = time.monotonic(), Host(places(state))
    try:
        with pytest.raises(Conflict, match="is owned by"):
            await host.start("console")
        assert time.monotonic() - began < PATIENCE
        assert "which does not answer" in host.runtime.connection.detail
        assert len((await host.runtime.history(MAIN, ALL, limit=9)).messages) == 2
    finally:
        await host.close()
