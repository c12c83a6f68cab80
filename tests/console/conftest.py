"""States for the console to open: with nothing in them, or with a few sessions."""

from pathlib import Path

import pytest

from tests.console.driver import CRON, MAIN, OPS
from tests.support.runtimes import running, send


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner in these tests never answers: nobody waits long to see that."""
    monkeypatch.setattr("console.hosts.host.ANSWER_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a key exports is written into the folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def fleet(state: Path) -> Path:
    """Return a state with three sessions: ops, then main, then a cron job, each with one exchange."""
    async with running(state) as runtime:
        for key, words in ((CRON, "nightly"), (MAIN, "welcome"), (OPS, "standby")):
            await send(runtime, key, f"say {words}")
    return state
