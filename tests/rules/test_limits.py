"""W3, W4: which tools a sub-agent has, and whose sub-agents may be started."""

import pytest

from core.model.keys import Key, parse
from core.rules.limits import (
    AGENT_TOOLS_CONTROL,
    DEPTH_CONTROL,
    SESSION_TOOLS,
    SUBAGENT_TOOLS_CONTROL,
    ToolFilter,
    spawn_targets,
    withheld,
)
from core.tools.dispatch import TOOL_NAMES

ORDINARY = ("agent:main:main", "agent:main:discord:group:ops", "cron:nightly", "agent:subagent:main")
SUBAGENTS = ("agent:main:subagent:1", "agent:main:subagent:1:subagent:2", "agent:main:subagent:1:thread:3")


def may_use(tool: str, key: Key, subagent_tools: ToolFilter) -> bool:
    """Whether a session of an agent without lists has a tool, at the usual depth."""
    return withheld(tool, key, agent_tools=ToolFilter(), subagent_tools=subagent_tools, max_depth=1) is None


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


@pytest.mark.spec("W3")
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_those_above_the_last_level_may_spawn(depth: int) -> None:
    for level in range(6):
        key = parse("agent:main" + ":subagent:x" * level if level else "agent:main:main")
        control = withheld(
            "sessions_spawn", key, agent_tools=ToolFilter(), subagent_tools=ToolFilter(), max_depth=depth
        )
        assert control == (None if level < depth else DEPTH_CONTROL)
    denied = ToolFilter(deny=("sessions_spawn",))
    child = parse("agent:main:subagent:x")
    found = withheld("sessions_spawn", child, agent_tools=ToolFilter(), subagent_tools=denied, max_depth=5)
    assert found == SUBAGENT_TOOLS_CONTROL


@pytest.mark.spec("W3")
@pytest.mark.parametrize("key", [*ORDINARY, *SUBAGENTS])
def test_the_lists_of_an_agent_bind_all_its_sessions(key: str) -> None:
    for lists in (ToolFilter(deny=("sessions_*", "read_*")), ToolFilter(allow=("other",))):
        for tool in ("sessions_list", "read_file"):
            every = ToolFilter(allow=("*",))
            found = withheld(tool, parse(key), agent_tools=lists, subagent_tools=every, max_depth=5)
            assert found == AGENT_TOOLS_CONTROL


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
