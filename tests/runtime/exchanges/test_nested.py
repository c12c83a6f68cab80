"""W3, W6: what the sub-agents of a sub-agent come to reaches the session at the top, whatever happens to them."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, ToolEnded, Turn
from core.config.settings import AgentSettings, Settings
from core.model.access import ALL, OPERATOR, Operator
from core.model.errors import Conflict
from core.model.keys import parse
from core.model.messages import text_block, tool_call_block
from core.rules.limits import SpawnLimits
from core.rules.ruleset import AgentRules, RuleSet
from core.runtime.exchanges.announce import NESTED_INPUT, SPAWN_INPUT
from core.runtime.exchanges.steps import WAITS
from core.runtime.gateway import Runtime
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, call, running, send, session, transcript, until

SETTINGS = Settings(
    rules=RuleSet(agents={"main": AgentRules("main")}, spawning=SpawnLimits(max_depth=2)),
    agents={"main": AgentSettings("main")},
)


class Family(Agent):
    """A middle agent that starts leaves, and leaves that wait until they are let go.

    Attributes:
        go: Lets the leaves end.
    """

    def __init__(
        self, *, leaf: str = "leaf found it", middle: str = "started", announce: str = "", leaves: int = 1
    ) -> None:
        super().__init__(self.play)
        self.go = asyncio.Event()
        self.leaf, self.middle, self.announce, self.leaves = leaf, middle, announce, leaves

    async def play(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        depth = parse(turn.key).spawn_depth
        if turn.kind == "announce":
            read = " and ".join(m.text.partition("Result: ")[2].split("\n")[0] for m in results(turn))
            yield Reply((text_block(self.announce or (f"I read: {read}" if depth == 1 else "")),))
        elif turn.kind == "subagent" and depth == 2:
            await self.go.wait()
            if self.leaf == "fails":
                raise AgentFailure("the leaf broke")
            yield Reply((text_block(self.leaf),))
        elif turn.kind == "subagent":
            for number in range(self.leaves):
                task = {"task": f"leaf {number}", "runTimeoutSeconds": 60 if self.leaf == "late" else 0}
                yield Reply((tool_call_block(f"c{number}", "sessions_spawn", task),), stop_reason="toolUse")
                result = await turn.call_tool(f"c{number}", "sessions_spawn", task)
                yield ToolEnded(f"c{number}", "sessions_spawn", result)
            if self.middle == "fails":
                raise AgentFailure("the middle broke")
            yield Reply((text_block(self.middle),))
        else:
            yield Reply((text_block("yes"),))


def results(turn: Turn) -> list[Any]:
    """Return the results that stand in the transcript of a turn."""
    return [m for m in turn.transcript if m.role == "user" and m.text.startswith("Sub-agent ")]


async def spawn(runtime: Runtime, **more: object) -> str:
    """Have the main session start a middle agent that has started its leaves; return the middle's key."""
    await send(runtime, MAIN, "hello")
    answer = await call(runtime, "sessions_spawn", Operator(MAIN), task="middle", **more)
    key: str = answer["childSessionKey"]
    return key


async def waits(runtime: Runtime, middle: str) -> None:
    """Wait until the middle has done its task and waits for its leaves."""

    def is_so() -> bool:
        row = runtime.store.db.execute("SELECT state, reason FROM exchanges WHERE target = ?", (middle,)).fetchone()
        return tuple(row) == ("first", WAITS)

    await until(is_so)


def leaves(runtime: Runtime, middle: str) -> list[str]:
    """Return the keys of what the middle has started."""
    return [key for (key,) in runtime.store.db.execute("SELECT key FROM sessions WHERE spawned_by = ?", (middle,))]


async def told(runtime: Runtime) -> list[str]:
    """Return status and result of everything that was posted to the main session, in order."""
    texts = [m.text for m in await transcript(runtime, MAIN) if m.text.startswith("Sub-agent ")]
    return [text.partition("Status: ")[2].split("\n\nStats")[0].replace("\nResult", "") for text in texts]


@pytest.mark.spec("W3", "W6")
@pytest.mark.parametrize("count", [1, 3])
async def test_a_sub_agent_announces_when_its_own_have_ended_and_has_their_results(state: Path, count: int) -> None:
    agent = Family(leaves=count)
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await waits(runtime, middle)
        assert (await session(runtime, middle)).status == "done", "its task is over, and it takes no place"
        assert not [turn for turn in agent.turns if turn.kind == "announce"]
        agent.go.set()
        await runtime.drained()
        assert await told(runtime) == [f"done: I read: {' and '.join(['leaf found it'] * count)}"]
        asked = [turn.transcript[-1].text for turn in agent.turns if turn.kind == "announce"]
        assert (asked.count(SPAWN_INPUT), asked.count(NESTED_INPUT)) == (count, 1)


@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("leaf", "read"), [("fails", "error: (nothing was said)\nNotes: the leaf broke"), ("ANNOUNCE_SKIP", None)]
)
async def test_a_leaf_that_fails_or_keeps_silent_ends_the_wait_too(state: Path, leaf: str, read: str | None) -> None:
    agent = Family(leaf=leaf)
    agent.announce = "ANNOUNCE_SKIP" if leaf == "ANNOUNCE_SKIP" else ""
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await waits(runtime, middle)
        agent.go.set()
        await runtime.drained()
        if read is None:
            assert await told(runtime) == []
        else:
            assert await told(runtime) == ["done: I read: (nothing was said)"]
            assert "the leaf broke" in results(agent.turns[-1])[0].text


@pytest.mark.spec("W5", "W6")
async def test_a_leaf_that_runs_out_of_time_ends_the_wait(state: Path) -> None:
    agent, clock = Family(leaf="late"), FakeClock()
    async with running(state, SETTINGS, agent, clock=clock) as runtime:
        middle = await spawn(runtime)
        await waits(runtime, middle)
        await clock.until_sleeping()
        await clock.advance(60)
        await runtime.drained()
        assert await told(runtime) == ["done: I read: (nothing was said)"]
        assert "Status: timed_out" in results(agent.turns[-1])[0].text


@pytest.mark.spec("W6", "W12")
@pytest.mark.parametrize("whom", ["leaf", "middle", "main"])
async def test_what_is_aborted_is_told_of_and_leaves_nothing_at_work(state: Path, whom: str) -> None:
    agent = Family()
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await waits(runtime, middle)
        await until(lambda: agent.at_work)
        (leaf,) = leaves(runtime, middle)
        await runtime.abort({"leaf": leaf, "middle": middle, "main": MAIN}[whom], OPERATOR)
        if whom != "leaf":
            assert agent.at_work == [], "the announce that waited is stopped with what it waited for"
        await runtime.drained()
        (text,) = await told(runtime)
        assert text.startswith("done: I read: (nothing was said)" if whom == "leaf" else "done: started")
        assert ("Status: aborted" in text) == (whom != "leaf"), "of the leaf, where no announce step has read it"


@pytest.mark.spec("W6")
async def test_a_middle_that_fails_is_told_of_at_once_and_its_leaf_is_handed_on(state: Path) -> None:
    agent = Family(middle="fails")
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await until(lambda: runtime.store.db.execute("SELECT 1 FROM exchanges WHERE state = 'ended'").fetchone())
        (text,) = await told(runtime)
        assert text.startswith("error: ")
        assert text.endswith("Notes: the middle broke")
        agent.go.set()
        await runtime.drained()
        assert (await told(runtime))[-1] == "done: leaf found it"
        assert results_in(await transcript(runtime, middle)) == 1, "and the middle has it too"
        (exchange, delivery), *_ = await runtime.exchanges(middle, limit=1)
        assert (exchange.requester, delivery and delivery.key, delivery and delivery.state) == (middle, MAIN, "sent")


@pytest.mark.spec("W6")
async def test_a_middle_that_has_nothing_to_say_hands_on_what_it_was_told(state: Path) -> None:
    agent = Family(announce=" ")
    agent.go.set()
    async with running(state, SETTINGS, agent) as runtime:
        await spawn(runtime)
        await runtime.drained()
        (text,) = await told(runtime)
        assert text.startswith("done: started\n\nSub-agent ")
        assert text.endswith("Status: done: leaf found it")


@pytest.mark.spec("W6")
async def test_a_leaf_that_was_started_after_the_announce_is_handed_on(state: Path) -> None:
    agent = Family(leaves=0)
    agent.go.set()
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await runtime.drained()
        await call(runtime, "sessions_spawn", Operator(middle), task="later")
        await runtime.drained()
        assert (await told(runtime))[-1] == "done: leaf found it"


@pytest.mark.spec("W6", "S11")
@pytest.mark.parametrize("ends", [False, True])
async def test_the_wait_survives_a_restart(state: Path, ends: bool) -> None:
    agent = Family()
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime)
        await waits(runtime, middle)
        await until(lambda: agent.at_work)
        if ends:
            runtime.hold()
            agent.go.set()
            await runtime.drained()
            assert await told(runtime) == []
    agent.go.set()
    async with running(state, SETTINGS, agent) as runtime:
        await runtime.drained()
        result = "leaf found it" if ends else "(nothing was said)"
        assert await told(runtime) == [f"done: I read: {result}"]


@pytest.mark.spec("W6", "W7")
async def test_who_waits_is_neither_deleted_nor_archived_by_its_cleanup(state: Path) -> None:
    agent = Family()
    async with running(state, SETTINGS, agent) as runtime:
        middle = await spawn(runtime, cleanup="delete")
        await waits(runtime, middle)
        (leaf,) = leaves(runtime, middle)
        for key in (middle, leaf):
            with pytest.raises(Conflict):
                await runtime.delete(key, OPERATOR)
        await runtime.archive(leaf, OPERATOR, archived=True)
        await runtime.archive(middle, OPERATOR, archived=True)
        agent.go.set()
        await runtime.drained()
        assert await told(runtime) == ["done: I read: leaf found it"]
        assert (await session(runtime, middle)).archived_at is not None
        assert (await runtime.history(middle, ALL, limit=50)).messages


def results_in(messages: list[Any]) -> int:
    """Return how many results of sub-agents stand in a transcript."""
    return sum(message.text.startswith("Sub-agent ") for message in messages)
