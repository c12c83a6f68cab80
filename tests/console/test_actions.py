"""Every action of the table does what its help says, in the gateway too, or says why it does not (console#keys)."""

import stat
from collections import Counter
from pathlib import Path

import pytest

from console.actions import ACTIONS, Pane
from console.screens.help import Help
from console.screens.search import SearchDialog
from console.screens.send import SendDialog
from console.screens.spawn import SpawnDialog
from console.screens.viewer import Viewer
from console.screens.watch.screen import COMMANDS
from console.widgets.line_list import LineList
from console.widgets.transcript_view import TranscriptView
from core.model.access import ALL
from tests.console.driver import CRON, MAIN, OPS, console
from tests.support.runtimes import begin, running, send
from tests.support.screens import bound_keys


def keys_of(action_id: str) -> list[str]:
    """Return the keys of an action."""
    return next(action for action in ACTIONS if action.id == action_id).keys.split(",")


def key_of(action_id: str) -> str:
    """Return the first key of an action."""
    return keys_of(action_id)[0]


# The table


def test_every_action_has_a_method_and_is_unique() -> None:
    for action in ACTIONS:
        name = f"do_{action.id.replace('-', '_')}"
        (method,) = (getattr(commands, name) for commands in COMMANDS if hasattr(commands, name))
        assert callable(method)
        assert action.title
        assert action.help
    methods = {name.removeprefix("do_") for commands in COMMANDS for name in dir(commands) if name.startswith("do_")}
    assert methods == {action.id.replace("-", "_") for action in ACTIONS}
    assert max(Counter(action.id for action in ACTIONS).values()) == 1


@pytest.mark.parametrize("widget", [LineList, TranscriptView])
def test_no_key_has_two_meanings_in_a_pane(widget: type[LineList] | type[TranscriptView]) -> None:
    screen = Counter(key for action in ACTIONS for key in action.keys.split(","))
    assert [key for key, count in screen.items() if count > 1] == []
    moving = bound_keys(widget)
    assert "j" in moving
    # Enter goes in from the list and folds in the transcript; both are the one meaning of that pane.
    assert moving & set(screen) <= {"enter"}


# Disabled: it says why


async def test_without_a_session_every_disabled_action_says_why(state: Path) -> None:
    async with console(state) as driver:
        refused = 0
        for action in ACTIONS:
            reason = action.enabled(driver.screen.position.state)
            if reason is not None:
                driver.screen.say("")
                await driver.press(key_of(action.id))
                assert driver.notice == reason
                assert driver.app.screen is driver.screen
                refused += 1
        assert refused > 10
        assert not driver.app.view_model.book.rows


@pytest.mark.parametrize("pane", ["list", "transcript"])
async def test_a_reader_is_refused_every_change_with_the_owners_name(fleet: Path, pane: Pane) -> None:
    async with running(fleet) as owner, console(fleet, live=False) as driver:
        await driver.until(lambda: driver.standing)
        assert "test" in driver.standing
        if pane == "transcript":
            await driver.press("enter")
        before = [await owner.get_session(key, ALL) for key in (MAIN, OPS, CRON)]
        for action_id in ("write", "send", "spawn", "policy", "abort", "archive", "label", "reset"):
            driver.screen.say("")
            await driver.press(key_of(action_id))
            assert "owned by" in driver.notice, action_id
            assert "test" in driver.notice
            assert driver.app.screen is driver.screen
        assert [await owner.get_session(key, ALL) for key in (MAIN, OPS, CRON)] == before


async def test_an_idle_session_has_nothing_to_abort(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press(key_of("abort"))
        assert driver.notice == "ops is not at work"


async def test_a_second_transcript_needs_room(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press(key_of("tile"))
        assert "160 columns" in driver.notice


# Going about


async def test_open_and_back(fleet: Path) -> None:
    async with console(fleet) as driver:
        assert (driver.selected, driver.screen.position.pane) == (OPS, "list")
        await driver.press("enter")
        assert driver.screen.position.pane == "transcript"
        await driver.press("i")
        assert driver.screen.position.pane == "composer"
        await driver.press("escape")
        assert driver.screen.position.pane == "transcript"
        await driver.press("escape")
        assert driver.screen.position.pane == "list"


async def test_panes_go_round(fleet: Path) -> None:
    async with console(fleet) as driver:
        panes = [driver.screen.position.pane]
        for _ in range(3):
            await driver.press("tab")
            panes.append(driver.screen.position.pane)
        assert panes == ["list", "transcript", "composer", "list"]
        for pane in ("composer", "transcript", "list"):
            await driver.press("shift+tab")
            assert driver.screen.position.pane == pane


async def test_moving_opens_the_session_under_the_cursor(fleet: Path) -> None:
    async with console(fleet) as driver:
        assert driver.order == [OPS, MAIN, CRON]
        for key, expected in (
            ("j", MAIN),
            ("down", CRON),
            ("down", CRON),
            ("k", MAIN),
            ("up", OPS),
            ("G", CRON),
            ("g", OPS),
        ):
            await driver.press(key)
            assert driver.selected == expected
            await driver.until(lambda expected=expected: driver.screen.parts.main.key == expected)
        await driver.press("end")
        assert driver.selected == CRON
        await driver.press("home")
        assert driver.selected == OPS


async def test_previous_and_next_session_work_from_the_transcript(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("enter", "right_square_bracket")
        await driver.until(lambda: driver.screen.parts.main.key == MAIN)
        assert driver.screen.position.pane == "transcript"
        await driver.shows("welcome")
        await driver.press("left_square_bracket")
        await driver.until(lambda: driver.screen.parts.main.key == OPS)


async def test_urgent_goes_to_what_failed_unseen(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("exclamation_mark")
        assert driver.notice == "nothing has failed since you looked"
        await send(driver.runtime, CRON, "fail: the disk is full")
        await driver.until(lambda: driver.app.view_model.book.rows[CRON].look == "failed")
        await driver.press("exclamation_mark")
        assert driver.selected == CRON
        await driver.shows("the disk is full")
        await driver.until(lambda: driver.screen.parts.main.key == CRON)
        await driver.press("exclamation_mark")
        assert driver.notice == "nothing has failed since you looked"


async def test_order(fleet: Path) -> None:
    async with console(fleet) as driver:
        seen: list[list[str]] = []
        for _ in range(5):
            seen.append(driver.order)
            await driver.press("O")
        assert seen[0] == driver.order == [OPS, MAIN, CRON]
        assert seen[2] == [CRON, MAIN, OPS]  # by name: cron:nightly, main, ops
        await driver.press("O", "O")
        await driver.shows("by name")


async def test_tile_keeps_a_transcript_beside_the_next(fleet: Path) -> None:
    async with console(fleet, size=(200, 50)) as driver:
        await driver.press("v")
        await driver.until(lambda: driver.screen.parts.second is not None and driver.screen.parts.second.key == OPS)
        await driver.select(MAIN)
        await driver.shows("standby", "welcome")
        await send(driver.runtime, OPS, "say beside")
        await driver.shows("beside")
        await driver.press("v")
        assert driver.screen.parts.second is None
        await driver.until(lambda: "beside" not in driver.text.replace("say beside", ""))
        assert set(driver.app.view_model.transcripts.opened) == {MAIN}


# Acting


async def test_policy_goes_round_and_says_why(fleet: Path) -> None:
    deny = '{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord", chatType: "group"}}]}}}'
    async with console(fleet, deny) as driver:
        await driver.shows("⊘ deny by rule 1: discord · group")
        await driver.press("p")
        await driver.said("ops: allow, so allow (override)")
        assert (await driver.session(OPS)).send_policy == "allow"
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].session.send_policy == "allow")
        await driver.press("p")
        await driver.said("ops: deny, so deny (override)")
        assert (await driver.session(OPS)).send_policy == "deny"
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].session.send_policy == "deny")
        await driver.press("p")
        await driver.said("ops: inherit, so deny (rule 1: discord · group)")
        assert (await driver.session(OPS)).send_policy is None


async def test_archive_and_back(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("x")
        await driver.said("ops: archived")
        assert (await driver.session(OPS)).archived_at is not None
        await driver.until(lambda: driver.order == [MAIN, CRON])
        await driver.press("A")
        assert driver.order == [OPS]
        await driver.shows("archived, by attention")
        await driver.until(lambda: driver.selected == OPS)
        await driver.press("x")
        await driver.said("ops: back in the list")
        assert (await driver.session(OPS)).archived_at is None
        await driver.until(lambda: driver.order == [])
        await driver.shows("Nothing is archived.")
        await driver.press("A")
        assert driver.order == [OPS, MAIN, CRON]


async def test_label(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("j", "L")  # before the transcript of the session under the cursor is open
        await driver.until(lambda: (driver.screen.position.pane, driver.composer.text) == ("composer", "/label "))
        await driver.write("the front door")
        await driver.press("enter")
        await driver.until(lambda: driver.app.view_model.book.rows[MAIN].name == "the front door")
        assert (await driver.session(MAIN)).label == "the front door"
        assert (await driver.session(OPS)).label is None


async def test_reset_asks_and_says_what_is_lost(fleet: Path) -> None:
    async with console(fleet) as driver:
        old = await driver.session(OPS)
        await driver.press("R")
        await driver.shows("forgets 2 messages")
        await driver.press("escape")
        assert (await driver.session(OPS)).session_id == old.session_id
        await driver.press("R")
        await driver.press("y")
        said = await driver.said("a new transcript")
        assert old.session_id in said
        assert (await driver.session(OPS)).session_id != old.session_id
        await driver.until(lambda: "standby" not in driver.text)
        assert [m.text for m in (await driver.runtime.history(old.session_id, ALL, limit=9)).messages][-1] == "standby"


async def test_abort_keeps_what_was_said_and_drops_the_queued(fleet: Path) -> None:
    async with console(fleet) as driver:
        await begin(driver.runtime, OPS, "be slow 600")
        await begin(driver.runtime, OPS, "say later")
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].words.startswith("1 2"))
        await driver.press("a")
        await driver.shows("Aborting stops its 2 runs; what was said")
        await driver.press("y")
        await driver.said("2 runs stopped, what was said is kept")
        await driver.until(lambda: not driver.runtime.active_runs)
        words = await driver.words(OPS)
        assert any(role == "assistant" and text.startswith("1 2") for role, text in words)
        assert ("assistant", "later") not in words
        assert (await driver.session(OPS)).status == "aborted"


async def test_export_writes_a_private_file_once(fleet: Path, tmp_path: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("e")
        await driver.said("written to")
        written = list(tmp_path.glob("agent-main-discord-group-ops-*"))
        assert len(written) == 1
        assert stat.S_IMODE(written[0].stat().st_mode) == 0o600
        text = written[0].read_text(encoding="utf-8")
        assert "say standby" in text
        assert "standby" in text
        await driver.press("e")
        await driver.said("exists already")
        assert written[0].read_text(encoding="utf-8") == text


# Reading


async def test_filter_narrows_says_when_nothing_matches_and_goes(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("slash")
        await driver.write("nig")
        assert driver.order == [CRON]
        await driver.shows("/nig", "1 of 3")
        await driver.write("zzz")
        assert driver.order == []
        await driver.shows("0 of 3", "No session holds these words.", "esc all sessions")
        await driver.press("escape")
        assert driver.order == [OPS, MAIN, CRON]
        assert driver.screen.position.pane == "list"


async def test_a_filter_stays_when_the_list_is_entered(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("slash")
        await driver.write("main")
        await driver.press("enter")
        assert driver.screen.position.pane == "list"
        await driver.until(lambda: driver.selected == OPS)
        await driver.press("j")
        assert driver.selected == MAIN
        await driver.press("escape")
        assert len(driver.order) == 3
        assert driver.selected == MAIN


async def test_find_in_a_transcript(fleet: Path) -> None:
    async with console(fleet) as driver:
        for words in ("needle one", "hay", "needle two", "hay again"):
            await send(driver.runtime, OPS, f"say {words}")
        await driver.open(OPS)
        await driver.press("slash")
        await driver.write("needle")
        await driver.press("enter")
        await driver.said("match 1 of 4")
        newest = driver.screen.parts.main.view.cursor
        await driver.press("enter", "enter")
        await driver.said("match 3 of 4")
        assert newest is not None
        assert driver.screen.parts.main.view.cursor == newest - 4
        await driver.press("enter", "enter")
        await driver.said("match 1 of 4", "from the newest again")
        for _ in range(6):
            await driver.press("backspace")
        await driver.write("nowhere")
        await driver.press("enter")
        await driver.said("nothing here holds nowhere")
        await driver.press("escape")
        assert driver.screen.position.pane == "transcript"


async def test_search_goes_to_the_message(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("S")
        assert isinstance(driver.app.screen, SearchDialog)
        await driver.write("zzz")
        await driver.shows("nothing holds these words")
        await driver.press("backspace", "backspace", "backspace")
        await driver.write("welc")
        await driver.shows("welcome")
        await driver.press("enter")
        await driver.until(lambda: driver.screen.parts.main.key == MAIN)
        assert driver.selected == MAIN
        assert driver.screen.position.pane == "transcript"
        item = driver.screen.parts.main.view.current
        assert item is not None
        assert item.text == "welcome"


async def test_arrows_move_in_the_hits_while_words_are_written(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, OPS, "say welcome")
        await driver.press("S")
        await driver.write("welcome")
        hits = driver.app.screen.query_one(LineList)
        await driver.until(lambda: hits.count > 1)
        await driver.press("down", "down", "up", "enter")
        await driver.until(lambda: driver.screen.parts.main.key == OPS)
        item = driver.screen.parts.main.view.current
        assert item is not None
        assert item.text == "say welcome", "the second newest, for the reply holds the word too"


async def test_tools_fold_and_unfold(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, OPS, "list sessions")
        await driver.open(OPS)
        await driver.shows("sessions_list")
        assert '"count"' not in driver.text
        await driver.press("t")
        await driver.shows('"count"')
        await driver.press("t")
        await driver.until(lambda: '"count"' not in driver.text)


async def test_thinking_shows_and_hides(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, OPS, "think about prices")
        await driver.open(OPS)
        await driver.shows("About prices")
        assert "Nothing here can know" not in driver.text
        await driver.press("T")
        await driver.shows("Nothing here can know")
        await driver.press("T")
        await driver.until(lambda: "Nothing here can know" not in driver.text)


async def test_open_whole_shows_a_message_in_full(fleet: Path) -> None:
    async with console(fleet) as driver:
        await send(driver.runtime, OPS, "say " + "\n\n".join(f"line {n}" for n in range(200)))
        await driver.open(OPS)
        await driver.until(lambda: driver.screen.parts.main.view.current)
        await driver.press("o")
        await driver.until(lambda: isinstance(driver.app.screen, Viewer))
        await driver.shows("line 0")
        await driver.press("G")
        await driver.shows("line 199")
        await driver.press("escape")
        assert driver.app.screen is driver.screen


async def test_copy_is_the_text_and_copy_code_the_code(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.open(OPS)
        await driver.press("c")
        assert driver.app.clipboard == "standby"
        assert driver.notice == "copied 7 characters"
        await driver.press("C")
        assert driver.notice == "there is no code block in this message"
        await send(driver.runtime, OPS, "show markdown")
        await driver.shows("def pick(regions):")
        await driver.press("C")
        assert (
            driver.app.clipboard == "def pick(regions):\n    return min(regions, key=lambda region: region.latency)\n"
        )


async def test_help_lists_all_actions_with_reasons(fleet: Path) -> None:
    async with console(fleet, size=(120, 60)) as driver:
        await driver.press("question_mark")
        assert isinstance(driver.app.screen, Help)
        for action in ACTIONS:
            assert action.help in driver.text
        assert "ops is not at work" in driver.text
        await driver.press("question_mark")
        assert driver.app.screen is driver.screen


async def test_the_palette_does_what_it_offers(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("ctrl+p")
        await driver.write("archived")
        await driver.shows("Show the archived sessions")
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.view_model.book.placement.archived)


async def test_the_dialogs_open_and_escape_closes_them(fleet: Path) -> None:
    async with console(fleet) as driver:
        for key, dialog in (("s", SendDialog), ("n", SpawnDialog)):
            await driver.press(key)
            await driver.until(lambda dialog=dialog: isinstance(driver.app.screen, dialog))
            await driver.press("escape")
            assert driver.app.screen is driver.screen


async def test_f5_says_that_the_configuration_is_in_use(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("f5")
        assert "the configuration was read again and is in use" in driver.notice


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
async def test_quit_leaves_at_once_when_nothing_is_at_work(fleet: Path, key: str) -> None:
    async with console(fleet) as driver:
        await driver.press(key)
        assert driver.app.return_code is not None
