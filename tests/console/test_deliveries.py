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
    async with console(state, CONFIG, agent=Agent(announces), channels=channels, size=size) as driver:
        await send(driver.runtime, MAIN, "hello")
        await send(driver.runtime, OPS, "hello")
        await driver.until(lambda: driver.order[-1:] == [MAIN])
        yield driver


async def announce(driver: ConsoleDriver, text: str, state: str, key: str = OPS) -> Delivery:
    """Have a text announced, and wait until its delivery is in a state and the console knows."""
    await begin(driver.runtime, key, text, Operator(MAIN))
    found: list[Delivery] = []

    def is_there() -> bool:
        found[:] = [each for each in known(driver) if each.text == text]
        return bool(found) and found[0].state == state

    await driver.until(is_there)
    return found[0]


def known(driver: ConsoleDriver) -> list[Delivery]:
    """Return what the console knows of deliveries."""
    return driver.app.view_model.deliveries.newest_first()


def page(driver: ConsoleDriver) -> DeliveriesScreen:
    """Return the open screen."""
    screen = driver.app.screen
    assert isinstance(screen, DeliveriesScreen)
    return screen


async def opened(driver: ConsoleDriver) -> DeliveriesScreen:
    """Open the screen by its key."""
    await driver.press("D")
    return page(driver)


async def told(driver: ConsoleDriver, *words: str) -> None:
    """Wait until the screen says so."""
    await driver.until(lambda: all(word in page(driver).notice.text for word in words))


async def test_without_any_it_says_what_will_stand_here(state: Path) -> None:
    async with console(state) as driver:
        screen = await opened(driver)
        assert "Nothing was announced yet." in driver.text
        assert "undelivered" not in driver.text
        for key in ("r", "x", "enter"):
            await driver.press(key)
            assert screen.notice.text == "there is no delivery here"
        await driver.press("escape")
        assert driver.app.screen is driver.screen


@pytest.mark.spec("S11")
async def test_every_state_is_shown_with_word_reason_and_tries(state: Path) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Accept(), Refuse("too long"), Die(), Busy(3600), Hold(hold))
        for text, end in (("one", "sent"), ("two", "failed"), ("three", "unknown"), ("four", "pending")):
            await announce(driver, text, end)
        await send(driver.runtime, LAB, "hello")
        sink.script(Hold(hold), channel="telegram")
        await announce(driver, "five", "sending", LAB)
        await driver.shows("! 2 undelivered")
        screen = await opened(driver)
        lines = [line.strip(" ▌") for line in driver.text.split("\n")]
        heads = [line for line in lines if line[:1] in {"●", "◌", "?", "×", "✓"}]
        assert [line.split()[1] for line in heads] == ["sending", "pending", "unknown", "failed", "sent"]
        assert [line.split()[0] for line in heads] == ["●", "◌", "?", "×", "✓"]
        assert "telegram group:lab" in heads[0]
        assert "1 try, again in 1h" in heads[1] or "1 try, again in 59m" in heads[1]
        for reason in ("discord is busy: slow down", "only the channel knows", "discord refused the text: too long"):
            assert reason in driver.text
        assert "! 2 undelivered  5" in lines[0]
        assert "five" in driver.text.split("TEXT")[1]
        await driver.press("G")
        assert screen.list.current is not None
        assert screen.list.current.text == "one"
        assert "one" in driver.text.split("TEXT")[1]
        hold.set()


@pytest.mark.spec("S11")
async def test_a_retry_is_seen_to_succeed(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Refuse("too long"))
        await announce(driver, "hello all", "failed")
        await opened(driver)
        await driver.press("r")
        await driver.shows("✓ sent", "2 tries")
        await told(driver, "the announce of ops to discord group:ops is tried again")
        assert sink.texts() == ["hello all"]
        await driver.press("escape")
        await driver.until(lambda: "undelivered" not in driver.text)


@pytest.mark.spec("S11")
async def test_a_failed_one_is_dropped_at_once(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Refuse("too long"))
        await announce(driver, "hello all", "failed")
        await opened(driver)
        await driver.press("x")
        await driver.shows("⊘ skipped", "dropped by the operator")
        await told(driver, "is dropped")
        assert sink.texts() == []


@pytest.mark.spec("S11")
@pytest.mark.parametrize(("key", "end", "taken"), [("r", "sent", 2), ("x", "skipped", 1)])
async def test_what_may_have_arrived_is_asked_about_first(state: Path, key: str, end: str, taken: int) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Die())
        found = await announce(driver, "hello all", "unknown")
        await opened(driver)
        await driver.press(key)
        assert isinstance(driver.app.screen, Confirm)
        await driver.shows("Nobody knows whether it arrived", "ops to discord group:ops")
        await driver.press("escape")
        assert known(driver) == [found], "nothing was done"
        await driver.press(key, "y")
        await driver.until(lambda: known(driver)[0].state == end)
        assert len(sink.taken) == taken


@pytest.mark.parametrize(("answer", "state_", "why"), [("sent", "sent", "it is sent"), ("hold", "sending", "wait for")])
async def test_what_is_over_or_under_way_says_so(state: Path, answer: str, state_: str, why: str) -> None:
    hold = asyncio.Event()
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Accept() if answer == "sent" else Hold(hold))
        await announce(driver, "hello", state_)
        await opened(driver)
        for key in ("r", "x"):
            page(driver).say("")
            await driver.press(key)
            assert why in page(driver).notice.text
            assert driver.app.screen is page(driver)
        assert "retry" not in driver.text.split("\n")[-1]
        hold.set()


async def test_a_skipped_one_is_final(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        sink.script(Refuse("no"))
        await announce(driver, "hello", "failed")
        await opened(driver)
        await driver.press("x")
        await driver.shows("⊘ skipped")
        await driver.press("r")
        assert "that is final" in page(driver).notice.text


async def test_a_reader_sees_all_and_is_told_whose_they_are(state: Path) -> None:
    async with ChannelSink() as sink:
        sink.script(Refuse("too long"))
        async with desk_with(state, sink) as driver:
            await announce(driver, "hello", "failed")
        async with running(state), console(state, live=False) as driver:
            await driver.until(lambda: driver.standing and known(driver))
            await opened(driver)
            assert "discord refused the text: too long" in driver.text
            for key in ("r", "x"):
                page(driver).say("")
                await driver.press(key)
                assert "owned by" in page(driver).notice.text


async def test_enter_goes_to_the_session(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        await send(driver.runtime, LAB, "hello")
        await announce(driver, "one", "sent")
        await announce(driver, "two", "sent", LAB)
        await opened(driver)
        await driver.press("j", "enter")
        assert driver.app.screen is driver.screen
        assert driver.selected == OPS


async def test_words_narrow_the_list_and_escape_shows_all(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        await send(driver.runtime, LAB, "hello")
        sink.script(Refuse("too long"))
        await announce(driver, "prices of spring", "failed")
        await announce(driver, "two", "sent", LAB)
        screen = await opened(driver)
        for needle, count in (("failed", 1), ("LONG", 1), ("telegram", 1), ("spring ops", 1), ("group", 2)):
            await driver.press("slash")
            await driver.write(needle)
            assert (screen.list.count, screen.list.total) == (count, 2), needle
            assert f"/{needle}" in driver.text
            await driver.press("enter")
            assert screen.list.has_focus
            await driver.press("escape")
            assert screen.list.count == 2
        await driver.press("slash")
        await driver.write("nothing like it")
        await driver.shows("No delivery holds these words.", "0 of 2")
        await driver.press("escape", "escape")
        assert driver.app.screen is driver.screen


async def test_the_cursor_stays_on_its_delivery_when_others_come(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink) as driver:
        await announce(driver, "one", "sent")
        screen = await opened(driver)
        await announce(driver, "two", "sent")
        await driver.until(lambda: screen.list.count == 2)
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
    async with console(state, CONFIG, agent=agent, channels={"discord": _Hostile()}, size=size) as driver:
        await send(driver.runtime, MAIN, "hello")
        await send(driver.runtime, key, "hello")
        await begin(driver.runtime, key, f"words {HOSTILE}", Operator(MAIN))
        await driver.until(lambda: [each.state for each in known(driver)] == ["failed"])
        await opened(driver)
        await driver.shows("[/x] [@click=app.exit]go[/] ␛[31m", "words [/x]")
        assert not {"\x1b", "\x9b", "\u202e"} & set(driver.text)
        assert known(driver)[0].key == key
        await driver.press("slash")
        await driver.write("[/")
        await driver.press("enter", "x")
        await driver.until(lambda: known(driver)[0].state == "skipped")
        await told(driver, "[@click=app.exit]x")
        await driver.press("ctrl+p")
        await driver.write("drop")
        await driver.press("escape", "escape", "escape")
        assert driver.app.return_code is None


async def test_a_long_text_is_cut_and_says_so(state: Path) -> None:
    async with ChannelSink() as sink, desk_with(state, sink, (80, 24)) as driver:
        await announce(driver, "word " * 5000 + "end", "sent")
        await opened(driver)
        await driver.press("tab", "end")
        await driver.shows("5,003 more characters stand in the session's transcript")


async def test_the_help_lists_its_keys(state: Path) -> None:
    async with console(state) as driver:
        await opened(driver)
        await driver.press("question_mark")
        await driver.shows("Send it again", "there is no delivery here", "Go back to the sessions")


async def test_the_keys_of_the_screen_are_the_operators(state: Path) -> None:
    sink_config = CONFIG[:-1] + ", console: { keymap: { retry: 'ctrl+t', drop: 'z', filter: 'f' } } }"
    async with console(state, sink_config, agent=Agent(announces)) as driver:
        await send(driver.runtime, MAIN, "hello")
        await send(driver.runtime, OPS, "hello")
        await driver.until(lambda: driver.order[-1:] == [MAIN])
        await announce(driver, "nobody takes this", "failed")
        await opened(driver)
        await driver.shows("^t retry", "z drop", "f filter")
        await driver.press("x", "r")
        await told(driver, "r does nothing here")
        await driver.press("question_mark")
        await driver.shows("^t        Send it again", "z         Give it up")
        await driver.press("escape", "ctrl+p")
        await driver.write("drop")
        await driver.shows("z  Give it up")
        await driver.press("escape", "z")
        await driver.until(lambda: known(driver)[0].state == "skipped")


def test_a_key_that_two_actions_of_one_screen_have_is_refused() -> None:
    for keymap, words in (
        ({"drop": "r"}, 'console.keymap.drop is "r", which retry has'),
        ({"retry": "d"}, 'console.keymap.retry is "d", which disconnect has'),
        ({"drp": "z"}, 'console.keymap.drp is no action; did you mean "drop"?'),
    ):
        assert check(ConsoleSettings(keymap=keymap)).problems[0].startswith(words)
    assert check(ConsoleSettings(keymap={"drop": "s"})).problems == (), "another screen has that key, not this one"
