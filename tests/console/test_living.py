"""What happens while the console is open: replies under way, long transcripts, gaps, failures, leaving."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from console.screens.confirm import Confirm
from console.widgets.session_list import HOLD_SECONDS
from core.agents.choose import AgentBackends
from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, Turn
from core.config.settings import Settings
from core.model.access import ALL, Operator
from core.model.events import Delta
from core.model.messages import Usage, text_block
from core.model.sessions import SessionQuery
from core.runtime.gateway import Runtime
from core.store.database import Tx
from tests.console.driver import CRON, MAIN, OPS, Agent, console, places
from tests.support.runtimes import begin, call, send
from tests.support.stores import say


class Halting:
    """A play that says its first words, waits, says the rest, and ends well or badly."""

    def __init__(self, *, failure: str = "") -> None:
        self.go = asyncio.Event()
        self.failure = failure

    async def __call__(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("the first half ")
        await self.go.wait()
        if self.failure:
            raise AgentFailure(self.failure)
        yield TextDelta("and the second")
        yield Reply((text_block("the first half and the second"),), Usage(10, 5), "test")


async def test_words_show_before_the_reply_is_final(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as driver:
        await begin(driver.runtime, OPS, "go")
        await driver.open(OPS)
        await driver.shows("the first half")
        assert (await driver.words(OPS))[-1] == ("user", "go")
        await driver.shows("1 running")
        play.go.set()
        await driver.shows("the first half and the second", "0 running")
        assert driver.text.count("the first half and") == 1
        assert (await driver.words(OPS))[-1] == ("assistant", "the first half and the second")


async def test_a_reply_under_way_shows_in_a_transcript_opened_later(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as driver:
        await driver.select(MAIN)
        await begin(driver.runtime, OPS, "go")
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].words.startswith("the first half"))
        await driver.select(OPS)
        await driver.shows("  the first half")
        play.go.set()
        await driver.at_rest()


async def test_a_failed_run_says_its_sentence_once_in_the_transcript(fleet: Path) -> None:
    play = Halting(failure="the provider refused: 401")
    async with console(fleet, agent=Agent(play), size=(140, 40)) as driver:
        await begin(driver.runtime, OPS, "go")
        await driver.open(OPS)
        await driver.shows("the first half")
        play.go.set()
        await driver.shows("1 failed")
        await driver.shows("the provider refused: 401")
        right = "\n".join(line[44:] for line in driver.text.splitlines())
        assert right.count("the provider refused: 401") == 1
        assert "the first half" in right
        said = [text for _, text in await driver.words(OPS) if "refused: 401" in text]
        assert len(said) == 1


# Long transcripts


def _fill(tx: Tx) -> None:
    for number in range(1, 1001):
        say(tx, OPS, f"number {number}")


async def test_back_to_the_first_message_and_to_the_end_again(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.runtime.store.write(_fill)
        await driver.open(OPS)
        await driver.shows("number 1000")
        await driver.press("g")
        await driver.shows("say standby", "number 5\n")
        assert "number 1000" not in driver.text
        for _ in range(40):
            await driver.press("ctrl+d")
        await driver.until(lambda: "number 3" in driver.text and "number 5\n" not in driver.text)
        await driver.press("G")
        await driver.shows("number 1000")


async def test_what_comes_below_is_counted_and_the_view_stays(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.runtime.store.write(_fill)
        await driver.open(OPS)
        await driver.shows("number 1000")
        await driver.press("pageup")
        await driver.until(lambda: "new below" in driver.text or "below ↓" in driver.text)
        seen = [line for line in driver.text.splitlines() if "number" in line]
        await send(driver.runtime, OPS, "say unseen")
        below = driver.screen.parts.main.view.below
        await driver.until(lambda: f"{driver.screen.parts.main.view.below} new below ↓" in driver.text)
        assert driver.screen.parts.main.view.below >= below > 0
        assert [line for line in driver.text.splitlines() if "number" in line] == seen
        await driver.press("G")
        await driver.shows("unseen")
        assert "new below" not in driver.text


async def test_a_console_that_fell_behind_catches_up_to_the_same_rows(fleet: Path) -> None:
    def burst(tx: Tx) -> None:
        for number in range(3000):
            say(tx, (OPS, MAIN, CRON)[number % 3], f"burst {number}")

    async with console(fleet) as driver:
        await driver.open(OPS)
        await driver.runtime.store.write(burst)  # more events in one commit than a queue holds
        await driver.shows("burst 2997")
        rows = (await driver.runtime.list_sessions(SessionQuery(archived=None), ALL)).sessions
        await driver.until(lambda: {row.session for row in driver.app.view_model.book.rows.values()} == set(rows))
        transcript = driver.app.view_model.transcripts.opened[OPS]
        assert (transcript.first, transcript.last) == (rows[-1].first_seq, (await driver.session(OPS)).last_seq)
        await driver.press("k", "k")
        await driver.shows("burst 2994", "burst 2991")


async def test_a_reset_empties_the_open_transcript(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.open(OPS)
        await driver.shows("say standby")
        await send(driver.runtime, OPS, "/reset")
        await driver.until(lambda: "say standby" not in driver.text)
        await send(driver.runtime, OPS, "say anew")
        await driver.shows("anew")


async def test_enter_follows_a_message_to_where_it_came_from(fleet: Path) -> None:
    async with console(fleet, '{tools: {sessions: {visibility: "all"}}}') as driver:
        await send(driver.runtime, MAIN, f"send to {OPS}: say from afar")
        await driver.open(OPS)
        await driver.at_rest()
        await driver.press("g", "j", "j")
        item = driver.screen.parts.main.view.current
        assert item is not None
        assert item.source == MAIN
        await driver.press("enter")
        await driver.until(lambda: driver.selected == MAIN)


# Sub-agents


@pytest.mark.spec("W1")
async def test_a_sub_agent_is_opened_and_stopped_from_the_tree(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await begin(driver.runtime, OPS, "/spawn look around")
        await driver.until(lambda: driver.app.view_model.book.children(OPS))
        child = driver.app.view_model.book.children(OPS)[0].session.key
        await driver.until(lambda: driver.app.view_model.book.rows[child].look == "running")
        await driver.select(OPS)
        await driver.until(lambda: driver.screen.parts.spawns.selected == child)
        await driver.press("tab", "tab", "tab")
        assert driver.screen.position.pane == "spawns"
        await driver.press("a")
        await driver.shows("abort?")
        await driver.press("y")
        await driver.said("1 run stopped")
        await driver.at_rest()
        assert (await driver.session(child)).status == "aborted"
        await driver.press("enter")
        await driver.until(lambda: driver.screen.parts.main.key == child)
        assert driver.screen.position.pane == "transcript"
        agent.release()
        await driver.at_rest()


# Leaving


async def test_leaving_with_a_run_asks_and_may_stay(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await begin(driver.runtime, OPS, "one")
        await driver.until(lambda: agent.at_work)
        for key in ("q", "ctrl+q", "ctrl+c"):
            await driver.press(key)
            await driver.until(lambda: isinstance(driver.app.screen, Confirm))
            await driver.shows("1 run is at work")
            await driver.press("escape")
            assert driver.app.screen is driver.screen
            assert driver.app.return_code is None
        agent.release()
        await driver.at_rest()


async def test_leaving_may_wait_for_the_end(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await begin(driver.runtime, OPS, "one")
        await driver.until(lambda: agent.at_work)
        await driver.press("q")
        await driver.press("w")
        await driver.until(lambda: "leaving when all runs have ended" in driver.standing)
        assert driver.app.return_code is None
        agent.release()
        await driver.until(lambda: driver.app.return_code is not None)
        assert (await driver.session(OPS)).status == "done"


async def test_leaving_now_keeps_what_was_said(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as driver:
        await begin(driver.runtime, OPS, "one")
        await driver.open(OPS)
        await driver.shows("the first half")
        await driver.press("q")
        await driver.press("l")
        await driver.until(lambda: driver.app.return_code is not None)
    async with console(fleet) as driver:
        assert (await driver.session(OPS)).status == "interrupted"
        await driver.shows("the first half")


async def test_what_the_operator_reads_stays_when_its_sub_agent_is_done(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        ticket = await call(driver.runtime, "sessions_spawn", Operator(OPS), task="look around")
        child = ticket["childSessionKey"]
        await driver.open(child)
        agent.release()
        await driver.at_rest()
        driver.screen.parts.sessions.release()
        await send(driver.runtime, MAIN, "say something else")  # the list is put in order anew
        await driver.until(lambda: driver.screen.parts.sessions.keys[0] == MAIN)
        await driver.pilot.pause()
        assert driver.screen.parts.main.key == driver.selected == child
        await driver.press("escape")
        await driver.select(MAIN)
        driver.screen.parts.sessions.release()
        await driver.until(lambda: child not in driver.order)


async def test_what_comes_while_it_is_closed_breaks_nothing(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, OPS, "say last words")
    driver.app.view_model.changes.noted.rows.add(OPS)
    contextvars.Context().run(driver.app.show_changes)  # as Textual calls what was asked for before the end


# Two consoles


async def test_a_second_console_works_through_the_first_and_takes_its_place(fleet: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(console(fleet))
        async with console(fleet) as second:
            assert not second.app.host.owns
            assert second.standing == ""
            await send(first.runtime, OPS, "say seen by both")
            await second.shows("seen by both")
            await first.shows("seen by both")
            await send(second.runtime, OPS, "say through the first")
            await first.shows("through the first")
            assert not second.runtime.active_runs
            await second.press("p")
            await second.said("ops: allow")
            assert (await first.session(OPS)).send_policy == "allow"
            await stack.aclose()
            await second.until(lambda: second.app.host.owns)
            await send(second.runtime, OPS, "say as the heir")
            await second.shows("as the heir")


async def test_a_console_takes_over_when_the_owner_leaves(fleet: Path) -> None:
    owner = Runtime.open(fleet)
    await owner.start(Settings(), AgentBackends(0.0), command="console")
    async with console(fleet, live=False) as driver:
        await driver.until(lambda: "switchboard console" in driver.standing)
        await driver.press("i")
        assert "owned by switchboard console" in driver.notice
        await owner.close()
        await driver.until(lambda: driver.runtime.connection.state == "live")
        await driver.until(lambda: driver.standing == "")
        await driver.press("p")
        await driver.said("ops: allow")
        assert (await driver.session(OPS)).send_policy == "allow"


async def test_on_a_narrow_screen_a_session_is_seen_once_it_is_opened(fleet: Path) -> None:
    async with console(fleet, size=(80, 24)) as driver:
        rows = driver.app.view_model.book.rows
        await send(driver.runtime, MAIN, "say news")
        await driver.until(lambda: rows[MAIN].unread)
        await driver.select(MAIN)
        await driver.until(lambda: driver.screen.parts.main.view.transcript is not None)
        assert rows[MAIN].unread
        await driver.press("enter")
        await driver.shows("news")
        await driver.until(lambda: not rows[MAIN].unread)
        await send(driver.runtime, MAIN, "say while it is read")
        await driver.until(lambda: rows[MAIN].session.last_seq == 6 and not rows[MAIN].unread)
        await driver.press("escape")
        await send(driver.runtime, MAIN, "say unseen")
        await driver.until(lambda: rows[MAIN].session.last_seq == 8)
        assert rows[MAIN].unread


async def test_what_came_below_is_seen_at_the_end(fleet: Path) -> None:
    async with console(fleet, size=(120, 12)) as driver:
        rows = driver.app.view_model.book.rows
        await driver.open(OPS)
        await driver.press("g")
        await send(driver.runtime, OPS, "say below")
        await driver.until(lambda: rows[OPS].unread)
        await driver.press("G")
        await driver.until(lambda: not rows[OPS].unread)


# The order of the rows, and what was lost on the way


async def test_the_order_is_held_under_the_cursor_and_says_so(fleet: Path) -> None:
    async with console(fleet) as driver:
        seconds = time.monotonic()
        driver.app.monotonic = lambda: seconds
        shown = driver.screen.parts.sessions.keys
        await driver.press("j", "k")
        await send(driver.runtime, CRON, "say up with me")
        await driver.until(lambda: driver.order[0] == CRON)
        seconds += 0.5  # rows move at most a few times a second
        await driver.until(lambda: driver.screen.parts.sessions.held)
        driver.screen.picture.tick()
        await driver.shows("order held")
        assert driver.screen.parts.sessions.keys == shown
        assert driver.selected == OPS
        seconds += HOLD_SECONDS - 0.6
        driver.screen.picture.tick()
        assert driver.screen.parts.sessions.keys == shown
        seconds += 0.2
        driver.screen.picture.tick()
        await driver.until(lambda: driver.screen.parts.sessions.keys[0] == CRON)
        assert "order held" not in driver.text
        assert driver.selected == OPS, "the cursor stays on its session"


async def test_a_gap_during_a_reply_loses_no_word_of_it(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as driver:
        await begin(driver.runtime, OPS, "go")
        await driver.open(OPS)
        await driver.shows("the first half")
        (feed,) = driver.runtime.hub.feeds
        while not feed.behind:  # as if the screen had not looked for a while
            feed.put(Delta(OPS, "another-run", 0, "text", 0, "lost words"))
        await driver.until(lambda: not feed.behind and not feed.pending)
        await driver.until(lambda: "the first half" in driver.text and "lost words" not in driver.text)
        play.go.set()
        await driver.shows("the first half and the second", "0 running")
        assert driver.text.count("the first half and") == 1


async def test_f5_says_what_is_wrong_and_that_it_is_mended(fleet: Path) -> None:
    file = places(fleet).config
    async with console(fleet, "{}") as driver:
        file.write_text('{console: {bell: "yes"}}')
        await driver.press("f5")
        await driver.until(lambda: "console.bell" in driver.standing)
        assert "The one before stays in use; F5 reads it again." in driver.standing
        file.write_text("{}")
        await driver.press("f5")
        await driver.until(lambda: driver.standing == "")
        await driver.said("the configuration was read again and is in use")
