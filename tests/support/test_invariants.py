"""What must hold is told apart from what only looks odd: commands, and what the operator deleted."""

from pathlib import Path

import pytest

from core.config.settings import Settings
from core.model.access import OPERATOR, Operator
from tests.support.invariants import look
from tests.support.runtimes import MAIN, Agent, begin, call, running, send
from tests.support.stores import opened

OTHER = "agent:main:other"


async def test_nothing_is_wrong_after_commands_and_deletions(state: Path) -> None:
    async with running(state, backends=Agent()) as runtime:
        for key in (MAIN, OTHER):
            await send(runtime, key, "hello")
        await begin(runtime, MAIN, "/status")
        await begin(runtime, OTHER, "hello", Operator(acting_for=MAIN))
        spawned = await call(runtime, "sessions_spawn", task="look")
        await runtime.drained()
        for key in (spawned["childSessionKey"], OTHER):
            await runtime.delete(key, OPERATOR)
        await begin(runtime, OTHER, "hello again")
        await runtime.drained()
    assert list(look(state, {}, [], over=True, steered=True)) == []


async def test_an_exchange_may_have_an_odd_id_and_a_side_that_is_not_there(state: Path) -> None:
    async with running(state, Settings(max_ping_pong_turns=1), Agent()) as runtime:
        await begin(runtime, OTHER, "hello", Operator(acting_for=MAIN), run_id="mine:announce")
        await runtime.drained()
        await begin(runtime, MAIN, "hello")
        await begin(runtime, MAIN, "hello", Operator(acting_for=OTHER), run_id="yours:announce")
        await runtime.drained()
    assert list(look(state, {}, [], over=True, steered=True)) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("DELETE FROM messages WHERE role = 'system'", "wrote {} and not one note"),
        ("UPDATE messages SET role = 'user' WHERE role = 'system'", "and not one note"),
        ("UPDATE runs SET reply_seq = NULL WHERE kind = 'command'", "is done, and its note is number None"),
        ("DELETE FROM runs WHERE kind = 'command'", "has messages and does not exist"),
    ],
)
async def test_a_command_has_its_note_and_no_more(state: Path, change: str, finding: str) -> None:
    async with running(state, backends=Agent()) as runtime:
        await send(runtime, MAIN, "hello")
        await begin(runtime, MAIN, "/status")
    async with opened(state) as store:
        await store.write(lambda tx: tx.db.execute(change) and None)
    assert any(finding in each for each in look(state, {}, [], over=True)), list(look(state, {}, []))
