"""What the watch screen shows of exchanges, announces and spawns: each state in its own word, live
(architecture#states)."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, Turn
from core.channels import OutgoingText, Rejected
from core.model.access import OPERATOR, Operator
from core.model.messages import Provenance, Usage, text_block
from core.model.sessions import SessionPatch
from core.runtime.exchanges.announce import SPAWN_INPUT
from tests.console.driver import CRON, MAIN, OPS, Agent, ConsoleDriver, console
from tests.support.runtimes import begin, call

ALL_VISIBLE = '{tools: {sessions: {visibility: "all"}}}'
TWO_LEVELS = "{agents: {defaults: {subagents: {maxSpawnDepth: 2}}}}"


class Script:
    """A play in which each message has its answer; some are given only when the test says so.

    Attributes:
        held: What lets an answer go, by the words of its message.
    """

    def __init__(self, answers: dict[str, str], *held: str) -> None:
        self._answers = answers
        self.held = {words: asyncio.Event() for words in held}

    async def __call__(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        asked = turn.transcript[-1].text
        words = next(known for known in self._answers if asked.startswith(known))
        if words in self.held:
            await self.held[words].wait()
        said = self._answers[words]
        if said == "fail":
            raise AgentFailure("the source is offline")
        yield TextDelta(said)
        yield Reply((text_block(said),), Usage(1200, 5), "test")


class Door:
    """A channel that takes a text when it is told to, or fails as it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.open = asyncio.Event()
        self.error = error
        self.texts: list[str] = []

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Take a text, or fail."""
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.texts.append(outgoing.text)


LOOP = {
    "compare": "eu is nearer",
    "eu is nearer": "how near?",
    "how near?": "30 ms",
    "30 ms": "REPLY_SKIP",
    "The exchange is over": "we start in eu",
}


async def ask(driver: ConsoleDriver, message: str = "compare", *, sender: str = MAIN, to: str = OPS) -> None:
    """Send from one session to another."""
    await call(driver.runtime, "sessions_send", Operator(sender), sessionKey=to, message=message, timeoutSeconds=0)


def line_with(driver: ConsoleDriver, words: str) -> str:
    """Return the one line of the transcript that holds these words."""
    found = [line[44:] for line in driver.text.splitlines() if words in line[44:]]
    assert len(found) == 1, driver.text
    return found[0]


@pytest.mark.spec("S9", "S10", "S11")
async def test_an_exchange_is_followed_from_its_first_message_to_its_announce(fleet: Path) -> None:
    play, door = Script(LOOP, "compare", "how near?", "The exchange is over"), Door()
    async with console(fleet, agent=Agent(play), channels={"discord": door}, size=(120, 50)) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.shows("exchange with main: no turn of 5 yet, ops is next", "main → ops")
        exchange_id = driver.app.view_model.exchanges.of(OPS)[0].exchange_id
        assert line_with(driver, "main → ops").endswith(f"exchange {exchange_id[:4]}")
        play.held["compare"].set()
        await driver.shows("exchange with main: turn 2 of 5, ops is next")
        await driver.shows(f"exchange {exchange_id[:4]}  turn 2 of 5")
        assert "announce to" not in driver.text
        play.held["how near?"].set()
        await driver.shows("exchange with main: turn 3 of 5, ops writes the announce", "▸ announce step")
        assert "announce step  ops is asked what to say" in line_with(driver, "▸ announce step")
        assert "The request was:" not in driver.text
        play.held["The exchange is over"].set()
        await driver.shows("● announce to discord group:ops: sending")
        await driver.until(lambda: "exchange with main" not in driver.text)
        assert driver.text.index("we start in eu") < driver.text.index("● announce to")
        door.open.set()
        await driver.shows("✓ announce to discord group:ops: sent")
        assert door.texts == ["we start in eu"]
        assert (await driver.session(OPS)).status == "done"


@pytest.mark.spec("S9", "S11")
async def test_the_other_side_shows_the_same_exchange(fleet: Path) -> None:
    play, door = Script(LOOP, "eu is nearer", "The exchange is over"), Door()
    async with console(fleet, agent=Agent(play), channels={"discord": door}, size=(120, 50)) as driver:
        await driver.open(MAIN)
        await ask(driver)
        await driver.shows("exchange with ops: turn 1 of 5, main is next", "turn 1 of 5")
        play.held["eu is nearer"].set()
        await driver.shows("main ends the exchange (REPLY_SKIP)", "◌ announce: ops writes it")
        assert "REPLY_SKIP" not in driver.text.replace("main ends the exchange (REPLY_SKIP)", "")
        play.held["The exchange is over"].set()
        await driver.shows("announce to discord group:ops: sending")
        door.open.set()
        await driver.shows("announce to discord group:ops: sent")
        await driver.until(lambda: "writes it" not in driver.text)


@pytest.mark.spec("S8")
async def test_enter_follows_a_message_and_opens_an_announce_step(fleet: Path) -> None:
    play, door = Script(LOOP), Door()
    door.open.set()
    async with console(fleet, agent=Agent(play), channels={"discord": door}, size=(120, 60)) as driver:
        await ask(driver)
        await driver.open(OPS)
        await driver.shows("announce to discord group:ops: sent")
        await driver.press("k", "k")
        await driver.press("enter")
        await driver.shows("▾ announce step", "The request was:")
        assert driver.selected == OPS
        await driver.press("enter")
        await driver.until(lambda: "The request was:" not in driver.text)
        await driver.press("k", "k", "enter")
        await driver.until(lambda: driver.selected == MAIN)


# What became of announces


@pytest.mark.spec("S10", "S11", "P4")
async def test_why_nothing_was_announced_stands_below_the_exchange(fleet: Path) -> None:
    play = Script(LOOP, "how near?")
    async with console(fleet, agent=Agent(play), size=(140, 50)) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.shows("turn 2 of 5, ops is next")
        await driver.runtime.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        play.held["how near?"].set()
        await driver.shows("Nothing was announced: denied by override.")
        assert (await driver.session(OPS)).status == "done"


@pytest.mark.spec("S10")
async def test_an_agent_may_announce_nothing(fleet: Path) -> None:
    async with console(fleet, agent=Agent(Script(LOOP | {"The exchange is over": "ANNOUNCE_SKIP"}))) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.shows("ops announces nothing (ANNOUNCE_SKIP)")
        await driver.shows("⊘ announce to discord group:ops: skipped: ANNOUNCE_SKIP")


@pytest.mark.spec("S11")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "× announce to discord group:ops: failed: no route to discord:group:ops"),
        (Rejected("no such room"), "× announce to discord group:ops: failed: no such room"),
        (RuntimeError("cut off"), "? announce to discord group:ops: unknown: RuntimeError"),
    ],
    ids=["no route", "rejected", "unknown"],
)
async def test_what_was_not_sent_says_why(fleet: Path, error: Exception | None, words: str) -> None:
    door = Door(error)
    door.open.set()
    channels = {"discord": door} if error is not None else None
    async with console(fleet, agent=Agent(Script(LOOP)), channels=channels, size=(140, 50)) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.shows(words)
        assert (await driver.session(OPS)).status == "done"  # the run is another state


@pytest.mark.spec("P4", "S11")
async def test_a_denied_announce_is_told_once_in_its_own_transcript(fleet: Path) -> None:
    play = Script({"compare": "REPLY_SKIP"}, "compare")
    async with console(fleet, agent=Agent(play), size=(120, 50)) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].look == "running")
        (exchange,) = driver.app.view_model.exchanges.of(OPS)
        await driver.runtime.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        play.held["compare"].set()
        await driver.shows("Nothing was announced: denied by override.")
        await driver.until(lambda: driver.app.view_model.exchanges.announce(exchange.exchange_id))
        await driver.at_rest()
        assert driver.text.count("denied by override") == 1


@pytest.mark.spec("S9")
async def test_an_exchange_that_ends_without_an_announce_says_so(fleet: Path) -> None:
    async with console(fleet, agent=Agent(Script({"compare": "fail"})), size=(140, 50)) as driver:
        await driver.open(OPS)
        await ask(driver)
        await driver.shows("exchange with main: error, nothing is announced: the first run ended: error")


@pytest.mark.spec("S9", "S11")
async def test_what_is_opened_later_shows_the_same(fleet: Path) -> None:
    async with console(fleet, agent=Agent(Script(LOOP)), size=(170, 50)) as driver:
        await driver.select(CRON)
        await ask(driver)
        await driver.at_rest()
        await driver.select(MAIN)
        await driver.shows("main ends the exchange (REPLY_SKIP)", "announce to discord group:ops: failed")
        await driver.shows("EXCHANGES", "→ ops", "3/5  done", "announce failed", "turn 3 of 5")


async def test_hostile_ids_and_reasons_reach_no_cell(fleet: Path) -> None:
    door = Door(Rejected("\x1b]52;c;eA==\x07no\u202e room"))
    door.open.set()
    provenance = Provenance(MAIN, "webchat", "sessions_send")
    async with console(fleet, agent=Agent(Script(LOOP)), channels={"discord": door}, size=(170, 50)) as driver:
        await driver.open(OPS)
        await begin(driver.runtime, OPS, "compare", Operator(MAIN), provenance=provenance, run_id="\x1b[31m\u202eid")
        await driver.shows("failed: ␛]52;c;eA==", "EXCHANGES", "announce failed")
        assert not {"\x1b", "\x07", "\u202e"} & set(driver.text)


# Sub-agents


def tree(driver: ConsoleDriver) -> list[str]:
    """Return the rows of the spawn tree."""
    lines = driver.text.splitlines()
    top = next(number for number, line in enumerate(lines) if "SPAWNS" in line)
    left = lines[top].index("SPAWNS")
    return [
        line[left - 1 :].partition("│")[0].rstrip()
        for line in lines[top + 1 : top + 1 + driver.screen.parts.spawns.count]
    ]


TASKS = {
    "one": "found",
    "two": "found",
    "three": "fail",
    "four": "found",
    SPAWN_INPUT: "told",
}


@pytest.mark.spec("W6", "W12")
async def test_the_tree_tells_run_and_announce_apart(fleet: Path) -> None:
    play, door = Script(TASKS, "four", SPAWN_INPUT), Door()
    async with console(fleet, agent=Agent(play), channels={"discord": door}, size=(200, 50)) as driver:
        await driver.select(OPS)
        for task in ("one", "three", "four"):
            arguments = {"task": task, "label": f"task {task}"}
            await call(driver.runtime, "sessions_spawn", Operator(OPS), **arguments)
        for words in (("task one", "done"), ("task four", "running")):
            await driver.until(lambda words=words: any(all(word in row for word in words) for row in tree(driver)))
        rows = {word: next(row for row in tree(driver) if f"task {word}" in row) for word in ("one", "three", "four")}
        assert rows["one"].split()[:1] == ["✓"]  # its announce step is at work, its task is not
        assert rows["one"].endswith("not yet")
        assert "●" in rows["four"]
        assert rows["four"].split()[3] == "running"
        assert rows["four"].endswith("not yet")
        await driver.until(lambda: any("task three" in row and row.endswith("sending") for row in tree(driver)))
        failed = next(row for row in tree(driver) if "task three" in row)
        assert failed.split()[0] == "×"
        assert "failed" in failed
        states = ((rows["one"], "done"), (rows["four"], "running"), (failed, "failed"))
        starts = {row.index(word) for row, word in states}
        assert len(starts) == 1
        play.held[SPAWN_INPUT].set()
        door.open.set()
        play.held["four"].set()
        await driver.until(lambda: all(row.endswith("announced") for row in tree(driver)))
        assert [row.split()[0] for row in tree(driver)].count("✓") == 2


@pytest.mark.spec("W6")
async def test_the_result_of_a_sub_agent_tells_of_its_announce(fleet: Path) -> None:
    async with console(fleet, agent=Agent(Script(TASKS)), size=(140, 50)) as driver:
        await driver.open(OPS)
        await call(driver.runtime, "sessions_spawn", Operator(OPS), task="one", label="task one")
        await driver.shows("task one → ops", "result of a sub-agent", "Status: done")
        await driver.shows("× announce to discord group:ops: failed: no route")
        await driver.until(lambda: any(row.endswith("undelivered") for row in tree(driver)))
        await driver.press("k", "enter")
        child = driver.app.view_model.book.children(OPS)[0].session.key
        await driver.until(lambda: driver.screen.parts.main.key == child)
        await driver.shows("ops → task one", "▸ announce step", "× announce to discord group:ops: failed")


@pytest.mark.spec("W12")
async def test_aborting_names_the_sub_agents_and_stops_them(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, TWO_LEVELS, agent=agent) as driver:
        await driver.select(OPS)
        for task in ("one", "two"):
            await call(driver.runtime, "sessions_spawn", Operator(OPS), task=task, label=task)
        child = next(row.session.key for row in driver.app.view_model.book.children(OPS) if row.name == "one")
        await call(driver.runtime, "sessions_spawn", Operator(child), task="three", label="three")
        await driver.until(lambda: len(agent.at_work) == 3)
        await driver.until(lambda: driver.app.view_model.book.at_work_below(OPS) == (3, 3))
        assert driver.app.view_model.book.rows[OPS].look == "idle"
        await driver.press("a")
        await driver.shows("ops has sub-agents at work. Aborting stops 3 runs of 3 sub-agents")
        await driver.press("escape")
        assert len(agent.at_work) == 3
        await begin(driver.runtime, OPS, "own")
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].look == "running")
        await driver.press("a")
        await driver.shows("ops is at work. Aborting stops its run and 3 runs of 3 sub-agents")
        await driver.press("y")
        await driver.said("ops: 4 runs stopped")
        await driver.at_rest()
        assert {(await driver.session(row.session.key)).status for _, row in driver.app.view_model.book.below(OPS)} == {
            "aborted"
        }
        await driver.press("a")
        assert "ops is not at work" in driver.notice
