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
    async with console(fleet, size=size, elsewhere=Elsewhere({"prod": line})) as desk:
        await desk.until(lambda: THERE in desk.order)
        yield desk


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_sessions_of_two_gateways_stand_in_one_list(fleet: Path, prod: Runtime, size: tuple[int, int]) -> None:
    async with two(fleet, Line(prod, latency_ms=12.0), size) as desk:
        assert {THERE, MAIN, OPS, CRON} <= set(desk.order)
        await desk.shows("local ●", "prod ●", "@local", "@prod", "prod-ops")
        assert "@prod:" not in desk.picture
        await desk.open(THERE)
        await desk.shows("stay calm", OPS)
        assert "@prod:" not in desk.picture
        await desk.press("i")
        await desk.write("say yes")
        await desk.press("enter")
        await desk.until(lambda: "say yes" in desk.picture and "delivered" in desk.notice)
        assert (await prod.get_session(OPS, ALL)).last_seq >= 3
        assert (await desk.session(OPS)).last_seq == 2


async def test_one_gateway_alone_has_no_column_for_it(fleet: Path) -> None:
    async with console(fleet) as desk:
        assert "@local" not in desk.picture
        assert " switchboard  local " in desk.picture


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_filter_narrows_to_one_gateway(fleet: Path, prod: Runtime, size: tuple[int, int]) -> None:
    async with two(fleet, Line(prod), size) as desk:
        await desk.press("slash")
        await desk.write("@prod")
        assert desk.order == [THERE]
        await desk.press("escape", "slash")
        await desk.write("@local ops")
        assert desk.order == [OPS]


async def test_a_send_between_gateways_is_refused_and_the_draft_kept(fleet: Path, prod: Runtime) -> None:
    async with two(fleet, Line(prod)) as desk:
        await desk.select(OPS)
        arguments = {"sessionKey": THERE, "message": "over"}
        outcome = sent(await dispatch(desk.app.view_model.gateway, Operator(MAIN), "sessions_send", arguments))
        assert outcome.refused
        assert outcome.sentence.startswith("sends stay within one gateway")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_rows_of_a_lost_gateway_stay_with_their_age(
    fleet: Path, prod: Runtime, size: tuple[int, int]
) -> None:
    line = Line(prod)
    async with two(fleet, line, size) as desk:
        await desk.open(THERE)
        now = 1_000_000_000_000
        desk.app.view_model.wall_ms = lambda: now
        line.become(state="lost", heard_at=now - 14_000, retry_at=now + 3_000, detail="connection reset")
        await desk.shows("prod lost, data of 14s ago", "stay calm", "prod ◌")
        if size[0] > 80:
            await desk.shows("local ●", "prod ◌ lost 14s ago, next try 3s")
        await desk.press("i")
        assert "prod is lost" in await desk.said("prod")
        now += 2_000
        desk.screen.picture.tick()
        await desk.shows("data of 16s ago")
        await desk.select(OPS)
        await desk.press("a")
        assert "is not at work" in desk.notice
        await desk.select(THERE)
        await desk.press("i")
        assert "prod is lost" in await desk.said("prod")
        await send(prod, OPS, "say back again")
        line.become(state="live", heard_at=now)
        await desk.until(lambda: "lost" not in desk.picture)
        assert desk.notice == "", "what was said of it is taken back"
        await desk.open(THERE)
        await desk.shows("back again")


async def test_a_session_that_was_not_read_yet_says_why_and_is_read_once_it_can_be(fleet: Path, prod: Runtime) -> None:
    await send(prod, "agent:main:second", "hello")
    line = Line(prod)
    async with two(fleet, line) as desk:
        line.become(state="lost")
        await desk.until(lambda: "prod ◌" in desk.picture)
        await desk.select(OPS)
        await desk.shows("standby")
        await desk.select(THERE)
        await desk.shows("prod is not connected: what was not read yet can be read when it is")
        assert desk.screen.parts.main.key == THERE, "the pane never shows another session than the one under the cursor"
        assert desk.screen.parts.main.view.transcript is None
        line.become(state="live")
        await desk.shows("stay calm")
        await desk.until(lambda: "not read yet" not in desk.picture)


async def test_what_the_gateway_refuses_is_shown_before_it_is_tried(fleet: Path, prod: Runtime) -> None:
    line = Line(prod, scopes=("operator.read",))
    why = "this connection may only read: it lacks operator.write"
    line.denied = {"send": why, "spawn": "gateway.tools.allow must name sessions_spawn", "policy": why}
    async with two(fleet, line) as desk:
        await desk.select(OPS)
        await desk.shows(" i write", " n spawn", " p policy")
        await desk.select(THERE)
        await desk.shows("⊘i write", "⊘n spawn", "⊘p policy")
        for key, sentence in (("i", why), ("n", "gateway.tools.allow must name sessions_spawn"), ("p", why)):
            await desk.press(key)
            assert desk.notice == sentence
        await desk.press("question_mark")
        await desk.shows("gateway.tools.allow must name sessions_spawn")
        await desk.press("escape", "P")
        assert isinstance(desk.app.screen, PolicyScreen)
        await desk.shows("⊘p policy")
        await desk.press("p")
        await desk.shows(why)


async def test_the_spawn_dialog_names_what_opens_it_before_anything_is_written(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.denied = {"spawn": "gateway.tools.allow must name sessions_spawn"}
    async with two(fleet, line) as desk:
        await desk.select(OPS)
        await desk.press("n")
        await desk.until(lambda: isinstance(desk.app.screen, SpawnDialog))
        await desk.press("tab")
        await desk.press(*["backspace"] * len(OPS))
        await desk.write("prod-ops")
        await desk.press("enter")
        await desk.shows("gateway.tools.allow must name sessions_spawn")


async def test_rules_that_are_not_told_leave_the_policy_unknown_and_p_is_the_way_out(
    fleet: Path, prod: Runtime
) -> None:
    line = Line(prod)
    line.tells_rules = False
    await prod.patch(OPS, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
    async with two(fleet, line) as desk:
        await desk.select(THERE)
        await desk.press("P")
        await desk.shows("unknown: what the rules decide is not told", "p lifts the override", "deny     prod-ops")
        await desk.press("p")
        await desk.shows("inherit: the rules decide")
        assert (await prod.get_session(OPS, ALL)).send_policy is None
        await desk.press("slash")
        await desk.write("@prod:agent:main:discord:group:new")
        await desk.shows("there is no such session yet", "unknown: what the rules decide is not told")
        await desk.press("escape", "escape")
        await desk.select(OPS)
        await desk.press("P")
        await desk.shows("allow, by default", "POLICY  @local")
        assert "prod-ops" not in desk.picture


async def test_what_was_said_before_the_first_connection_is_taken_back_with_it(fleet: Path, prod: Runtime) -> None:
    async with two(fleet, Line(prod)) as desk:
        notice = desk.screen.query_one("#notice", NoticeLine)
        for sentence in ("prod is not connected yet", "not sent: prod is lost and being reached again"):
            notice.say(sentence, "warning")
            notice.heed([Connection("live", name="other"), Connection("connecting", name="prod")])
            assert desk.notice == sentence
            notice.heed([Connection("live", name="prod")])
            assert desk.notice == ""
            notice.say(sentence, "warning")
            notice.heed([Connection("live", name="prod")])
            assert desk.notice == "", "its first connection is the first that is heard of it"


# The screen of gateways


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_screen_of_gateways_says_how_each_is_reached(
    fleet: Path, prod: Runtime, size: tuple[int, int]
) -> None:
    line = Line(prod, latency_ms=12.0, version="openclaw 2026.9.6", scopes=("operator.read", "operator.write"))
    async with console(
        fleet, size=size, elsewhere=Elsewhere({"prod": line}, lab=Line(prod), broken=Line(prod))
    ) as desk:
        await desk.until(lambda: THERE in desk.order)
        await desk.press("at")
        assert isinstance(desk.app.screen, ConnectScreen)
        await desk.shows("GATEWAYS", "2 of 4 in the list", "local", "prod", "live 12 ms", "lab", "not connected")
        await desk.press("G")
        await desk.shows("openclaw 2026.9.6", "operator.read, operator.write", "wss://gateway.example:18789")
        await desk.press("d")
        await desk.until(lambda: line.closed)
        await desk.shows("prod is disconnected", "1 of 3 in the list")
        await desk.press("escape")
        assert THERE not in desk.order
        assert OPS in desk.order


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
    async with console(fleet, elsewhere=Elsewhere({"prod": line})) as desk:
        await desk.shows("prod × refused")
        await desk.press("at", "j")
        await desk.shows(sentence)
        await desk.press("r")
        assert line.retried == 1
        await desk.press("k", "r")
        await desk.shows("it is this machine")


async def test_gateways_come_and_go_and_drafts_survive(fleet: Path, prod: Runtime) -> None:
    elsewhere = Elsewhere(prod=Line(prod))
    async with console(fleet, elsewhere=elsewhere) as desk:
        await desk.open(OPS)
        await desk.press("i")
        await desk.write("half a sentence")
        await desk.press("escape", "escape", "at", "j", "enter")
        await desk.until(lambda: desk.order == [THERE])
        assert elsewhere.opened == ["prod"]
        await desk.until(lambda: desk.screen.parts.main.key == THERE)
        await desk.shows(" switchboard  prod", "stay calm")
        assert desk.notice == ""
        assert desk.composer.text == ""
        await desk.press("i")
        await desk.write("for prod")
        await desk.press("escape", "escape", "at", "space")
        await desk.until(lambda: OPS in desk.order)
        await desk.press("escape")
        await desk.select(OPS)
        assert desk.composer.text == "half a sentence"
        await desk.select(THERE)
        assert desk.composer.text == "for prod"
        assert elsewhere.opened == ["prod"]


async def test_the_last_one_stays_and_a_profile_that_cannot_be_used_says_why(fleet: Path, prod: Runtime) -> None:
    async with console(fleet, elsewhere=Elsewhere(broken=Line(prod))) as desk:
        await desk.press("at", "space")
        await desk.shows("it is the only one in the list")
        await desk.press("d")
        await desk.shows("it runs here")
        await desk.press("j", "r")
        await desk.shows("it is not connected")
        await desk.press("enter")
        await desk.shows("the token of broken stands in a file that is not there")
        await desk.press("escape")
        assert OPS in desk.order


async def test_a_gateway_that_is_not_reached_yet_explains_an_empty_list(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.become(state="connecting")
    async with console(fleet, elsewhere=Elsewhere(prod=line)) as desk:
        await desk.press("at", "j", "enter")
        await desk.shows("prod is being connected.", "prod connecting")
        line.become(state="live", latency_ms=7.0)
        await desk.shows("prod live 7 ms", "prod-ops")


async def test_what_was_seen_is_remembered_for_each_gateway(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    async with console(fleet, elsewhere=Elsewhere(prod=line)) as desk:
        await desk.press("at", "j", "space", "escape")
        await desk.until(lambda: THERE in desk.order)
        await desk.select(OPS)
        await send(prod, OPS, "say more")
        rows = desk.app.view_model.book.rows
        await desk.until(lambda: rows[THERE].unread == 2)
        await desk.press("at", "j", "space", "space", "escape")
        await desk.until(lambda: THERE in rows)
        assert rows[THERE].unread == 2


async def test_the_send_dialog_says_what_will_not_follow(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    line.denied = {"exchange": "only the first run of such a send happens here"}
    await send(prod, "agent:main:second", "hello")
    async with two(fleet, line) as desk:
        await desk.select(THERE)
        await desk.press("s", "shift+tab", "shift+tab")
        await desk.write("agent:main:second")
        await desk.press("enter")
        await desk.shows("only the first run of such a send happens here")


async def test_a_search_says_where_it_did_not_look_and_why(fleet: Path, prod: Runtime) -> None:
    line = Line(prod)
    async with two(fleet, line) as desk:
        line.become(state="lost")
        await desk.press("S")
        await desk.write("welcome")
        await desk.shows("not searched: prod: prod is lost and being reached again")
        await desk.write("zzz")
        await desk.shows("nothing holds these words where it was looked; not searched: prod")


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
    async with console(state, size=size, elsewhere=Elsewhere({"prod": line})) as desk:
        for keys in ([], ["at", "j"]):
            await desk.press(*keys)
            await desk.until(lambda: reason in wrapped_words(desk.picture))


async def test_the_whole_reason_is_said_of_what_a_refused_gateway_does_not_do(fleet: Path, prod: Runtime) -> None:
    reason = "prod refuses the connection: " + "it wants the token of its configuration, " * 8 + "and no other one"
    line = Line(prod)
    async with two(fleet, line, (80, 24)) as desk:
        await desk.select(THERE)
        line.become(state="refused", detail=reason)
        await desk.press("R")
        await desk.until(lambda: reason in wrapped_words(desk.picture))


def wrapped_words(picture: str) -> str:
    """Return what stands in the first pane, then what stands in the last, the lines of each joined again."""
    rows = [row.rstrip("▁▂▃▄▅▆▇█ ").split("│") for row in picture.splitlines()]
    return " ".join(" ".join([*(row[0] for row in rows), *(row[-1] for row in rows)]).split())
