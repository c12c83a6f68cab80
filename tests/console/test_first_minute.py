"""The first minute: on an empty start the cursor stands where a first message is written, whatever one is used to."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import TextArea

from console.screens.help import Help
from console.screens.send import SendDialog
from tests.console.driver import CRON, MAIN, OPS, ConsoleDriver, console
from tests.console.test_typeahead import type_at_once
from tests.support.runtimes import send

SIZES = [(80, 24), (120, 36), (200, 60)]


async def answered(driver: ConsoleDriver, words: str) -> None:
    """Check that a first message with these words began main and was answered."""
    await driver.until(lambda: driver.screen.parts.main.key == MAIN)
    await driver.at_rest()
    assert (await driver.words(MAIN))[0] == ("user", words)
    assert len(await driver.words(MAIN)) == 2
    assert driver.order == [MAIN]


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_what_is_typed_at_once_is_the_first_message(state: Path, size: tuple[int, int]) -> None:
    async with console(state, first=True, size=size) as driver:
        assert driver.screen.position.pane == "composer"
        assert "type a message to main; what you send begins it" in driver.text
        assert "to main   as operator" in driver.text
        assert "↵ send" in driver.text
        await driver.write("say quick questions")
        await driver.press("enter")
        await driver.shows("quick questions")
        await answered(driver, "say quick questions")
        assert driver.screen.position.is_writing, "and one can write on"


async def test_what_is_typed_before_the_first_picture_is_too(state: Path) -> None:
    async with console(
        state, first=True, live=False, before=lambda app: type_at_once(app, "type:say early", "enter")
    ) as driver:
        await answered(driver, "say early")


@pytest.mark.parametrize(
    "out", [["escape"], ["escape", "escape"], ["tab"], ["escape", "shift+tab"], ["shift+tab"]], ids=str
)
@pytest.mark.parametrize("way_in", ["i", "enter", "click"])
async def test_there_is_a_way_back_from_everywhere(state: Path, out: list[str], way_in: str) -> None:
    async with console(state, first=True) as driver:
        await driver.press(*out)
        assert not driver.screen.position.is_writing
        if way_in == "click":
            await driver.pilot.click("#composer")
        elif way_in == "enter" and driver.screen.position.pane != "list":
            await driver.press("escape", "enter")
        else:
            await driver.press(way_in)
        await driver.until(lambda: driver.screen.position.is_writing)
        await driver.write("say here")
        await driver.press("enter")
        await answered(driver, "say here")


@pytest.mark.parametrize("key", ["up", "down", "left", "right", "pagedown", "home", "end", "enter"])
async def test_keys_that_move_lose_nothing(state: Path, key: str) -> None:
    async with console(state, first=True) as driver:
        await driver.press(key)
        assert driver.screen.position.is_writing
        await driver.write("say still")
        await driver.press("enter")
        await answered(driver, "say still")


async def test_enter_on_nothing_says_what_to_do(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.press("enter")
        await driver.said("nothing is written yet", "↵ sends it")
        assert driver.order == []


async def test_a_question_mark_is_text_and_f1_helps(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.press("question_mark")
        assert driver.composer.text == "?"
        assert "F1 keys" in driver.text
        await driver.press("f1")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        await driver.press("escape")
        assert driver.screen.position.is_writing


async def test_what_is_pasted_is_written(state: Path) -> None:
    async with console(state, first=True) as driver:
        driver.app.post_message(Paste("say two\nlines"))
        await driver.until(lambda: driver.composer.text == "say two\nlines")
        await driver.press("enter")
        await answered(driver, "say two\nlines")


@pytest.mark.parametrize("letter", ["h", "w", "z", "1", "é", "ß", "^", "~"])
@pytest.mark.parametrize("outs", [1, 2])
async def test_a_letter_that_means_nothing_does_nothing_and_says_where_to_write(
    state: Path, letter: str, outs: int
) -> None:
    async with console(state, first=True) as driver:
        await driver.press(*["escape"] * outs)
        before = driver.screen.position.pane
        driver.app.watch_screen.parts.notice.say("")
        await driver.press(letter)
        await driver.said("i writes to main")
        assert driver.screen.position.pane == before
        assert driver.app.screen is driver.screen
        assert driver.order == []


async def test_every_action_that_needs_a_session_says_where_to_write(state: Path) -> None:
    async with console(state, "{console: {keymap: {write: 'ctrl+t'}}}") as driver:
        for key in ("p", "a", "t", "e", "x"):
            driver.screen.parts.notice.say("")
            await driver.press(key)
            await driver.said("there is no session yet: ^t writes to main, which begins it")


async def test_with_sessions_the_list_has_the_keys(fleet: Path) -> None:
    async with console(fleet) as driver:
        assert driver.screen.position.pane == "list"
        await driver.press("h")
        await driver.said("h does nothing here: i writes to ops, ? shows the keys")
        driver.app.post_message(Paste("a whole page\nof words"))
        await driver.said("what is pasted does nothing here: i writes to ops")
        assert driver.composer.text == ""
        await driver.press("P")
        await driver.press("w")
        await driver.until(lambda: "w does nothing here: ? shows the keys" in driver.text)


async def test_a_session_that_comes_meanwhile_takes_no_word_away(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.write("say for ")
        await send(driver.runtime, OPS, "say hello")
        await driver.until(lambda: driver.order == [OPS])
        await driver.write("main")
        assert "to main   as operator" in driver.text
        await driver.press("enter")
        await driver.until(lambda: driver.screen.parts.main.key == MAIN)
        await driver.at_rest()
        assert await driver.words(MAIN) == [("user", "say for main"), ("assistant", "for main")]
        assert len(await driver.words(OPS)) == 2


async def test_who_goes_out_sees_what_came_meanwhile(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.write("half")
        await send(driver.runtime, CRON, "say hello")
        await driver.until(lambda: driver.order == [CRON])
        assert driver.screen.parts.main.key is None
        await driver.press("escape")
        await driver.until(lambda: driver.screen.parts.main.key == CRON)
        assert driver.composer.text == ""
        assert driver.app.view_model.memory.drafts == {MAIN: "half"}


async def test_a_draft_from_last_time_stands_there(state: Path) -> None:
    async with console(state, first=True) as driver:
        await driver.write("half a")
    async with console(state, first=True) as driver:
        assert driver.screen.position.is_writing
        await driver.write(" thought")
        assert driver.composer.text == "half a thought"


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
async def test_the_send_dialog_shows_where_the_next_word_goes(state: Path, size: tuple[int, int]) -> None:
    async with console(state, first=True, size=size) as driver:
        await driver.press("escape", "s")
        await driver.until(lambda: isinstance(driver.app.screen, SendDialog))
        focused = driver.app.screen.focused
        assert isinstance(focused, TextArea)
        await driver.until(lambda: driver.text.count("▌") >= 3)
        lines = driver.text.splitlines()
        bars = [at for at, line in enumerate(lines) if "▌" in line]
        assert "message" in lines[bars[0] - 1], "the field with the keys has the bar, and it alone"
        assert bars == list(range(bars[0], bars[0] + focused.size.height))
        await driver.write("say it")
        await driver.press("ctrl+s")
        await answered(driver, "say it")


async def test_the_owner_of_the_list_is_asked_for_nothing_without_sessions_shown(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("/")
        await driver.write("nothing has this")
        await driver.press("enter", "i")
        await driver.said("there is no session here")
        assert driver.screen.position.pane == "list"
