"""What an OpenClaw gateway tells of its rules is what is shown and decided by; what it does not tell is neither."""

from pathlib import Path

import pytest

from console.live.subject import levels, sight, spawning, subject_of, tools
from core.model.access import ALL, OPERATOR, Agents, One, SessionCaller, Tree
from core.remote.openclaw.rules import read_rules
from core.rules.visibility import AGENT_TO_AGENT_CONTROL, VISIBILITY_CONTROL
from core.tools.dispatch import dispatch
from tests.remote.theirs import KEY, Theirs, row, serving
from tests.support.clock import FakeClock

OTHER = "agent:helper:b"
AGENTS = {"defaultId": "main", "agents": [{"id": "main"}, {"id": "helper"}]}
CALLER = SessionCaller(KEY)


@pytest.mark.spec("V1", "V2")
@pytest.mark.parametrize(
    ("tools_section", "scope"),
    [
        ({}, ALL),
        ({"sessions": {"visibility": "bogus"}}, ALL),
        ({"sessions": {"visibility": "self"}}, One(KEY)),
        ({"sessions": {"visibility": "tree"}}, Tree(KEY)),
        ({"sessions": {"visibility": "all"}}, ALL),
        (
            {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": False}},
            Agents(frozenset({"main"}), KEY),
        ),
        ({"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True, "allow": ["*"]}}, ALL),
    ],
)
def test_visibility_is_read_and_what_is_not_told_decides_nothing(
    tools_section: dict[str, object], scope: object
) -> None:
    rules = read_rules({"tools": tools_section}, AGENTS)
    assert rules.grant(CALLER).scope == scope
    assert (VISIBILITY_CONTROL in rules.untold) == (
        "visibility" not in str(tools_section) or "bogus" in str(tools_section)
    )
    assert (AGENT_TO_AGENT_CONTROL in rules.untold) == ("agentToAgent" not in tools_section)


@pytest.mark.spec("V3")
@pytest.mark.parametrize(("of_sandbox", "scope"), [({}, ALL), ({"sessionToolsVisibility": "spawned"}, Tree(KEY))])
def test_what_a_sandbox_keeps_away_decides_only_where_it_is_told(of_sandbox: dict[str, str], scope: object) -> None:
    tools_section = {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True}}
    agents = {"defaults": {"sandbox": {"mode": "all", **of_sandbox}}}
    rules = read_rules({"tools": tools_section, "agents": agents}, AGENTS)
    assert rules.agents["main"].sandboxed
    assert rules.grant(CALLER).scope == scope


@pytest.mark.spec("P5")
def test_no_default_of_ours_is_shown_as_a_rule_of_theirs() -> None:
    rules = read_rules({"agents": {}}, AGENTS)
    subject = subject_of("agent:main:subagent:x", rules, {}, told=True)
    assert sight(subject, rules) == (f"unknown: its gateway does not tell {VISIBILITY_CONTROL}", ())
    assert spawning(subject, rules)[0].startswith("unknown")
    assert levels(subject, rules).endswith("how deep and how many is not told")
    assert [control for _, control in tools(subject, rules) if control] == []
    config = {
        "defaults": {"subagents": {"maxSpawnDepth": 2, "maxChildrenPerAgent": 9}, "sandbox": {"mode": "all"}},
        "entries": {"main": {"subagents": {"allowAgents": ["*"]}, "sandbox": {"mode": "off"}}},
    }
    told = read_rules({"agents": config}, AGENTS)
    assert levels(subject, told).endswith("levels end at 2, 9 at work at once")
    assert (told.agents["main"].sandboxed, told.agents["helper"].sandboxed) == (False, True)
    assert spawning(subject, told)[0] == "sub-agents of main, helper"


@pytest.mark.parametrize("told", [True, False])
async def test_an_agents_session_is_not_forbidden_by_rules_that_are_not_the_gateways(
    tmp_path: Path, told: bool
) -> None:
    theirs = Theirs()
    theirs.rows.append(row(OTHER, sessionId="t-2"))
    theirs.config = {"tools": {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True}}}
    if not told:
        theirs.refuses["config.get"] = {"code": "FORBIDDEN", "message": "missing scope: operator.admin"}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        listed = await dispatch(gateway, CALLER, "sessions_list", {})
        assert {each["key"] for each in listed["sessions"]} == {KEY, OTHER}
        history = await dispatch(gateway, CALLER, "sessions_history", {"sessionKey": OTHER})
        assert "messages" in history
    theirs.refuses.clear()
    theirs.config = {"tools": {"sessions": {"visibility": "self"}}}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        listed = await dispatch(gateway, CALLER, "sessions_list", {})
        assert {each["key"] for each in listed["sessions"]} == {KEY}


@pytest.mark.spec("V1")
@pytest.mark.parametrize("visibility", ["agent", "all"])
async def test_what_a_session_of_theirs_has_spawned_is_seen_by_it_whoever_runs_it(
    tmp_path: Path, visibility: str
) -> None:
    theirs, child = Theirs(), "agent:helper:subagent:c"
    theirs.rows += [row(OTHER, sessionId="t-2"), row(child, sessionId="t-3", spawnedBy=KEY)]
    theirs.config = {"tools": {"sessions": {"visibility": visibility}, "agentToAgent": {"enabled": False}}}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        listed = await dispatch(gateway, CALLER, "sessions_list", {})
        assert {each["key"] for each in listed["sessions"]} == {KEY, child}


@pytest.mark.spec("K5")
async def test_the_one_session_of_theirs_is_main_here(tmp_path: Path) -> None:
    theirs, child = Theirs(), "agent:helper:subagent:c"
    theirs.rows = [row("global"), row(child, sessionId="t-2", spawnedBy="global")]
    theirs.config = {"session": {"scope": "global"}}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        listed = await dispatch(gateway, OPERATOR, "sessions_list", {})
        assert {each["key"]: each.get("spawnedBy") for each in listed["sessions"]} == {"main": None, child: "main"}
        assert (await gateway.get_session("main", ALL)).key == "main"
        assert "global" not in str(listed)
