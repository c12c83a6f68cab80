"""A change hits the session it was shown for, whatever moved meanwhile (console#dangerous-actions)."""

from pathlib import Path

import pytest

from core.model.access import OPERATOR
from core.model.errors import Conflict
from tests.console.driver import CRON, MAIN, OPS, Agent, console
from tests.support.runtimes import begin, send


async def test_a_change_of_a_session_that_was_reset_meanwhile_is_refused(fleet: Path) -> None:
    async with console(fleet) as driver:
        shown = driver.app.view_model.book.rows[OPS].session
        await driver.runtime.reset(OPS, OPERATOR)
        operations = driver.app.operations
        for change in (operations.next_policy, operations.archive, operations.reset, operations.abort):
            with pytest.raises(Conflict, match="reset"):
                await change(shown)
        now = await driver.session(OPS)
        assert (now.send_policy, now.archived_at) == (None, None)


async def test_a_question_hits_the_session_it_was_asked_about(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await begin(driver.runtime, OPS, "one")
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].look == "running")
        await driver.press("a")
        await driver.shows("abort?")
        await begin(driver.runtime, CRON, "two")
        await driver.until(lambda: len(driver.runtime.active_runs) == 2)
        driver.screen.parts.sessions.release()
        driver.screen.open_sessions.go_to(CRON)  # the list has moved below the question
        await driver.press("y")
        await driver.said("ops: 1 run stopped")
        assert agent.at_work == [CRON]
        agent.release()
        await driver.at_rest()


async def test_the_cursor_stays_on_its_session_when_rows_move(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.select(MAIN)
        driver.screen.parts.sessions.release()
        await send(driver.runtime, CRON, "say up")
        await driver.until(lambda: driver.order[0] == CRON)
        await driver.until(lambda: driver.screen.parts.sessions.cursor == 2)
        assert driver.selected == MAIN
        await driver.press("x")
        await driver.said("main: archived")
        assert (await driver.session(MAIN)).archived_at is not None
