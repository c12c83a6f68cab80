"""W3, W4: which tools a sub-agent has, and whose sub-agents may be started."""

import pytest

from core.model.keys import parse
from core.rules.limits import SESSION_TOOLS, ToolFilter, may_use, spawn_targets
from core.tools.dispatch import TOOL_NAMES

ORDINARY = ("agent:main:main", "agent:main:discord:group:ops", "cron:nightly", "agent:subagent:main")
SUBAGENTS = ("agent:main:subagent:1", "agent:main:subagent:1:subagent:2", "agent:main:subagent:1:thread:3")


@pytest.mark.spec("T1")
def test_the_session_tools_are_those_six() -> None:
    assert set(TOOL_NAMES) == SESSION_TOOLS
    assert len(TOOL_NAMES) == 6


@pytest.mark.spec("W3")
@pytest.mark.parametrize("key", ORDINARY)
def test_ordinary_sessions_have_every_tool(key: str) -> None:
    lists = ToolFilter(allow=(), deny=("*",))
    assert all(may_use(tool, parse(key), lists) for tool in (*TOOL_NAMES, "read_file"))


@pytest.mark.spec("W3")
@pytest.mark.parametrize("key", SUBAGENTS)
def test_subagents_have_all_but_the_session_tools(key: str) -> None:
    usual = ToolFilter()
    assert not any(may_use(tool, parse(key), usual) for tool in TOOL_NAMES)
    assert may_use("read_file", parse(key), usual)


@pytest.mark.spec("W3")
def test_the_lists_of_the_configuration_change_that() -> None:
    child = parse("agent:main:subagent:1")
    allowed = ToolFilter(allow=("sessions_l*", "read_*"))
    assert may_use("sessions_list", child, allowed)
    assert not may_use("sessions_send", child, allowed)
    assert may_use("read_file", child, allowed)
    assert not may_use("write_file", child, allowed)
    denied = ToolFilter(allow=("*",), deny=("sessions_send", "write_*"))
    assert may_use("sessions_list", child, denied)
    assert not may_use("sessions_send", child, denied)
    assert not may_use("write_file", child, denied)


@pytest.mark.spec("W3")
def test_no_list_lets_a_subagent_spawn() -> None:
    assert not may_use("sessions_spawn", parse("agent:main:subagent:1"), ToolFilter(allow=("*",)))


@pytest.mark.spec("W4")
@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ((), ("ops",)),
        (("*",), ("main", "ops", "research")),
        (("research",), ("ops", "research")),
        (("re*",), ("ops", "research")),
        (("nobody",), ("ops",)),
    ],
)
def test_spawn_targets_are_the_own_agent_and_those_allowed(allow: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert spawn_targets("ops", allow, ("main", "ops", "research")) == expected
