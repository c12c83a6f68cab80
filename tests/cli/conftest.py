"""A home for each test, and the program in this process."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.cli.parser import run
from tests.cli.program import Cli, Result


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds state and configuration of this test's commands."""
    folder = tmp_path / "switchboard"
    monkeypatch.setenv("SWITCHBOARD_HOME", str(folder))
    return folder


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return what runs a command line in this process."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return call


@pytest.fixture
def config(home: Path) -> Path:
    """Return the configuration file, which does not exist yet."""
    home.mkdir(parents=True)
    return home / "config.json5"


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that everybody can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
