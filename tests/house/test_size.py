"""Modules and functions that fit a reader's head."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("core/**/*.py"), *ROOT.glob("console/**/*.py")])
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_something_to_measure() -> None:
    assert len(MODULES) > 40


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_MODULE_LINES
    for function in functions(ast.parse(text)):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{function.name} has {length} lines"


def test_every_script_of_the_store_is_packaged() -> None:
    scripts = {path.name for path in (ROOT / "core" / "store").glob("*.sql")}
    assert scripts >= {"schema.sql"}
    assert '"core.store" = ["*.sql"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
