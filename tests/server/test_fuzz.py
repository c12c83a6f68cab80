"""DESIGN 11: whatever is asked, over HTTP and over WebSocket, is answered, and leaves nothing behind."""

import random
from pathlib import Path

import pytest

from tests.support.fuzz import fuzz_server
from tests.support.fuzz_asks import TARGETS


@pytest.mark.spec("G7")
async def test_whatever_is_asked_is_answered_and_leaves_nothing_behind(state: Path) -> None:
    number = random.getrandbits(24)
    report = await fuzz_server(state, 500, number)
    assert report.findings == [], f"seed {number}"
    assert [target for target in TARGETS if not report.succeeded[target]] == [], f"seed {number}"
    assert report.on_sessions >= 0.6 * report.count
