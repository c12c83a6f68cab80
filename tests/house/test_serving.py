"""docs/serve.md says what is true: its units are understood by systemd, its configuration and its metrics by us."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.config.load import load
from core.config.paths import find_places
from core.server.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("unit", "manager"), zip(blocks("ini"), ("--user", "--system"), strict=True), ids=("user", "system")
)
def test_systemd_understands_the_units(
    unit: str, manager: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not here: the units of docs/serve.md were not looked at")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    startable = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", unit, flags=re.MULTILINE)
    assert _complaints(program, manager, tmp_path / "switchboard.service", startable) == []
    broken = startable.replace("KillMode=mixed", "KillMode=whatever")
    assert _complaints(program, manager, tmp_path / "broken.service", broken) != [], "it would have said so"


def _complaints(program: str, manager: str, file: Path, unit: str) -> list[str]:
    """Return what systemd has to say of a unit."""
    file.write_text(unit)
    done = subprocess.run(
        [program, "verify", manager, "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "initialize manager" not in done.stderr, done.stderr
    return [line for line in done.stderr.splitlines() if file.name in line]


@pytest.mark.parametrize("text", blocks("json5"))
def test_the_configuration_is_understood(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json5"
    file.write_text(text, encoding="utf-8")
    assert load(find_places(str(tmp_path), str(file)), {}).notices == ()


def test_every_metric_is_explained() -> None:
    named = set(re.findall(r"switchboard_(\w+)", PAGE)) - {"info", "uptime_seconds"}
    assert named == {f"{name}{'_total' if kind.type == 'counter' else ''}" for name, kind in METRICS.items()}
