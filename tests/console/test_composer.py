"""The composer: what is written is sent, completed, remembered, and never lost."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.events import Paste

from console.live.memory import FILE_NAME, Memory
from console.screens.help import Help
from console.widgets.composer import completions, unknown_command
from core.model.commands import COMMANDS
from tests.console.driver import CRON, MAIN, OPS, Agent, console
from tests.support.runtimes import running, send

DENY_OPS = '{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord"}}]}}}'


async def test_a_message_is_sent_and_answered(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("say well done")
        await driver.press("enter")
        await driver.until(lambda: driver.composer.text == "")
        await driver.shows("well done")
        await driver.at_rest()
        assert (await driver.words(OPS))[-2:] == [("user", "say well done"), ("assistant", "well done")]
        assert driver.app.view_model.memory.drafts == {}


async def test_the_first_message_makes_the_main_session(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.write("say first")
        await driver.press("enter")
        await driver.until(lambda: driver.screen.parts.main.key == MAIN)
        await driver.shows("say first")
        await driver.at_rest()
        assert await driver.words(MAIN) == [("user", "say first"), ("assistant", "first")]
        assert driver.composer.text == ""


async def test_a_draft_for_the_first_session_does_not_go_to_another(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.write("for main")
        await send(driver.runtime, OPS, "say hello")
        await driver.until(lambda: OPS in driver.order)
        assert driver.composer.text == "for main"
        await driver.select(OPS)
        assert driver.composer.text == ""
        await send(driver.runtime, MAIN, "say here")
        await driver.select(MAIN)
        await driver.until(lambda: driver.composer.text == "for main")


async def test_several_lines(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("one\ntwo")
        await driver.press("alt+enter")
        await driver.write("three")
        await driver.press("enter")
        await driver.until(lambda: driver.composer.text == "")
        await driver.at_rest()
        assert ("user", "one\ntwo\nthree") in await driver.words(OPS)


async def test_a_second_enter_sends_nothing_twice(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("say once")
        for _ in range(3):
            driver.screen.writing.submit("say once")
        await driver.until(lambda: driver.composer.text == "")
        await driver.at_rest()
        assert [text for role, text in await driver.words(OPS) if role == "user"] == ["say standby", "say once"]


async def test_an_empty_message_goes_nowhere(fleet: Path) -> None:
    async with console(fleet) as driver:
        before = await driver.words(OPS)
        await driver.press("i", "space", "enter")
        assert await driver.words(OPS) == before


# Commands


@pytest.mark.parametrize("name", [*COMMANDS, "help"])
async def test_every_command_is_offered_and_completed(fleet: Path, name: str) -> None:
    async with console(fleet) as driver:
        await driver.press("i", "slash")
        await driver.shows(f"/{name}")
        for character in name:
            if next(iter(completions(driver.composer.text)))[0].strip() == f"/{name}":
                break
            await driver.write(character)
        await driver.press("tab")
        assert driver.composer.text.strip() == f"/{name}"
        assert driver.screen.position.pane == "composer"


async def test_the_choices_of_a_command_are_completed_and_carried_out(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("/send of")
        await driver.press("tab")
        assert driver.composer.text == "/send off"
        await driver.press("enter")
        await driver.until(lambda: driver.composer.text == "")
        assert (await driver.session(OPS)).send_policy == "deny"
        await driver.shows("⊘ deny by override")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("/lable ops", "did you mean /label?"),
        ("/SPAM", "did you mean /spawn?"),
        ("/xyzzyx", "use one of /send"),
    ],
)
async def test_an_unknown_command_names_the_nearest_and_stays(fleet: Path, written: str, words: str) -> None:
    async with console(fleet) as driver:
        before = await driver.words(OPS)
        await driver.press("i")
        await driver.write(written)
        await driver.press("enter")
        await driver.said(words)
        assert driver.composer.text == written
        assert await driver.words(OPS) == before
        await driver.press("home", "space", "enter")
        await driver.until(lambda: driver.composer.text == "")
        await driver.at_rest()
        assert ("user", f" {written}") in await driver.words(OPS)


def test_what_is_no_command_is_words() -> None:
    for words in ("/etc/passwd is readable", "/tmp", "text /label", "/label\nmore", "/ ", "//", "/send off", "/HELP"):
        assert unknown_command(words) is None or words == "/tmp"


async def test_a_command_with_a_wrong_argument_says_how_it_is_written(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("/send maybe")
        await driver.press("enter")
        await driver.said("usage: /send on|off|inherit")
        assert driver.composer.text == "/send maybe"
        assert (await driver.session(OPS)).send_policy is None


async def test_help_is_shown_and_sent_nowhere(fleet: Path) -> None:
    async with console(fleet) as driver:
        before = await driver.words(OPS)
        await driver.press("i")
        await driver.write("/help")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        await driver.press("escape")
        assert driver.composer.text == ""
        assert await driver.words(OPS) == before


# History


async def test_history_goes_back_and_forth(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        for words in ("say one", "say two"):
            await driver.write(words)
            await driver.press("enter")
            await driver.until(lambda: driver.composer.text == "")
        seen: list[str] = []
        for key in ("up", "up", "up", "down", "down"):
            await driver.press(key)
            seen.append(driver.composer.text)
        assert seen == ["say two", "say one", "say one", "say two", ""]
        await driver.at_rest()
    async with console(fleet) as driver:
        await driver.press("i", "up")
        assert driver.composer.text == "say two"


# Drafts


async def test_drafts_belong_to_their_session(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("for ops")
        await driver.press("escape", "escape")
        await driver.select(MAIN)
        await driver.until(lambda: driver.composer.text == "")
        await driver.press("i")
        await driver.write("for main")
        await driver.press("escape", "escape")
        await driver.select(OPS)
        await driver.until(lambda: driver.composer.text == "for ops")
        await driver.select(CRON)
        await driver.until(lambda: driver.composer.text == "")
        await driver.select(MAIN)
        await driver.until(lambda: driver.composer.text == "for main")


async def test_the_last_letter_before_another_session_opens_is_kept(fleet: Path) -> None:
    async with console(fleet) as driver:
        driver.composer.field.insert("x")  # and before anything could hear of it:
        await driver.screen.open_sessions.open(MAIN)
        assert driver.app.view_model.memory.drafts == {OPS: "x"}
        await driver.until(lambda: driver.composer.text == "")
        assert driver.app.view_model.memory.drafts == {OPS: "x"}


async def test_drafts_survive_a_restart(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("half a\nthought")
    async with console(fleet) as driver:
        assert driver.screen.parts.main.key == OPS
        assert driver.composer.text == "half a\nthought"


async def test_drafts_survive_a_crash(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("not yet sent")
        # Nothing is said at a crash: what is on disk half a second after the last key is what there is.
        await driver.until(lambda: Memory.load(fleet).drafts == {OPS: "not yet sent"})


@pytest.mark.spec("P1")
async def test_what_is_denied_stays_with_the_reason(fleet: Path) -> None:
    async with console(fleet, DENY_OPS) as driver:
        before = await driver.words(OPS)
        await driver.press("i")
        await driver.write("let me in")
        await driver.press("enter")
        await driver.said("send policy denies messages to this session", "rule 1: discord")
        assert driver.composer.text == "let me in"
        assert driver.app.view_model.memory.drafts == {OPS: "let me in"}
        assert await driver.words(OPS) == before


async def test_what_was_written_on_while_it_was_sent_stays(fleet: Path) -> None:
    agent = Agent()
    async with console(fleet, agent=agent) as driver:
        await driver.press("i")
        await driver.write("first")
        driver.screen.writing.submit("first")
        driver.composer.field.insert(" and more")
        await driver.said("accepted")
        assert driver.composer.text == " and more"
        await driver.until(lambda: driver.app.view_model.memory.drafts == {OPS: " and more"})
        await driver.at_rest()


async def test_a_reader_keeps_what_it_may_not_send(fleet: Path) -> None:
    async with running(fleet), console(fleet, live=False) as driver:
        await driver.until(lambda: driver.standing)
        await driver.press("tab", "tab")
        await driver.write("later")
        await driver.press("enter")
        await driver.said("owned by", "the draft is kept")
        assert driver.composer.text == "later"


async def test_a_very_long_message_is_sent_whole_or_stays(fleet: Path) -> None:
    async with console(fleet, agent=Agent()) as driver:
        await driver.press("i")
        driver.app.post_message(Paste("x" * 1_000_000))
        await driver.until(lambda: len(driver.composer.text) == 1_000_000)
        await driver.press("enter")
        await driver.said("the message is 1,000,000 bytes long and at most 524,288 fit")
        assert len(driver.composer.text) == 1_000_000
        words = "y" * 500_000 + "\nend"
        driver.composer.load("")
        driver.app.post_message(Paste(words))
        await driver.until(lambda: driver.composer.text == words)
        await driver.press("enter")
        await driver.until(lambda: driver.composer.text == "")
        await driver.at_rest()
        assert ("user", words) in await driver.words(OPS)


async def test_a_slow_disk_holds_nobody_up_and_gets_the_last_word(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, threads = threading.Event(), list[str]()

    def fsync(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
        if FILE_NAME in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            threads.append(threading.current_thread().name)
            slow.wait(10)
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("first ")
        await driver.until(lambda: threads)
        await driver.write("second ")  # while the disk takes its time
        await driver.until(lambda: driver.app.remember_timer is None)
        await driver.write("third")
        assert driver.composer.text == "first second third"
        assert Memory.load(fleet).drafts == {}
        assert threading.main_thread().name not in threads
        slow.set()
    assert Memory.load(fleet).drafts == {OPS: "first second third"}
