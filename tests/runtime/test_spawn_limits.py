"""W3, W6, W9, W12: who may spawn how many and how deep, and what happens to the children of what is stopped."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, TextDelta, Turn
from core.config.settings import AgentSettings, Settings
from core.model.access import ALL, OPERATOR, Operator, SessionCaller
from core.model.messages import text_block
from core.rules.limits import SpawnLimits
from core.rules.ruleset import AgentRules, RuleSet
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, Agent, begin, call, running, send, session, transcript, until, words


def limited(depth: int = 1, children: int = 5, at_once: int = 8) -> Settings:
    """Return settings with limits on spawning."""
    rules = RuleSet(spawning=SpawnLimits(depth, children))
    return Settings(rules=rules, subagent_max_concurrent=at_once)


def states(runtime: Runtime) -> dict[str, str]:
    """Return the state of every sub-agent's row, by the task it was given."""
    rows = runtime.store.db.execute(
        "SELECT json_extract(m.body, '$.content[0].text'), s.status FROM sessions AS s JOIN messages AS m"
        " ON m.session = s.id AND m.seq = 1 WHERE s.spawned_by IS NOT NULL ORDER BY s.id"
    )
    return dict(rows.fetchall())


async def spawn(runtime: Runtime, task: str = "find it", requester: str = MAIN, **more: object) -> dict[str, Any]:
    """Have a session spawn a sub-agent."""
    caller = OPERATOR if requester == MAIN else Operator(requester)
    return await call(runtime, "sessions_spawn", caller, task=task, **more)


async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say half and never end, unless it is a greeting."""
    if turn.transcript[-1].text == "hello":
        yield Reply((text_block("hi"),))
        return
    yield TextDelta("half of it")
    await asyncio.Event().wait()


# Levels


async def spawns_on(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Spawn one more, each level one below itself, and tell what the tool answered; announce what is known."""
    if turn.kind == "announce":
        heard = [m.text for m in turn.transcript if m.role == "user" and m.text.startswith("Sub-agent")]
        yield Reply((text_block(f"level {turn.key.count('subagent')} heard of {len(heard)}"),))
    elif turn.kind == "subagent":
        level = turn.key.count("subagent")
        result = await turn.call_tool("c", "sessions_spawn", {"task": f"level {level + 1}"})
        yield Reply((text_block(result.text),))
    else:
        yield Reply((text_block("hi"),))


@pytest.mark.spec("W3", "W6", "K4")
@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_levels_above_the_last_may_spawn_and_results_go_up_one_level(state: Path, depth: int) -> None:
    async with running(state, limited(depth), Agent(spawns_on)) as runtime:
        await send(runtime, MAIN, "hello")
        await spawn(runtime, "level 1")
        await runtime.drained()
        found = (await call(runtime, "sessions_list", limit=50))["sessions"]
        keys = sorted((row["key"] for row in found if row["key"] != "main"), key=len)
        assert [key.count(":subagent:") for key in keys] == list(range(1, depth + 1))
        for above, below in zip([MAIN, *keys], keys, strict=False):
            assert (await session(runtime, below)).spawned_by == above
            told = [m for m in await transcript(runtime, above) if m.text.startswith("Sub-agent")]
            assert [m.provenance.source_session_key for m in told if m.provenance] == [below], "its own child, no other"
        refused = json.loads((await words(runtime, keys[-1]))[1][1])
        assert (refused["status"], refused["decidedBy"]) == ("forbidden", ["agents.defaults.subagents.maxSpawnDepth"])


@pytest.mark.spec("W3")
async def test_the_last_level_cannot_spawn_whoever_asks(state: Path) -> None:
    async with running(state, limited(2), Agent(spawns_on)) as runtime:
        await send(runtime, MAIN, "hello")
        await spawn(runtime, "level 1")
        await runtime.drained()
        keys = [key for (key,) in runtime.store.db.execute("SELECT key FROM sessions WHERE spawned_by <> ?", (MAIN,))]
        for caller in (Operator(keys[0]), SessionCaller(keys[0])):
            refused = await call(runtime, "sessions_spawn", caller, task="deeper")
            assert (refused["status"], refused["decidedBy"]) == (
                "forbidden",
                ["agents.defaults.subagents.maxSpawnDepth"],
            )


# How many


@pytest.mark.spec("W12")
async def test_one_more_child_than_allowed_is_refused_until_one_has_ended(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, limited(children=2), agent) as runtime:
        for task in ("one", "two"):
            assert (await spawn(runtime, task))["status"] == "accepted"
        refused = await spawn(runtime, "three")
        assert set(refused) == {"status", "error", "decidedBy"}
        assert refused["decidedBy"] == ["agents.defaults.subagents.maxChildrenPerAgent"]
        assert f"session {MAIN} has 2 sub-agents at work, which is the limit" in refused["error"]
        assert list(states(runtime)) == ["one", "two"], "nothing of a refused one is left"
        await begin(runtime, "agent:main:other", "hello")
        other = await spawn(runtime, "three", "agent:main:other")
        assert other["status"] == "accepted", "each session has its own number"
        agent.release()
        await runtime.drained()
        assert (await spawn(runtime, "four"))["status"] == "accepted"
        await runtime.drained()


@pytest.mark.spec("W12")
async def test_a_child_counts_until_its_announce_is_over(state: Path) -> None:
    hold = asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "announce":
            await hold.wait()
        yield Reply((text_block("done"),))

    agent = Agent(play)
    async with running(state, limited(children=1), agent) as runtime:
        await send(runtime, MAIN, "hello")
        await spawn(runtime)
        await until(lambda: agent.turns[-1].kind == "announce")
        assert (await spawn(runtime))["status"] == "forbidden"
        hold.set()
        await runtime.drained()
        assert (await spawn(runtime))["status"] == "accepted"
        await runtime.drained()


@pytest.mark.spec("W12")
async def test_more_at_once_than_allowed_wait_their_turn(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, limited(at_once=2), agent) as runtime:
        for number in range(5):
            assert (await spawn(runtime, f"{number}"))["status"] == "accepted"
        await until(lambda: len(agent.at_work) == 2)
        assert list(states(runtime).values()) == ["running"] * 2 + ["queued"] * 3
        agent.release()
        await runtime.drained()
        assert agent.most_at_work == 2
        tasks = [turn.transcript[-1].text for turn in agent.turns if turn.kind == "subagent"]
        assert tasks == ["0", "1", "2", "3", "4"]
        assert set(states(runtime).values()) == {"done"}


@pytest.mark.spec("W12")
async def test_sub_agents_leave_the_places_of_ordinary_sessions_free(state: Path) -> None:
    async with running(state, limited(at_once=1), Agent(hangs)) as runtime:
        await spawn(runtime)
        await spawn(runtime)
        assert (await send(runtime, MAIN, "hello"))["reply"] == "hi"


# Stopping


@pytest.mark.spec("W12")
async def test_stopping_a_parent_stops_all_below_it_and_nothing_else(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.transcript[-1].text == "have one" and turn.kind == "subagent":
            await turn.call_tool("c", "sessions_spawn", {"task": "grandchild"})
        async for event in hangs(turn):
            yield event

    agent = Agent(play)
    async with running(state, limited(2, at_once=3), agent) as runtime:
        for key in (MAIN, "agent:main:other"):
            await send(runtime, key, "hello")
        await spawn(runtime, "have one")
        await until(lambda: states(runtime).get("grandchild") == "running")
        await spawn(runtime, "not mine", "agent:main:other")
        await until(lambda: states(runtime)["not mine"] == "running")
        await spawn(runtime, "still queued")
        await begin(runtime, MAIN, "work")
        await until(lambda: MAIN in agent.at_work)
        stopped = await runtime.abort(MAIN, OPERATOR)
        assert len(stopped) == 4
        assert states(runtime) == {
            "have one": "aborted",
            "grandchild": "aborted",
            "not mine": "running",
            "still queued": "aborted",
        }
        told = [m.text.split("\n")[2] for m in await transcript(runtime, MAIN) if m.text.startswith("Sub-agent")]
        assert told == ["Status: aborted"] * 3, "that of the grandchild is handed on: its own parent has ended"
        for each, _ in await runtime.exchanges(MAIN, limit=10):
            assert each.state == "ended"
        await runtime.abort("agent:main:other", OPERATOR)


@pytest.mark.spec("W12")
async def test_what_a_child_spawns_while_it_is_stopped_is_stopped_too(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("half of it")
        try:
            await asyncio.Event().wait()
        finally:
            if turn.transcript[-1].text == "child":
                await turn.call_tool("c", "sessions_spawn", {"task": "last minute"})

    agent = Agent(play)
    async with running(state, limited(2), agent) as runtime:
        await spawn(runtime, "child")
        await until(lambda: agent.at_work)
        await runtime.abort(MAIN, OPERATOR)
        assert states(runtime) == {"child": "aborted", "last minute": "aborted"}


@pytest.mark.spec("W12")
async def test_stopping_one_run_of_a_parent_leaves_its_children(state: Path) -> None:
    agent = Agent(hangs)
    async with running(state, limited(), agent) as runtime:
        await send(runtime, MAIN, "hello")
        await spawn(runtime, "child")
        ticket = await begin(runtime, MAIN, "work")
        await until(lambda: len(agent.at_work) == 2)
        assert await runtime.abort(MAIN, OPERATOR, run_id=ticket.run_id) == [ticket.run_id]
        assert states(runtime) == {"child": "running"}
        await runtime.abort(MAIN, OPERATOR)


# The sandbox


SANDBOX = "agents.list[].sandbox.mode"


@pytest.mark.spec("W9", "W4")
@pytest.mark.parametrize(
    ("requester", "child", "sandbox", "error"),
    [
        ("free", "free", "inherit", None),
        ("free", "boxed", "inherit", None),
        ("boxed", "boxed", "inherit", None),
        ("boxed", "free", "inherit", "a sandboxed session cannot spawn"),
        ("free", "free", "require", 'agent "free" is not sandboxed, and sandbox "require" was asked for'),
        ("free", "boxed", "require", None),
        ("boxed", "boxed", "require", None),
        ("boxed", "free", "require", 'agent "free" is not sandboxed, and sandbox "require" was asked for'),
    ],
)
async def test_no_child_is_freer_than_it_may_be(
    state: Path, requester: str, child: str, sandbox: str, error: str | None
) -> None:
    rules = {name: AgentRules(name, sandboxed=name == "boxed", allow_agents=("*",)) for name in ("free", "boxed")}
    settings = Settings(
        rules=RuleSet(agents=rules, default_agent="free"), agents={name: AgentSettings(name) for name in rules}
    )
    async with running(state, settings, Agent()) as runtime:
        key = f"agent:{requester}:main"
        await send(runtime, key, "hello")
        for caller in (Operator(key), SessionCaller(key)):
            offered = [agent["id"] for agent in (await call(runtime, "agents_list", caller))["agents"]]
            assert (child in offered) == (requester == "free" or child == "boxed")
            answer = await call(runtime, "sessions_spawn", caller, task="look", agentId=child, sandbox=sandbox)
            if error is None:
                assert answer["status"] == "accepted"
            else:
                assert (answer["status"], answer["decidedBy"]) == ("forbidden", [SANDBOX])
                assert error in answer["error"]
        await runtime.drained()
        assert len(await runtime.runs(key, ALL, limit=5)) == 1
