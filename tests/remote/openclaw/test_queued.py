"""A message for a session that is at work, at a gateway that ends it at once without a word: what became of it is told.

Some runs that were at work take the message in and answer it; one of 2026.7.35 fails over it, and nobody answers.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.model.access import OPERATOR
from core.model.runs import RunOutcome, RunRequest
from tests.remote.theirs import KEY, Theirs, serving
from tests.support.clock import FakeClock

VERSION = "2026.7.35"
FAILED = "session file changed while embedded prompt lock was released: t-1.jsonl"


async def outcome_of_queued(tmp_path: Path, end: dict[str, Any], *, says: str = "") -> RunOutcome:
    """Send a message while a run is at work that ends so, and return what is known of the message at last.

    Args:
        says: What the agent answers before that end.
    """
    theirs, clock = Theirs(VERSION), FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        await gateway.start_run(RunRequest(KEY, "first", run_id="one"), OPERATOR)
        first = {"runId": "one", "sessionKey": KEY}
        await theirs.tell("agent", first | {"stream": "lifecycle", "data": {"phase": "start"}})
        await gateway.start_run(RunRequest(KEY, "second", run_id="two"), OPERATOR)
        await theirs.tell("chat", {"runId": "two", "sessionKey": KEY, "state": "final"})
        theirs.say("user", "second")
        if says:
            theirs.say("assistant", says, timestamp=gateway.now_ms() + 1)
        await theirs.tell("chat", first | end)
        waiting = asyncio.ensure_future(gateway.wait_run("two", 1000))
        while not waiting.done():
            await clock.advance(1)
            await asyncio.sleep(0.002)  # the sockets are real
        return waiting.result()


async def test_a_message_that_a_run_took_in_and_failed_with_has_failed(tmp_path: Path) -> None:
    outcome = await outcome_of_queued(tmp_path, {"state": "error", "errorMessage": FAILED})
    assert (outcome.status, outcome.state) == ("error", "error")
    assert outcome.error == f"the gateway gave the message to run one, which failed before it answered: {FAILED}"


async def test_what_such_a_run_said_before_it_failed_is_no_answer_to_the_message(tmp_path: Path) -> None:
    outcome = await outcome_of_queued(tmp_path, {"state": "error", "errorMessage": FAILED}, says="I am looking")
    assert (outcome.status, outcome.reply) == ("error", None)


async def test_a_message_that_a_run_took_in_ends_with_it_when_that_is_stopped(tmp_path: Path) -> None:
    outcome = await outcome_of_queued(tmp_path, {"state": "aborted"})
    assert (outcome.status, outcome.state) == ("error", "aborted")
    assert outcome.error == "the gateway gave the message to run one, which was stopped before it answered"


@pytest.mark.parametrize("says", ["both of it", ""])
async def test_a_message_that_a_run_took_in_and_ended_well_has_its_words(tmp_path: Path, says: str) -> None:
    outcome = await outcome_of_queued(tmp_path, {"state": "final"}, says=says)
    assert (outcome.status, outcome.reply) == ("ok", says)
