"""Modules and functions that fit a reader's head."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("core/**/*.py"), *ROOT.glob("console/**/*.py")])
MAX_FUNCTION_LINES = 60
MAX_STATEMENTS = 50
MAX_METHODS = 31
MAX_FILES = 18


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_something_to_measure() -> None:
    assert len(MODULES) > 40


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_and_classes_are_small(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in functions(tree):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{function.name} has {length} lines"
        statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
        assert statements <= MAX_STATEMENTS, f"{function.name} has {statements} statements"
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            assert methods <= MAX_METHODS, f"{node.name} has {methods} methods"


def test_no_public_class_name_stands_twice() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_holds_too_many_files() -> None:
    counts = Counter(path.parent for path in MODULES)
    assert {str(folder): count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_every_script_of_the_store_is_packaged() -> None:
    scripts = {path.name for path in (ROOT / "core" / "store").glob("*.sql")}
    assert scripts >= {"schema.sql"}
    assert '"core.store" = ["*.sql"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
