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


async def open_send(desk: ConsoleDriver) -> None:
    """Open the send dialog; the keys go to the message."""
    await desk.press("s")
    await desk.until(lambda: isinstance(desk.app.screen, SendDialog))


async def refill(desk: ConsoleDriver, text: str) -> None:
    """Write a field anew."""
    await desk.press("end", "ctrl+u")
    await desk.write(text)


async def complaint(desk: ConsoleDriver, words: str) -> None:
    """Wait until the dialog, still open, says these words."""
    await desk.shows(words)
    assert desk.app.screen is not desk.screen


# Sending


@pytest.mark.spec("S1")
async def test_send_to_the_selected_session_and_wait(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.write("say hello there")
        await desk.press("ctrl+s")
        await desk.said("answered: hello there")
        assert (await desk.words(OPS))[-2:] == [("user", "say hello there"), ("assistant", "hello there")]
        assert desk.selected == OPS


@pytest.mark.spec("S13")
async def test_send_from_a_session_to_another_says_where_it_came_from(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.press("shift+tab", "shift+tab")
        await desk.write("nightly")
        await desk.shows("cron:nightly")
        await desk.press("enter", "tab")
        await refill(desk, "webchat")
        await desk.press("tab")
        await desk.write("say from the job")
        await desk.press("ctrl+s")
        await desk.said("answered: from the job")
        (asked,) = [message for message in await desk.messages(MAIN) if message.text == "say from the job"]
        assert asked.provenance is not None
        assert asked.provenance.source_session_key == CRON
        assert desk.selected == MAIN
        await desk.shows("say from the job")


async def test_a_session_that_is_called_just_so_is_offered_first(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, "agent:main:telegram:direct:newest", "say that main holds the word main too")
        await desk.until(lambda: desk.order[0] == "agent:main:telegram:direct:newest")
        await open_send(desk)
        await desk.press("shift+tab")
        await refill(desk, "main")
        await desk.press("enter", "tab")
        await desk.write("say to the right one")
        await desk.press("ctrl+s")
        await desk.said("answered: to the right one")
        assert ("assistant", "to the right one") in await desk.words(MAIN)


async def test_send_without_waiting(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await open_send(desk)
        await desk.write("no hurry")
        await desk.press("tab")
        await refill(desk, "0")
        await desk.press("ctrl+s")
        await desk.said("delivered to the session; its run is accepted")
        await desk.until(lambda: agent.at_work)
        agent.release()
        await desk.at_rest()


async def test_a_wait_that_runs_out_is_no_failure(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await open_send(desk)
        await desk.write("take your time")
        await desk.press("tab")
        await refill(desk, "0.05")
        await desk.press("ctrl+s")
        await desk.said("the wait ran out; the run goes on")
        assert (await desk.session(OPS)).status == "running"
        agent.release()
        await desk.at_rest()
        assert (await desk.words(OPS))[-1] == ("assistant", "echo take your time")


async def test_a_message_of_several_lines_and_half_a_megabyte(fleet: Path) -> None:
    words = "first line\n" + "z" * 500_000 + "\nlast line"
    async with console(fleet, agent=Agent()) as desk:
        await open_send(desk)
        desk.app.post_message(Paste(words))
        await desk.until(lambda: len(desk.app.screen.query_one(TextArea).text) == len(words))
        await desk.press("ctrl+s")
        await desk.said("answered: echo first line")
        assert (await desk.messages(OPS))[-2].text == words


async def test_an_empty_message_is_not_sent(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.press("space", "ctrl+s")
        await complaint(desk, "the message is empty")


async def test_a_session_cannot_send_to_itself(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.press("shift+tab", "shift+tab")
        await desk.write(OPS)
        await desk.press("tab", "tab")
        await desk.write("hello me")
        await desk.press("ctrl+s")
        await complaint(desk, "a session cannot send to itself")


@pytest.mark.parametrize("wait", ["-1", "99999999", "."])
async def test_a_wait_that_cannot_be_is_refused_and_the_message_stays(fleet: Path, wait: str) -> None:
    async with console(fleet) as desk:
        before = await desk.words(OPS)
        await open_send(desk)
        await desk.write("keep me")
        await desk.press("tab")
        await refill(desk, wait)
        await desk.press("ctrl+s")
        await complaint(desk, "seconds")
        assert desk.app.screen.query_one(TextArea).text == "keep me"
        assert await desk.words(OPS) == before


@pytest.mark.spec("P1")
async def test_a_denied_send_says_which_rule_and_loses_nothing(fleet: Path) -> None:
    async with console(fleet, DENY_OPS) as desk:
        before = await desk.words(OPS)
        await open_send(desk)
        await desk.write("let me in")
        await desk.press("ctrl+s")
        await desk.said("send policy denies messages to this session", "rule 1: discord")
        assert await desk.words(OPS) == before
        await open_send(desk)
        assert desk.app.screen.query_one(TextArea).text == "let me in"
        await desk.press("escape")
        await open_send(desk)
        assert desk.app.screen.query_one(TextArea).text == ""


async def test_an_unknown_name_says_the_nearest(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.write("hello")
        await desk.press("shift+tab")
        await refill(desk, "nightyl")
        await desk.press("tab", "ctrl+s")
        await complaint(desk, "no session is called nightyl: did you mean cron:nightly?")
        rows = (await desk.runtime.list_sessions(SessionQuery(archived=None), ALL)).sessions
        assert {row.key for row in rows} == {MAIN, OPS, CRON}


async def test_a_malformed_key_is_refused_and_nothing_is_lost(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.write("hello")
        await desk.press("shift+tab")
        await refill(desk, "agent::ops")
        await desk.press("tab", "ctrl+s")
        await desk.said("empty part between its colons")
        await open_send(desk)
        assert desk.app.screen.query_one(TextArea).text == "hello"


@pytest.mark.spec("K6")
async def test_a_new_full_key_makes_a_session(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_send(desk)
        await desk.write("say first words")
        await desk.press("shift+tab")
        await refill(desk, "agent:main:telegram:direct:7")
        await desk.press("tab", "ctrl+s")
        await desk.said("answered: first words")
        await desk.until(lambda: desk.selected == "agent:main:telegram:direct:7")


# Spawning


async def open_spawn(desk: ConsoleDriver) -> None:
    """Open the spawn dialog; the keys go to the task."""
    await desk.press("n")
    await desk.until(lambda: isinstance(desk.app.screen, SpawnDialog))


@pytest.mark.spec("W1")
async def test_spawn_starts_a_sub_agent_of_the_selected_session(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_spawn(desk)
        await desk.write("say found it")
        await desk.press("tab", "tab")
        await desk.write("finder")
        await desk.press("ctrl+s")
        await desk.said("sub-agent started")
        await desk.until(lambda: desk.app.view_model.book.children(OPS))
        await desk.at_rest()
        child = desk.app.view_model.book.children(OPS)[0]
        assert child.name == "finder"
        assert (await desk.words(child.session.key))[-1] == ("assistant", "found it")
        await desk.shows("SPAWNS  of ops", "finder")


async def test_spawn_by_another_agent_with_a_limit(fleet: Path) -> None:
    async with console(fleet, HELPERS) as desk:
        await open_spawn(desk)
        await desk.shows("agent: main, guard, helper")
        await desk.write("be slow 600")
        await desk.press("tab", "tab", "tab")
        await desk.write("helper")
        await desk.press("tab", "tab")
        await desk.write("0.2")
        await desk.press("ctrl+s")
        await desk.said("sub-agent started")
        await desk.until(lambda: desk.app.view_model.book.children(OPS))
        await desk.at_rest()
        child = desk.app.view_model.book.children(OPS)[0].session
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
    async with console(fleet, HELPERS) as desk:
        await open_spawn(desk)
        await desk.write("a long task that took long to write")
        for field in fields:
            await desk.press("tab")
            await desk.write(field)
        await desk.press("ctrl+s")
        await desk.said(words)
        assert not desk.app.view_model.book.children(OPS)
        await open_spawn(desk)
        assert desk.app.screen.query_one(TextArea).text == "a long task that took long to write"


async def test_a_spawn_without_a_task_is_not_started(fleet: Path) -> None:
    async with console(fleet) as desk:
        await open_spawn(desk)
        await desk.press("ctrl+s")
        await complaint(desk, "the task is empty")


@pytest.mark.parametrize("new", ["agent:main:discord:group:op", "cron:night", "node-x"])
async def test_tab_keeps_a_key_that_is_typed_in_full(fleet: Path, new: str) -> None:
    async with console(fleet) as desk:
        if new == "node-x":
            await send(desk.runtime, "node-xyz", "say hello")
            await desk.until(lambda: "node-xyz" in desk.order)
        await open_send(desk)
        await desk.press("shift+tab")
        await refill(desk, new)
        await desk.shows(f"{new}" + {"cron:night": "ly", "node-x": "yz"}.get(new, "s"))
        await desk.press("tab")
        await desk.write("say new")
        await desk.press("ctrl+s")
        await desk.said("answered: new")
        assert (await desk.words(new))[0] == ("user", "say new")


async def test_an_arrow_key_means_one_of_the_list_and_so_does_a_part_of_a_name(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, "cron:nightshift", "say hello")
        await desk.until(lambda: "cron:nightshift" in desk.order)
        for typed in (["cron:night", "down"], ["nightsh"]):
            await open_send(desk)
            await desk.press("shift+tab")
            await refill(desk, typed[0])
            await desk.press(*typed[1:])
            await desk.press("tab")
            await desk.write("say taken")
            await desk.press("ctrl+s")
            await desk.said("answered: taken")
            await desk.press("/", "escape")
        assert {"cron:night"}.isdisjoint(desk.order)
