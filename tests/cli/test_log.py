"""What should never happen is told in a sentence, and where it happened in a log that quotes nobody
(architecture#threats)."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from console.hosts.host import Host
from console.log import LOG_NAME, MAX_BYTES, Log
from core.agents.port import AgentEvent, TextDelta, Turn
from core.config.paths import find_places
from core.config.settings import Settings
from tests.cli.program import Cli, started
from tests.support.runtimes import Agent, send, words

SECRET = "sk-said-in-confidence"


async def break_down(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Fail as no agent should, with words in the exception that nobody else may read."""
    yield TextDelta("I begin")
    said = turn.transcript[-1].text
    try:
        {}[f"{SECRET} {said}"]
    except KeyError as error:
        raise ZeroDivisionError(f"{SECRET}\n{said}") from error


class BrokenHost(Host):
    """A host whose agents all break down."""

    async def settings(self) -> Settings:
        """Read the configuration, and put the broken agent in place of all others."""
        settings = await super().settings()
        self._backends = Agent(break_down)  # type: ignore[assignment] - another backend, of the same port
        return settings


async def test_a_broken_agent_is_a_sentence_there_and_a_place_in_the_log(home: Path) -> None:
    host = BrokenHost(find_places())
    await host.start("console")
    assert not (host.state / LOG_NAME).exists(), "an uneventful run leaves no log"
    result = await send(host.runtime, "main", "say something private")
    said = await words(host.runtime, "agent:main:main")
    await host.close()
    sentence = "the agent failed inside switchboard: ZeroDivisionError (see the log)"
    assert (result["status"], result["error"]) == ("error", sentence)
    assert ("system", sentence) in said
    log = host.state / LOG_NAME
    assert log.stat().st_mode & 0o777 == 0o600
    text = log.read_text()
    assert f"ERROR switchboard.turn[{os.getpid()}] run {result['runId']} failed\n" in text
    assert "in break_down\n" in text
    assert text.count("Traceback") == 0
    assert [line for line in text.splitlines() if not line.startswith((" ", "2"))] == [
        "builtins.ZeroDivisionError",
        "caused by:",
        "builtins.KeyError",
    ]
    for private in (SECRET, "private"):
        assert private not in text


async def test_what_asyncio_complains_of_goes_there_without_its_words(state: Path) -> None:
    log = Log(state)
    state.mkdir()
    logging.getLogger("asyncio").warning("Task exception was never retrieved\nfuture: ValueError('%s')", SECRET)
    logging.getLogger("asyncio").warning("Exception in callback Store.publish([%r])", SECRET)
    logging.getLogger("switchboard.engine").warning("a \x1b[2J key\r%s", "x" * 9000)
    logging.getLogger("switchboard.engine").info("nothing to see")
    log.close()
    first, called, second = (state / LOG_NAME).read_text().splitlines()
    assert first.endswith(" Task exception was never retrieved")
    assert called.endswith(" Exception in callback Store.publish")
    assert "\x1b" not in second
    assert len(second) < 600
    logging.getLogger("switchboard.engine").warning("nobody listens any more")
    assert len((state / LOG_NAME).read_text().splitlines()) == 3


async def test_the_log_is_bounded(state: Path) -> None:
    state.mkdir()
    log = Log(state)
    logger = logging.getLogger("switchboard.engine")
    for number in range(6000):
        logger.warning("%s %s", number, "x" * 490)
    log.close()
    sizes = {path.name: path.stat().st_size for path in state.iterdir()}
    assert sorted(sizes) == [LOG_NAME, f"{LOG_NAME}.1"]
    assert all(size <= MAX_BYTES for size in sizes.values())
    assert "5999 xx" in (state / LOG_NAME).read_text()
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}


async def test_a_log_that_cannot_be_written_is_done_without(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    state.mkdir()
    (state / LOG_NAME).symlink_to(state / "elsewhere")
    log = Log(state)
    logging.getLogger("switchboard.engine").warning("not followed")
    log.close()
    assert not (state / "elsewhere").exists()
    assert capfd.readouterr().err == ""


def test_only_the_owner_logs(cli: Cli, home: Path) -> None:
    with started("send", "main", "be slow 60") as owner:
        owner.wait_for("at work")

        async def try_it() -> None:
            host = Host(find_places())
            await host.start("console")
            assert not host.owns
            logging.getLogger("switchboard.engine").warning("of a process that only reads")
            await host.close()

        asyncio.run(try_it())
    assert not (home / "state" / LOG_NAME).exists()
