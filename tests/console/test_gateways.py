"""Several gateways in one console: one list, one of them lost, what is refused and why, coming and going."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from console.operations import sent
from console.screens.connect import ConnectScreen
from console.screens.policy import PolicyScreen
from console.screens.spawn import SpawnDialog
from console.widgets.status import NoticeLine
from core.model.access import ALL, OPERATOR, Operator
from core.model.connection import Connection
from core.model.sessions import SessionPatch
from core.runtime.gateway import Runtime
from core.tools.dispatch import dispatch
from tests.console.driver import CRON, MAIN, OPS, ConsoleDriver, Elsewhere, console
from tests.support.lines import Line
from tests.support.runtimes import running, send

SIZES = [(80, 24), (120, 36), (200, 60)]
THERE = f"@prod:{OPS}"


@pytest.fixture
async def prod(tmp_path: Path) -> AsyncGenerator[Runtime]:
    """Start a gateway that is somewhere else."""
    async with running(tmp_path / "prod") as runtime:
        await send(runtime, OPS, "say stay calm")
        await runtime.patch(OPS, SessionPatch({"label": "prod-ops"}), OPERATOR)
        yield runtime


@contextlib.asynccontextmanager
async def two(fleet: Path, line: Line, size: tuple[int, int] = (120, 36)) -> AsyncGenerator[ConsoleDriver]:
    """Open the console on a fleet here and one gateway elsewhere."""
    async with console(fleet, size=size, elsewhere=Elsewhere({"prod": line})) as driver:
        await driver.until(lambda: THERE in driver.order)
        yield driver


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_sessions_of_two_gateways_stand_in_one_list(fleet: Path, prod: Runtime, size: tuple[int, int]) -> None:
    async with two(fleet, Line(prod, latency_ms=12.0), size) as driver:
        assert {THERE, MAIN, OPS, CRON} <= set(driver.order)
        await driver.shows("local ●", "prod ●", "@local", "@prod", "prod-ops")
        assert "@prod:" not in driver.text
        await driver.open(THERE)
        await driver.shows("stay calm", OPS)
        assert "@prod:" not in driver.text
        await driver.press("i")
        await driver.write("say yes")
        await driver.press("enter")
        await driver.until(lambda: "say yes" in driver.text and "delivered" in driver.notice)
        assert (await prod.get_session(OPS, ALL)).last_seq >= 3
        assert (await driver.session(OPS)).last_seq == 2


async def test_one_gateway_alone_has_no_column_for_it(fleet: Path) -> None:
    async with console(fleet) as driver:
        assert "@local" not in driver.text
        assert " switchboard  local " in driver.text


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_filter_narrows_to_one_gateway(fleet: Path, prod: Runtime, size: tuple[int, int]) -> None:
    async with two(fleet, Line(prod), size) as driver:
        await driver.press("slash")
        await driver.write("@prod")
        assert driver.order == [THERE]
        await driver.press("escape", "slash")
        await driver.write("@local ops")
        assert driver.order == [OPS]


async def test_a_send_between_gateways_is_refused_and_the_draft_kept(fleet: Path, prod: Runtime) -> None:
    async with two(fleet, Line(prod)) as driver:
        await driver.select(OPS)
        arguments = {"sessionKey": THERE, "message": "over"}
        outcome = sent(await dispatch(driver.app.view_model.gateway, Operator(MAIN), "sessions_send", arguments))
        assert outcome.refused
        assert outcome.sentence.startswith("sends stay within one gateway")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_rows_of_a_lost_gateway_stay_with_their_age(
    fleet: Path, prod: Runtime, size: tuple[int, int]
) -> None:
    line = Line(prod)
    async with two(fleet, line, size) as driver:
        await driver.open(THERE)
        now = 1_000_000_000_000
        driver.app.view_model.wall_ms = lambda: now
        line.become(state="lost", heard_at=now - 14_000, retry_at=now + 3_000, detail="connection reset")
        await driver.shows("prod lost, data of 14s ago", "stay calm", "prod ◌")
        if size[0] > 80:
            await driver.shows("local ●", "prod ◌ lost 14s ago, next try 3s")
        await driver.press("i")
        assert "prod is lost" in await driver.said("prod")
        now += 2_000
        driver.screen.picture.tick()
        await driver.shows("data of 16s ago")
        await driver.select(OPS)
        await driver.press("a")
        assert "is not at work" in driver.notice
        await driver.select(THERE)
        await driver.press("i")
        assert "prod is lost" in await driver.said("prod")
        await send(prod, OPS, "say back again")
        line.become(state="live", heard_at=now)
        await driver.until(lambda: "lost" not in driver.text)
        assert driver.notice == "", "what was said of it is taken back"
        await driver.open(THERE)
        await driver.shows("back again")


async def test_a_session_that_was_not_read_yet_says_why_and_is_read_once_it_can_be(fleet: Path, prod: Runtime) -> None:
    await send(prod, "agent:main:second", "hello")
    line = Line(prod)
    async with two(fleet, line) as driver:
        line.become(state="lost")
        await driver.until(lambda: "prod ◌" in driver.text)
        await driver.select(OPS)
        await driver.shows("standby")
        await driver.select(THERE)
        await driver.shows("prod is not connected: what was not read yet can be read when it is")
        assert driver.screen.parts.main.key == THERE, (
            "the pane never shows another session than the one under the cursor"
        )
        assert driver.screen.parts.main.view.transcript is None
        line.become(state="live")
        await driver.shows("stay calm")
        await driver.until(lambda: "not read yet" not in driver.text)


async def test_what_the_gateway_refuses_is_shown_before_it_is_tried(fleet: Path, prod: Runtime) -> None:
    line = Line(prod, scopes=("operator.read",))
    why = "this connection may only read: it lacks operator.write"
    line.denied = {"send": why, "spawn": "gateway.tools.allow must name sessions_spawn", "policy": why}
    async with two(fleet, line) as driver:
        await driver.select(OPS)
        await driver.shows(" i write", " n spawn", " p policy")
        await driver.select(THERE)
        await driver.shows("⊘i write", "⊘n spawn", "⊘p policy")
        for key, sentence in (("i", why), ("n", "gateway.tools.allow must name sessions_spawn"), ("p", why)):
            await driver.press(key)
            assert driver.notice == sentence
        await driver.press("question_mark")
        await driver.shows("gateway.tools.allow must name sessions_spawn")
        await driver.press("escape", "P")
        assert isinstance(driver.app.screen, PolicyScreen)
        await driver.shows("⊘p policy")
        await driver.press("p")
        await driver.shows(why)


async def test_the_spawn_dialog_names_what_opens_it_before_anything_is_written(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.denied = {"spawn": "gateway.tools.allow must name sessions_spawn"}
    async with two(fleet, line) as driver:
        await driver.select(OPS)
        await driver.press("n")
        await driver.until(lambda: isinstance(driver.app.screen, SpawnDialog))
        await driver.press("tab")
        await driver.press(*["backspace"] * len(OPS))
        await driver.write("prod-ops")
        await driver.press("enter")
        await driver.shows("gateway.tools.allow must name sessions_spawn")


async def test_rules_that_are_not_told_leave_the_policy_unknown_and_p_is_the_way_out(
    fleet: Path, prod: Runtime
) -> None:
    line = Line(prod)
    line.tells_rules = False
    await prod.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
    async with two(fleet, line) as driver:
        await driver.select(THERE)
        await driver.press("P")
        await driver.shows("unknown: what the rules decide is not told", "p lifts the override", "deny     prod-ops")
        await driver.press("p")
        await driver.shows("inherit: the rules decide")
        assert (await prod.get_session(OPS, ALL)).send_policy is None
        await driver.press("slash")
        await driver.write("@prod:agent:main:discord:group:new")
        await driver.shows("there is no such session yet", "unknown: what the rules decide is not told")
        await driver.press("escape", "escape")
        await driver.select(OPS)
        await driver.press("P")
        await driver.shows("allow, by default", "POLICY  @local")
        assert "prod-ops" not in driver.text


async def test_what_was_said_before_the_first_connection_is_taken_back_with_it(fleet: Path, prod: Runtime) -> None:
    async with two(fleet, Line(prod)) as driver:
        notice = driver.screen.query_one("#notice", NoticeLine)
        for sentence in ("prod is not connected yet", "not sent: prod is lost and being reached again"):
            notice.say(sentence, "warning")
            notice.heed([Connection("live", name="other"), Connection("connecting", name="prod")])
            assert driver.notice == sentence
            notice.heed([Connection("live", name="prod")])
            assert driver.notice == ""
            notice.say(sentence, "warning")
            notice.heed([Connection("live", name="prod")])
            assert driver.notice == "", "its first connection is the first that is heard of it"


# The screen of gateways


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_screen_of_gateways_says_how_each_is_reached(
    fleet: Path, prod: Runtime, size: tuple[int, int]
) -> None:
    line = Line(prod, latency_ms=12.0, version="openclaw 2026.9.6", scopes=("operator.read", "operator.write"))
    async with console(
        fleet, size=size, elsewhere=Elsewhere({"prod": line}, lab=Line(prod), broken=Line(prod))
    ) as driver:
        await driver.until(lambda: THERE in driver.order)
        await driver.press("at")
        assert isinstance(driver.app.screen, ConnectScreen)
        await driver.shows("GATEWAYS", "2 of 4 in the list", "local", "prod", "live 12 ms", "lab", "not connected")
        await driver.press("G")
        await driver.shows("openclaw 2026.9.6", "operator.read, operator.write", "wss://gateway.example:18789")
        await driver.press("d")
        await driver.until(lambda: line.closed)
        await driver.shows("prod is disconnected", "1 of 3 in the list")
        await driver.press("escape")
        assert THERE not in driver.order
        assert OPS in driver.order


@pytest.mark.parametrize(
    "sentence",
    [
        "prod does not know this device yet: approve it there with `openclaw devices approve 7f3a`",
        "prod refuses the connection: it does not accept this token: give the one of its configuration",
        "prod shows another certificate than before: check it, then store its fingerprint",
    ],
)
async def test_a_refused_connection_says_what_to_do(fleet: Path, prod: Runtime, sentence: str) -> None:
    line = Line(prod)
    line.become(state="refused", detail=sentence)
    async with console(fleet, elsewhere=Elsewhere({"prod": line})) as driver:
        await driver.shows("prod × refused")
        await driver.press("at", "j")
        await driver.shows(sentence)
        await driver.press("r")
        assert line.retried == 1
        await driver.press("k", "r")
        await driver.shows("it is this machine")


async def test_gateways_come_and_go_and_drafts_survive(fleet: Path, prod: Runtime) -> None:
    elsewhere = Elsewhere(prod=Line(prod))
    async with console(fleet, elsewhere=elsewhere) as driver:
        await driver.open(OPS)
        await driver.press("i")
        await driver.write("half a sentence")
        await driver.press("escape", "escape", "at", "j", "enter")
        await driver.until(lambda: driver.order == [THERE])
        assert elsewhere.opened == ["prod"]
        await driver.until(lambda: driver.screen.parts.main.key == THERE)
        await driver.shows(" switchboard  prod", "stay calm")
        assert driver.notice == ""
        assert driver.composer.text == ""
        await driver.press("i")
        await driver.write("for prod")
        await driver.press("escape", "escape", "at", "space")
        await driver.until(lambda: OPS in driver.order)
        await driver.press("escape")
        await driver.select(OPS)
        assert driver.composer.text == "half a sentence"
        await driver.select(THERE)
        assert driver.composer.text == "for prod"
        assert elsewhere.opened == ["prod"]


async def test_the_last_one_stays_and_a_profile_that_cannot_be_used_says_why(fleet: Path, prod: Runtime) -> None:
    async with console(fleet, elsewhere=Elsewhere(broken=Line(prod))) as driver:
        await driver.press("at", "space")
        await driver.shows("it is the only one in the list")
        await driver.press("d")
        await driver.shows("it runs here")
        await driver.press("j", "r")
        await driver.shows("it is not connected")
        await driver.press("enter")
        await driver.shows("the token of broken stands in a file that is not there")
        await driver.press("escape")
        assert OPS in driver.order


async def test_a_gateway_that_is_not_reached_yet_explains_an_empty_list(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.become(state="connecting")
    async with console(fleet, elsewhere=Elsewhere(prod=line)) as driver:
        await driver.press("at", "j", "enter")
        await driver.shows("prod is being connected.", "prod connecting")
        line.become(state="live", latency_ms=7.0)
        await driver.shows("prod live 7 ms", "prod-ops")


async def test_what_was_seen_is_remembered_for_each_gateway(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    async with console(fleet, elsewhere=Elsewhere(prod=line)) as driver:
        await driver.press("at", "j", "space", "escape")
        await driver.until(lambda: THERE in driver.order)
        await driver.select(OPS)
        await send(prod, OPS, "say more")
        rows = driver.app.view_model.book.rows
        await driver.until(lambda: rows[THERE].unread == 2)
        await driver.press("at", "j", "space", "space", "escape")
        await driver.until(lambda: THERE in rows)
        assert rows[THERE].unread == 2


async def test_the_send_dialog_says_what_will_not_follow(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.denied = {"exchange": "only the first run of such a send happens here"}
    await send(prod, "agent:main:second", "hello")
    async with two(fleet, line) as driver:
        await driver.select(THERE)
        await driver.press("s", "shift+tab", "shift+tab")
        await driver.write("agent:main:second")
        await driver.press("enter")
        await driver.shows("only the first run of such a send happens here")


async def test_a_search_says_where_it_did_not_look_and_why(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    async with two(fleet, line) as driver:
        line.become(state="lost")
        await driver.press("S")
        await driver.write("welcome")
        await driver.shows("not searched: prod: prod is lost and being reached again")
        await driver.write("zzz")
        await driver.shows("nothing holds these words where it was looked; not searched: prod")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_whole_reason_of_a_refusal_can_be_read(state: Path, prod: Runtime, size: tuple[int, int]) -> None:
    reason = (
        "prod speaks protocol 7 and knows no sessions.describe: unexpected property 'archived' at the root; connect"
        " with a token of the scope operator.read, which `openclaw devices approve` there grants, and without a proxy"
        " between here and there that takes away what says who we are; what it wants besides stands in its own log,"
        " which `openclaw logs --follow` shows there (the last word)"
    )
    line = Line(prod)
    line.become(state="refused", detail=reason)
    async with console(state, size=size, elsewhere=Elsewhere({"prod": line})) as driver:
        for keys in ([], ["at", "j"]):
            await driver.press(*keys)
            await driver.until(lambda: reason in wrapped_words(driver.text))


async def test_the_whole_reason_is_said_of_what_a_refused_gateway_does_not_do(fleet: Path, prod: Runtime) -> None:
    reason = "prod refuses the connection: " + "it wants the token of its configuration, " * 8 + "and no other one"
    line = Line(prod)
    async with two(fleet, line, (80, 24)) as driver:
        await driver.select(THERE)
        line.become(state="refused", detail=reason)
        await driver.press("R")
        await driver.until(lambda: reason in wrapped_words(driver.text))


def wrapped_words(picture: str) -> str:
    """Return what stands in the first pane, then what stands in the last, the lines of each joined again."""
    rows = [row.rstrip("▁▂▃▄▅▆▇█ ").split("│") for row in picture.splitlines()]
    return " ".join(" ".join([*(row[0] for row in rows), *(row[-1] for row in rows)]).split())
