"""What a dead process left behind (architecture#recovery)."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.model.access import ALL, OPERATOR
from core.model.errors import Conflict, Unavailable
from core.model.events import RunChanged
from core.model.messages import text_block, tool_call_block
from core.runtime.gateway import Runtime
from core.runtime.runs.recovery import INTERRUPTED
from core.store import runs
from tests.support.runtimes import (
    MAIN,
    Agent,
    begin,
    call,
    listening,
    running,
    send,
    session,
    transcript,
    until,
    words,
)


def crash(state: Path, into: Path) -> Path:
    """Copy the files of a running state directory as they are, which is what a crash leaves."""
    shutil.copytree(state, into)
    return into


async def asks_and_hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Ask for a tool and hang."""
    yield Reply((text_block("let me look"), tool_call_block("c1", "sessions_list", {})), stop_reason="toolUse")
    yield TextDelta("half")
    await asyncio.Event().wait()


async def test_active_runs_end_as_interrupted_and_queued_ones_run(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(asks_and_hangs)) as runtime:
        active = await begin(runtime, MAIN, "one")
        queued = [await begin(runtime, MAIN, "two"), await begin(runtime, MAIN, "three")]
        await until(lambda: runtime.reply_under_way(MAIN))
        left = crash(state, tmp_path / "left")
    agent = Agent()
    async with running(left, backends=agent) as runtime:
        await runtime.drained()
        assert await words(runtime, MAIN) == [
            ("user", "one"),
            ("user", "two"),
            ("user", "three"),
            ("assistant", "let me look"),
            ("toolResult", "no answer: the run ended (interrupted) before the tool did"),
            ("system", INTERRUPTED),
            ("assistant", "echo two"),
            ("assistant", "echo three"),
        ]
        ended = runs.by_id(runtime.store.db, active.run_id)
        assert ended is not None
        assert (ended.state, ended.error, ended.reply_seq) == ("interrupted", INTERRUPTED, None)
        assert [run.state for ticket in queued if (run := runs.by_id(runtime.store.db, ticket.run_id))] == ["done"] * 2
        assert (await transcript(runtime, MAIN))[5].stop_reason == "interrupted"
        outcome = await runtime.wait_run(active.run_id, 0)
        assert (outcome.status, outcome.state) == ("error", "interrupted")


async def test_queued_runs_of_many_sessions_go_on_in_the_order_of_their_acceptance(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(held=True)) as runtime:
        for number in range(12):
            await begin(runtime, f"agent:main:s{number % 6}", f"{number}")
        left = crash(state, tmp_path / "left")
    agent = Agent()
    async with running(left, backends=agent) as runtime:
        await runtime.drained()
        answered = [turn.transcript[-1].text for turn in agent.turns]
        started = {f"{number}" for number in range(4)}
        assert set(answered) == {f"{number}" for number in range(12)} - started
        for key in {turn.key for turn in agent.turns}:
            mine = [int(turn.transcript[-1].text) for turn in agent.turns if turn.key == key]
            assert mine == sorted(mine)


@pytest.mark.spec("W6")
async def test_the_requester_is_told_that_its_subagent_was_interrupted(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(asks_and_hangs)) as runtime:
        answer = await call(runtime, "sessions_spawn", task="look around")
        await until(lambda: runtime.reply_under_way(answer["childSessionKey"]))
        left = crash(state, tmp_path / "left")
    async with running(left) as runtime:
        (told,) = await transcript(runtime, MAIN)
        assert "Status: interrupted" in told.text
        assert INTERRUPTED in told.text
        assert told.provenance is not None
        assert told.provenance.source_session_key == answer["childSessionKey"]


async def test_recovering_twice_changes_nothing(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(asks_and_hangs)) as runtime:
        await begin(runtime, MAIN, "one")
        await until(lambda: runtime.reply_under_way(MAIN))
        left = crash(state, tmp_path / "left")
    async with running(left) as runtime:
        once = await transcript(runtime, MAIN)
    async with running(left) as runtime:
        assert await transcript(runtime, MAIN) == once


async def test_a_client_that_comes_back_with_its_cursor_hears_of_the_interruption(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(asks_and_hangs)) as runtime, listening(runtime, MAIN) as before:
        await begin(runtime, MAIN, "one")
        await until(lambda: runtime.reply_under_way(MAIN))
        await until(lambda: before.feed.cursor > 0 and len(before.of(RunChanged)) == 2)
        cursor = before.feed.cursor
        left = crash(state, tmp_path / "left")
    async with running(left) as runtime, listening(runtime, MAIN, after=cursor) as after:
        await until(lambda: after.of(RunChanged))
        assert [event.run.state for event in after.of(RunChanged)] == ["interrupted"]


async def test_only_one_process_runs_work_and_the_others_read(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, "main", "say hi")
        reader = Runtime.open(state)
        assert [message.text for message in (await reader.history(MAIN, ALL, limit=5)).messages] == ["say hi", "hi"]
        assert reader.connection.state == "reading"
        assert "owned by switchboard test (process" in reader.connection.detail
        assert reader.refusal("send") == reader.connection.detail
        assert (runtime.connection.state, runtime.refusal("send")) == ("live", None)
        with pytest.raises(Conflict, match="owned by switchboard test"):
            await begin(reader, MAIN, "hello")
        with pytest.raises(Conflict, match="owned by switchboard test"):
            await reader.reset(MAIN, OPERATOR)
        await reader.close()
        with pytest.raises(Conflict, match="is owned by switchboard test"):
            async with running(state):
                pass
        await send(runtime, "main", "say still here")
    reader = Runtime.open(state)
    assert reader.connection.detail == "reading only"
    with pytest.raises(Unavailable, match="reading only"):
        await begin(reader, MAIN, "hello")
    await reader.close()


async def test_a_session_row_tells_what_is_going_on_after_a_restart(state: Path, tmp_path: Path) -> None:
    async with running(state, backends=Agent(asks_and_hangs)) as runtime:
        await begin(runtime, MAIN, "one")
        await until(lambda: runtime.reply_under_way(MAIN))
        left = crash(state, tmp_path / "left")
    async with running(left) as runtime:
        row = await session(runtime, MAIN)
        assert (row.status, row.queued, row.error, row.aborted_last_run) == ("interrupted", 0, INTERRUPTED, False)
