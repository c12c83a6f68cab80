"""What is typed faster than the console takes it in goes where it was meant to go, as if each key had been awaited."""

from pathlib import Path

import pytest
from textual.app import App
from textual.events import Key, Paste

from console.screens.send import SendDialog
from console.screens.spawn import SpawnDialog
from console.typeahead import Arrived
from tests.console.driver import MAIN, OPS, console

NAMED = {" ": "space", "/": "slash"}


def type_at_once(app: App[None], *typed: str) -> None:
    """Put keys and texts into the console's queue without waiting for anything.

    Args:
        typed: Names of keys, `type:…` for letters, `paste:…` for a text from the clipboard.
    """
    for each in typed:
        what, colon, text = each.partition(":")
        if what == "paste":
            app.post_message(Paste(text))
        elif colon:
            for letter in text:
                app.post_message(Key(NAMED.get(letter, letter), letter))
        else:
            app.post_message(Key(NAMED.get(what, what), what if len(what) == 1 else None))


async def test_letters_behind_the_key_that_opens_the_composer_are_text(fleet: Path) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, "i", "type:say exact", "enter", "type:next")
        await driver.until(lambda: driver.composer.text == "next")
        await driver.at_rest()
        assert (await driver.words(OPS))[-2:] == [("user", "say exact"), ("assistant", "exact")]


async def test_messages_go_out_one_by_one_in_their_order(fleet: Path) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, "i", "type:say one", "enter", "type:say two", "enter", "type:three")
        await driver.until(lambda: driver.composer.text == "three")
        await driver.at_rest()
        said = [text for role, text in await driver.words(OPS) if role == "user"]
        assert said == ["say standby", "say one", "say two"]


async def test_pasted_text_behind_it_is_text(fleet: Path) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, "i", "type:ab", "paste:xyz", "type:c")
        await driver.until(lambda: driver.composer.text == "abxyzc")


async def test_a_session_is_narrowed_down_to_and_written_to(fleet: Path) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, "/", "type:welcome", "enter", "i", "type:say there", "enter")
        await driver.said("delivered")
        await driver.at_rest()
        assert (await driver.words(MAIN))[-1] == ("assistant", "there")


@pytest.mark.parametrize(("key", "dialog"), [("s", SendDialog), ("n", SpawnDialog)])
async def test_letters_behind_the_key_that_opens_a_dialog_are_in_it(fleet: Path, key: str, dialog: type) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, key, "type:exit now")
        await driver.until(lambda: isinstance(driver.app.screen, dialog))
        await driver.shows("exit now")


async def test_what_follows_a_dialog_that_was_closed_goes_on(fleet: Path) -> None:
    async with console(fleet) as driver:
        type_at_once(driver.app, "s", "type:ab", "escape", "j", "k", "n", "type:cd", "escape", "i", "type:here")
        await driver.until(lambda: driver.composer.text == "here")
        assert driver.app.screen is driver.screen


async def test_keys_that_never_come_to_their_end_hold_up_nothing_for_long(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_behind: object) -> None:
        """Hear nothing of it."""

    monkeypatch.setattr("console.typeahead.PATIENCE_SECONDS", 0.05)
    async with console(fleet) as driver:
        monkeypatch.setattr(driver.app.typeahead, "arrived", nothing)
        type_at_once(driver.app, "i", "type:onward")
        await driver.until(lambda: driver.composer.text == "onward")


async def test_a_key_that_never_comes_to_its_end_holds_up_nothing_for_long(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console(fleet) as driver:
        arrived, lost = driver.app.typeahead.arrived, list[Arrived]()

        def lose_the_first(behind: Arrived) -> None:
            if lost:
                arrived(behind)
            lost.append(behind)

        monkeypatch.setattr(driver.app.typeahead, "arrived", lose_the_first)
        type_at_once(driver.app, "i", "type:on")
        await driver.until(lambda: driver.composer.text == "on")
        assert lost
