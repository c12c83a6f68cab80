"""P5: send policy of a key that has no session yet: which rule would decide, and an override that waits for it."""

import json
from pathlib import Path

import pytest

from console.cli.parser import run as command_line
from console.screens.policy import PolicyScreen
from core.config.settings import Settings
from core.model.access import OPERATOR
from core.model.sessions import NewSession, SessionPatch
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import RuleSet
from core.tools.target import policy_subject
from tests.console.driver import console
from tests.support.runtimes import Agent, running, send, session
from tests.support.web_socket import connected, serving

GROUP = "agent:main:discord:group:new"
OTHER = "agent:main:discord:group:other"
RULES = '{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord"}}]}}}'
SETTINGS = Settings(rules=RuleSet(send_policy=SendPolicy((Rule("deny", Match("discord")),))))


def policy(word: str | None) -> SessionPatch:
    """Return the change of an override."""
    return SessionPatch({"sendPolicy": word})


@pytest.mark.spec("P2", "P4", "P5")
async def test_a_rule_that_denies_the_first_message_is_lifted_for_one_group(state: Path) -> None:
    async with running(state, SETTINGS, Agent()) as runtime:
        assert (await send(runtime, GROUP, "hello"))["decidedBy"] == ["session.sendPolicy.rules[0]"]
        waits = await runtime.patch("Agent:MAIN:Discord:Group:new", policy("allow"), OPERATOR)
        assert (waits.key, waits.session_id, waits.send_policy) == (GROUP, "", "allow")
        assert await runtime.overrides() == {GROUP: "allow"}
    async with running(state, SETTINGS, Agent()) as runtime:  # a restart does not forget it
        asked = await policy_subject(runtime, "discord:group:new")
        decision = runtime.policy_of(asked)
        assert decision is not None
        assert (asked.key, decision.effective, decision.reason) == (GROUP, "allow", "override")
        assert (await send(runtime, GROUP, "hello"))["status"] == "ok"
        assert (await session(runtime, GROUP)).send_policy == "allow"
        assert await runtime.overrides() == {}, "it waits no longer"
        assert (await send(runtime, OTHER, "hello"))["status"] == "forbidden"
        await runtime.delete(GROUP, OPERATOR)
        assert (await send(runtime, GROUP, "hello"))["status"] == "forbidden", "it went with its session"


@pytest.mark.spec("P2", "P5")
async def test_a_deny_waits_as_well_and_outlives_what_it_refuses(state: Path) -> None:
    async with running(state, backends=Agent()) as runtime:
        await runtime.patch("agent:main:main", policy("deny"), OPERATOR)
        for _ in range(2):
            assert (await send(runtime, "main", "hello"))["decidedBy"] == ["sendPolicy override"]
            assert await runtime.overrides() == {"agent:main:main": "deny"}
        await runtime.patch("agent:main:main", policy(None), OPERATOR)
        assert await runtime.overrides() == {}
        assert (await send(runtime, "main", "hello"))["status"] == "ok"
        await runtime.patch(GROUP, policy("deny"), OPERATOR)
        assert (await runtime.create(NewSession(GROUP), OPERATOR)).send_policy == "deny"


@pytest.mark.spec("P3", "P5")
async def test_clients_ask_and_set_it(state: Path) -> None:
    async with serving(state, SETTINGS, Agent()) as server, connected(server) as socket:
        told = await socket.ask("policy.explain", key=GROUP)
        assert (told["key"], told["allowed"], told["waiting"]) == (GROUP, False, False)
        assert told["decidedBy"] == ["session.sendPolicy.rules[0]"]
        assert (await socket.ask("sessions.patch", key="discord:Group:new", sendPolicy="allow"))["waiting"] is True
        told = await socket.ask("policy.explain", key=GROUP)
        assert (told["allowed"], told["waiting"], told["override"]) == (True, True, "allow")
        await socket.ask("chat.send", sessionKey=GROUP, message="hello", idempotencyKey="1")
        assert "waiting" not in await socket.ask("policy.explain", key=GROUP)
        assert "session not found" in (await socket.error("sessions.patch", key=OTHER, label="x"))["message"]
        async with connected(server, scopes=["operator.read", "operator.write"]) as weak:
            assert "operator.admin" in (await weak.error("sessions.patch", key=OTHER, sendPolicy="allow"))["message"]


@pytest.mark.spec("P5")
def test_the_command_line_asks_and_sets_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json5"
    config.write_text(RULES)

    def cli(*arguments: str) -> tuple[int, str]:
        code = command_line([*arguments, "--state", str(tmp_path / "state"), "--config", str(config)])
        return code, capsys.readouterr().out

    assert cli("policy", GROUP) == (0, f"{GROUP}: deny by rule 1: discord (there is no such session yet)\n")
    assert json.loads(cli("policy", GROUP, "--json")[1]) == {
        "key": GROUP,
        "override": "inherit",
        "effective": "deny",
        "decidedBy": ["session.sendPolicy.rules[0]"],
        "waiting": False,
    }
    assert cli("send", GROUP, "hello")[0] == 4
    assert cli("policy", GROUP, "on") == (
        0,
        f"{GROUP}: allow by override, which waits for it (there is no such session yet)\n",
    )
    assert json.loads(cli("policy", GROUP, "--json")[1])["waiting"] is True
    assert cli("send", GROUP, "say hi") == (0, "hi\n")
    assert cli("policy", GROUP) == (0, f"{GROUP}: allow by override\n")
    assert cli("policy", "nonsense")[0] == 3


@pytest.mark.spec("P5")
async def test_the_rules_screen_shows_and_sets_it(state: Path) -> None:
    async with console(state, RULES, agent=Agent()) as driver:
        await send(driver.runtime, "main", "hello")
        await driver.until(lambda: driver.order)
        await driver.press("escape", "P", "slash")
        await driver.write(GROUP)
        await driver.press("enter", "p")
        await driver.shows("✓ allow, by override", "allow, waits for its session", "1 override")
        assert await driver.runtime.overrides() == {GROUP: "allow"}
        screen = driver.app.screen
        assert isinstance(screen, PolicyScreen)
        await driver.until(lambda: "waits for its session" in screen.notice.text)
        await driver.press("p")
        await driver.shows("⊘ deny, by override")
        await driver.press("p")
        await driver.shows("inherit: the rules decide")
        assert await driver.runtime.overrides() == {}
        await driver.runtime.patch(OTHER, policy("allow"), OPERATOR)
    async with console(state, RULES, agent=Agent()) as driver:
        await driver.press("P")
        await driver.shows(OTHER)
