"""Background tasks have an owner that looks at how they end (`core/tasks.py`)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for top in ("core", "console") for path in (ROOT / top).rglob("*.py"))
OWNER = ROOT / "core" / "tasks.py"


def drops_how_tasks_end(source: str) -> bool:
    """Whether a module keeps tasks in a set that forgets each with what broke it."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_done_callback"
        and any(isinstance(each, ast.Attribute) and each.attr in {"discard", "remove"} for each in node.args)
        for node in ast.walk(ast.parse(source))
    )


def test_the_pattern_is_known() -> None:
    assert drops_how_tasks_end("task.add_done_callback(self._tasks.discard)")
    assert not drops_how_tasks_end("task.add_done_callback(self._ended)")


def test_there_is_something_to_look_at() -> None:
    assert OWNER in MODULES


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path != OWNER], ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_module_keeps_tasks_of_its_own(path: Path) -> None:
    assert not drops_how_tasks_end(path.read_text(encoding="utf-8")), "give them to a `Tasks` of `core/tasks.py`"
