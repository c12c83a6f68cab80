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
    async with console(state) as desk:
        refused = 0
        for action in ACTIONS:
            reason = action.enabled(desk.screen.position.state)
            if reason is not None:
                desk.screen.say("")
                await desk.press(key_of(action.id))
                assert desk.notice == reason
                assert desk.app.screen is desk.screen
                refused += 1
        assert refused > 10
        assert not desk.app.view_model.book.rows


@pytest.mark.parametrize("pane", ["list", "transcript"])
async def test_a_reader_is_refused_every_change_with_the_owners_name(fleet: Path, pane: Pane) -> None:
    async with running(fleet) as owner, console(fleet, live=False) as desk:
        await desk.until(lambda: desk.standing)
        assert "test" in desk.standing
        if pane == "transcript":
            await desk.press("enter")
        before = [await owner.get_session(key, ALL) for key in (MAIN, OPS, CRON)]
        for action_id in ("write", "send", "spawn", "policy", "abort", "archive", "label", "reset"):
            desk.screen.say("")
            await desk.press(key_of(action_id))
            assert "owned by" in desk.notice, action_id
            assert "test" in desk.notice
            assert desk.app.screen is desk.screen
        assert [await owner.get_session(key, ALL) for key in (MAIN, OPS, CRON)] == before


async def test_an_idle_session_has_nothing_to_abort(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press(key_of("abort"))
        assert desk.notice == "ops is not at work"


async def test_a_second_transcript_needs_room(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press(key_of("tile"))
        assert "160 columns" in desk.notice


# Going about


async def test_open_and_back(fleet: Path) -> None:
    async with console(fleet) as desk:
        assert (desk.selected, desk.screen.position.pane) == (OPS, "list")
        await desk.press("enter")
        assert desk.screen.position.pane == "transcript"
        await desk.press("i")
        assert desk.screen.position.pane == "composer"
        await desk.press("escape")
        assert desk.screen.position.pane == "transcript"
        await desk.press("escape")
        assert desk.screen.position.pane == "list"


async def test_panes_go_round(fleet: Path) -> None:
    async with console(fleet) as desk:
        panes = [desk.screen.position.pane]
        for _ in range(3):
            await desk.press("tab")
            panes.append(desk.screen.position.pane)
        assert panes == ["list", "transcript", "composer", "list"]
        for pane in ("composer", "transcript", "list"):
            await desk.press("shift+tab")
            assert desk.screen.position.pane == pane


async def test_moving_opens_the_session_under_the_cursor(fleet: Path) -> None:
    async with console(fleet) as desk:
        assert desk.order == [OPS, MAIN, CRON]
        for key, expected in (
            ("j", MAIN),
            ("down", CRON),
            ("down", CRON),
            ("k", MAIN),
            ("up", OPS),
            ("G", CRON),
            ("g", OPS),
        ):
            await desk.press(key)
            assert desk.selected == expected
            await desk.until(lambda expected=expected: desk.screen.parts.main.key == expected)
        await desk.press("end")
        assert desk.selected == CRON
        await desk.press("home")
        assert desk.selected == OPS


async def test_previous_and_next_session_work_from_the_transcript(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("enter", "right_square_bracket")
        await desk.until(lambda: desk.screen.parts.main.key == MAIN)
        assert desk.screen.position.pane == "transcript"
        await desk.shows("welcome")
        await desk.press("left_square_bracket")
        await desk.until(lambda: desk.screen.parts.main.key == OPS)


async def test_urgent_goes_to_what_failed_unseen(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("exclamation_mark")
        assert desk.notice == "nothing has failed since you looked"
        await send(desk.runtime, CRON, "fail: the disk is full")
        await desk.until(lambda: desk.app.view_model.book.rows[CRON].look == "failed")
        await desk.press("exclamation_mark")
        assert desk.selected == CRON
        await desk.shows("the disk is full")
        await desk.until(lambda: desk.screen.parts.main.key == CRON)
        await desk.press("exclamation_mark")
        assert desk.notice == "nothing has failed since you looked"


async def test_order(fleet: Path) -> None:
    async with console(fleet) as desk:
        seen: list[list[str]] = []
        for _ in range(5):
            seen.append(desk.order)
            await desk.press("O")
        assert seen[0] == desk.order == [OPS, MAIN, CRON]
        assert seen[2] == [CRON, MAIN, OPS]  # by name: cron:nightly, main, ops
        await desk.press("O", "O")
        await desk.shows("by name")


async def test_tile_keeps_a_transcript_beside_the_next(fleet: Path) -> None:
    async with console(fleet, size=(200, 50)) as desk:
        await desk.press("v")
        await desk.until(lambda: desk.screen.parts.second is not None and desk.screen.parts.second.key == OPS)
        await desk.select(MAIN)
        await desk.shows("standby", "welcome")
        await send(desk.runtime, OPS, "say beside")
        await desk.shows("beside")
        await desk.press("v")
        assert desk.screen.parts.second is None
        await desk.until(lambda: "beside" not in desk.picture.replace("say beside", ""))
        assert set(desk.app.view_model.transcripts.opened) == {MAIN}


# Acting


async def test_policy_goes_round_and_says_why(fleet: Path) -> None:
    deny = '{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord", chatType: "group"}}]}}}'
    async with console(fleet, deny) as desk:
        await desk.shows("⊘ deny by rule 1: discord · group")
        await desk.press("p")
        await desk.said("ops: allow, so allow (override)")
        assert (await desk.session(OPS)).send_policy == "allow"
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].session.send_policy == "allow")
        await desk.press("p")
        await desk.said("ops: deny, so deny (override)")
        assert (await desk.session(OPS)).send_policy == "deny"
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].session.send_policy == "deny")
        await desk.press("p")
        await desk.said("ops: inherit, so deny (rule 1: discord · group)")
        assert (await desk.session(OPS)).send_policy is None


async def test_archive_and_back(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("x")
        await desk.said("ops: archived")
        assert (await desk.session(OPS)).archived_at is not None
        await desk.until(lambda: desk.order == [MAIN, CRON])
        await desk.press("A")
        assert desk.order == [OPS]
        await desk.shows("archived, by attention")
        await desk.until(lambda: desk.selected == OPS)
        await desk.press("x")
        await desk.said("ops: back in the list")
        assert (await desk.session(OPS)).archived_at is None
        await desk.until(lambda: desk.order == [])
        await desk.shows("Nothing is archived.")
        await desk.press("A")
        assert desk.order == [OPS, MAIN, CRON]


async def test_label(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("j", "L")  # before the transcript of the session under the cursor is open
        await desk.until(lambda: (desk.screen.position.pane, desk.composer.text) == ("composer", "/label "))
        await desk.write("the front door")
        await desk.press("enter")
        await desk.until(lambda: desk.app.view_model.book.rows[MAIN].name == "the front door")
        assert (await desk.session(MAIN)).label == "the front door"
        assert (await desk.session(OPS)).label is None


async def test_reset_asks_and_says_what_is_lost(fleet: Path) -> None:
    async with console(fleet) as desk:
        old = await desk.session(OPS)
        await desk.press("R")
        await desk.shows("forgets 2 messages")
        await desk.press("escape")
        assert (await desk.session(OPS)).session_id == old.session_id
        await desk.press("R")
        await desk.press("y")
        said = await desk.said("a new transcript")
        assert old.session_id in said
        assert (await desk.session(OPS)).session_id != old.session_id
        await desk.until(lambda: "standby" not in desk.picture)
        assert [m.text for m in (await desk.runtime.history(old.session_id, ALL, limit=9)).messages][-1] == "standby"


async def test_abort_keeps_what_was_said_and_drops_the_queued(fleet: Path) -> None:
    async with console(fleet) as desk:
        await begin(desk.runtime, OPS, "be slow 600")
        await begin(desk.runtime, OPS, "say later")
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].words.startswith("1 2"))
        await desk.press("a")
        await desk.shows("Aborting stops its 2 runs; what was said")
        await desk.press("y")
        await desk.said("2 runs stopped, what was said is kept")
        await desk.until(lambda: not desk.runtime.active_runs)
        words = await desk.words(OPS)
        assert any(role == "assistant" and text.startswith("1 2") for role, text in words)
        assert ("assistant", "later") not in words
        assert (await desk.session(OPS)).status == "aborted"


async def test_export_writes_a_private_file_once(fleet: Path, tmp_path: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("e")
        await desk.said("written to")
        written = list(tmp_path.glob("agent-main-discord-group-ops-*"))
        assert len(written) == 1
        assert stat.S_IMODE(written[0].stat().st_mode) == 0o600
        text = written[0].read_text(encoding="utf-8")
        assert "say standby" in text
        assert "standby" in text
        await desk.press("e")
        await desk.said("exists already")
        assert written[0].read_text(encoding="utf-8") == text


# Reading


async def test_filter_narrows_says_when_nothing_matches_and_goes(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("slash")
        await desk.write("nig")
        assert desk.order == [CRON]
        await desk.shows("/nig", "1 of 3")
        await desk.write("zzz")
        assert desk.order == []
        await desk.shows("0 of 3", "No session holds these words.", "esc all sessions")
        await desk.press("escape")
        assert desk.order == [OPS, MAIN, CRON]
        assert desk.screen.position.pane == "list"


async def test_a_filter_stays_when_the_list_is_entered(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("slash")
        await desk.write("main")
        await desk.press("enter")
        assert desk.screen.position.pane == "list"
        await desk.until(lambda: desk.selected == OPS)
        await desk.press("j")
        assert desk.selected == MAIN
        await desk.press("escape")
        assert len(desk.order) == 3
        assert desk.selected == MAIN


async def test_find_in_a_transcript(fleet: Path) -> None:
    async with console(fleet) as desk:
        for words in ("needle one", "hay", "needle two", "hay again"):
            await send(desk.runtime, OPS, f"say {words}")
        await desk.open(OPS)
        await desk.press("slash")
        await desk.write("needle")
        await desk.press("enter")
        await desk.said("match 1 of 4")
        newest = desk.screen.parts.main.view.cursor
        await desk.press("enter", "enter")
        await desk.said("match 3 of 4")
        assert newest is not None
        assert desk.screen.parts.main.view.cursor == newest - 4
        await desk.press("enter", "enter")
        await desk.said("match 1 of 4", "from the newest again")
        for _ in range(6):
            await desk.press("backspace")
        await desk.write("nowhere")
        await desk.press("enter")
        await desk.said("nothing here holds nowhere")
        await desk.press("escape")
        assert desk.screen.position.pane == "transcript"


async def test_search_goes_to_the_message(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("S")
        assert isinstance(desk.app.screen, SearchDialog)
        await desk.write("zzz")
        await desk.shows("nothing holds these words")
        await desk.press("backspace", "backspace", "backspace")
        await desk.write("welc")
        await desk.shows("welcome")
        await desk.press("enter")
        await desk.until(lambda: desk.screen.parts.main.key == MAIN)
        assert desk.selected == MAIN
        assert desk.screen.position.pane == "transcript"
        item = desk.screen.parts.main.view.current
        assert item is not None
        assert item.text == "welcome"


async def test_arrows_move_in_the_hits_while_words_are_written(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, OPS, "say welcome")
        await desk.press("S")
        await desk.write("welcome")
        hits = desk.app.screen.query_one(LineList)
        await desk.until(lambda: hits.count > 1)
        await desk.press("down", "down", "up", "enter")
        await desk.until(lambda: desk.screen.parts.main.key == OPS)
        item = desk.screen.parts.main.view.current
        assert item is not None
        assert item.text == "say welcome", "the second newest, for the reply holds the word too"


async def test_tools_fold_and_unfold(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, OPS, "list sessions")
        await desk.open(OPS)
        await desk.shows("sessions_list")
        assert '"count"' not in desk.picture
        await desk.press("t")
        await desk.shows('"count"')
        await desk.press("t")
        await desk.until(lambda: '"count"' not in desk.picture)


async def test_thinking_shows_and_hides(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, OPS, "think about prices")
        await desk.open(OPS)
        await desk.shows("About prices")
        assert "Nothing here can know" not in desk.picture
        await desk.press("T")
        await desk.shows("Nothing here can know")
        await desk.press("T")
        await desk.until(lambda: "Nothing here can know" not in desk.picture)


async def test_open_whole_shows_a_message_in_full(fleet: Path) -> None:
    async with console(fleet) as desk:
        await send(desk.runtime, OPS, "say " + "\n\n".join(f"line {n}" for n in range(200)))
        await desk.open(OPS)
        await desk.until(lambda: desk.screen.parts.main.view.current)
        await desk.press("o")
        await desk.until(lambda: isinstance(desk.app.screen, Viewer))
        await desk.shows("line 0")
        await desk.press("G")
        await desk.shows("line 199")
        await desk.press("escape")
        assert desk.app.screen is desk.screen


async def test_copy_is_the_text_and_copy_code_the_code(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.open(OPS)
        await desk.press("c")
        assert desk.app.clipboard == "standby"
        assert desk.notice == "copied 7 characters"
        await desk.press("C")
        assert desk.notice == "there is no code block in this message"
        await send(desk.runtime, OPS, "show markdown")
        await desk.shows("def pick(regions):")
        await desk.press("C")
        assert desk.app.clipboard == "def pick(regions):\n    return min(regions, key=lambda region: region.latency)\n"


async def test_help_lists_all_actions_with_reasons(fleet: Path) -> None:
    async with console(fleet, size=(120, 60)) as desk:
        await desk.press("question_mark")
        assert isinstance(desk.app.screen, Help)
        for action in ACTIONS:
            assert action.help in desk.picture
        assert "ops is not at work" in desk.picture
        await desk.press("question_mark")
        assert desk.app.screen is desk.screen


async def test_the_palette_does_what_it_offers(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("ctrl+p")
        await desk.write("archived")
        await desk.shows("Show the archived sessions")
        await desk.press("down", "enter")
        await desk.until(lambda: desk.app.view_model.book.placement.archived)


async def test_the_dialogs_open_and_escape_closes_them(fleet: Path) -> None:
    async with console(fleet) as desk:
        for key, dialog in (("s", SendDialog), ("n", SpawnDialog)):
            await desk.press(key)
            await desk.until(lambda dialog=dialog: isinstance(desk.app.screen, dialog))
            await desk.press("escape")
            assert desk.app.screen is desk.screen


async def test_f5_says_that_the_configuration_is_in_use(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("f5")
        assert "the configuration was read again and is in use" in desk.notice


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
async def test_quit_leaves_at_once_when_nothing_is_at_work(fleet: Path, key: str) -> None:
    async with console(fleet) as desk:
        await desk.press(key)
        assert desk.app.return_code is not None
