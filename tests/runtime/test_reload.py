"""P1, V1, W3: the configuration file is followed while the runtime works; a broken one changes nothing and says why."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from core.config.load import load
from core.config.paths import Places
from core.config.watch import LOOK_SECONDS, ConfigWatch, stamp_of
from core.model.access import ALL, SessionCaller
from core.model.errors import Forbidden
from core.model.events import Configured
from core.runtime.gateway import Runtime
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, begin, call, listening, running, send, session, until, until_async

OPS = "agent:ops:main"
AGENTS = '{agents: {list: [{id: "main", systemPrompt: "%s"}, {id: "ops"}]}}'
DENY = '{session: {sendPolicy: {default: "deny"}}}'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the configuration file, which says who main is."""
    config = tmp_path / "config.json5"
    config.write_text(AGENTS % "first")
    return config


@contextlib.asynccontextmanager
async def following(state: Path, config: Path, agent: Agent, clock: FakeClock) -> AsyncGenerator[Runtime]:
    """Run a runtime whose configuration is followed."""
    places = Places(state, config, "", "", config_required=False)
    async with running(state, load(places), agent, clock=clock) as runtime:
        watch = ConfigWatch(places, clock, stamp_of(places), runtime.configure, runtime.complain)
        task = asyncio.create_task(watch.run())
        await clock.until_sleeping()
        yield runtime
        task.cancel()


async def looks(clock: FakeClock, count: int = 2) -> None:
    """Let the watch look that often."""
    for _ in range(count):
        sleepers = clock.slept.count(LOOK_SECONDS)
        await clock.advance(LOOK_SECONDS)
        await until(lambda before=sleepers: clock.slept.count(LOOK_SECONDS) > before)


async def test_a_run_keeps_its_settings_and_the_next_one_has_the_new(state: Path, config: Path) -> None:
    agent, clock = Agent(held=True), FakeClock()
    async with following(state, config, agent, clock) as runtime, listening(runtime) as listener:
        await begin(runtime, MAIN, "one")
        await begin(runtime, MAIN, "two")
        await until(lambda: agent.turns)
        config.write_text(AGENTS % "second")
        await looks(clock)
        assert runtime.settings is not None
        assert runtime.settings.agents["main"].system_prompt == "second"
        agent.release()
        await runtime.drained()
        assert [turn.system.split("\n")[0] for turn in agent.turns] == ["first", "second"]
        await until(lambda: listener.of(Configured) == [Configured("")])
        await looks(clock, 3)
        assert listener.of(Configured) == [Configured("")]


@pytest.mark.spec("P1")
async def test_a_new_policy_is_in_force_for_the_next_message(state: Path, config: Path) -> None:
    agent, clock = Agent(), FakeClock()
    async with following(state, config, agent, clock) as runtime:
        await send(runtime, MAIN, "one")
        config.write_text(DENY)
        await looks(clock)
        refused = await send(runtime, MAIN, "two")
        assert refused["decidedBy"] == ["session.sendPolicy.default"]
        with pytest.raises(Forbidden):
            await begin(runtime, MAIN, "three")
        config.unlink()
        await looks(clock)
        assert (await send(runtime, MAIN, "four"))["status"] == "ok"


@pytest.mark.spec("V1", "W3")
async def test_visibility_and_tools_follow_too(state: Path, config: Path) -> None:
    agent, clock = Agent(), FakeClock()
    async with following(state, config, agent, clock) as runtime:
        await send(runtime, MAIN, "one")
        await send(runtime, "agent:main:discord:group:a", "one")
        caller = SessionCaller(MAIN)
        assert (await call(runtime, "sessions_list", caller))["count"] == 1
        config.write_text('{tools: {sessions: {visibility: "agent"}}}')
        await looks(clock)
        assert (await call(runtime, "sessions_list", caller))["count"] == 2
        config.write_text('{agents: {list: [{id: "main", tools: {deny: ["sessions_list"]}}]}}')
        await looks(clock)
        assert (await call(runtime, "sessions_list", caller))["decidedBy"] == ["agents.list[].tools"]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "is never closed"),
        ('{session: {sendPolicy: {default: "maybe"}}}', 'session.sendPolicy.default is "maybe"'),
        ('{agents: {list: [{id: "main", model: "no/model"}]}}', "which no provider has"),
    ],
)
async def test_a_broken_file_changes_nothing_and_is_told(state: Path, config: Path, broken: str, words: str) -> None:
    agent, clock = Agent(), FakeClock()
    config.write_text(DENY)
    async with following(state, config, agent, clock) as runtime, listening(runtime) as listener:
        before = runtime.settings
        config.write_text(broken)
        await looks(clock)
        assert runtime.settings is before
        connection = runtime.connection
        assert connection.state == "live"
        assert words in connection.detail
        assert "\n" not in connection.detail
        await until(lambda: listener.of(Configured) == [Configured(connection.detail)])
        assert runtime.refusal("send") is None
        await looks(clock, 3)
        assert len(listener.of(Configured)) == 1
        config.write_text(AGENTS % "mended")
        await looks(clock)
        assert runtime.connection.detail == ""
        await until(lambda: listener.of(Configured)[1:] == [Configured("")])


async def test_half_of_a_file_is_not_taken(state: Path, config: Path) -> None:
    agent, clock = Agent(), FakeClock()
    config.write_text(DENY)
    async with following(state, config, agent, clock) as runtime:
        before = runtime.settings
        with config.open("w") as file:  # empty, it would mean the defaults: everything allowed
            await looks(clock, 1)
            file.write("// much more\n")
            file.flush()
            await looks(clock, 1)
            assert runtime.settings is before
            file.write(DENY)
        await looks(clock, 1)
        assert runtime.settings is before
        await looks(clock, 1)
        assert runtime.settings is not before
        assert (await send(runtime, MAIN, "x"))["status"] == "forbidden"


async def test_a_change_that_keeps_time_and_size_is_seen_when_the_file_was_replaced(state: Path, config: Path) -> None:
    agent, clock = Agent(), FakeClock()
    async with following(state, config, agent, clock) as runtime:
        found = config.stat()
        other = config.with_suffix(".new")
        other.write_text(AGENTS % "fifth")
        os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
        other.replace(config)
        await looks(clock)
        assert runtime.settings is not None
        assert runtime.settings.agents["main"].system_prompt == "fifth"


async def test_more_places_let_waiting_runs_start(state: Path, config: Path) -> None:
    agent, clock = Agent(held=True), FakeClock()
    config.write_text("{agents: {defaults: {maxConcurrent: 1}}}")
    async with following(state, config, agent, clock) as runtime:
        for key in (MAIN, "cron:a", "cron:b"):
            await begin(runtime, key, "x")
        await until(lambda: agent.at_work)
        config.write_text("{agents: {defaults: {maxConcurrent: 2}}}")
        await looks(clock)
        await until(lambda: len(agent.at_work) == 2)
        agent.release()
        await runtime.drained()
        assert agent.most_at_work == 2


@pytest.mark.spec("W7")
async def test_a_shorter_time_to_the_archive_counts_at_once(state: Path, config: Path) -> None:
    agent, clock = Agent(), FakeClock()
    async with following(state, config, agent, clock) as runtime:
        child = (await call(runtime, "sessions_spawn", task="x"))["childSessionKey"]
        await runtime.drained()
        await clock.until_sleeping(2)
        config.write_text("{agents: {defaults: {subagents: {archiveAfterMinutes: 1}}}}")
        await looks(clock)
        await clock.until_sleeping(2)
        assert (await session(runtime, child)).archived_at is None
        await clock.advance(60)
        await until_async(archived(runtime, child))


def archived(runtime: Runtime, key: str) -> Callable[[], Awaitable[bool]]:
    """Ask whether a session is in the archive."""

    async def ask() -> bool:
        return (await runtime.get_session(key, ALL)).archived_at is not None

    return ask
