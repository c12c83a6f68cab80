"""Who may import whom, and what must not be loaded to look at a state directory (architecture#layers)."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
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


def imports_of(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules of ours that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in modules else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules.keys()


def test_no_modules_import_each_other() -> None:
    paths = [path for top in ("core", "console") for path in (ROOT / top).rglob("*.py")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    imports = {name: imports_of(path, modules) - {name} for name, path in modules.items()}
    assert len(imports) > 200
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")
