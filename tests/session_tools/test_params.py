"""T1: what a tool may be given is the same everywhere, and an error says what to do, in the words of JSON."""

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, ToolEnded, Turn
from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import OPERATOR, SessionCaller
from core.model.errors import Invalid, NotFound, SwitchboardError
from core.model.messages import text_block, tool_call_block
from core.rules.ruleset import AgentRules, RuleSet
from core.runtime.gateway import Runtime
from core.tools.dispatch import TOOL_NAMES, schemas
from tests.support.runtimes import MAIN, Agent, call, running, send, transcript

NEEDED: dict[str, dict[str, Any]] = {
    "sessions_history": {"sessionKey": "main"},
    "sessions_send": {"sessionKey": "main", "message": "hello"},
    "sessions_spawn": {"task": "say hi"},
    "sessions_search": {"query": "hello"},
}
OPTIONAL = [
    (tool.name, name)
    for tool in schemas()
    for name in tool.parameters["properties"]
    if name not in tool.parameters.get("required", [])
]


@pytest.mark.spec("T1")
@pytest.mark.parametrize(("tool", "name"), OPTIONAL)
async def test_null_is_the_same_as_nothing_for_whatever_may_be_left_out(runtime: Runtime, tool: str, name: str) -> None:
    await send(runtime, "main", "hello")
    plain = await call(runtime, tool, **NEEDED.get(tool, {}))
    with_null = await call(runtime, tool, **NEEDED.get(tool, {}), **{name: None})
    assert with_null.keys() == plain.keys()
    assert with_null.get("status") == plain.get("status")
    assert with_null.get("count") == plain.get("count")


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.spec("T1", "L2", "H1")
@pytest.mark.parametrize("tool", ["sessions_list", "sessions_history", "sessions_search"])
@pytest.mark.parametrize("limit", [0, -1, True, False, 1.5, "x", [1]])
async def test_a_limit_is_a_whole_number_from_one(runtime: Runtime, tool: str, limit: Any) -> None:
    await send(runtime, "main", "hello")
    with pytest.raises(Invalid) as caught:
        await call(runtime, tool, **NEEDED.get(tool, {}), limit=limit)
    why = "1 or more" if type(limit) is int else "a number" if isinstance(limit, bool) else "whole"
    assert caught.value.message.startswith(f"{tool}: limit cannot be {json.dumps(limit)}: it must be ")
    assert why in caught.value.message


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("sessions_list", {"messageLimit": True}, "messageLimit cannot be true: it must be a number"),
        ("sessions_list", {"activeMinutes": True}, "activeMinutes cannot be true: it must be a number"),
        ("sessions_list", {"activeMinutes": 0}, "activeMinutes cannot be 0: it must be more than 0"),
        ("sessions_list", {"offset": False}, "offset cannot be false: it must be a number"),
        ("sessions_list", {"kinds": "main"}, 'kinds cannot be "main": it must be a list'),
        ("sessions_list", {"kinds": [None]}, "kinds.0 cannot be null: it must be text"),
        ("sessions_list", {"archived": {"a": None}}, 'archived cannot be {"a": null}: it must be true or false'),
        ("sessions_history", {"sessionKey": None}, "sessionKey cannot be null: it must be text"),
        ("sessions_history", {"sessionKey": ["a", None, True]}, 'sessionKey cannot be ["a", null, true]: it must be'),
        ("sessions_history", {}, "sessions_history needs sessionKey: key or session id, as sessions_list shows it"),
        ("sessions_history", {"key": "main"}, 'no parameter "key": use sessionKey, limit, includeTools'),
        ("sessions_history", {"key": None}, 'no parameter "key": use sessionKey, limit, includeTools'),
        ("agents_list", {"x": 1}, 'agents_list has no parameter "x": it takes none'),
        ("sessions_send", {"sessionKey": "main", "message": "x", "timeoutSeconds": True}, "cannot be true"),
        ("sessions_send", {"sessionKey": "main", "message": "x", "timeoutSeconds": 1e9}, "it must be 86400 or less"),
        ("sessions_spawn", {"task": "x", "runTimeoutSeconds": True}, "cannot be true: it must be a number"),
        ("sessions_spawn", {"task": ""}, 'task cannot be "": say what the sub-agent is to do'),
        ("sessions_spawn", {"task": "x", "sandbox": "no"}, 'cannot be "no": it must be "inherit" or "require"'),
        ("sessions_spawn", {"task": "x", "attachments": [{"name": "a"}]}, "sessions_spawn needs attachments.0.content"),
        (
            "sessions_spawn",
            {"task": "x", "attachments": [{"name": "a", "content": "b", "type": "c"}]},
            'attachments.0 has no parameter "type": use name, content, encoding, mimeType',
        ),
        ("sessions_spawn", {"task": "x", "attachAs": {"to": "c"}}, 'attachAs has no parameter "to": use mountPath'),
        ("sessions_spawn", {"task": "x", "attachAs": "c"}, 'attachAs cannot be "c": it must be an object'),
        (
            "sessions_list",
            {"limit": nested(5_000)},
            "it must be a whole",
        ),
        ("sessions_list", {"search": [10**5_000]}, "search cannot be so large a value: it must be text"),
        ("sessions_search", {"query": ""}, 'query cannot be "": it must have 1 or more characters'),
    ],
)
async def test_an_error_says_what_to_give(runtime: Runtime, tool: str, arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(Invalid) as caught:
        await call(runtime, tool, **arguments)
    assert error in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.spec("T1")
async def test_a_nested_null_is_nothing_too(runtime: Runtime) -> None:
    file = {"name": "a", "content": "b", "encoding": None, "mimeType": None}
    answer = await call(runtime, "sessions_spawn", task="hi", attachments=[file], attachAs={"mountPath": None})
    assert answer["status"] == "accepted"


@pytest.mark.spec("T1", "K6")
async def test_an_agent_is_never_sent_to_a_shell(state: Path) -> None:
    """Every error that the tools give to an agent is about tools, and names what was asked for."""
    rules = RuleSet(agents={"main": AgentRules("main", sandboxed=True), "ops": AgentRules("ops")})
    asked: list[tuple[str, dict[str, Any]]] = [
        *((tool, {"sessionKey": "agent:main:gone", "message": "x"}) for tool in ("sessions_send",)),
        ("sessions_history", {"sessionKey": "gone"}),
        ("sessions_list", {"spawnedBy": "gone"}),
        ("sessions_search", {"query": "x", "sessionKey": "gone"}),
        ("sessions_spawn", {"task": "x", "agentId": "gone"}),
        ("sessions_spawn", {"task": "x", "agentId": "ops"}),
        ("sessions_spawn", {"task": "x", "model": "gone"}),
        ("sessions_history", {"sessionKey": "agent::gone"}),
        ("sessions_history", {"sessionKey": "gone\n"}),
        ("sessions_fly", {"gone": 1}),
    ]
    settings = Settings(rules=rules, agents={agent: AgentSettings(agent) for agent in rules.agents})
    async with running(state, settings) as runtime:
        await send(runtime, "main", "hello")
        for tool, arguments in asked:
            try:
                sentence = (await call(runtime, tool, SessionCaller(MAIN), **arguments))["error"]
            except SwitchboardError as error:
                sentence = error.message
            assert not re.search(r"`|switchboard|--\w|/dev|Traceback|None\b|\['", sentence), sentence
            assert re.search(r": |;", sentence), f"it says what to do: {sentence}"


@pytest.mark.spec("T1")
async def test_a_session_that_is_not_there_is_told_to_everybody_in_the_same_words(runtime: Runtime) -> None:
    await send(runtime, "main", "hello")
    for caller in (OPERATOR, SessionCaller(MAIN)):
        with pytest.raises(NotFound) as caught:
            await call(runtime, "sessions_history", caller, sessionKey="gone")
        assert caught.value.message == 'no session has the key or id "gone": list the sessions to see those there are'


@pytest.mark.spec("T1")
async def test_what_a_rule_refuses_or_cannot_be_is_marked_in_the_transcript(state: Path) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("sessions_list", {}),
        ("sessions_list", {"limit": True}),
        ("sessions_history", {"sessionKey": "agent:main:other"}),
    ]

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        for number, (tool, arguments) in enumerate(asked):
            yield Reply((tool_call_block(str(number), tool, arguments),), None, "p/m", "toolUse")
            yield ToolEnded(str(number), tool, await turn.call_tool(str(number), tool, arguments))
        yield Reply((text_block("done"),), None, "p/m")

    settings = Settings(
        agents={"main": AgentSettings("main", model="p/m")},
        models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")},
    )
    async with running(state, settings, Agent(play)) as runtime:
        await send(runtime, "agent:main:other", "hello")
        await send(runtime, "main", "go")
        results = [message for message in await transcript(runtime, MAIN) if message.role == "toolResult"]
        assert [message.is_error for message in results] == [False, True, True]
        assert [json.loads(message.text).get("status") for message in results] == [None, "error", "forbidden"]


def test_every_tool_says_what_each_parameter_is() -> None:
    for tool in schemas():
        assert tool.name in TOOL_NAMES
        assert all(about.get("description") for about in tool.parameters["properties"].values()), tool.name
