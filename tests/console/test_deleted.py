"""A session that is deleted while somebody looks at it, or writes to it (architecture#console)."""

from pathlib import Path

from core.model.access import ALL, OPERATOR
from core.model.events import Reloaded
from core.model.sessions import SessionQuery
from tests.console.driver import CRON, MAIN, OPS, console
from tests.support.runtimes import nobody, send


async def test_the_next_session_takes_the_place_of_one_that_was_deleted(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.open(OPS)
        await driver.press("escape")
        await driver.runtime.delete(OPS, OPERATOR)
        await driver.said("ops: this session was deleted")
        await driver.until(lambda: OPS not in driver.order and driver.screen.parts.main.key in {MAIN, CRON})
        assert driver.selected == driver.screen.parts.main.key
        assert "discord:group:ops" not in driver.text


async def test_what_is_being_written_to_a_deleted_session_goes_nowhere_and_stays(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.select(OPS)
        await driver.press("i")
        await driver.write("half a thou")
        await driver.runtime.delete(OPS, OPERATOR)
        await driver.said("ops: this session was deleted")
        await driver.write("ght")
        await driver.press("enter")
        await driver.said("this session was deleted; the draft is kept")
        assert driver.composer.text == "half a thought"
        found = await driver.runtime.list_sessions(SessionQuery(archived=None), ALL)
        assert {row.key for row in found.sessions} == {MAIN, CRON}, "it was not made again"
        await driver.press("escape", "escape", "down")
        await driver.until(lambda: driver.screen.parts.main.key in {MAIN, CRON})
        assert driver.composer.text == ""
        assert driver.app.view_model.memory.drafts[OPS] == "half a thought"


async def test_every_pane_lives_through_the_end_of_its_session(fleet: Path) -> None:
    async with console(fleet, size=(170, 40)) as driver:
        await driver.select(OPS)
        await driver.press("v")
        await driver.until(lambda: driver.screen.parts.second is not None)
        await driver.select(CRON)
        await driver.press("P")
        await driver.shows("MESSAGES INTO IT")
        for key in (OPS, CRON):
            await driver.runtime.delete(key, OPERATOR)
        await driver.until(lambda: driver.order == [MAIN])
        await driver.shows("there is no such session yet")
        await driver.press("escape")
        await driver.until(lambda: driver.screen.parts.main.key == MAIN)
        await driver.press("v")
        await driver.until(lambda: driver.screen.parts.second is None)
        await send(driver.runtime, OPS, "say back")
        await driver.until(lambda: OPS in driver.order)


async def test_a_reload_shows_what_there_is_now(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.open(OPS)
        publish, driver.runtime.hub.publish = driver.runtime.hub.publish, nobody
        await driver.runtime.delete(OPS, OPERATOR)
        await send(driver.runtime, CRON, "say unheard words")
        await driver.runtime.drained()
        driver.runtime.hub.publish = publish
        driver.runtime.hub.passing(Reloaded())
        await driver.said("ops: this session was deleted")
        await driver.select(CRON)
        await driver.shows("unheard words")
