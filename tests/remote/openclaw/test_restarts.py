"""A gateway that starts anew under a run: what is known of the run is told, and nothing else."""

import asyncio
from pathlib import Path

import pytest

from core.gateway import Gateway
from core.model.access import ALL, OPERATOR
from core.model.runs import RunRequest
from tests.remote.generations import NEWEST, PROTOCOL_3
from tests.remote.scripted import comes
from tests.remote.theirs import KEY, Theirs, row, serving
from tests.support.clock import FakeClock
from tests.support.runtimes import until, until_async

BOTH = pytest.mark.parametrize("version", [NEWEST, PROTOCOL_3])


def start_anew(theirs: Theirs) -> None:
    """Become another process."""
    theirs.boot, theirs.uptime_ms = theirs.boot and "boot-2", 500


@BOTH
@pytest.mark.parametrize("listed", [True, False])
async def test_a_run_that_is_gone_on_with_under_another_id_has_that_ones_end(
    tmp_path: Path, version: str, listed: bool
) -> None:
    theirs, clock = Theirs(version), FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ticket = await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        waiting = asyncio.ensure_future(gateway.wait_run(ticket.run_id, 1000))
        await theirs.hang_up()
        await until(lambda: gateway.connection.state == "lost")
        assert "what became of the run is not known" in ((await gateway.wait_run(ticket.run_id, 0)).error or "")
        start_anew(theirs)
        if listed:
            theirs.rows = [row(KEY, status="running", hasActiveRun=True, activeRunIds=["second"])]
        await comes(clock, gateway, lambda: gateway.connection.state == "live")
        if not listed:
            assert "whether it goes on with it is not known" in ((await gateway.wait_run(ticket.run_id, 0)).error or "")
            life = {"runId": "second", "sessionKey": KEY, "stream": "lifecycle", "data": {"phase": "start"}}
            await theirs.tell("agent", life)
        await until_async(lambda: two_runs(gateway))
        assert "goes on with it as run second" in ((await gateway.wait_run(ticket.run_id, 0)).error or "")
        final = {"role": "assistant", "content": [{"type": "text", "text": "there"}]}
        await theirs.tell("chat", {"runId": "second", "sessionKey": KEY, "state": "final", "message": final})
        outcome = await waiting
        assert (outcome.status, outcome.reply) == ("ok", "there")


@BOTH
async def test_a_run_that_nobody_goes_on_with_is_interrupted(tmp_path: Path, version: str) -> None:
    theirs, clock = Theirs(version), FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ticket = await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        await theirs.hang_up()
        await until(lambda: gateway.connection.state == "lost")
        start_anew(theirs)
        await comes(clock, gateway, lambda: gateway.connection.state == "live")
        waiting = asyncio.ensure_future(gateway.wait_run(ticket.run_id, 1000))
        while not waiting.done():
            await clock.advance(1)
            await asyncio.sleep(0.002)  # the sockets are real
        outcome = waiting.result()
        assert (outcome.status, outcome.state) == ("error", "interrupted")
        assert "started anew while it ran" in (outcome.error or "")


@BOTH
async def test_a_connection_that_was_lost_alone_interrupts_nothing(tmp_path: Path, version: str) -> None:
    theirs, clock = Theirs(version), FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ticket = await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        await theirs.hang_up()
        await until(lambda: gateway.connection.state == "lost")
        theirs.uptime_ms += 1_000
        await comes(clock, gateway, lambda: gateway.connection.state == "live")
        outcome = await gateway.wait_run(ticket.run_id, 0)
        assert (outcome.status, outcome.error) == (
            "timeout",
            "the run goes on; its reply will be in the session's transcript",
        )


async def two_runs(gateway: Gateway) -> bool:
    """Whether two runs of the session were heard of."""
    return len(await gateway.runs(KEY, ALL, limit=9)) == 2
