"""Tests name rows of the requirements that exist."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.spec_rows import SPEC_ROWS

TESTS = Path(__file__).parents[1]


def marked(path: Path) -> Iterator[tuple[str, int]]:
    """Return the rows that a file of tests names, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{path} line {node.lineno}: name the row in words"
                yield str(argument.value), node.lineno


def test_every_marker_names_a_row_that_exists() -> None:
    found = [(row, path.name, line) for path in sorted(TESTS.rglob("test_*.py")) for row, line in marked(path)]
    assert len(found) > 100
    assert [entry for entry in found if entry[0] not in SPEC_ROWS] == []


def test_what_works_so_far_is_proven() -> None:
    proven = {row for path in TESTS.rglob("test_*.py") for row, _ in marked(path)}
    sofar = {f"K{n}" for n in range(1, 8)} | {f"L{n}" for n in range(1, 7)} | {f"H{n}" for n in range(1, 5)}
    sofar |= {"T1", *(f"S{n}" for n in (1, 2, 3, 4, 5, 7, 8, 12, 13)), *(f"V{n}" for n in range(1, 6))}
    sofar |= {*(f"P{n}" for n in range(1, 6)), *(f"W{n}" for n in range(1, 7))}
    assert sofar <= proven, f"no test proves {sorted(sofar - proven)}"
