"""S11 on the screen: every delivery with its state, its reason and its text; retry, drop, and why not."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from console.preferences import check
from console.screens.confirm import Confirm
from console.screens.deliveries import DeliveriesScreen
from core.agents.port import AgentEvent, Reply, Turn
from core.channels import OutgoingText, Rejected
from core.config.settings import ConsoleSettings
from core.model.access import Operator
from core.model.exchanges import Delivery
from core.model.messages import text_block
from tests.console.driver import MAIN, OPS, Agent, ConsoleDriver, console
from tests.support.channel_sink import Accept, Busy, ChannelSink, Die, Hold, Refuse
from tests.support.runtimes import begin, running, send

CONFIG = "{ session: { agentToAgent: { maxPingPongTurns: 0 } } }"
LAB = "agent:main:telegram:group:lab"


async def announces(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Announce the words of the request."""
    asked = turn.transcript[-1].text
    said = asked.partition("The request was:\n")[2].split("\n\nThe first")[0] if turn.kind == "announce" else "yes"
    yield Reply((text_block(said),))


@contextlib.asynccontextmanager
async def desk_with(state: Path, sink: ChannelSink, size: tuple[int, int] = (120, 36)) -> AsyncGenerator[ConsoleDriver]:
    """Open a console with the sink's channels and two sessions."""
    channels = {name: sink.channel(name) for name in ("discord", "telegram")}
    async with console(state, CONFIG, agent=Agent(announces), channels=channels, size=size) as desk:
        await send(desk.runtime, MAIN, "hello")
        await send(desk.runtime, OPS, "hello")
        await desk.until(lambda: desk.order[-1:] == [MAIN])
        yield desk


async def announce(desk: ConsoleDriver, text: str, state: str, key: str = OPS) -> Delivery:
    """Have a text announced, and wait until its delivery is in a state and the console knows."""
    await begin(desk.runtime, key, text, Operator(MAIN))
    found: list[Delivery] = []

    def is_there() -> bool:
        found[:] = [each for each in known(desk) if each.text == text]
        return bool(found) and found[0].state == state

    await desk.until(is_there)
    return found[0]


def known(desk: ConsoleDriver) -> list[Delivery]:
    """Return what the console knows of deliveries."""
    return desk.app.view_model.deliveries.newest_first()


def page(desk: ConsoleDriver) -> DeliveriesScreen:
    """Return the open screen."""
    screen = desk.app.screen
    assert isinstance(screen, DeliveriesScreen)
    return screen


async def opened(desk: ConsoleDriver) -> DeliveriesScreen:
    """Open the screen by its key."""
    await desk.press("D")
    return page(desk)


async def told(desk: ConsoleDriver, *words: str) -> None:
    """Wait until the screen says so."""
    await desk.until(lambda: all(word in page(desk).notice.text for word in words))


async def test_without_any_it_says_what_will_stand_here(state: Path) -> None:
    async with console(state) as desk:
        screen = await opened(desk)
        assert "Nothing was announced yet." in desk.picture
        assert "undelivered" not in desk.picture
        for key in ("r", "x", "enter"):
            await desk.press(key)
            assert screen.notice.text == "there is no delivery here"
        await desk.press("escape")
        assert desk.app.screen is desk.screen


@pytest.mark.spec("S11")
async def test_every_state_is_shown_with_word_reason_and_tries(state: Path) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Accept(), Refuse("too long"), Die(), Busy(3600), Hold(hold))
        for text, end in (("one", "sent"), ("two", "failed"), ("three", "unknown"), ("four", "pending")):
            await announce(desk, text, end)
        await send(desk.runtime, LAB, "hello")
        sink.script(Hold(hold), channel="telegram")
        await announce(desk, "five", "sending", LAB)
        await desk.shows("! 2 undelivered")
        screen = await opened(desk)
        lines = [line.strip(" ▌") for line in desk.picture.split("\n")]
        heads = [line for line in lines if line[:1] in {"●", "◌", "?", "×", "✓"}]
        assert [line.split()[1] for line in heads] == ["sending", "pending", "unknown", "failed", "sent"]
        assert [line.split()[0] for line in heads] == ["●", "◌", "?", "×", "✓"]
        assert "telegram group:lab" in heads[0]
        assert "1 try, again in 1h" in heads[1] or "1 try, again in 59m" in heads[1]
        for reason in ("discord is busy: slow down", "only the channel knows", "discord refused the text: too long"):
            assert reason in desk.picture
        assert "! 2 undelivered  5" in lines[0]
        assert "five" in desk.picture.split("TEXT")[1]
        await desk.press("G")
        assert screen.list.current is not None
        assert screen.list.current.text == "one"
        assert "one" in desk.picture.split("TEXT")[1]
        hold.set()


@pytest.mark.spec("S11")
async def test_a_retry_is_seen_to_succeed(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Refuse("too long"))
        await announce(desk, "hello all", "failed")
        await opened(desk)
        await desk.press("r")
        await desk.shows("✓ sent", "2 tries")
        await told(desk, "the announce of ops to discord group:ops is tried again")
        assert sink.texts() == ["hello all"]
        await desk.press("escape")
        await desk.until(lambda: "undelivered" not in desk.picture)


@pytest.mark.spec("S11")
async def test_a_failed_one_is_dropped_at_once(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Refuse("too long"))
        await announce(desk, "hello all", "failed")
        await opened(desk)
        await desk.press("x")
        await desk.shows("⊘ skipped", "dropped by the operator")
        await told(desk, "is dropped")
        assert sink.texts() == []


@pytest.mark.spec("S11")
@pytest.mark.parametrize(("key", "end", "taken"), [("r", "sent", 2), ("x", "skipped", 1)])
async def test_what_may_have_arrived_is_asked_about_first(state: Path, key: str, end: str, taken: int) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Die())
        found = await announce(desk, "hello all", "unknown")
        await opened(desk)
        await desk.press(key)
        assert isinstance(desk.app.screen, Confirm)
        await desk.shows("Nobody knows whether it arrived", "ops to discord group:ops")
        await desk.press("escape")
        assert known(desk) == [found], "nothing was done"
        await desk.press(key, "y")
        await desk.until(lambda: known(desk)[0].state == end)
        assert len(sink.taken) == taken


@pytest.mark.parametrize(("answer", "state_", "why"), [("sent", "sent", "it is sent"), ("hold", "sending", "wait for")])
async def test_what_is_over_or_under_way_says_so(state: Path, answer: str, state_: str, why: str) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Accept() if answer == "sent" else Hold(hold))
        await announce(desk, "hello", state_)
        await opened(desk)
        for key in ("r", "x"):
            page(desk).say("")
            await desk.press(key)
            assert why in page(desk).notice.text
            assert desk.app.screen is page(desk)
        assert "retry" not in desk.picture.split("\n")[-1]
        hold.set()


async def test_a_skipped_one_is_final(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        sink.script(Refuse("no"))
        await announce(desk, "hello", "failed")
        await opened(desk)
        await desk.press("x")
        await desk.shows("⊘ skipped")
        await desk.press("r")
        assert "that is final" in page(desk).notice.text


async def test_a_reader_sees_all_and_is_told_whose_they_are(state: Path) -> None:
    async with ChannelSink() as sink:
        sink.script(Refuse("too long"))
        async with desk_with(state, sink) as desk:
            await announce(desk, "hello", "failed")
        async with running(state), console(state, live=False) as desk:
            await desk.until(lambda: desk.standing and known(desk))
            await opened(desk)
            assert "discord refused the text: too long" in desk.picture
            for key in ("r", "x"):
                page(desk).say("")
                await desk.press(key)
                assert "owned by" in page(desk).notice.text


async def test_enter_goes_to_the_session(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        await send(desk.runtime, LAB, "hello")
        await announce(desk, "one", "sent")
        await announce(desk, "two", "sent", LAB)
        await opened(desk)
        await desk.press("j", "enter")
        assert desk.app.screen is desk.screen
        assert desk.selected == OPS


async def test_words_narrow_the_list_and_escape_shows_all(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        await send(desk.runtime, LAB, "hello")
        sink.script(Refuse("too long"))
        await announce(desk, "prices of spring", "failed")
        await announce(desk, "two", "sent", LAB)
        screen = await opened(desk)
        for needle, count in (("failed", 1), ("LONG", 1), ("telegram", 1), ("spring ops", 1), ("group", 2)):
            await desk.press("slash")
            await desk.write(needle)
            assert (screen.list.count, screen.list.total) == (count, 2), needle
            assert f"/{needle}" in desk.picture
            await desk.press("enter")
            assert screen.list.has_focus
            await desk.press("escape")
            assert screen.list.count == 2
        await desk.press("slash")
        await desk.write("nothing like it")
        await desk.shows("No delivery holds these words.", "0 of 2")
        await desk.press("escape", "escape")
        assert desk.app.screen is desk.screen


async def test_the_cursor_stays_on_its_delivery_when_others_come(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as desk:
        await announce(desk, "one", "sent")
        screen = await opened(desk)
        await announce(desk, "two", "sent")
        await desk.until(lambda: screen.list.count == 2)
        assert screen.list.current is not None
        assert (screen.list.cursor, screen.list.current.text) == (1, "one")


HOSTILE = "[/x] [@click=app.exit]go[/] \x1b[31m\x9b\u202e[bold"


class _Hostile:
    """A channel that refuses everything in words that are trouble."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Refuse."""
        raise Rejected(f"{HOSTILE} {outgoing.to}")


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_what_channels_and_agents_say_is_cleaned_and_never_markup(state: Path, size: tuple[int, int]) -> None:
    key = "agent:main:discord:group:[@click=app.exit]x[/"
    agent = Agent(announces)
    async with console(state, CONFIG, agent=agent, channels={"discord": _Hostile()}, size=size) as desk:
        await send(desk.runtime, MAIN, "hello")
        await send(desk.runtime, key, "hello")
        await begin(desk.runtime, key, f"words {HOSTILE}", Operator(MAIN))
        await desk.until(lambda: [each.state for each in known(desk)] == ["failed"])
        await opened(desk)
        await desk.shows("[/x] [@click=app.exit]go[/] ␛[31m", "words [/x]")
        assert not {"\x1b", "\x9b", "\u202e"} & set(desk.picture)
        assert known(desk)[0].key == key
        await desk.press("slash")
        await desk.write("[/")
        await desk.press("enter", "x")
        await desk.until(lambda: known(desk)[0].state == "skipped")
        await told(desk, "[@click=app.exit]x")
        await desk.press("ctrl+p")
        await desk.write("drop")
        await desk.press("escape", "escape", "escape")
        assert desk.app.return_code is None


async def test_a_long_text_is_cut_and_says_so(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink, (80, 24)) as desk:
        await announce(desk, "word " * 5000 + "end", "sent")
        await opened(desk)
        await desk.press("tab", "end")
        await desk.shows("5,003 more characters stand in the session's transcript")


async def test_the_help_lists_its_keys(state: Path) -> None:
    async with console(state) as desk:
        await opened(desk)
        await desk.press("question_mark")
        await desk.shows("Send it again", "there is no delivery here", "Go back to the sessions")


async def test_the_keys_of_the_screen_are_the_operators(state: Path) -> None:
    sink_config = CONFIG[:-1] + ", console: { keymap: { retry: 'ctrl+t', drop: 'z', filter: 'f' } } }"
    async with console(state, sink_config, agent=Agent(announces)) as desk:
        await send(desk.runtime, MAIN, "hello")
        await send(desk.runtime, OPS, "hello")
        await desk.until(lambda: desk.order[-1:] == [MAIN])
        await announce(desk, "nobody takes this", "failed")
        await opened(desk)
        await desk.shows("^t retry", "z drop", "f filter")
        await desk.press("x", "r")
        await told(desk, "r does nothing here")
        await desk.press("question_mark")
        await desk.shows("^t        Send it again", "z         Give it up")
        await desk.press("escape", "ctrl+p")
        await desk.write("drop")
        await desk.shows("z  Give it up")
        await desk.press("escape", "z")
        await desk.until(lambda: known(desk)[0].state == "skipped")


def test_a_key_that_two_actions_of_one_screen_have_is_refused() -> None:
    for keymap, words in (
        ({"drop": "r"}, 'console.keymap.drop is "r", which retry has'),
        ({"retry": "d"}, 'console.keymap.retry is "d", which disconnect has'),
        ({"drp": "z"}, 'console.keymap.drp is no action; did you mean "drop"?'),
    ):
        assert check(ConsoleSettings(keymap=keymap)).problems[0].startswith(words)
    assert check(ConsoleSettings(keymap={"drop": "s"})).problems == (), "another screen has that key, not this one"
