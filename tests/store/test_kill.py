"""DESIGN 5, 15: SIGKILL at any moment loses nothing that was acknowledged; the short form of `tests.support.kills`."""

from pathlib import Path

import pytest

from tests.support.kills import ACCEPTING, COMMIT, IDLE, PHASES, RECOVERING, STREAMING, campaign, phase_of


@pytest.mark.timeout(110)
def test_a_few_kills_of_each_phase_lose_nothing(state: Path) -> None:
    report = campaign(state, 3, seed=7, seconds=60)
    assert report.problems == [], "\n".join(report.log)
    assert all(report.kills[phase] >= 3 for phase in PHASES), "\n".join(report.log)
    assert len(report.acknowledged) > 50


def test_the_phase_is_read_off_the_last_lines() -> None:
    started = ["recovering", "commit", "committed", "ready"]
    assert phase_of(started[:2], 3) == RECOVERING
    assert phase_of(started, 3) == phase_of(started[:2], 0) == IDLE
    accepting = [*started, "sending a"]
    assert phase_of(accepting, 0) == ACCEPTING
    assert phase_of([*accepting, "commit"], 0) == COMMIT
    assert phase_of([*accepting, "commit", "committed"], 0) == ACCEPTING
    acknowledged = [*accepting, "commit", "committed", "ack a"]
    assert phase_of(acknowledged, 0) == IDLE
    assert phase_of([*acknowledged, "saying a"], 0) == STREAMING
    assert phase_of([*acknowledged, "saying a", "ended a"], 0) == IDLE
