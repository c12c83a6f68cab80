"""Whatever is asked, over HTTP and over WebSocket, is answered, and leaves nothing behind (architecture#threats)."""

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.runtimes import running
from tests.support.stores import other_connection
from tests.tools.fuzz.asks import CONNECT, RIGHT_HEADERS, TARGETS, Ask, Fetch
from tests.tools.fuzz.fuzzer import Report, fuzz_server, fuzzed, open_files


@pytest.mark.spec("G7")
async def test_whatever_is_asked_is_answered_and_leaves_nothing_behind(state: Path) -> None:
    number = random.getrandbits(24)
    report = await fuzz_server(state, 500, number)
    assert report.findings == [], f"seed {number}"
    assert [target for target in TARGETS if not report.succeeded[target]] == [], "each is asked plainly first"
    assert report.on_sessions >= 0.5 * report.count


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("target", "content", "finding"),
    [
        ("GET health", Fetch("GET", "/health", RIGHT_HEADERS, wants=(404,)), "200, not (404,)"),
        ("GET metrics", Fetch("GET", "/metrics", RIGHT_HEADERS[:1], wants=(403,)), "401, not (403,)"),
        ("GET history", Fetch("GET", "/sessions/{}/history?limit=0", RIGHT_HEADERS, key="main"), "400, not (200,)"),
        ("sessions.list", {"limit": "x"}, "it is right, and refused: invalid sessions.list params"),
        ("policy.explain", {"key": "nonsense"}, "it is right, and refused: "),
        ("chat.send", {}, "it is right, and refused: invalid chat.send params"),
    ],
)
async def test_an_answer_of_the_wrong_kind_is_a_finding(state: Path, target: str, content: Any, finding: str) -> None:
    report = Report()
    async with fuzzed(state, report) as fuzz:
        await fuzz.ask(Ask(target, content, good=True, line=0))
        (found,) = report.findings
        assert finding in found


async def test_a_first_frame_that_is_too_large_may_be_hung_up_on(state: Path) -> None:
    report = Report()
    async with fuzzed(state, report) as fuzz:
        await fuzz.ask(Ask(CONNECT, {"minProtocol": "x" * 100_000}, good=False, line=0))
        assert report.findings == []


async def test_a_connection_that_stays_open_is_counted_and_what_sqlite_keeps_of_closed_ones_is_not(state: Path) -> None:
    async with running(state):
        before = open_files()
        with contextlib.closing(other_connection(state)) as one, contextlib.closing(other_connection(state)) as two:
            for db in (one, two):
                db.execute("SELECT count(*) FROM runs").fetchall()
            assert (open_files() - before).total() == 2
        assert open_files() == before
