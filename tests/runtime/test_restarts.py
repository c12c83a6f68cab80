"""Whatever a process was doing when it died, nothing is lost, doubled or claimed (S9-S11, W6, architecture#recovery).

Random exchanges between random sessions, on a runtime that dies at a random moment and is opened again, many times.
What must hold is in `tests.support.invariants`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ToolEnded, Turn
from core.channels import ChannelBusy, OutgoingText, Rejected
from core.config.settings import AgentSettings, Settings
from core.model.access import Operator
from core.model.messages import text_block, tool_call_block
from core.model.runs import RunRequest, SpawnSpec
from core.rules.limits import SpawnLimits
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.runtime.gateway import Runtime
from core.store import deliveries, runs
from tests.runtime.crashes import Doom, dying
from tests.support.clock import FakeClock
from tests.support.invariants import look
from tests.support.runtimes import MAIN, Agent, begin, running

SCENARIOS: Final = 20
LONG_SCENARIOS: Final = 200
"""With `-m long`, more of them."""
CRASHES: Final = 20
KEYS: Final = (
    MAIN,
    "agent:other:main",
    "agent:main:discord:group:ops",
    "agent:main:telegram:group:lab",
    "cron:nightly",
)
LINES: Final = ("words", "words", "words", "words", "REPLY_SKIP", "ANNOUNCE_SKIP", "")
OPEN: Final = RuleSet(
    agents={"main": AgentRules("main"), "other": AgentRules("other")},
    visibility=VisibilityRules("all", AgentToAgent(enabled=True)),
    spawning=SpawnLimits(max_depth=2, max_children=50),
)


class Wall:
    """A channel that keeps what it took, and is sometimes busy, picky, or cut off."""

    def __init__(self, dice: random.Random) -> None:
        self.taken: Counter[str] = Counter()
        self._dice = dice

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Take a text, or not."""
        await self._pause()
        luck = self._dice.random()
        if luck < 0.1:
            raise ChannelBusy("busy", self._dice.choice([None, 3.0]))
        if luck < 0.15:
            raise Rejected("no")
        self.taken[outgoing.delivery_id] += 1
        await self._pause()
        if luck < 0.2:
            raise ConnectionResetError

    async def _pause(self) -> None:
        for _ in range(self._dice.randrange(4)):
            await asyncio.sleep(0)


class World:
    """One state directory through all its lives.

    Attributes:
        asked: Every request that was made, by its run id; one that was not acknowledged is made again.
        acknowledged: Ids of those that were.
    """

    def __init__(self, state: Path, seed: int) -> None:
        self.state = state
        self.dice = random.Random(seed)
        self.clock = FakeClock()
        self.wall = Wall(self.dice)
        self.channels = {"discord": self.wall, "telegram": self.wall}
        self.agent = Agent(self.play)
        self.asked: dict[str, tuple[RunRequest, Operator]] = {}
        self.acknowledged: set[str] = set()

    @property
    def settings(self) -> Settings:
        """Another number of turns each time."""
        return Settings(
            rules=OPEN,
            agents={name: AgentSettings(name) for name in OPEN.agents},
            max_concurrent=8,
            max_ping_pong_turns=self.dice.randrange(6),
        )

    async def play(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        """Say something, now and then after using a tool, or fail."""
        for _ in range(self.dice.randrange(4)):
            await asyncio.sleep(0)
        if turn.kind in {"turn", "subagent"} and self.dice.random() < 0.2:
            name, arguments = self.dice.choice(
                [
                    ("sessions_spawn", {"task": "look"}),
                    ("sessions_send", {"sessionKey": self.dice.choice(KEYS), "message": "you?", "timeoutSeconds": 0}),
                ]
            )
            yield Reply((text_block("let me ask"), tool_call_block("c", name, arguments)), stop_reason="toolUse")
            yield ToolEnded("c", name, await turn.call_tool("c", name, arguments))
        yield TextDelta("half")
        if self.dice.random() < 0.06:
            raise AgentFailure("the model hung up")
        await asyncio.sleep(0)
        yield Reply((text_block(self.dice.choice(LINES)),))

    def request(self) -> str:
        """Think of something to ask for; return its run id."""
        run_id = f"ask{len(self.asked)}"
        source, target = self.dice.sample(KEYS, 2)
        if self.dice.random() < 0.3:
            own = "other" if source.startswith("agent:other:") else "main"
            spec = SpawnSpec(source, own, cleanup=self.dice.random() < 0.5)
            request = RunRequest("", f"task {run_id}", run_id, spawn=spec)
        elif self.dice.random() < 0.1:
            request = RunRequest(target, self.dice.choice(("/status", f"/label {run_id}")), run_id)
        else:
            request = RunRequest(target, f"message {run_id}", run_id)
        self.asked[run_id] = (request, Operator(source))
        return run_id

    async def ask(self, runtime: Runtime, run_id: str) -> None:
        """Make a request, maybe not for the first time."""
        request, caller = self.asked[run_id]
        await runtime.start_run(request, caller)
        self.acknowledged.add(run_id)

    async def live(self, runtime: Runtime) -> None:
        """Recover, repeat what was not acknowledged, ask for more and more, until death."""
        await runtime.start(self.settings, self.agent, command="test", channels=self.channels)
        assert left_running(runtime) == []
        for run_id in self.asked.keys() - self.acknowledged:
            await self.ask(runtime, run_id)
        while True:
            for _ in range(self.dice.randrange(1, 4)):
                await self.ask(runtime, self.request())
            if self.dice.random() < 0.5:
                await runtime.drained()
            await self.clock.advance(self.dice.choice([0.0, 1.0, 5.0]))

    async def die(self) -> None:
        """Live one life."""
        moment = self.dice.choice(("before", "after", "later"))
        doom = Doom(self.dice.randrange(1, 25), moment, self.dice.randrange(12))
        async with dying(self.state, doom, self.clock, self.live) as life:
            died = asyncio.create_task(doom.heard.wait())
            await asyncio.wait([life, died], return_when=asyncio.FIRST_COMPLETED)
            assert not life.done(), life.exception()

    async def finish(self) -> None:
        """Open it a last time, and let everything come to its end."""
        channels = self.channels
        async with running(self.state, self.settings, self.agent, clock=self.clock, channels=channels) as runtime:
            assert left_running(runtime) == []
            for run_id in self.asked.keys() - self.acknowledged:
                await self.ask(runtime, run_id)
            await runtime.drained()
            while deliveries.in_state(runtime.store.db, "pending"):
                await self.clock.advance(300)
                await runtime.drained()
            assert runs.live(runtime.store.db) == []


def left_running(runtime: Runtime) -> list[str]:
    """Return the runs that are said to run and do not."""
    live = runs.live(runtime.store.db)
    return [run.run_id for run in live if run.state == "running" and run.run_id not in runtime.active_runs]


@pytest.mark.spec("S9", "S11", "W6", "W7")
@pytest.mark.parametrize(
    "seed", [*range(SCENARIOS), *(pytest.param(n, marks=pytest.mark.long) for n in range(SCENARIOS, LONG_SCENARIOS))]
)
async def test_nothing_is_lost_or_doubled_wherever_the_process_dies(seed: int, state: Path) -> None:
    world = World(state, seed)
    async with running(world.state, world.settings, clock=world.clock) as runtime:
        for key in KEYS:
            await begin(runtime, key, "hello")
        await runtime.drained()
    problems: list[str] = []
    for crash in range(CRASHES):
        await world.die()
        found = look(world.state, world.wall.taken, world.acknowledged)
        problems += [f"after crash {crash + 1}: {problem}" for problem in found]
        assert problems == []
    await world.finish()
    assert list(look(world.state, world.wall.taken, world.acknowledged, over=True)) == []
