"""What every test stands on: its own home and environment, one time zone, and a runtime when it asks for one."""

import gc
import logging
import os
import shutil
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from core.runtime.gateway import Runtime
from tests.support.runtimes import running

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

_FIXED = {
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "TEXTUAL_ANIMATIONS": "none",
}
_GONE = (
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "TEXTUAL",
    "TEXTUAL_THEME",
)
_WHOLE = ("tests/store/", "tests/cli/", "tests/hosts/")
_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30
_ROOT = Path(__file__).parent.parent
_BEFORE = pytest.StashKey[set[str]]()
_OURS = {"__pycache__", "snapshot_report.html"}


def pytest_configure(config: pytest.Config) -> None:
    """Keep what tests write in memory where there is enough of it: a commit to a disk takes forty times as long.

    Modules are kept compiled, also where the environment says otherwise: else each process compiles all of them.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    config.stash[_BEFORE] = {path.name for path in _ROOT.iterdir()}
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when the tests left something in the checkout."""
    names = {path.name for path in _ROOT.iterdir() if not path.name.startswith(".")}
    left = names - session.config.stash[_BEFORE] - _OURS
    if left and not hasattr(session.config, "workerinput"):
        print(f"\ntests left in the checkout: {', '.join(sorted(left))}", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `.ci/run` asks for on Pythons that are not the first one."""
    parser.addoption("--tenth", action="store_true", help=f"a tenth of the tests, and all of {', '.join(_WHOLE)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a tenth of the tests, the same in every process and another one on each Python."""
    if not config.getoption("--tenth"):
        return
    chosen = sys.version_info.minor % 10

    def is_kept(item: pytest.Item) -> bool:
        return item.nodeid.startswith(_WHOLE) or zlib.crc32(item.nodeid.encode()) % 10 == chosen

    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test a home of its own and nothing of the environment it was started from."""
    home = tmp_path / "home"
    for name in list(os.environ):
        if name.startswith(("SWITCHBOARD_", "XDG_")) or name.lower().endswith("_proxy") or name in _GONE:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for name, value in _FIXED.items():
        monkeypatch.setenv(name, value)
    time.tzset()


class _Complaints(logging.Handler):
    """Keeps what asyncio complains about: lost exceptions of tasks and callbacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.said.append(record.getMessage())


@pytest.fixture(autouse=True)
def _nothing_is_lost() -> Iterator[None]:
    """Fail a test in which a task or a callback broke and nobody looked."""
    complaints, logger = _Complaints(), logging.getLogger("asyncio")
    logger.addHandler(complaints)
    yield
    gc.collect(0)  # what asyncio says of a lost task, it says when the task goes
    logger.removeHandler(complaints)
    assert complaints.said == []


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state directory that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
async def runtime(state: Path) -> AsyncIterator[Runtime]:
    """Return a started runtime with the builtin agent, which answers without pauses."""
    async with running(state) as started:
        yield started
