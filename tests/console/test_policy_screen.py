"""P5, V1-V5 on the screen: the rules, the overrides, which of them decided, and what any key would get."""

from pathlib import Path

import pytest

from console.live.subject import overridden, rule_lines, sight, spawning, subject_of, tools
from console.screens.policy import PolicyScreen
from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid
from core.model.keys import main_key
from core.model.sessions import SessionPatch
from core.rules.limits import ToolFilter
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from tests.console.driver import CRON, MAIN, OPS, ConsoleDriver, console
from tests.support.runtimes import begin, running, send

RULES = """{
  session: { sendPolicy: { default: "allow", rules: [
    { action: "allow", match: { channel: "discord" } },
    { action: "deny", match: { channel: "discord", chatType: "group" } },
    { action: "deny", match: { keyPrefix: "discord:group:" } },
    { action: "deny", match: { keyPrefix: "sms:" } },
  ] } },
}"""
SUB = "agent:main:subagent:0b9d2c6e-5a0f-4a50-9d36-0c5ff9a8a111"


def page(desk: ConsoleDriver) -> PolicyScreen:
    """Return the open screen."""
    screen = desk.app.screen
    assert isinstance(screen, PolicyScreen)
    return screen


def line_of(desk: ConsoleDriver, *words: str) -> str:
    """Return the line of the screen that holds these words."""
    return next(line for line in desk.picture.split("\n") if all(word in line for word in words))


@pytest.mark.spec("P5")
async def test_every_rule_that_denies_is_named(fleet: Path) -> None:
    async with console(fleet, RULES, size=(200, 50)) as desk:
        await desk.select(OPS)
        await desk.press("P")
        assert "ops  agent:main:discord:group:ops" in desk.picture.split("\n")[0]
        assert "⊘ deny, by rule 2: discord · group" in desk.picture
        assert "session.sendPolicy.rules[1]" in desk.picture
        assert "session.sendPolicy.rules[2]" in desk.picture
        assert "session.sendPolicy.rules[0]" not in desk.picture
        standing = [line_of(desk, f"rule {number} ").split("│")[0] for number in range(1, 5)]
        assert ["decides" in line for line in standing] == [False, True, True, False]
        assert ["applies" in line for line in standing] == [True, False, False, False]
        assert "decides" not in line_of(desk, "default", "✓ allow").split("│")[0]


@pytest.mark.spec("P1", "P2", "P5")
async def test_the_override_is_turned_here_and_decides(fleet: Path) -> None:
    async with console(fleet, RULES) as desk:
        await desk.select(OPS)
        await desk.press("P")
        assert "No" not in line_of(desk, "override ")
        for override, effective in (
            ("allow", "✓ allow, by override"),
            ("deny", "⊘ deny, by override"),
            (None, "rule 2"),
        ):
            await desk.press("p")
            await desk.shows(effective)
            assert (await desk.session(OPS)).send_policy == override
            assert ("sendPolicy override" in desk.picture) == (override is not None)
            assert ("1 override" in desk.picture.split("\n")[0]) == (override is not None)
        assert "ops: inherit, so deny" in page(desk).notice.text


async def test_the_operators_own_key_works_here_too(fleet: Path) -> None:
    async with console(fleet, '{console: {keymap: {policy: "ctrl+y", rules: "ctrl+t"}}}') as desk:
        await desk.press("ctrl+t")
        assert "^y policy" in desk.picture
        await desk.press("p")
        assert (await desk.session(OPS)).send_policy is None
        await desk.press("ctrl+y")
        await desk.shows("✓ allow, by override")


async def test_what_somebody_else_changes_is_seen(fleet: Path) -> None:
    async with console(fleet, RULES) as desk:
        await desk.press("P")
        await desk.runtime.patch(CRON, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await desk.shows("⊘ deny     cron:nightly", "1 override")
        await desk.runtime.patch(CRON, SessionPatch({"sendPolicy": None}), OPERATOR)
        await desk.shows("0 overrides")


async def test_enter_looks_at_a_session_with_an_override_then_goes_there(fleet: Path) -> None:
    async with console(fleet, RULES) as desk:
        await desk.runtime.patch(CRON, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await desk.select(OPS)
        await desk.press("P")
        await desk.shows("cron:nightly")
        while getattr(page(desk).sheets[0].current, "key", None) != CRON:
            await desk.press("j")
        await desk.press("enter")
        assert page(desk).subject.key == CRON
        assert "decides" in line_of(desk, "⊘ deny", "cron:nightly")
        await desk.press("enter")
        assert desk.app.screen is desk.screen
        assert desk.selected == CRON


async def test_brackets_go_through_the_sessions(fleet: Path) -> None:
    async with console(fleet) as desk:
        await desk.press("P")
        assert page(desk).subject.key == OPS
        for key, expected in (("]", MAIN), ("]", CRON), ("]", CRON), ("[", MAIN), ("[", OPS), ("[", OPS)):
            await desk.press({"]": "right_square_bracket", "[": "left_square_bracket"}[key])
            assert page(desk).subject.key == expected


@pytest.mark.spec("P5")
async def test_any_key_can_be_tried(fleet: Path) -> None:
    async with console(fleet, RULES) as desk:
        await desk.press("P", "slash")
        await desk.write("agent:main:discord:group:o")
        assert "⊘ deny, by rule 2" in desk.picture, "while it is written"
        await desk.press("enter")
        assert page(desk).subject.key == "agent:main:discord:group:o", "what is written is meant, not what matches"
        assert "there is no such session yet: your" in desk.picture
        await desk.press("p")
        await desk.until(lambda: "which waits for its session" in page(desk).notice.text)
        await desk.shows("allow, waits for its session")
        await desk.press("slash", "ctrl+u")
        await desk.write("agent:main::x")
        assert "empty part between its colons" in page(desk).notice.text
        await desk.press("ctrl+u")
        await desk.write("night")
        await desk.press("enter")
        assert page(desk).subject.key == CRON, "a part of a name takes what matches"
        await desk.press("escape")
        assert desk.app.screen is desk.screen


@pytest.mark.spec("P5", "L5")
@pytest.mark.parametrize(
    "key",
    [
        "agent:main:discord:group:new",
        "agent:main:discord:channel:new",
        "agent:main:telegram:direct:7",
        "agent:main:sms:5",
        "cron:weekly",
        "hook:0b9d2c6e-5a0f-4a50-9d36-0c5ff9a8a111",
        "node-phone",
        "agent:main:main",
        "agent:main:discord:group:new:thread:9",
    ],
)
async def test_what_is_said_of_a_new_key_is_what_its_session_gets(state: Path, key: str) -> None:
    async with console(state, RULES) as desk:
        rules = desk.runtime.rules
        tried = subject_of(key, rules, {})
        await begin(desk.runtime, key, "/send inherit")
        session = await desk.runtime.get_session(tried.key, ALL)
        assert (tried.channel, tried.chat_type) == (session.channel, session.chat_type)
        assert tried.decision == rules.send_decision(session)
        assert "your first message makes it" in tried.note


def test_what_is_no_key_is_refused_in_a_sentence() -> None:
    rules = RuleSet()
    for text in ("nonsense", "", "agent:x", "agent:main:a..b", "unknown"):
        with pytest.raises(Invalid):
            subject_of(text, rules, {})
    assert "only a spawn makes one" in subject_of(SUB, rules, {}).note
    assert "agent zoe is not configured" in subject_of("agent:zoe:main", rules, {}).note


TWO = {
    "main": AgentRules("main", allow_agents=("research",), tools=ToolFilter(deny=("sessions_send",))),
    "research": AgentRules("research"),
    "box": AgentRules("box", sandboxed=True, allow_agents=("*",)),
}


@pytest.mark.spec("V1", "V2", "V3")
@pytest.mark.parametrize(
    ("visibility", "agent", "words", "control"),
    [
        (VisibilityRules("self"), "main", "itself only", "tools.sessions.visibility=self"),
        (VisibilityRules("tree"), "main", "itself and what it spawned", "tools.sessions.visibility=tree"),
        (VisibilityRules("agent"), "main", "every session of agent main", "tools.sessions.visibility=agent"),
        (VisibilityRules("all"), "main", "every session of agent main", "tools.agentToAgent.enabled=false"),
        (VisibilityRules("all", AgentToAgent(enabled=True)), "main", "every session of every agent", None),
        (
            VisibilityRules("all", AgentToAgent(enabled=True, allow=("main", "research"))),
            "main",
            "every session of agents main, research",
            "tools.agentToAgent.allow",
        ),
        (
            VisibilityRules("all"),
            "box",
            "itself and what it spawned",
            "agents.defaults.sandbox.sessionToolsVisibility=spawned",
        ),
    ],
)
def test_what_an_agent_may_see_is_said_with_its_limits(
    visibility: VisibilityRules, agent: str, words: str, control: str | None
) -> None:
    rules = RuleSet(agents=TWO, visibility=visibility)
    said, limits = sight(subject_of(main_key(agent), rules, {}), rules)
    assert words in said
    assert limits == ((control,) if control else ())


@pytest.mark.spec("W3", "W4", "W9")
def test_tools_and_spawning_name_what_withholds_them() -> None:
    rules = RuleSet(agents=TWO)
    main, sub, box = (subject_of(key, rules, {}) for key in (MAIN, SUB, main_key("box")))
    assert [each for each in tools(main, rules) if each[1]] == [("sessions_send", "agents.list[].tools")]
    assert dict(tools(sub, rules))["sessions_spawn"] == "agents.defaults.subagents.maxSpawnDepth"
    assert dict(tools(sub, rules))["sessions_list"] == "tools.subagents.tools"
    assert spawning(main, rules) == ("sub-agents of main, research", ("agents.list[].subagents.allowAgents",))
    assert spawning(sub, rules) == ("no sub-agents", ("agents.defaults.subagents.maxSpawnDepth",))
    assert spawning(box, rules) == ("sub-agents of box", ("agents.list[].sandbox.mode",))


def test_the_default_decides_where_no_rule_applies() -> None:
    rules = RuleSet(send_policy=SendPolicy((Rule("deny", Match(channel="sms")),), "deny"))
    subject = subject_of(MAIN, rules, {})
    assert [line.standing for line in rule_lines(rules.send_policy, subject)] == [""]
    assert subject.decision is not None
    assert subject.decision.decided_by == ("session.sendPolicy.default",)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_everything_is_reached_at_every_size(fleet: Path, size: tuple[int, int]) -> None:
    async with console(fleet, RULES, size=size) as desk:
        await desk.press("P")
        seen = desk.picture
        for _ in range(3):
            for key in ("G", "tab"):
                await desk.press(key)
                seen += desk.picture
        for words in ("MESSAGES INTO IT", "RULES", "OVERRIDES", "WHAT ITS AGENT MAY", "ITS TOOLS", "sessions_spawn"):
            assert words in seen
        assert ("there is one column only" in seen) == (size[0] < 100)


async def test_a_reader_is_told_whose_the_policy_is(fleet: Path) -> None:
    async with running(fleet), console(fleet, live=False) as desk:
        await desk.until(lambda: desk.standing)
        await desk.press("P", "p")
        assert "owned by" in page(desk).notice.text
        assert (await desk.session(OPS)).send_policy is None


HOSTILE = "[/x] [@click=app.exit]go[/] [bold"
BAD_RULES = """{ session: { sendPolicy: { rules: [
  { action: "deny", match: { keyPrefix: "[@click=app.exit]x[/ \\u001b[31m" } },
  { action: "deny", match: { channel: "[/red] \\u009b" } },
] } } }"""


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_names_keys_and_rules_are_cleaned_and_never_markup(fleet: Path, size: tuple[int, int]) -> None:
    key = "agent:main:discord:group:[@click=app.exit]x[/"
    async with console(fleet, BAD_RULES, size=size) as desk:
        await send(desk.runtime, key, "say hello")
        await send(desk.runtime, key, f"/label {HOSTILE}")
        await send(desk.runtime, key, "/send off")
        await desk.until(lambda: desk.app.view_model.book.rows[key].name == HOSTILE)
        await desk.select(key)
        await desk.press("P")
        await desk.shows(HOSTILE, "[@click=app.exit]x[/")
        assert [row.name for row in overridden(desk.app.view_model.book.rows.values())] == [HOSTILE]
        await desk.press("p")
        await desk.until(lambda: HOSTILE in page(desk).notice.text)
        await desk.press("slash")
        await desk.write("agent:main:[@click=app.exit]y[/")
        await desk.press("enter")
        assert page(desk).subject.row is None
        await desk.press("slash", "ctrl+u")
        await desk.write("[/")
        await desk.shows("[/")
        await desk.press("escape", "ctrl+p")
        await desk.write("policy")
        await desk.press("escape")
        assert not {"\x1b", "\x9b", "\u202e"} & set(desk.picture)
        assert desk.app.return_code is None
