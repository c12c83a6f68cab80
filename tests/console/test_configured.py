"""The configuration's `console` section, a configuration that is broken, small terminals, and plain ones."""

from pathlib import Path

import pytest

from console.actions import ACTIONS
from console.alarm import Alarm
from console.cli.parser import run
from console.live.rows import Row, read_row
from console.preferences import check
from console.themes import DEFAULT_THEME
from core.config.load import load
from core.config.settings import ConsoleSettings
from core.model.errors import Invalid
from core.model.runs import RunState
from tests.console.driver import CRON, MAIN, OPS, Agent, console, places
from tests.model.test_sessions import FULL
from tests.support.runtimes import begin, send
from tests.support.screens import strips_of

# The section


def test_what_the_section_means(state: Path) -> None:
    words = '{console: {theme: "nord", keymap: {send: "z"}, bell: false}}'
    assert load(places(state, words), {}).console == ConsoleSettings("nord", {"send": "z"}, bell=False)
    assert load(places(state, "{}"), {}).console == ConsoleSettings() == ConsoleSettings(None, {}, bell=True)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('{bell: "yes"}', 'line 1: console.bell is "yes": expected true or false'),
        ("{theme: 3}", "console.theme is 3: expected text in quotes"),
        ("{keymap: {send: 1}}", "console.keymap.send is 1: expected text in quotes"),
        ("{keymaps: {}}", 'console.keymaps is not known; did you mean "keymap"?'),
    ],
)
def test_a_section_that_cannot_be_meant(state: Path, section: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        load(places(state, f"{{console: {section}}}"), {})
    assert words in caught.value.message


# Colours


@pytest.mark.parametrize("theme", ["switchboard-light", "switchboard-ansi", "nord"])
async def test_a_theme_is_used(fleet: Path, theme: str) -> None:
    async with console(fleet, f'{{console: {{theme: "{theme}"}}}}') as driver:
        assert driver.app.theme == theme
        await driver.shows("standby")


async def test_an_unknown_theme_says_the_nearest_and_the_console_goes_on(fleet: Path) -> None:
    async with console(fleet, '{console: {theme: "switchboard-lihgt"}}') as driver:
        file = places(fleet).config
        assert driver.notice == (
            f'{file}: console.theme is "switchboard-lihgt", which is no theme; did you mean "switchboard-light"?'
        )
        assert driver.app.theme == DEFAULT_THEME


# Keys


async def test_a_keymap_works_and_shows(fleet: Path) -> None:
    async with console(fleet, '{console: {keymap: {archive: "z", policy: "ctrl+y, U"}}}', size=(120, 60)) as driver:
        await driver.shows("^y U policy")
        await driver.press("x", "p")
        assert (await driver.session(OPS)).archived_at is None
        await driver.press("U")
        await driver.said("ops: allow")
        await driver.press("question_mark")
        await driver.shows("z         Archive the session", "^y U      Send policy")
        await driver.press("escape", "z")
        await driver.said("ops: archived")
        assert (await driver.session(OPS)).archived_at is not None


async def test_two_actions_may_change_places(fleet: Path) -> None:
    async with console(fleet, '{console: {keymap: {send: "n", spawn: "s"}}}') as driver:
        assert driver.notice == "" or "console.keymap" not in driver.notice
        await driver.press("n")
        await driver.shows("send a message")
        await driver.press("escape", "s")
        await driver.shows("start a sub-agent")


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({"archve": "z"}, 'console.keymap.archve is no action; did you mean "archive"?'),
        ({"archive": ""}, "console.keymap.archive is empty"),
        ({"archive": "contrl+z"}, 'console.keymap.archive is "contrl+z", which is no key'),
        ({"archive": "s"}, 'console.keymap.archive is "s", which send has'),
        ({"archive": "j"}, 'console.keymap.archive is "j", which moves'),
        ({"archive": "z", "label": "z"}, 'console.keymap.archive is "z", which label has'),
        ({"[/x]": "z"}, "console.keymap.[/x] is no action"),
    ],
)
def test_a_keymap_that_cannot_be_is_said_and_left_out(keymap: dict[str, str], words: str) -> None:
    chosen = check(ConsoleSettings(keymap={**keymap, "reset": "ctrl+r"}))
    assert chosen.problems[0].startswith(words)
    assert chosen.keymap == {"reset": "ctrl+r"}
    assert [action.keys for action in chosen.actions if action.id == "reset"] == ["ctrl+r"]
    assert [a for a in chosen.actions if a.id != "reset"] == [a for a in ACTIONS if a.id != "reset"]


def test_an_action_whose_new_key_is_refused_keeps_its_old_one() -> None:
    # Were spawn moved away, send could have its key; it is not.
    chosen = check(ConsoleSettings(keymap={"spawn": "nokey+x", "send": "n"}))
    assert [said.split(" is ")[0] for said in chosen.problems] == ["console.keymap.spawn", "console.keymap.send"]
    assert chosen.actions == ACTIONS


def test_doctor_says_the_same(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = places(fleet, '{console: {theme: "drak", keymap: {sned: "z"}}}').config
    assert run(["--state", str(fleet), "--config", str(file), "doctor"]) == 1
    said = capsys.readouterr().out
    for problem in check(ConsoleSettings("drak", {"sned": "z"})).problems:
        assert problem in said


# The bell


async def test_the_bell_rings_when_a_session_fails_that_nobody_looks_at(fleet: Path) -> None:
    async with console(fleet) as driver:
        assert driver.screen.parts.main.key == OPS
        await send(driver.runtime, OPS, "fail: in view")
        await driver.shows("in view")
        await driver.at_rest()
        assert driver.bells == 0
        await send(driver.runtime, CRON, "fail: unseen")
        await driver.until(lambda: driver.bells == 1)


async def test_the_bell_can_be_turned_off(fleet: Path) -> None:
    async with console(fleet, "{console: {bell: false}}") as driver:
        await send(driver.runtime, CRON, "fail: unseen")
        await driver.until(lambda: driver.app.view_model.book.rows[CRON].look == "failed")
        await driver.shows("1 failed")
        assert driver.bells == 0


def test_the_alarm_rings_once_for_a_failure_and_once_a_second() -> None:
    def row(key: str, ended_at: int, status: RunState = "error") -> Row:
        session = FULL._replace(key=key, status=status, ended_at=ended_at, archived_at=None)
        return read_row(session, default_agent="main", policy=None, seen=0, words=None)

    alarm = Alarm()
    alarm.start([row("old", 1)])
    ring = alarm.rings
    assert not ring([row("old", 1)], set(), 0.0)  # known before
    assert not ring([row("a", 1, "done")], set(), 0.0)
    assert not ring([row("a", 1)], {"a"}, 0.0)  # looked at
    assert not ring([row("a", 1)], set(), 0.0)  # heard of
    assert ring([row("a", 2)], set(), 10.0)
    assert not ring([row("b", 1)], set(), 10.9)  # too soon
    assert ring([row("c", 1), row("d", 1)], set(), 11.1)
    alarm.on = False
    assert not ring([row("e", 1)], set(), 99.0)


# A configuration that is broken


async def test_a_broken_configuration_shows_the_rows_and_goes_live_once_mended(fleet: Path) -> None:
    file = places(fleet).config
    async with console(fleet, '{session: {sendPolicy: {default: "maybe"}}}', live=False) as driver:
        await driver.until(lambda: driver.standing)
        assert f"{file} line 1: session.sendPolicy.default" in driver.standing
        assert "F5" in driver.standing
        await driver.shows("ops", "cron:nightly", "standby")
        await driver.press("p")
        await driver.said("reading only")
        await driver.press("f5")
        await driver.until(lambda: "sendPolicy.default" in driver.standing)
        file.write_text("{}", encoding="utf-8")
        await driver.press("f5")
        await driver.until(lambda: driver.runtime.connection.state == "live")
        await driver.until(lambda: driver.standing == "")
        await driver.press("p")
        await driver.said("ops: allow")


# Small terminals


async def test_a_terminal_that_is_too_small_says_so_and_nothing_is_lost(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("i")
        await driver.write("half a thought")
        await driver.pilot.resize_terminal(20, 5)
        await driver.shows("20x5 is too small", "needs 40x10")
        assert "ops" not in driver.text
        await driver.press("x", "R", "y", "enter")
        await driver.pilot.resize_terminal(30, 5)
        await driver.shows("30x5 is too small")
        await driver.pilot.resize_terminal(120, 36)
        await driver.until(lambda: driver.app.screen is driver.screen)
        await driver.shows("half a thought", "say standby")
        assert driver.screen.position.pane == "composer"
        await driver.write("!")
        assert driver.composer.text == "half a thought!"
        session = await driver.session(OPS)
        assert (session.archived_at, session.last_seq) == (None, 2)


async def test_a_console_started_in_a_terminal_that_is_too_small(fleet: Path) -> None:
    async with console(fleet, size=(20, 5)) as driver:
        await driver.shows("20x5 is too small")
        await driver.pilot.resize_terminal(80, 24)
        await driver.shows("cron:nightly")
        await driver.press("q")
        assert driver.app.return_code is not None


async def test_leaving_a_terminal_that_is_too_small_ends_no_run_unasked(fleet: Path) -> None:
    agent = Agent(held=True)
    async with console(fleet, agent=agent) as driver:
        await begin(driver.runtime, OPS, "one")
        await driver.until(lambda: agent.at_work)
        await driver.pilot.resize_terminal(30, 8)
        await driver.shows("too small")
        for key in ("q", "ctrl+q", "ctrl+c"):
            await driver.press(key)
            await driver.shows("Runs are at work")
            assert driver.app.return_code is None
        agent.release()
        await driver.until(lambda: not driver.runtime.active_runs)
        await driver.press("q")
        assert driver.app.return_code is not None


async def test_a_dialog_survives_a_terminal_that_is_too_small(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("s")
        await driver.write("kept words")
        await driver.pilot.resize_terminal(20, 5)
        await driver.shows("too small")
        await driver.pilot.resize_terminal(120, 36)
        await driver.shows("kept words", "send a message")


async def test_one_pane_at_a_time_at_80_columns(fleet: Path) -> None:
    async with console(fleet, size=(80, 24)) as driver:
        await driver.shows("cron:nightly")
        assert "say standby" not in driver.text
        await driver.press("enter")
        await driver.shows("say standby")
        assert "cron:nightly" not in driver.text
        await driver.press("escape")
        await driver.shows("cron:nightly")


# Plain terminals


async def test_no_color_draws_in_greys(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console(fleet) as driver:
        await send(driver.runtime, CRON, "fail: red")
        await driver.shows("1 failed")
        strips = strips_of(driver.app)
        colours = [c for strip in strips for s in strip if s.style for c in (s.style.color, s.style.bgcolor) if c]
        assert colours
        for colour in colours:
            red, green, blue = colour.get_truecolor()
            assert max(red, green, blue) - min(red, green, blue) <= 2
        assert "×" in driver.text


@pytest.mark.parametrize("term", ["linux", "vt100"])
async def test_a_terminal_without_unicode_gets_ascii_signs(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    async with console(fleet) as driver:
        await send(driver.runtime, CRON, "fail: red")
        await driver.until(lambda: driver.app.view_model.book.rows[CRON].look == "failed")
        await driver.shows("x cron:nightly", ". main")
        for glyph in "×●◌✓▪":
            assert glyph not in "\n".join(line[:43] for line in driver.text.splitlines()[2:-1])
        assert driver.selected == OPS
        assert MAIN in driver.order
