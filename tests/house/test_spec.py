"""Tests name rows of the requirements that exist, and every row that works is named."""

import re
import subprocess
import sys
from itertools import groupby

from tests.spec import REQUIREMENTS, ROWS, TESTS, proofs

LATER = {"W10", "W11"}
"""Rows of parts that are not there yet."""


def test_every_row_has_an_id_of_its_own_in_order() -> None:
    rows = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if re.match(r"\| [A-Z<]", line)]
    assert len(rows) == len(ROWS) > 60
    for row_id, row in zip(ROWS, rows, strict=True):
        assert row.startswith(f'| <a id="{row_id}"></a>{row_id} | ')
    for letter, ids in groupby(ROWS, key=lambda row_id: row_id[0]):
        numbers = [int(row_id[1:]) for row_id in ids]
        assert numbers == list(range(1, len(numbers) + 1)), f"the rows {letter} have holes or stand apart"


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
