"""Tests name rows of the requirements that exist, and every row that works is named."""

import subprocess
import sys

from tests.spec import ROWS, TESTS, proofs

LATER = {"W10", "W11"}
"""Rows of parts that are not there yet."""


def test_every_marker_names_a_row_that_exists() -> None:
    found = list(proofs())
    assert len(found) > 100
    assert [proof for proof in found if proof.row not in ROWS] == []


def test_what_works_is_proven() -> None:
    missing = set(ROWS) - {proof.row for proof in proofs()} - LATER
    assert missing == set(), f"no test proves {sorted(missing)}"


def test_the_table_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spec"], cwd=TESTS.parent, capture_output=True, text=True, check=True
    )
    assert "K1 " in done.stdout
    assert done.stdout.rstrip().endswith("rows are proven by tests")
