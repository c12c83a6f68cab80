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


def page(driver: ConsoleDriver) -> PolicyScreen:
    """Return the open screen."""
    screen = driver.app.screen
    assert isinstance(screen, PolicyScreen)
    return screen


def line_of(driver: ConsoleDriver, *words: str) -> str:
    """Return the line of the screen that holds these words."""
    return next(line for line in driver.text.split("\n") if all(word in line for word in words))


@pytest.mark.spec("P5")
async def test_every_rule_that_denies_is_named(fleet: Path) -> None:
    async with console(fleet, RULES, size=(200, 50)) as driver:
        await driver.select(OPS)
        await driver.press("P")
        assert "ops  agent:main:discord:group:ops" in driver.text.split("\n")[0]
        assert "⊘ deny, by rule 2: discord · group" in driver.text
        assert "session.sendPolicy.rules[1]" in driver.text
        assert "session.sendPolicy.rules[2]" in driver.text
        assert "session.sendPolicy.rules[0]" not in driver.text
        standing = [line_of(driver, f"rule {number} ").split("│")[0] for number in range(1, 5)]
        assert ["decides" in line for line in standing] == [False, True, True, False]
        assert ["applies" in line for line in standing] == [True, False, False, False]
        assert "decides" not in line_of(driver, "default", "✓ allow").split("│")[0]


@pytest.mark.spec("P1", "P2", "P5")
async def test_the_override_is_turned_here_and_decides(fleet: Path) -> None:
    async with console(fleet, RULES) as driver:
        await driver.select(OPS)
        await driver.press("P")
        assert "No" not in line_of(driver, "override ")
        for override, effective in (
            ("allow", "✓ allow, by override"),
            ("deny", "⊘ deny, by override"),
            (None, "rule 2"),
        ):
            await driver.press("p")
            await driver.shows(effective)
            assert (await driver.session(OPS)).send_policy == override
            assert ("sendPolicy override" in driver.text) == (override is not None)
            assert ("1 override" in driver.text.split("\n")[0]) == (override is not None)
        assert "ops: inherit, so deny" in page(driver).notice.text


async def test_the_operators_own_key_works_here_too(fleet: Path) -> None:
    async with console(fleet, '{console: {keymap: {policy: "ctrl+y", rules: "ctrl+t"}}}') as driver:
        await driver.press("ctrl+t")
        assert "^y policy" in driver.text
        await driver.press("p")
        assert (await driver.session(OPS)).send_policy is None
        await driver.press("ctrl+y")
        await driver.shows("✓ allow, by override")


async def test_what_somebody_else_changes_is_seen(fleet: Path) -> None:
    async with console(fleet, RULES) as driver:
        await driver.press("P")
        await driver.runtime.patch(CRON, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await driver.shows("⊘ deny     cron:nightly", "1 override")
        await driver.runtime.patch(CRON, SessionPatch({"sendPolicy": None}), OPERATOR)
        await driver.shows("0 overrides")


async def test_enter_looks_at_a_session_with_an_override_then_goes_there(fleet: Path) -> None:
    async with console(fleet, RULES) as driver:
        await driver.runtime.patch(CRON, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await driver.select(OPS)
        await driver.press("P")
        await driver.shows("cron:nightly")
        while getattr(page(driver).sheets[0].current, "key", None) != CRON:
            await driver.press("j")
        await driver.press("enter")
        assert page(driver).subject.key == CRON
        assert "decides" in line_of(driver, "⊘ deny", "cron:nightly")
        await driver.press("enter")
        assert driver.app.screen is driver.screen
        assert driver.selected == CRON


async def test_brackets_go_through_the_sessions(fleet: Path) -> None:
    async with console(fleet) as driver:
        await driver.press("P")
        assert page(driver).subject.key == OPS
        for key, expected in (("]", MAIN), ("]", CRON), ("]", CRON), ("[", MAIN), ("[", OPS), ("[", OPS)):
            await driver.press({"]": "right_square_bracket", "[": "left_square_bracket"}[key])
            assert page(driver).subject.key == expected


@pytest.mark.spec("P5")
async def test_any_key_can_be_tried(fleet: Path) -> None:
    async with console(fleet, RULES) as driver:
        await driver.press("P", "slash")
        await driver.write("agent:main:discord:group:o")
        assert "⊘ deny, by rule 2" in driver.text, "while it is written"
        await driver.press("enter")
        assert page(driver).subject.key == "agent:main:discord:group:o", "what is written is meant, not what matches"
        assert "there is no such session yet: your" in driver.text
        await driver.press("p")
        await driver.until(lambda: "which waits for its session" in page(driver).notice.text)
        await driver.shows("allow, waits for its session")
        await driver.press("slash", "ctrl+u")
        await driver.write("agent:main::x")
        assert "empty part between its colons" in page(driver).notice.text
        await driver.press("ctrl+u")
        await driver.write("night")
        await driver.press("enter")
        assert page(driver).subject.key == CRON, "a part of a name takes what matches"
        await driver.press("escape")
        assert driver.app.screen is driver.screen


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
    async with console(state, RULES) as driver:
        rules = driver.runtime.rules
        tried = subject_of(key, rules, {})
        await begin(driver.runtime, key, "/send inherit")
        session = await driver.runtime.get_session(tried.key, ALL)
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
    async with console(fleet, RULES, size=size) as driver:
        await driver.press("P")
        seen = driver.text
        for _ in range(3):
            for key in ("G", "tab"):
                await driver.press(key)
                seen += driver.text
        for words in ("MESSAGES INTO IT", "RULES", "OVERRIDES", "WHAT ITS AGENT MAY", "ITS TOOLS", "sessions_spawn"):
            assert words in seen
        assert ("there is one column only" in seen) == (size[0] < 100)


async def test_a_reader_is_told_whose_the_policy_is(fleet: Path) -> None:
    async with running(fleet), console(fleet, live=False) as driver:
        await driver.until(lambda: driver.standing)
        await driver.press("P", "p")
        assert "owned by" in page(driver).notice.text
        assert (await driver.session(OPS)).send_policy is None


HOSTILE = "[/x] [@click=app.exit]go[/] [bold"
BAD_RULES = """{ session: { sendPolicy: { rules: [
  { action: "deny", match: { keyPrefix: "[@click=app.exit]x[/ \\u001b[31m" } },
  { action: "deny", match: { channel: "[/red] \\u009b" } },
] } } }"""


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_names_keys_and_rules_are_cleaned_and_never_markup(fleet: Path, size: tuple[int, int]) -> None:
    key = "agent:main:discord:group:[@click=app.exit]x[/"
    async with console(fleet, BAD_RULES, size=size) as driver:
        await send(driver.runtime, key, "say hello")
        await send(driver.runtime, key, f"/label {HOSTILE}")
        await send(driver.runtime, key, "/send off")
        await driver.until(lambda: driver.app.view_model.book.rows[key].name == HOSTILE)
        await driver.select(key)
        await driver.press("P")
        await driver.shows(HOSTILE, "[@click=app.exit]x[/")
        assert [row.name for row in overridden(driver.app.view_model.book.rows.values())] == [HOSTILE]
        await driver.press("p")
        await driver.until(lambda: HOSTILE in page(driver).notice.text)
        await driver.press("slash")
        await driver.write("agent:main:[@click=app.exit]y[/")
        await driver.press("enter")
        assert page(driver).subject.row is None
        await driver.press("slash", "ctrl+u")
        await driver.write("[/")
        await driver.shows("[/")
        await driver.press("escape", "ctrl+p")
        await driver.write("policy")
        await driver.press("escape")
        assert not {"\x1b", "\x9b", "\u202e"} & set(driver.text)
        assert driver.app.return_code is None
