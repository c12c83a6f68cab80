"""Who may import whom, and what must not be loaded to look at a state directory (architecture#layers)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_import_contracts_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "module", ["core.runtime.gateway", "core.store.database", "core.rules.ruleset", "core.gateway"]
)
def test_reading_sessions_loads_nothing_heavy(module: str) -> None:
    heavy = ("pydantic", "httpx", "textual", "rich", "pyjson5", "json5")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"
