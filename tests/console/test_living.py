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
    async with console(fleet, agent=Agent(play)) as desk:
        await begin(desk.runtime, OPS, "go")
        await desk.open(OPS)
        await desk.shows("the first half")
        assert (await desk.words(OPS))[-1] == ("user", "go")
        await desk.shows("1 running")
        play.go.set()
        await desk.shows("the first half and the second", "0 running")
        assert desk.picture.count("the first half and") == 1
        assert (await desk.words(OPS))[-1] == ("assistant", "the first half and the second")


async def test_a_reply_under_way_shows_in_a_transcript_opened_later(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as desk:
        await desk.select(MAIN)
        await begin(desk.runtime, OPS, "go")
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].words.startswith("the first half"))
        await desk.select(OPS)
        await desk.shows("  the first half")
        play.go.set()
        await desk.at_rest()


async def test_a_failed_run_says_its_sentence_once_in_the_transcript(fleet: Path) -> None:
    play = Halting(failure="the provider refused: 401")
    async with console(fleet, agent=Agent(play), size=(140, 40)) as desk:
        await begin(desk.runtime, OPS, "go")
        await desk.open(OPS)
        await desk.shows("the first half")
        play.go.set()
        await desk.shows("1 failed")
        await desk.shows("the provider refused: 401")
        right = "\n".join(line[44:] for line in desk.picture.splitlines())
        assert right.count("the provider refused: 401") == 1
        assert "the first half" in right
        said = [text for _, text in await desk.words(OPS) if "refused: 401" in text]
        assert len(said) == 1


# Long transcripts


def _fill(tx: Tx) -> None:
    for number in range(1, 1001):
        say(tx, OPS, f"number {number}")


async def test_back_to_the_first_message_and_to_the_end_again(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.runtime.store.write(_fill)
        await desk.open(OPS)
        await desk.shows("number 1000")
        await desk.press("g")
        await desk.shows("say standby", "number 5\n")
        assert "number 1000" not in desk.picture
        for _ in range(40):
            await desk.press("ctrl+d")
        await desk.until(lambda: "number 3" in desk.picture and "number 5\n" not in desk.picture)
        await desk.press("G")
        await desk.shows("number 1000")


async def test_what_comes_below_is_counted_and_the_view_stays(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.runtime.store.write(_fill)
        await desk.open(OPS)
        await desk.shows("number 1000")
        await desk.press("pageup")
        await desk.until(lambda: "new below" in desk.picture or "below ↓" in desk.picture)
        seen = [line for line in desk.picture.splitlines() if "number" in line]
        await send(desk.runtime, OPS, "say unseen")
        below = desk.screen.parts.main.view.below
        await desk.until(lambda: f"{desk.screen.parts.main.view.below} new below ↓" in desk.picture)
        assert desk.screen.parts.main.view.below >= below > 0
        assert [line for line in desk.picture.splitlines() if "number" in line] == seen
        await desk.press("G")
        await desk.shows("unseen")
        assert "new below" not in desk.picture


async def test_a_console_that_fell_behind_catches_up_to_the_same_rows(fleet: Path) -> None:
    def burst(tx: Tx) -> None:
        for number in range(3000):
            say(tx, (OPS, MAIN, CRON)[number % 3], f"burst {number}")

    async with console(fleet) as desk:
        await desk.open(OPS)
        await desk.runtime.store.write(burst)  # more events in one commit than a queue holds
        await desk.shows("burst 2997")
        rows = (await desk.runtime.list_sessions(SessionQuery(archived=None), ALL)).sessions
        await desk.until(lambda: {row.session for row in desk.app.view_model.book.rows.values()} == set(rows))
        transcript = desk.app.view_model.transcripts.opened[OPS]
        assert (transcript.first, transcript.last) == (rows[-1].first_seq, (await desk.session(OPS)).last_seq)
        await desk.press("k", "k")
        await desk.shows("burst 2994", "burst 2991")


async def test_a_reset_empties_the_open_transcript(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.open(OPS)
        await desk.shows("say standby")
        await send(desk.runtime, OPS, "/reset")
        await desk.until(lambda: "say standby" not in desk.picture)
        await send(desk.runtime, OPS, "say anew")
        await desk.shows("anew")


async def test_enter_follows_a_message_to_where_it_came_from(fleet: Path) -> None:
    async with console(fleet, '{tools: {sessions: {visibility: "all"}}}') as desk:
        await send(desk.runtime, MAIN, f"send to {OPS}: say from afar")
        await desk.open(OPS)
        await desk.at_rest()
        await desk.press("g", "j", "j")
        item = desk.screen.parts.main.view.current
        assert item is not None
        assert item.source == MAIN
        await desk.press("enter")
        await desk.until(lambda: desk.selected == MAIN)


# Sub-agents


@pytest.mark.spec("W1")
async def test_a_sub_agent_is_opened_and_stopped_from_the_tree(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await begin(desk.runtime, OPS, "/spawn look around")
        await desk.until(lambda: desk.app.view_model.book.children(OPS))
        child = desk.app.view_model.book.children(OPS)[0].session.key
        await desk.until(lambda: desk.app.view_model.book.rows[child].look == "running")
        await desk.select(OPS)
        await desk.until(lambda: desk.screen.parts.spawns.selected == child)
        await desk.press("tab", "tab", "tab")
        assert desk.screen.position.pane == "spawns"
        await desk.press("a")
        await desk.shows("abort?")
        await desk.press("y")
        await desk.said("1 run stopped")
        await desk.at_rest()
        assert (await desk.session(child)).status == "aborted"
        await desk.press("enter")
        await desk.until(lambda: desk.screen.parts.main.key == child)
        assert desk.screen.position.pane == "transcript"
        agent.release()
        await desk.at_rest()


# Leaving


async def test_leaving_with_a_run_asks_and_may_stay(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await begin(desk.runtime, OPS, "one")
        await desk.until(lambda: agent.at_work)
        for key in ("q", "ctrl+q", "ctrl+c"):
            await desk.press(key)
            await desk.until(lambda: isinstance(desk.app.screen, Confirm))
            await desk.shows("1 run is at work")
            await desk.press("escape")
            assert desk.app.screen is desk.screen
            assert desk.app.return_code is None
        agent.release()
        await desk.at_rest()


async def test_leaving_may_wait_for_the_end(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        await begin(desk.runtime, OPS, "one")
        await desk.until(lambda: agent.at_work)
        await desk.press("q")
        await desk.press("w")
        await desk.until(lambda: "leaving when all runs have ended" in desk.standing)
        assert desk.app.return_code is None
        agent.release()
        await desk.until(lambda: desk.app.return_code is not None)
        assert (await desk.session(OPS)).status == "done"


async def test_leaving_now_keeps_what_was_said(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as desk:
        await begin(desk.runtime, OPS, "one")
        await desk.open(OPS)
        await desk.shows("the first half")
        await desk.press("q")
        await desk.press("l")
        await desk.until(lambda: desk.app.return_code is not None)
    async with console(fleet) as desk:
        assert (await desk.session(OPS)).status == "interrupted"
        await desk.shows("the first half")


async def test_what_the_operator_reads_stays_when_its_sub_agent_is_done(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as desk:
        ticket = await call(desk.runtime, "sessions_spawn", Operator(OPS), task="look around")
        child = ticket["childSessionKey"]
        await desk.open(child)
        agent.release()
        await desk.at_rest()
        desk.screen.parts.sessions.release()
        await send(desk.runtime, MAIN, "say something else")  # the list is put in order anew
        await desk.until(lambda: desk.screen.parts.sessions.keys[0] == MAIN)
        await desk.pilot.pause()
        assert desk.screen.parts.main.key == desk.selected == child
        await desk.press("escape")
        await desk.select(MAIN)
        desk.screen.parts.sessions.release()
        await desk.until(lambda: child not in desk.order)


async def test_what_comes_while_it_is_closed_breaks_nothing(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, OPS, "say last words")
    desk.app.view_model.changes.noted.rows.add(OPS)
    contextvars.Context().run(desk.app.show_changes)  # as Textual calls what was asked for before the end


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
    async with console(fleet, live=False) as desk:
        await desk.until(lambda: "switchboard console" in desk.standing)
        await desk.press("i")
        assert "owned by switchboard console" in desk.notice
        await owner.close()
        await desk.until(lambda: desk.runtime.connection.state == "live")
        await desk.until(lambda: desk.standing == "")
        await desk.press("p")
        await desk.said("ops: allow")
        assert (await desk.session(OPS)).send_policy == "allow"


async def test_on_a_narrow_screen_a_session_is_seen_once_it_is_opened(fleet: Path) -> None:
    async with console(fleet, size=(80, 24)) as desk:
        rows = desk.app.view_model.book.rows
        await send(desk.runtime, MAIN, "say news")
        await desk.until(lambda: rows[MAIN].unread)
        await desk.select(MAIN)
        await desk.until(lambda: desk.screen.parts.main.view.transcript is not None)
        assert rows[MAIN].unread
        await desk.press("enter")
        await desk.shows("news")
        await desk.until(lambda: not rows[MAIN].unread)
        await send(desk.runtime, MAIN, "say while it is read")
        await desk.until(lambda: rows[MAIN].session.last_seq == 6 and not rows[MAIN].unread)
        await desk.press("escape")
        await send(desk.runtime, MAIN, "say unseen")
        await desk.until(lambda: rows[MAIN].session.last_seq == 8)
        assert rows[MAIN].unread


async def test_what_came_below_is_seen_at_the_end(fleet: Path) -> None:
    async with console(fleet, size=(120, 12)) as desk:
        rows = desk.app.view_model.book.rows
        await desk.open(OPS)
        await desk.press("g")
        await send(desk.runtime, OPS, "say below")
        await desk.until(lambda: rows[OPS].unread)
        await desk.press("G")
        await desk.until(lambda: not rows[OPS].unread)


# The order of the rows, and what was lost on the way


async def test_the_order_is_held_under_the_cursor_and_says_so(fleet: Path) -> None:
    async with console(fleet) as desk:
        seconds = time.monotonic()
        desk.app.monotonic = lambda: seconds
        shown = desk.screen.parts.sessions.keys
        await desk.press("j", "k")
        await send(desk.runtime, CRON, "say up with me")
        await desk.until(lambda: desk.order[0] == CRON)
        seconds += 0.5  # rows move at most a few times a second
        await desk.until(lambda: desk.screen.parts.sessions.held)
        desk.screen.picture.tick()
        await desk.shows("order held")
        assert desk.screen.parts.sessions.keys == shown
        assert desk.selected == OPS
        seconds += HOLD_SECONDS - 0.6
        desk.screen.picture.tick()
        assert desk.screen.parts.sessions.keys == shown
        seconds += 0.2
        desk.screen.picture.tick()
        await desk.until(lambda: desk.screen.parts.sessions.keys[0] == CRON)
        assert "order held" not in desk.picture
        assert desk.selected == OPS, "the cursor stays on its session"


async def test_a_gap_during_a_reply_loses_no_word_of_it(fleet: Path) -> None:
    play = Halting()
    async with console(fleet, agent=Agent(play)) as desk:
        await begin(desk.runtime, OPS, "go")
        await desk.open(OPS)
        await desk.shows("the first half")
        (feed,) = desk.runtime.hub.feeds
        while not feed.behind:  # as if the screen had not looked for a while
            feed.put(Delta(OPS, "another-run", 0, "text", 0, "lost words"))
        await desk.until(lambda: not feed.behind and not feed.pending)
        await desk.until(lambda: "the first half" in desk.picture and "lost words" not in desk.picture)
        play.go.set()
        await desk.shows("the first half and the second", "0 running")
        assert desk.picture.count("the first half and") == 1


async def test_f5_says_what_is_wrong_and_that_it_is_mended(fleet: Path) -> None:
    file = places(fleet).config
    async with console(fleet, "{}") as desk:
        file.write_text('{console: {bell: "yes"}}')
        await desk.press("f5")
        await desk.until(lambda: "console.bell" in desk.standing)
        assert "The one before stays in use; F5 reads it again." in desk.standing
        file.write_text("{}")
        await desk.press("f5")
        await desk.until(lambda: desk.standing == "")
        await desk.said("the configuration was read again and is in use")
