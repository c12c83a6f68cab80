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


async def answered(desk: ConsoleDriver, words: str) -> None:
    """Check that a first message with these words began main and was answered."""
    await desk.until(lambda: desk.screen.parts.main.key == MAIN)
    await desk.at_rest()
    assert (await desk.words(MAIN))[0] == ("user", words)
    assert len(await desk.words(MAIN)) == 2
    assert desk.order == [MAIN]


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_what_is_typed_at_once_is_the_first_message(state: Path, size: tuple[int, int]) -> None:
    async with console(state, first=True, size=size) as desk:
        assert desk.screen.position.pane == "composer"
        assert "type a message to main; what you send begins it" in desk.picture
        assert "to main   as operator" in desk.picture
        assert "↵ send" in desk.picture
        await desk.write("say quick questions")
        await desk.press("enter")
        await desk.shows("quick questions")
        await answered(desk, "say quick questions")
        assert desk.screen.position.is_writing, "and one can write on"


async def test_what_is_typed_before_the_first_picture_is_too(state: Path) -> None:
    async with console(
        state, first=True, live=False, before=lambda app: type_at_once(app, "type:say early", "enter")
    ) as desk:
        await answered(desk, "say early")


@pytest.mark.parametrize(
    "out", [["escape"], ["escape", "escape"], ["tab"], ["escape", "shift+tab"], ["shift+tab"]], ids=str
)
@pytest.mark.parametrize("way_in", ["i", "enter", "click"])
async def test_there_is_a_way_back_from_everywhere(state: Path, out: list[str], way_in: str) -> None:
    async with console(state, first=True) as desk:
        await desk.press(*out)
        assert not desk.screen.position.is_writing
        if way_in == "click":
            await desk.pilot.click("#composer")
        elif way_in == "enter" and desk.screen.position.pane != "list":
            await desk.press("escape", "enter")
        else:
            await desk.press(way_in)
        await desk.until(lambda: desk.screen.position.is_writing)
        await desk.write("say here")
        await desk.press("enter")
        await answered(desk, "say here")


@pytest.mark.parametrize("key", ["up", "down", "left", "right", "pagedown", "home", "end", "enter"])
async def test_keys_that_move_lose_nothing(state: Path, key: str) -> None:
    async with console(state, first=True) as desk:
        await desk.press(key)
        assert desk.screen.position.is_writing
        await desk.write("say still")
        await desk.press("enter")
        await answered(desk, "say still")


async def test_enter_on_nothing_says_what_to_do(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.press("enter")
        await desk.said("nothing is written yet", "↵ sends it")
        assert desk.order == []


async def test_a_question_mark_is_text_and_f1_helps(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.press("question_mark")
        assert desk.composer.text == "?"
        assert "F1 keys" in desk.picture
        await desk.press("f1")
        await desk.until(lambda: isinstance(desk.app.screen, Help))
        await desk.press("escape")
        assert desk.screen.position.is_writing


async def test_what_is_pasted_is_written(state: Path) -> None:
    async with console(state, first=True) as desk:
        desk.app.post_message(Paste("say two\nlines"))
        await desk.until(lambda: desk.composer.text == "say two\nlines")
        await desk.press("enter")
        await answered(desk, "say two\nlines")


@pytest.mark.parametrize("letter", ["h", "w", "z", "1", "é", "ß", "^", "~"])
@pytest.mark.parametrize("outs", [1, 2])
async def test_a_letter_that_means_nothing_does_nothing_and_says_where_to_write(
    state: Path, letter: str, outs: int
) -> None:
    async with console(state, first=True) as desk:
        await desk.press(*["escape"] * outs)
        before = desk.screen.position.pane
        desk.app.watch_screen.parts.notice.say("")
        await desk.press(letter)
        await desk.said("i writes to main")
        assert desk.screen.position.pane == before
        assert desk.app.screen is desk.screen
        assert desk.order == []


async def test_every_action_that_needs_a_session_says_where_to_write(state: Path) -> None:
    async with console(state, "{console: {keymap: {write: 'ctrl+t'}}}") as desk:
        for key in ("p", "a", "t", "e", "x"):
            desk.screen.parts.notice.say("")
            await desk.press(key)
            await desk.said("there is no session yet: ^t writes to main, which begins it")


async def test_with_sessions_the_list_has_the_keys(fleet: Path) -> None:
    async with console(fleet) as desk:
        assert desk.screen.position.pane == "list"
        await desk.press("h")
        await desk.said("h does nothing here: i writes to ops, ? shows the keys")
        desk.app.post_message(Paste("a whole page\nof words"))
        await desk.said("what is pasted does nothing here: i writes to ops")
        assert desk.composer.text == ""
        await desk.press("P")
        await desk.press("w")
        await desk.until(lambda: "w does nothing here: ? shows the keys" in desk.picture)


async def test_a_session_that_comes_meanwhile_takes_no_word_away(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.write("say for ")
        await send(desk.runtime, OPS, "say hello")
        await desk.until(lambda: desk.order == [OPS])
        await desk.write("main")
        assert "to main   as operator" in desk.picture
        await desk.press("enter")
        await desk.until(lambda: desk.screen.parts.main.key == MAIN)
        await desk.at_rest()
        assert await desk.words(MAIN) == [("user", "say for main"), ("assistant", "for main")]
        assert len(await desk.words(OPS)) == 2


async def test_who_goes_out_sees_what_came_meanwhile(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.write("half")
        await send(desk.runtime, CRON, "say hello")
        await desk.until(lambda: desk.order == [CRON])
        assert desk.screen.parts.main.key is None
        await desk.press("escape")
        await desk.until(lambda: desk.screen.parts.main.key == CRON)
        assert desk.composer.text == ""
        assert desk.app.view_model.memory.drafts == {MAIN: "half"}


async def test_a_draft_from_last_time_stands_there(state: Path) -> None:
    async with console(state, first=True) as desk:
        await desk.write("half a")
    async with console(state, first=True) as desk:
        assert desk.screen.position.is_writing
        await desk.write(" thought")
        assert desk.composer.text == "half a thought"


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
async def test_the_send_dialog_shows_where_the_next_word_goes(state: Path, size: tuple[int, int]) -> None:
    async with console(state, first=True, size=size) as desk:
        await desk.press("escape", "s")
        await desk.until(lambda: isinstance(desk.app.screen, SendDialog))
        focused = desk.app.screen.focused
        assert isinstance(focused, TextArea)
        await desk.until(lambda: desk.picture.count("▌") >= 3)
        lines = desk.picture.splitlines()
        bars = [at for at, line in enumerate(lines) if "▌" in line]
        assert "message" in lines[bars[0] - 1], "the field with the keys has the bar, and it alone"
        assert bars == list(range(bars[0], bars[0] + focused.size.height))
        await desk.write("say it")
        await desk.press("ctrl+s")
        await answered(desk, "say it")


async def test_the_owner_of_the_list_is_asked_for_nothing_without_sessions_shown(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("/")
        await desk.write("nothing has this")
        await desk.press("enter", "i")
        await desk.said("there is no session here")
        assert desk.screen.position.pane == "list"
