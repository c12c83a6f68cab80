"""A one-shot command runs the lanes it is about, and a full disk is waited out (architecture#ownership)."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.model.access import OPERATOR
from core.model.errors import Unavailable
from core.model.messages import text_block, tool_call_block
from core.runtime.gateway import Runtime
from core.runtime.runs.engine import Engine
from core.store.database import Tx
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, begin, call, running, send, session, until, words

OTHER = "agent:main:other"


async def left_queued(state: Path) -> None:
    """Leave a queued run in two sessions."""

    def leave(_engine: Engine, _key: str) -> None:
        """Run nothing, as a process that detaches."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "open", leave)
        async with running(state, backends=Agent(), run_all=False) as runtime:
            for key in (MAIN, OTHER):
                await begin(runtime, key, "left")


async def test_a_one_shot_command_runs_its_own_lane_only(state: Path) -> None:
    await left_queued(state)
    agent = Agent()
    async with running(state, backends=agent, run_all=False) as runtime:
        assert agent.turns == []
        answer = await send(runtime, "main", "mine")
        assert answer["reply"] == "echo mine"
        await runtime.drained()
        assert [(turn.key, turn.transcript[-1].text) for turn in agent.turns] == [(MAIN, "left"), (MAIN, "mine")]
        assert (await session(runtime, OTHER)).status == "queued"
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        await runtime.drained()
        assert [(turn.key, turn.transcript[-1].text) for turn in agent.turns] == [(OTHER, "left")]


async def test_a_one_shot_command_runs_the_subagents_it_spawned(state: Path) -> None:
    await left_queued(state)
    async with running(state, run_all=False) as runtime:
        answer = await call(runtime, "sessions_spawn", task="say found")
        assert (await runtime.wait_run(answer["runId"], 10)).reply == "found"
        await runtime.drained()
        assert (await session(runtime, OTHER)).status == "queued"


async def test_a_one_shot_command_can_drop_what_it_does_not_run(state: Path) -> None:
    await left_queued(state)
    async with running(state, run_all=False) as runtime:
        assert len(await runtime.abort(OTHER, OPERATOR)) == 1
        assert (await session(runtime, OTHER)).status == "aborted"
        await runtime.drained()


# A full disk


async def fill_disk(runtime: Runtime) -> None:
    """Let the database not grow any more; SQLite then says that the disk is full."""

    def fill(tx: Tx) -> None:
        pages = tx.db.execute("PRAGMA page_count").fetchone()[0]
        tx.db.execute(f"PRAGMA max_page_count = {pages}")

    await runtime.store.write(fill)
    with pytest.raises(Unavailable):
        await begin(runtime, "agent:main:filler", "x" * 100_000)


async def free_disk(runtime: Runtime) -> None:
    """Let the database grow again."""
    await runtime.store.write(lambda tx: tx.db.execute("PRAGMA max_page_count = 1000000"))


async def test_a_disk_that_fills_up_in_mid_run(state: Path) -> None:
    go, clock = asyncio.Event(), FakeClock()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("long " * 20_000)
        await go.wait()
        yield Reply((text_block("long " * 20_000),))

    async with running(state, backends=Agent(play), clock=clock) as runtime:
        ticket = await begin(runtime, MAIN, "go")
        await until(lambda: runtime.reply_under_way(MAIN))
        await fill_disk(runtime)
        go.set()
        await clock.until_sleeping()
        await clock.advance(1)
        await clock.until_sleeping()
        with pytest.raises(Unavailable, match="disk that is full"):
            await begin(runtime, MAIN, "x" * 100_000)
        assert (await session(runtime, MAIN)).status == "running"
        await free_disk(runtime)
        await clock.advance(1)
        outcome = await runtime.wait_run(ticket.run_id, None)
        assert (outcome.status, outcome.reply) == ("ok", "long " * 20_000)
        assert [role for role, _ in await words(runtime, MAIN)] == ["user", "assistant"]


async def test_a_disk_that_fills_up_before_a_tool_is_called(state: Path) -> None:
    go, clock = asyncio.Event(), FakeClock()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("hm")
        await go.wait()
        yield Reply((text_block("x" * 200_000), tool_call_block("c", "agents_list", {})), stop_reason="toolUse")

    async with running(state, backends=Agent(play), clock=clock) as runtime:
        ticket = await begin(runtime, MAIN, "go")
        await until(lambda: runtime.reply_under_way(MAIN))
        await fill_disk(runtime)
        go.set()
        wait = asyncio.create_task(runtime.wait_run(ticket.run_id, None))
        await until(lambda: wait.done() or clock.sleeping)
        await free_disk(runtime)
        await clock.advance(1)
        outcome = await wait
        assert outcome.status == "error"
        assert "disk that is full" in (outcome.error or "")
        assert (await send(runtime, "agent:main:next", "go", timeoutSeconds=0))["status"] == "accepted"


async def test_closing_while_the_disk_is_full_leaves_the_run_to_recovery(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("x" * 200_000)
        await asyncio.Event().wait()

    async with running(state, backends=Agent(play)) as runtime:
        await begin(runtime, MAIN, "go")
        await until(lambda: runtime.reply_under_way(MAIN))
        await fill_disk(runtime)
    async with running(state) as runtime:
        assert (await session(runtime, MAIN)).status == "interrupted"
        assert (await send(runtime, "main", "say fine"))["reply"] == "fine"
