"""A session that is deleted while somebody looks at it, or writes to it (architecture#console)."""

from pathlib import Path

from core.model.access import ALL, OPERATOR
from core.model.events import Reloaded
from core.model.sessions import SessionQuery
from tests.console.driver import CRON, MAIN, OPS, console
from tests.support.runtimes import nobody, send


async def test_the_next_session_takes_the_place_of_one_that_was_deleted(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.open(OPS)
        await desk.press("escape")
        await desk.runtime.delete(OPS, OPERATOR)
        await desk.said("ops: this session was deleted")
        await desk.until(lambda: OPS not in desk.order and desk.screen.parts.main.key in {MAIN, CRON})
        assert desk.selected == desk.screen.parts.main.key
        assert "discord:group:ops" not in desk.picture


async def test_what_is_being_written_to_a_deleted_session_goes_nowhere_and_stays(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.select(OPS)
        await desk.press("i")
        await desk.write("half a thou")
        await desk.runtime.delete(OPS, OPERATOR)
        await desk.said("ops: this session was deleted")
        await desk.write("ght")
        await desk.press("enter")
        await desk.said("this session was deleted; the draft is kept")
        assert desk.composer.text == "half a thought"
        found = await desk.runtime.list_sessions(SessionQuery(archived=None), ALL)
        assert {row.key for row in found.sessions} == {MAIN, CRON}, "it was not made again"
        await desk.press("escape", "escape", "down")
        await desk.until(lambda: desk.screen.parts.main.key in {MAIN, CRON})
        assert desk.composer.text == ""
        assert desk.app.view_model.memory.drafts[OPS] == "half a thought"


async def test_every_pane_lives_through_the_end_of_its_session(fleet: Path) -> None:
    async with console(fleet, size=(170, 40)) as desk:
        await desk.select(OPS)
        await desk.press("v")
        await desk.until(lambda: desk.screen.parts.second is not None)
        await desk.select(CRON)
        await desk.press("P")
        await desk.shows("MESSAGES INTO IT")
        for key in (OPS, CRON):
            await desk.runtime.delete(key, OPERATOR)
        await desk.until(lambda: desk.order == [MAIN])
        await desk.shows("there is no such session yet")
        await desk.press("escape")
        await desk.until(lambda: desk.screen.parts.main.key == MAIN)
        await desk.press("v")
        await desk.until(lambda: desk.screen.parts.second is None)
        await send(desk.runtime, OPS, "say back")
        await desk.until(lambda: OPS in desk.order)


async def test_a_reload_shows_what_there_is_now(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.open(OPS)
        publish, desk.runtime.hub.publish = desk.runtime.hub.publish, nobody
        await desk.runtime.delete(OPS, OPERATOR)
        await send(desk.runtime, CRON, "say unheard words")
        await desk.runtime.drained()
        desk.runtime.hub.publish = publish
        desk.runtime.hub.passing(Reloaded())
        await desk.said("ops: this session was deleted")
        await desk.select(CRON)
        await desk.shows("unheard words")
