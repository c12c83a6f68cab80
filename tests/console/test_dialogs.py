"""The dialogs for a send and a spawn: what was asked for happens in the gateway, what is wrong is said."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import TextArea

from console.screens.send import SendDialog
from console.screens.spawn import SpawnDialog
from core.model.access import ALL
from core.model.sessions import SessionQuery
from tests.console.driver import CRON, MAIN, OPS, Agent, ConsoleDriver, console
from tests.support.runtimes import send

DENY_OPS = '{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord"}}]}}}'
HELPERS = """{agents: {list: [{id: "main", subagents: {allowAgents: ["helper"]}}, {id: "helper"}, {id: "guard"}]}}"""


async def open_send(driver: ConsoleDriver) -> None:
    """Open the send dialog; the keys go to the message."""
    await driver.press("s")
    await driver.until(lambda: isinstance(driver.app.screen, SendDialog))


async def send_waiting(driver: ConsoleDriver, text: str, seconds: str) -> None:
    """Send a text by the dialog, waiting that long for the reply."""
    await open_send(driver)
    await driver.write(text)
    await driver.press("tab")
    await refill(driver, seconds)
    await driver.press("ctrl+s")


async def refill(driver: ConsoleDriver, text: str) -> None:
    """Write a field anew."""
    await driver.press("end", "ctrl+u")
    await driver.write(text)


async def complaint(driver: ConsoleDriver, words: str) -> None:
    """Wait until the dialog, still open, says these words."""
    await driver.shows(words)
    assert driver.app.screen is not driver.screen


# Sending


@pytest.mark.spec("S1")
async def test_send_to_the_selected_session_and_wait(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.write("say hello there")
        await driver.press("ctrl+s")
        await driver.said("answered: hello there")
        assert (await driver.words(OPS))[-2:] == [("user", "say hello there"), ("assistant", "hello there")]
        assert driver.selected == OPS


@pytest.mark.spec("S13")
async def test_send_from_a_session_to_another_says_where_it_came_from(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.press("shift+tab", "shift+tab")
        await driver.write("nightly")
        await driver.shows("cron:nightly")
        await driver.press("enter", "tab")
        await refill(driver, "webchat")
        await driver.press("tab")
        await driver.write("say from the job")
        await driver.press("ctrl+s")
        await driver.said("answered: from the job")
        (asked,) = [message for message in await driver.messages(MAIN) if message.text == "say from the job"]
        assert asked.provenance is not None
        assert asked.provenance.source_session_key == CRON
        assert driver.selected == MAIN
        await driver.shows("say from the job")


async def test_a_session_that_is_called_just_so_is_offered_first(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, "agent:main:telegram:direct:newest", "say that main holds the word main too")
        await driver.until(lambda: driver.order[0] == "agent:main:telegram:direct:newest")
        await open_send(driver)
        await driver.press("shift+tab")
        await refill(driver, "main")
        await driver.press("enter", "tab")
        await driver.write("say to the right one")
        await driver.press("ctrl+s")
        await driver.said("answered: to the right one")
        assert ("assistant", "to the right one") in await driver.words(MAIN)


async def test_send_without_waiting(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await send_waiting(driver, "no hurry", "0")
        await driver.said("delivered to the session; its run is accepted")
        await driver.until(lambda: agent.at_work)
        agent.release()
        await driver.at_rest()


async def test_a_wait_that_runs_out_is_no_failure(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await send_waiting(driver, "take your time", "0.05")
        await driver.said("the wait ran out; the run goes on")
        assert (await driver.session(OPS)).status == "running"
        agent.release()
        await driver.at_rest()
        assert (await driver.words(OPS))[-1] == ("assistant", "echo take your time")


async def test_a_message_of_several_lines_and_half_a_megabyte(fleet: Path) -> None:
    words = "first line\n" + "z" * 500_000 + "\nlast line"
    async with console(fleet, agent=Agent()) as driver:
        await open_send(driver)
        driver.app.post_message(Paste(words))
        await driver.until(lambda: len(driver.app.screen.query_one(TextArea).text) == len(words))
        await driver.press("ctrl+s")
        await driver.said("answered: echo first line")
        assert (await driver.messages(OPS))[-2].text == words


async def test_an_empty_message_is_not_sent(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.press("space", "ctrl+s")
        await complaint(driver, "the message is empty")


async def test_a_session_cannot_send_to_itself(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.press("shift+tab", "shift+tab")
        await driver.write(OPS)
        await driver.press("tab", "tab")
        await driver.write("hello me")
        await driver.press("ctrl+s")
        await complaint(driver, "a session cannot send to itself")


@pytest.mark.parametrize("wait", ["-1", "99999999", "."])
async def test_a_wait_that_cannot_be_is_refused_and_the_message_stays(fleet: Path, wait: str) -> None:
    async with console(fleet) as driver:
        before = await driver.words(OPS)
        await open_send(driver)
        await driver.write("keep me")
        await driver.press("tab")
        await refill(driver, wait)
        await driver.press("ctrl+s")
        await complaint(driver, "seconds")
        assert driver.app.screen.query_one(TextArea).text == "keep me"
        assert await driver.words(OPS) == before


@pytest.mark.spec("P1")
async def test_a_denied_send_says_which_rule_and_loses_nothing(fleet: Path) -> None:
    async with console(fleet, DENY_OPS) as driver:
        before = await driver.words(OPS)
        await open_send(driver)
        await driver.write("let me in")
        await driver.press("ctrl+s")
        await driver.said("send policy denies messages to this session", "rule 1: discord")
        assert await driver.words(OPS) == before
        await open_send(driver)
        assert driver.app.screen.query_one(TextArea).text == "let me in"
        await driver.press("escape")
        await open_send(driver)
        assert driver.app.screen.query_one(TextArea).text == ""


async def test_an_unknown_name_says_the_nearest(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.write("hello")
        await driver.press("shift+tab")
        await refill(driver, "nightyl")
        await driver.press("tab", "ctrl+s")
        await complaint(driver, "no session is called nightyl: did you mean cron:nightly?")
        rows = (await driver.runtime.list_sessions(SessionQuery(archived=None), ALL)).sessions
        assert {row.key for row in rows} == {MAIN, OPS, CRON}


async def test_a_malformed_key_is_refused_and_nothing_is_lost(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.write("hello")
        await driver.press("shift+tab")
        await refill(driver, "agent::ops")
        await driver.press("tab", "ctrl+s")
        await driver.said("empty part between its colons")
        await open_send(driver)
        assert driver.app.screen.query_one(TextArea).text == "hello"


@pytest.mark.spec("K6")
async def test_a_new_full_key_makes_a_session(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_send(driver)
        await driver.write("say first words")
        await driver.press("shift+tab")
        await refill(driver, "agent:main:telegram:direct:7")
        await driver.press("tab", "ctrl+s")
        await driver.said("answered: first words")
        await driver.until(lambda: driver.selected == "agent:main:telegram:direct:7")


# Spawning


async def open_spawn(driver: ConsoleDriver) -> None:
    """Open the spawn dialog; the keys go to the task."""
    await driver.press("n")
    await driver.until(lambda: isinstance(driver.app.screen, SpawnDialog))


@pytest.mark.spec("W1")
async def test_spawn_starts_a_sub_agent_of_the_selected_session(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_spawn(driver)
        await driver.write("say found it")
        await driver.press("tab", "tab")
        await driver.write("finder")
        await driver.press("ctrl+s")
        await driver.said("sub-agent started")
        await driver.until(lambda: driver.app.view_model.book.children(OPS))
        await driver.at_rest()
        child = driver.app.view_model.book.children(OPS)[0]
        assert child.name == "finder"
        assert (await driver.words(child.session.key))[-1] == ("assistant", "found it")
        await driver.shows("SPAWNS  of ops", "finder")


async def test_spawn_by_another_agent_with_a_limit(fleet: Path) -> None:
    async with console(fleet, HELPERS) as driver:
        await open_spawn(driver)
        await driver.shows("agent: main, guard, helper")
        await driver.write("be slow 600")
        await driver.press("tab", "tab", "tab")
        await driver.write("helper")
        await driver.press("tab", "tab")
        await driver.write("0.2")
        await driver.press("ctrl+s")
        await driver.said("sub-agent started")
        await driver.until(lambda: driver.app.view_model.book.children(OPS))
        await driver.at_rest()
        child = driver.app.view_model.book.children(OPS)[0].session
        assert child.key.startswith("agent:helper:subagent:")
        assert child.status == "timed_out"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("", "", "guard", ""), "allowAgents"),
        (("", "", "helpr", ""), "helpr"),
        (("", "", "", "gpt-none"), "model"),
    ],
)
async def test_a_spawn_that_is_refused_says_why_and_keeps_the_task(
    fleet: Path, fields: tuple[str, ...], words: str
) -> None:
    async with console(fleet, HELPERS) as driver:
        await open_spawn(driver)
        await driver.write("a long task that took long to write")
        for field in fields:
            await driver.press("tab")
            await driver.write(field)
        await driver.press("ctrl+s")
        await driver.said(words)
        assert not driver.app.view_model.book.children(OPS)
        await open_spawn(driver)
        assert driver.app.screen.query_one(TextArea).text == "a long task that took long to write"


async def test_a_spawn_without_a_task_is_not_started(fleet: Path) -> None:
    async with console(fleet) as driver:
        await open_spawn(driver)
        await driver.press("ctrl+s")
        await complaint(driver, "the task is empty")


@pytest.mark.parametrize("new", ["agent:main:discord:group:op", "cron:night", "node-x"])
async def test_tab_keeps_a_key_that_is_typed_in_full(fleet: Path, new: str) -> None:
    async with console(fleet) as driver:
        if new == "node-x":
            await send(driver.runtime, "node-xyz", "say hello")
            await driver.until(lambda: "node-xyz" in driver.order)
        await open_send(driver)
        await driver.press("shift+tab")
        await refill(driver, new)
        await driver.shows(f"{new}" + {"cron:night": "ly", "node-x": "yz"}.get(new, "s"))
        await driver.press("tab")
        await driver.write("say new")
        await driver.press("ctrl+s")
        await driver.said("answered: new")
        assert (await driver.words(new))[0] == ("user", "say new")


async def test_an_arrow_key_means_one_of_the_list_and_so_does_a_part_of_a_name(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, "cron:nightshift", "say hello")
        await driver.until(lambda: "cron:nightshift" in driver.order)
        for typed in (["cron:night", "down"], ["nightsh"]):
            await open_send(driver)
            await driver.press("shift+tab")
            await refill(driver, typed[0])
            await driver.press(*typed[1:])
            await driver.press("tab")
            await driver.write("say taken")
            await driver.press("ctrl+s")
            await driver.said("answered: taken")
            await driver.press("/", "escape")
        assert {"cron:night"}.isdisjoint(driver.order)
