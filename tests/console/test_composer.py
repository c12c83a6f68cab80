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
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("say well done")
        await desk.press("enter")
        await desk.until(lambda: desk.composer.text == "")
        await desk.shows("well done")
        await desk.at_rest()
        assert (await desk.words(OPS))[-2:] == [("user", "say well done"), ("assistant", "well done")]
        assert desk.app.view_model.memory.drafts == {}


async def test_the_first_message_makes_the_main_session(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.write("say first")
        await desk.press("enter")
        await desk.until(lambda: desk.screen.parts.main.key == MAIN)
        await desk.shows("say first")
        await desk.at_rest()
        assert await desk.words(MAIN) == [("user", "say first"), ("assistant", "first")]
        assert desk.composer.text == ""


async def test_a_draft_for_the_first_session_does_not_go_to_another(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.write("for main")
        await send(desk.runtime, OPS, "say hello")
        await desk.until(lambda: OPS in desk.order)
        assert desk.composer.text == "for main"
        await desk.select(OPS)
        assert desk.composer.text == ""
        await send(desk.runtime, MAIN, "say here")
        await desk.select(MAIN)
        await desk.until(lambda: desk.composer.text == "for main")


async def test_several_lines(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("one\ntwo")
        await desk.press("alt+enter")
        await desk.write("three")
        await desk.press("enter")
        await desk.until(lambda: desk.composer.text == "")
        await desk.at_rest()
        assert ("user", "one\ntwo\nthree") in await desk.words(OPS)


async def test_a_second_enter_sends_nothing_twice(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("say once")
        for _ in range(3):
            desk.screen.writing.submit("say once")
        await desk.until(lambda: desk.composer.text == "")
        await desk.at_rest()
        assert [text for role, text in await desk.words(OPS) if role == "user"] == ["say standby", "say once"]


async def test_an_empty_message_goes_nowhere(fleet: Path) -> None:
    async with console(fleet) as desk:
        before = await desk.words(OPS)
        await desk.press("i", "space", "enter")
        assert await desk.words(OPS) == before


# Commands


@pytest.mark.parametrize("name", [*COMMANDS, "help"])
async def test_every_command_is_offered_and_completed(fleet: Path, name: str) -> None:
    async with console(fleet) as desk:
        await desk.press("i", "slash")
        await desk.shows(f"/{name}")
        for character in name:
            if next(iter(completions(desk.composer.text)))[0].strip() == f"/{name}":
                break
            await desk.write(character)
        await desk.press("tab")
        assert desk.composer.text.strip() == f"/{name}"
        assert desk.screen.position.pane == "composer"


async def test_the_choices_of_a_command_are_completed_and_carried_out(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("/send of")
        await desk.press("tab")
        assert desk.composer.text == "/send off"
        await desk.press("enter")
        await desk.until(lambda: desk.composer.text == "")
        assert (await desk.session(OPS)).send_policy == "deny"
        await desk.shows("⊘ deny by override")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("/lable ops", "did you mean /label?"),
        ("/SPAM", "did you mean /spawn?"),
        ("/xyzzyx", "use one of /send"),
    ],
)
async def test_an_unknown_command_names_the_nearest_and_stays(fleet: Path, written: str, words: str) -> None:
    async with console(fleet) as desk:
        before = await desk.words(OPS)
        await desk.press("i")
        await desk.write(written)
        await desk.press("enter")
        await desk.said(words)
        assert desk.composer.text == written
        assert await desk.words(OPS) == before
        await desk.press("home", "space", "enter")
        await desk.until(lambda: desk.composer.text == "")
        await desk.at_rest()
        assert ("user", f" {written}") in await desk.words(OPS)


def test_what_is_no_command_is_words() -> None:
    for words in ("/etc/passwd is readable", "/tmp", "text /label", "/label\nmore", "/ ", "//", "/send off", "/HELP"):
        assert unknown_command(words) is None or words == "/tmp"


async def test_a_command_with_a_wrong_argument_says_how_it_is_written(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("/send maybe")
        await desk.press("enter")
        await desk.said("usage: /send on|off|inherit")
        assert desk.composer.text == "/send maybe"
        assert (await desk.session(OPS)).send_policy is None


async def test_help_is_shown_and_sent_nowhere(fleet: Path) -> None:
    async with console(fleet) as desk:
        before = await desk.words(OPS)
        await desk.press("i")
        await desk.write("/help")
        await desk.press("enter")
        await desk.until(lambda: isinstance(desk.app.screen, Help))
        await desk.press("escape")
        assert desk.composer.text == ""
        assert await desk.words(OPS) == before


# History


async def test_history_goes_back_and_forth(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        for words in ("say one", "say two"):
            await desk.write(words)
            await desk.press("enter")
            await desk.until(lambda: desk.composer.text == "")
        seen: list[str] = []
        for key in ("up", "up", "up", "down", "down"):
            await desk.press(key)
            seen.append(desk.composer.text)
        assert seen == ["say two", "say one", "say one", "say two", ""]
        await desk.at_rest()
    async with console(fleet) as desk:
        await desk.press("i", "up")
        assert desk.composer.text == "say two"


# Drafts


async def test_drafts_belong_to_their_session(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("for ops")
        await desk.press("escape", "escape")
        await desk.select(MAIN)
        await desk.until(lambda: desk.composer.text == "")
        await desk.press("i")
        await desk.write("for main")
        await desk.press("escape", "escape")
        await desk.select(OPS)
        await desk.until(lambda: desk.composer.text == "for ops")
        await desk.select(CRON)
        await desk.until(lambda: desk.composer.text == "")
        await desk.select(MAIN)
        await desk.until(lambda: desk.composer.text == "for main")


async def test_the_last_letter_before_another_session_opens_is_kept(fleet: Path) -> None:
    async with console(fleet) as desk:
        desk.composer.field.insert("x")  # and before anything could hear of it:
        await desk.screen.open_sessions.open(MAIN)
        assert desk.app.view_model.memory.drafts == {OPS: "x"}
        await desk.until(lambda: desk.composer.text == "")
        assert desk.app.view_model.memory.drafts == {OPS: "x"}


async def test_drafts_survive_a_restart(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("half a\nthought")
    async with console(fleet) as desk:
        assert desk.screen.parts.main.key == OPS
        assert desk.composer.text == "half a\nthought"


async def test_drafts_survive_a_crash(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("not yet sent")
        # Nothing is said at a crash: what is on disk half a second after the last key is what there is.
        await desk.until(lambda: Memory.load(fleet).drafts == {OPS: "not yet sent"})


@pytest.mark.spec("P1")
async def test_what_is_denied_stays_with_the_reason(fleet: Path) -> None:
    async with console(fleet, DENY_OPS) as desk:
        before = await desk.words(OPS)
        await desk.press("i")
        await desk.write("let me in")
        await desk.press("enter")
        await desk.said("send policy denies messages to this session", "rule 1: discord")
        assert desk.composer.text == "let me in"
        assert desk.app.view_model.memory.drafts == {OPS: "let me in"}
        assert await desk.words(OPS) == before


async def test_what_was_written_on_while_it_was_sent_stays(fleet: Path) -> None:
    agent = Agent()
    async with console(fleet, agent=agent) as desk:
        await desk.press("i")
        await desk.write("first")
        desk.screen.writing.submit("first")
        desk.composer.field.insert(" and more")
        await desk.said("accepted")
        assert desk.composer.text == " and more"
        await desk.until(lambda: desk.app.view_model.memory.drafts == {OPS: " and more"})
        await desk.at_rest()


async def test_a_reader_keeps_what_it_may_not_send(fleet: Path) -> None:
    async with running(fleet), console(fleet, live=False) as desk:
        await desk.until(lambda: desk.standing)
        await desk.press("tab", "tab")
        await desk.write("later")
        await desk.press("enter")
        await desk.said("owned by", "the draft is kept")
        assert desk.composer.text == "later"


async def test_a_very_long_message_is_sent_whole_or_stays(fleet: Path) -> None:
    async with console(fleet, agent=Agent()) as desk:
        await desk.press("i")
        desk.app.post_message(Paste("x" * 1_000_000))
        await desk.until(lambda: len(desk.composer.text) == 1_000_000)
        await desk.press("enter")
        await desk.said("the message is 1,000,000 bytes long and at most 524,288 fit")
        assert len(desk.composer.text) == 1_000_000
        words = "y" * 500_000 + "\nend"
        desk.composer.load("")
        desk.app.post_message(Paste(words))
        await desk.until(lambda: desk.composer.text == words)
        await desk.press("enter")
        await desk.until(lambda: desk.composer.text == "")
        await desk.at_rest()
        assert ("user", words) in await desk.words(OPS)


async def test_a_slow_disk_holds_nobody_up_and_gets_the_last_word(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, threads = threading.Event(), list[str]()

    def fsync(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
        if FILE_NAME in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            threads.append(threading.current_thread().name)
            slow.wait(10)
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    async with console(fleet) as desk:
        await desk.press("i")
        await desk.write("first ")
        await desk.until(lambda: threads)
        await desk.write("second ")  # while the disk takes its time
        await desk.until(lambda: desk.app.remember_timer is None)
        await desk.write("third")
        assert desk.composer.text == "first second third"
        assert Memory.load(fleet).drafts == {}
        assert threading.main_thread().name not in threads
        slow.set()
    assert Memory.load(fleet).drafts == {OPS: "first second third"}
