"""L1-L6, K1, K5: `sessions_list` through the one door."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, Reply, ToolEnded, Turn
from core.config.settings import AgentSettings, ModelSettings, Settings
from core.model.access import OPERATOR, Scope, SessionCaller
from core.model.errors import Invalid, NotFound
from core.model.keys import MAIN as MAIN_OF_ALL
from core.model.messages import Usage, text_block, tool_call_block
from core.model.sessions import SessionPage, SessionQuery
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.runtime.gateway import Runtime
from core.store import jsonl
from core.store.database import Tx
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, call, running, send, session
from tests.support.stores import create, say

GROUP = "agent:main:discord:group:ops"
START = 1_700_000_000_000


async def keys(runtime: Runtime, **arguments: object) -> list[str]:
    """Return the keys that a list shows."""
    return [row["key"] for row in (await call(runtime, "sessions_list", **arguments))["sessions"]]


async def make(runtime: Runtime, *wanted: str, **more: Any) -> None:
    """Create sessions, in this order."""
    for key in wanted:
        await runtime.store.write(lambda tx, key=key: create(tx, key, **more))


async def costs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Call a tool, and answer."""
    yield Reply((tool_call_block("c", "agents_list", {}),), Usage(10, 1), "p/m", "toolUse")
    yield ToolEnded("c", "agents_list", await turn.call_tool("c", "agents_list", {}))
    yield Reply((text_block("done"),), Usage(20, 2, cost_usd=0.5), "p/m")


SETTINGS = Settings(
    agents={"main": AgentSettings("main", model="p/m")},
    models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x", context_window=1000)},
)


@pytest.mark.spec("L4", "K1")
async def test_a_row_has_exactly_these_fields(state: Path) -> None:
    clock = FakeClock(START)
    async with running(state, SETTINGS, Agent(costs), clock=clock) as runtime:
        await send(runtime, "main", "go")
        await send(runtime, "main", "/label boss")
        await send(runtime, "main", "/send on")
        row = await session(runtime, MAIN)
        answer = await call(runtime, "sessions_list")
        assert answer == {
            "count": 1,
            "sessions": [
                {
                    "key": "main",
                    "kind": "main",
                    "channel": "webchat",
                    "label": "boss",
                    "updatedAt": START,
                    "sessionId": row.session_id,
                    "model": "p/m",
                    "contextTokens": 1000,
                    "totalTokens": 22,
                    "systemSent": True,
                    "abortedLastRun": False,
                    "sendPolicy": "allow",
                    "lastChannel": "webchat",
                    "deliveryContext": {"channel": "webchat"},
                    "transcriptPath": str(jsonl.transcript_path(state, row.session_id)),
                    "status": "done",
                    "startedAt": START,
                    "endedAt": START,
                    "runtimeMs": 0,
                    "estimatedCostUsd": 0.5,
                }
            ],
        }


@pytest.mark.spec("L2")
async def test_newest_first_and_fifty_at_most(state: Path) -> None:
    clock = FakeClock(START)
    async with running(state, clock=clock) as runtime:
        for number in range(55):
            await make(runtime, f"agent:main:s{number}")
            await clock.advance(1)
        assert await keys(runtime) == [f"agent:main:s{number}" for number in range(54, 4, -1)]
        await runtime.store.write(lambda tx: say(tx, "agent:main:s3", "hi"))
        assert (await keys(runtime))[:2] == ["agent:main:s3", "agent:main:s54"]


@pytest.mark.spec("L2", "L6")
async def test_limits_are_clamped_and_pages_follow_each_other(runtime: Runtime) -> None:
    def fill(tx: Tx) -> None:
        for number in range(230):
            create(tx, f"agent:main:s{number}")

    await runtime.store.write(fill)
    for limit, expected in ((1, 1), (200, 200), (1000, 200), (10**40, 200)):
        assert len(await keys(runtime, limit=limit)) == expected
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await call(runtime, "sessions_list", limit=100, offset=offset)
        assert page["count"] == len(page["sessions"])
        seen += [row["key"] for row in page["sessions"]]
        assert ("hasMore" in page) == ("nextOffset" in page)
        offset = page.get("nextOffset")
    assert seen == [f"agent:main:s{number}" for number in range(229, -1, -1)]


@pytest.mark.spec("L2")
async def test_active_minutes(state: Path) -> None:
    clock = FakeClock(START)
    async with running(state, clock=clock) as runtime:
        for number in range(3):
            await make(runtime, f"agent:main:s{number}")
            await clock.advance(60)
        assert await keys(runtime, activeMinutes=1) == ["agent:main:s2"]
        assert await keys(runtime, activeMinutes=2.5) == ["agent:main:s2", "agent:main:s1"]
        assert len(await keys(runtime, activeMinutes=50_000_000)) == 3
        await clock.advance(60)
        assert await keys(runtime, activeMinutes=0.5) == []


@pytest.mark.spec("L1", "K7")
async def test_kinds(runtime: Runtime) -> None:
    made = {
        "agent:main:main": "main",
        GROUP: "group",
        "agent:main:slack:channel:c": "group",
        "cron:nightly": "cron",
        "hook:1": "hook",
        "node-laptop": "node",
        "agent:main:subagent:1": "other",
        "agent:main:acp:1": "other",
        f"{GROUP}:thread:1": "other",
        "agent:main:anything": "other",
    }
    await make(runtime, *made)
    await make(runtime, "my-job", origin="cron")
    found = {row["key"]: row["kind"] for row in (await call(runtime, "sessions_list"))["sessions"]}
    found["agent:main:main"] = found.pop("main")
    assert found == {**made, "my-job": "cron"}
    assert set(await keys(runtime, kinds=["cron", "node"])) == {"cron:nightly", "my-job", "node-laptop"}
    assert await keys(runtime, kinds=["hook"]) == ["hook:1"]
    assert len(await keys(runtime, kinds=[])) == 11


@pytest.mark.spec("L1")
async def test_an_unknown_kind_is_an_error_that_lists_the_valid_ones(runtime: Runtime) -> None:
    with pytest.raises(Invalid) as caught:
        await call(runtime, "sessions_list", kinds=["main", "Group"])
    assert '"Group" is no kind of session: use any of main, group, cron, hook, node, other' in caught.value.message


@pytest.mark.spec("L5")
async def test_channels(runtime: Runtime) -> None:
    made = {
        GROUP: "discord",
        "agent:main:whatsapp:group:1": "whatsapp",
        "agent:main:newthing:channel:1": "newthing",
        f"{GROUP}:thread:1": "discord",
        "cron:nightly": "internal",
        "hook:1": "internal",
        "node-laptop": "internal",
        "agent:main:anything": "unknown",
    }
    await make(runtime, *made)
    await make(runtime, "agent:main:anna", channel="telegram")
    await make(runtime, "my-hook", origin="hook")
    found = {row["key"]: row["channel"] for row in (await call(runtime, "sessions_list"))["sessions"]}
    assert found == {**made, "agent:main:anna": "telegram", "my-hook": "internal"}


@pytest.mark.spec("L3")
async def test_message_limit_adds_the_newest_messages_without_tool_results(state: Path) -> None:
    async with running(state, SETTINGS, Agent(costs)) as runtime:
        await send(runtime, "main", "one")
        await send(runtime, "main", "two")
        (row,) = (await call(runtime, "sessions_list"))["sessions"]
        assert "messages" not in row
        (row,) = (await call(runtime, "sessions_list", messageLimit=3))["sessions"]
        assert [(message["role"], message["seq"]) for message in row["messages"]] == [
            ("user", 5),
            ("assistant", 6),
            ("assistant", 8),
        ]
        history = await call(runtime, "sessions_history", sessionKey="main", limit=3)
        assert row["messages"] == history["messages"]
        for _ in range(12):
            await send(runtime, "main", "more")
        (row,) = (await call(runtime, "sessions_list", messageLimit=500))["sessions"]
        assert len(row["messages"]) == 20


@pytest.mark.spec("L3")
async def test_a_session_that_is_deleted_before_its_messages_are_read_is_left_out(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(state, SETTINGS, Agent(costs)) as runtime:
        for key in ("agent:main:one", "agent:main:two", "agent:main:three"):
            await send(runtime, key, "hello")
        listed = runtime.list_sessions

        async def deleted_then(query: SessionQuery, scope: Scope) -> SessionPage:
            page = await listed(query, scope)
            await runtime.delete("agent:main:two", OPERATOR)
            return page

        monkeypatch.setattr(runtime, "list_sessions", deleted_then)
        answer = await call(runtime, "sessions_list", messageLimit=1, limit=3)
    assert [row["key"] for row in answer["sessions"]] == ["agent:main:three", "agent:main:one"]
    assert answer["count"] == 2
    assert [len(row["messages"]) for row in answer["sessions"]] == [1, 1]


@pytest.mark.spec("L6")
async def test_filters(runtime: Runtime) -> None:
    await make(runtime, "agent:ops:main", "agent:main:main")
    await make(runtime, "agent:ops:subagent:1", spawned_by="agent:main:main", label="scout", display_name="Scouting")
    await make(runtime, "agent:ops:old")
    await runtime.archive("agent:ops:old", OPERATOR, archived=True)
    assert await keys(runtime, agentId="Ops") == ["agent:ops:subagent:1", "agent:ops:main"]
    assert await keys(runtime, label="scout") == ["agent:ops:subagent:1"]
    assert await keys(runtime, label="sco") == []
    assert await keys(runtime, search="couti") == ["agent:ops:subagent:1"]
    assert await keys(runtime, archived=True) == ["agent:ops:old"]
    assert await keys(runtime, agentId="ops", search="main", kinds=["main"]) == ["agent:ops:main"]


@pytest.mark.spec("L6", "K6")
async def test_spawned_by_takes_a_key_a_short_form_or_an_id(runtime: Runtime) -> None:
    await make(runtime, "agent:main:main")
    await make(runtime, "agent:ops:subagent:1", spawned_by="agent:main:main")
    parent = await session(runtime, MAIN)
    for spelled in ("main", "Agent:MAIN:main", parent.session_id):
        assert await keys(runtime, spawnedBy=spelled) == ["agent:ops:subagent:1"]
    with pytest.raises(NotFound, match="agent:main:nobody"):
        await keys(runtime, spawnedBy="agent:main:nobody")


@pytest.mark.spec("K5")
async def test_reserved_sessions_are_never_listed(runtime: Runtime) -> None:
    await make(runtime, MAIN_OF_ALL, "unknown", "agent:main:main")
    await runtime.store.write(lambda tx: [say(tx, key, "copper") for key in (MAIN_OF_ALL, "unknown")])
    assert await keys(runtime) == ["main"]
    assert (await call(runtime, "sessions_search", query="copper"))["count"] == 0


@pytest.mark.spec("K5")
async def test_with_global_scope_the_one_session_is_called_main(state: Path) -> None:
    async with running(state, Settings(rules=RuleSet(global_scope=True))) as runtime:
        await make(runtime, "unknown")
        answer = await send(runtime, "main", "say hi")
        assert answer["reply"] == "hi"
        assert await keys(runtime) == ["main"]
        stored = runtime.store.db.execute("SELECT stored_key FROM sessions WHERE key = 'main'").fetchall()
        assert stored == [("global",)]
        assert (await call(runtime, "sessions_history", sessionKey="main"))["sessionKey"] == "main"
        (hit,) = (await call(runtime, "sessions_search", query="say hi"))["results"]
        assert hit["sessionKey"] == "main"
        child = (await call(runtime, "sessions_spawn", task="say found"))["childSessionKey"]
        await runtime.drained()
        rows = {row["key"]: row for row in (await call(runtime, "sessions_list"))["sessions"]}
        assert set(rows) == {"main", child}
        assert (rows[child]["spawnedBy"], rows["main"]["childSessions"]) == ("main", [child])


@pytest.mark.spec("V5")
async def test_a_row_names_no_child_that_its_reader_may_not_see(state: Path) -> None:
    rules = RuleSet(
        agents={"main": AgentRules("main"), "ops": AgentRules("ops")},
        visibility=VisibilityRules("agent", AgentToAgent()),
    )
    async with running(state, Settings(rules=rules)) as runtime:
        await make(runtime, "agent:main:main", "agent:main:other")
        await make(runtime, "agent:ops:subagent:1", "agent:main:subagent:2", spawned_by="agent:main:main")
        answer = await call(runtime, "sessions_list", SessionCaller("agent:main:other"))
        rows = {row["key"]: row for row in answer["sessions"]}
        assert rows["main"]["childSessions"] == ["agent:main:subagent:2"]
        assert "agent:ops:subagent:1" not in rows


@pytest.mark.spec("L4", "W7")
async def test_a_row_names_no_child_that_is_in_the_archive(runtime: Runtime) -> None:
    await make(runtime, "agent:main:main")
    await make(runtime, "agent:main:subagent:1", "agent:main:subagent:2", spawned_by="agent:main:main")
    for archived, children in ((True, ["agent:main:subagent:2"]), (False, None)):
        await runtime.archive("agent:main:subagent:1", OPERATOR, archived=archived)
        (row,) = (await call(runtime, "sessions_list", kinds=["main"]))["sessions"]
        assert row["childSessions"] == (children or ["agent:main:subagent:1", "agent:main:subagent:2"])
