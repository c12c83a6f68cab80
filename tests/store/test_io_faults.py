"""Whichever call of the system fails, what was acknowledged is there and the next start is clean
(architecture#transactions)."""

import random

import pytest

from tests.tools.io_faults.trials import compiler, run


@pytest.mark.skipif(compiler() is None, reason="no C compiler: no call of the system is made to fail")
def test_whichever_call_fails_nothing_acknowledged_is_lost() -> None:
    found = run(16, random.randrange(2**31), timeout=120)
    assert found["problems"] == [], found
    assert found["tried"] == 16
    assert found["calls"] > 200, "the library is not preloaded"
