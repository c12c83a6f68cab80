"""What a runtime remembers has bounds that do not depend on how long it has worked; the long form is a command."""

# It measures what grows inside:
# pyright: reportPrivateUsage=false

import asyncio
from pathlib import Path

from core.config.settings import Settings
from core.model.access import OPERATOR
from core.model.runs import RunRequest
from tests.support.runtimes import MAIN, Agent, begin, listening, running, until
from tests.tools.steady import Forgetful, Traffic, answers, sizes

_BOUNDED = {"feeds", "rows", "tasks", "files"}


async def test_nothing_is_left_of_traffic_that_is_over(state: Path) -> None:
    agent = Agent(answers)
    agent.turns = Forgetful()
    async with running(state, Settings(), agent) as runtime, listening(runtime) as listener:
        listener.feed.watch(None)
        await begin(runtime, MAIN, "hello")
        traffic = Traffic(runtime)
        for _ in range(3):
            for _ in range(100):
                await traffic.one()
            await runtime.drained()
        await runtime.drained()
        last = runtime.last_rev
        await until(lambda: listener.feed.cursor == last)
        found = sizes(runtime, listener)
        rows = len(runtime.store.db.execute("SELECT key FROM sessions").fetchall())
        assert {name: size for name, size in found.items() if size and name not in _BOUNDED} == {}
        assert (found["feeds"], found["rows"] <= rows) == (1, True)
        assert found["files"] <= rows, "what is posted without a run is written with the next one of its session"
        assert found["tasks"] < 10


async def test_a_wait_that_is_over_is_forgotten_though_its_run_goes_on(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, Settings(), agent) as runtime:
        ticket = await runtime.start_run(RunRequest(MAIN, "go", create=True), OPERATOR)
        for _ in range(50):
            assert (await runtime.wait_run(ticket.run_id, 0.0001)).status == "timeout"
        waiting = asyncio.create_task(runtime.wait_run(ticket.run_id, None))
        await until(lambda: runtime._waiters._ends)
        assert {run_id: len(futures) for run_id, futures in runtime._waiters._ends.items()} == {ticket.run_id: 1}
        waiting.cancel()
        await asyncio.wait([waiting])
        assert runtime._waiters._ends == {}
        agent.release()
        assert (await runtime.wait_run(ticket.run_id, 10)).status == "ok"
