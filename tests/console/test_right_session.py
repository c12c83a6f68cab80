"""A change hits the session it was shown for, whatever moved meanwhile (console#dangerous-actions)."""

from pathlib import Path

import pytest

from core.model.access import OPERATOR
from core.model.errors import Conflict
from tests.console.driver import CRON, MAIN, OPS, Agent, console
from tests.support.runtimes import begin, send


async def test_a_change_of_a_session_that_was_reset_meanwhile_is_refused(fleet: Path) -> None:
    async with console(fleet) as desk:
        shown = desk.app.view_model.book.rows[OPS].session
        await desk.runtime.reset(OPS, OPERATOR)
        operations = desk.app.operations
        for change in (operations.next_policy, operations.archive, operations.reset, operations.abort):
            with pytest.raises(Conflict, match="reset"):
                await change(shown)
        now = await desk.session(OPS)
        assert (now.send_policy, now.archived_at) == (None, None)


async def test_a_question_hits_the_session_it_was_asked_about(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await begin(desk.runtime, OPS, "one")
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].look == "running")
        await desk.press("a")
        await desk.shows("abort?")
        await begin(desk.runtime, CRON, "two")
        await desk.until(lambda: len(desk.runtime.active_runs) == 2)
        desk.screen.parts.sessions.release()
        desk.screen.open_sessions.go_to(CRON)  # the list has moved below the question
        await desk.press("y")
        await desk.said("ops: 1 run stopped")
        assert agent.at_work == [CRON]
        agent.release()
        await desk.at_rest()


async def test_the_cursor_stays_on_its_session_when_rows_move(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.select(MAIN)
        desk.screen.parts.sessions.release()
        await send(desk.runtime, CRON, "say up")
        await desk.until(lambda: desk.order[0] == CRON)
        await desk.until(lambda: desk.screen.parts.sessions.cursor == 2)
        assert desk.selected == MAIN
        await desk.press("x")
        await desk.said("main: archived")
        assert (await desk.session(MAIN)).archived_at is not None
