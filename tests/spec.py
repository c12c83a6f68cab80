"""Which rows of the requirements are proven by which tests: `python -m tests.spec` prints the table.

A test names the rows it proves with `@pytest.mark.spec`; the marker may stand at a class or a parameter as well.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
REQUIREMENTS: Final = TESTS.parent / "docs" / "requirements.md"
ROWS: Final = tuple(re.findall(r'^\| <a id="(\w+)"></a>', REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))
"""All rows of the requirements, in their order."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A test that names a row."""

    row: str
    test: str


def proofs() -> Iterator[Proof]:
    """Return every marker of every test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = str(path.relative_to(TESTS))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from (Proof(row, f"{name}::{node.name}") for row in _marked(node))


def _marked(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "spec":
            for argument in inner.args:
                assert isinstance(argument, ast.Constant), f"line {inner.lineno}: name the row in words"
                yield str(argument.value)


def main() -> None:
    """Print the table."""
    by_row: dict[str, list[str]] = {row: [] for row in ROWS}
    for proof in proofs():
        if proof.test not in by_row[proof.row]:
            by_row[proof.row].append(proof.test)
    for row, tests in by_row.items():
        print(f"{row:<4}{len(tests):>3}  {tests[0] if tests else 'not proven'}")
        for test in tests[1:]:
            print(f"{'':9}{test}")
    print(f"{sum(bool(tests) for tests in by_row.values())} of {len(ROWS)} rows are proven by tests")


if __name__ == "__main__":
    main()
