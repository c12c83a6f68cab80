"""SIGKILL at any moment loses, doubles and claims nothing: `tests.tools.kills` in short (S9-S11,
architecture#transactions)."""

import tempfile
from pathlib import Path

import pytest

from tests.tools.kills.campaign import (
    ACCEPTING,
    ANNOUNCE,
    COMMIT,
    DELIVERING,
    LOOP,
    PHASES,
    RECOVERING,
    STREAMING,
    campaign,
    phases_of,
)


@pytest.mark.spec("S9", "S11", "W6")
@pytest.mark.timeout(300)
def test_fifty_kills_lose_and_double_nothing() -> None:
    with tempfile.TemporaryDirectory() as disk:  # in memory a commit is over before it can be killed
        report = campaign(Path(disk), 7, seed=7, seconds=270)
    assert report.problems == [], "\n".join(report.log)
    assert all(report.kills[phase] >= 7 for phase in PHASES), "\n".join(report.log)
    assert report.kills.total() >= 49
    assert report.counted["runs acknowledged"] > 200
    assert report.counted["send done"] > 20, report.counted
    assert report.counted["spawn done"] > 20, report.counted
    assert report.counted["deliveries sent"] > 20, report.counted
    assert report.counted["deletions acknowledged"] > 10, report.counted
    assert report.counted["overrides acknowledged"] > 20, report.counted


def test_the_phase_is_read_off_the_last_lines_and_the_rows() -> None:
    started = ["recovering", "commit", "committed", "ready"]
    assert phases_of(started[:2], {STREAMING}, {STREAMING}) == {RECOVERING}
    assert phases_of(started[:2], set(), set()) == phases_of(started, {STREAMING}, set()) == set()
    accepting = [*started, "sending a"]
    assert phases_of(accepting, set(), set()) == {ACCEPTING}
    assert phases_of([*accepting, "commit"], set(), {LOOP}) == {COMMIT, LOOP}
    assert phases_of([*accepting, "commit", "committed"], set(), {DELIVERING}) == {ACCEPTING, DELIVERING}
    acknowledged = [*accepting, "commit", "committed", "ack a"]
    assert phases_of(acknowledged, set(), {STREAMING}) == set(), "its first words are not out"
    assert phases_of([*acknowledged, "saying a"], set(), {ANNOUNCE}) == {STREAMING, ANNOUNCE}
    assert phases_of([*acknowledged, "saying a", "ended a"], set(), set()) == set()
