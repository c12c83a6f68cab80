"""K5: with `session.scope = "global"` the one session is called `main` everywhere, and nobody hears the other word.

Three agents talk to each other through that session, and everything that anybody can see of it is looked through.
"""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.cli.parser import run as command_line
from core.agents.prompt import prompt_text
from core.config.settings import AgentSettings, Settings
from core.mcp import call as mcp_call
from core.model.access import ALL, OPERATOR, SessionCaller
from core.model.errors import SwitchboardError
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch
from core.rules.limits import ToolFilter
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.store.schema import migrate
from tests.console.driver import console
from tests.session_tools.test_matrix import play
from tests.support.runtimes import Agent, begin, listening, running, send, until_async
from tests.support.stores import other_connection
from tests.support.web_socket import TOKEN, connected, serving

AGENTS = ("boss", "helper", "third")
HELPER = "agent:helper:work"
CONFIG: dict[str, Any] = {
    "session": {"scope": "global"},
    "agents": {
        "list": [
            {"id": "boss", "default": True},
            {"id": "helper", "subagents": {"allowAgents": ["*"]}},
            {"id": "third"},
        ]
    },
    "tools": {"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True}},
}


def settings() -> Settings:
    """Return the configuration above; sub-agents have the session tools, and nobody talks on by itself."""
    rules = RuleSet(
        agents={name: AgentRules(name, allow_agents=("*",)) for name in AGENTS},
        default_agent="boss",
        global_scope=True,
        visibility=VisibilityRules("all", AgentToAgent(enabled=True)),
        subagent_tools=ToolFilter(allow=("sessions_*",)),
    )
    return Settings(rules=rules, agents={name: AgentSettings(name) for name in AGENTS}, max_ping_pong_turns=1)


def clean(where: str, seen: object) -> None:
    """Fail when something that was seen holds the word."""
    words = seen if isinstance(seen, str) else json.dumps(seen, default=str)
    assert words, where
    assert re.search(r"\bglobal\b", words, re.IGNORECASE) is None, (where, words)


async def talk(state: Path, agent: Agent) -> None:
    """Let everybody say something to everybody, and spawn."""
    async with running(state, settings(), agent) as runtime:
        await send(runtime, "main", "hello")
        await send(runtime, HELPER, called("sessions_send", sessionKey="main", message="from the helper"))
        await send(runtime, "main", called("sessions_send", sessionKey=HELPER, message="from the boss"))
        await send(runtime, "main", called("sessions_spawn", task="look around", agentId="third"))
        await send(runtime, HELPER, called("sessions_spawn", task="look around"))
        await send(runtime, "agent:helper:main", "one of its own")
        await runtime.drained()


def called(tool: str, **arguments: object) -> str:
    """Return words on which the agent calls a tool."""
    return f"call {json.dumps([tool, {'timeoutSeconds': 5, **arguments} if tool == 'sessions_send' else arguments])}"


@pytest.fixture
def agent() -> Agent:
    """Return the agent of all sessions."""
    return Agent(play)


@pytest.mark.spec("K5", "S7", "S8", "W6")
async def test_prompts_and_transcripts_say_main(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    async with running(state, settings(), agent) as runtime:
        for turn in agent.turns:
            clean("a system prompt", turn.system)
            clean("a transcript", [prompt_text(message) for message in turn.transcript])
        assert any("You act in the session main" in turn.system for turn in agent.turns)
        assert any("requester: session main" in turn.system for turn in agent.turns)
        assert any("that main started" in turn.system for turn in agent.turns)
        for key in ("main", HELPER, "agent:helper:main"):
            clean(key, [message.as_json() for message in (await runtime.history(key, ALL, limit=500)).messages])
        heard = [m.provenance for m in (await runtime.history(HELPER, ALL, limit=500)).messages if m.provenance]
        assert "main" in {each.source_session_key for each in heard}
        assert runtime.store.db.execute("SELECT stored_key FROM sessions WHERE key = 'main'").fetchall() == [
            ("global",)
        ]


@pytest.mark.spec("K1", "K5", "V2")
async def test_every_key_means_one_session_to_everybody(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    async with running(state, settings(), agent) as runtime:
        listed: list[set[str]] = []
        for caller in (OPERATOR, SessionCaller("main"), SessionCaller(HELPER), SessionCaller("agent:helper:main")):
            named: dict[str, Any] = (
                await mcp_call(runtime, caller, "sessions_list", {"limit": 200})
            ).structured_content or {}
            keys: list[str] = [row["key"] for row in named["sessions"]]
            assert len(keys) == len(set(keys)), "no two rows have one key"
            listed.append(set(keys))
            for key, one in (("main", "main"), ("agent:boss:main", "main"), ("agent:helper:main",) * 2):
                read = (await mcp_call(runtime, caller, "sessions_history", {"sessionKey": key})).structured_content
                assert read is not None
                assert (read["sessionKey"], read["sessionId"]) == (
                    one,
                    (await runtime.get_session(one, ALL)).session_id,
                )
        assert listed[0] == listed[1] == listed[2] == listed[3]
        assert {"main", "agent:helper:main"} <= listed[0]
        assert (await runtime.get_session("main", ALL)).agent_id == "boss"


@pytest.mark.spec("K5", "P4", "S12")
async def test_every_tool_and_error_says_main(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    async with running(state, settings(), agent) as runtime:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("sessions_list", {"messageLimit": 20, "limit": 200}),
            ("sessions_list", {"spawnedBy": "main"}),
            ("sessions_history", {"sessionKey": "main", "includeTools": True}),
            ("sessions_search", {"query": "hello"}),
            ("sessions_search", {"query": "hello", "sessionKey": "main"}),
            ("sessions_send", {"sessionKey": "main", "message": "hello", "timeoutSeconds": 5}),
            ("sessions_spawn", {"task": "hello"}),
            ("agents_list", {}),
        ]

        async def ask(why: str) -> None:
            for tool, arguments in asked:
                for caller in (OPERATOR, SessionCaller("main"), SessionCaller(HELPER)):
                    result = await mcp_call(runtime, caller, tool, arguments)
                    clean(f"{tool} {why}", [result.structured_content, [str(block) for block in result.content]])

        await ask("")
        await runtime.drained()
        await runtime.patch("main", SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        await ask("denied")
        for write in (
            runtime.start_run(RunRequest("main", "hello"), OPERATOR),
            runtime.start_run(RunRequest("main", "hello"), SessionCaller("main")),
            runtime.delete("main", OPERATOR),
        ):
            with pytest.raises(SwitchboardError) as refused:
                await write
            clean("an error", refused.value.message)
            assert "main" in refused.value.message


@pytest.mark.spec("K5", "V5")
async def test_who_may_not_see_it_is_told_of_main_however_it_is_named(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    limited = replace(settings().rules, visibility=VisibilityRules("self"))
    async with running(state, replace(settings(), rules=limited), agent) as runtime:
        for named in ("main", "agent:boss:main", "global"):
            for tool, more in (("sessions_history", {}), ("sessions_send", {"message": "hello"})):
                result = await mcp_call(runtime, SessionCaller(HELPER), tool, {"sessionKey": named, **more})
                assert result.is_error
                assert "session main is not visible" in str(result.structured_content)
                clean(f"{tool} {named}", [result.structured_content, [str(block) for block in result.content]])


@pytest.mark.spec("K5", "G1", "G3", "G5", "G6", "G7")
async def test_the_gateway_says_main(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(state, settings(), agent))
        socket = await stack.enter_async_context(connected(server))
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{server.port}"
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30)
        )
        listener = await stack.enter_async_context(listening(server.runtime, "main"))
        clean("hello", socket.hello)
        clean("list", await socket.ask("sessions.subscribe", limit=100))
        feed: dict[str, Any] = {"feed": "f", "turn": 1, "watch": [], "all": True}
        await socket.ask("port.subscribe", **feed)
        followed = stack.enter_async_context(http.stream("GET", "/sessions/main/history?follow=1&includeTools=1"))
        lines = (await followed).aiter_lines()
        for key in ("main", "agent:boss:main", "global"):
            for method, params in (
                ("sessions.describe", {"key": key}),
                ("sessions.resolve", {"key": key}),
                ("sessions.get", {"key": key}),
                ("chat.history", {"sessionKey": key}),
                ("tools.effective", {"sessionKey": key}),
                ("sessions.messages.subscribe", {"key": key}),
            ):
                clean(f"{method} {key}", await socket.ask(method, **params))
            page = await http.get(f"/sessions/{key}/history?includeTools=1")
            assert page.status_code == 200
            clean("a page", page.text)
        clean("previews", await socket.ask("sessions.preview", keys=["main", HELPER]))
        clean("chat", await socket.ask("chat.send", sessionKey="global", message="good evening", idempotencyKey="once"))
        await socket.until(lambda frame: frame["event"] == "chat" and frame["payload"]["state"] == "final")
        send_from = {"sessionKey": HELPER, "message": "from the operator", "timeoutSeconds": 5}
        body = {"tool": "sessions_send", "args": send_from, "sessionKey": "main"}
        clean("tools/invoke", (await http.post("/tools/invoke", json=body)).text)
        for method, params in (
            ("sessions.search", {"query": "hello"}),
            ("sessions.usage", {}),
            ("agents.list", {}),
            ("status", {}),
            ("health", {}),
            ("port.describe", {}),
            ("port.list_sessions", {"query": {}, "scope": {"type": "All"}}),
            ("port.history", {"ref": "main", "scope": {"type": "All"}, "limit": 100}),
            ("port.exchanges", {"key": "main", "limit": 100}),
            ("port.runs", {"key": "main", "scope": {"type": "All"}, "limit": 100}),
            ("port.deliveries", {"limit": 100}),
        ):
            clean(method, await socket.ask(method, **params))
        error = await socket.error("sessions.delete", key="global")
        clean("an error", error)
        await server.runtime.drained()
        clean("events", socket.events)
        clean("the feed", [repr(event) for event in listener.events])
        seen: list[str] = []
        async with asyncio.timeout(10):
            async for line in lines:
                seen.append(line)
                if line.startswith("data:") and "good evening" in line:
                    break
        clean("the stream", "\n".join(seen))
        clean("metrics", (await http.get("/metrics")).text)


@pytest.mark.spec("K5")
async def test_files_and_the_screen_say_main(state: Path, agent: Agent) -> None:
    await talk(state, agent)
    files = list((state / "transcripts").glob("*.jsonl"))
    assert len(files) >= 3
    for file in files:
        clean(file.name, file.read_text())
    async with running(state, Settings(agents=settings().agents)) as runtime:  # another scope: its own `main`
        await send(runtime, "agent:boss:main", "say of another scope")
    async with console(state, json.dumps(CONFIG), agent=agent, size=(160, 50)) as driver:
        await driver.select("main")
        await driver.shows("look around")
        assert "agent:boss:main" not in driver.order
        clean("watch", driver.text)
        assert len([row for row in driver.app.view_model.book.rows.values() if row.name == "main"]) == 1
        for key in ("P", "escape", "S", "escape", "question_mark", "escape", "o", "escape"):
            await driver.press(key)
            clean(f"after {key}", driver.text)
        await driver.select(HELPER)
        await driver.shows("look around")
        clean("the helper", driver.text)


@pytest.mark.spec("K5")
def test_the_command_line_says_main(state: Path, agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(talk(state, agent))
    config = state.parent / "config.json5"
    config.write_text(json.dumps(CONFIG))
    everywhere = ["--state", str(state), "--config", str(config)]
    for command in (
        ["list"],
        ["history", "main", "--tools"],
        ["history", HELPER],
        ["export", "main"],
        ["export", "global"],
        ["policy", "main"],
        ["policy", "main", "off"],
        ["send", "main", "hello"],
        ["search", "hello"],
        ["abort", "main"],
    ):
        for form in ([], ["--json"]):
            command_line([*command, *form, *everywhere])
            said = capsys.readouterr()
            clean(" ".join(command), said.out + said.err)


@pytest.mark.spec("K5")
async def test_a_store_of_before_calls_it_main_as_well(state: Path, agent: Agent) -> None:
    state.mkdir()
    db = other_connection(state)
    migrate(db, state, ("schema.sql", "exchanges.sql", "gone.sql"))
    said = {
        "id": "m",
        "seq": 1,
        "timestamp": 1,
        "role": "user",
        "content": [{"type": "text", "text": 'it is "global"'}],
    }
    body = json.dumps(
        said | {"provenance": {"kind": "inter_session", "sourceSessionKey": "global", "sourceChannel": "w"}}
    )
    for key, row in (("global", 1), (HELPER, 2)):
        db.execute(
            "INSERT INTO sessions (id, key, session_id, rev, agent_id, kind, chat_type, channel, created_at,"
            " updated_at, last_seq, spawned_by)"
            " VALUES (?, ?, ?, ?, 'boss', 'main', 'direct', 'webchat', 1, 1, 1, 'global')",
            (row, key, f"id {key}", row),
        )
        db.execute("INSERT INTO session_names (rowid, key) VALUES (?, ?)", (row, key))
        db.execute(
            "INSERT INTO transcripts (session_id, key, first_seq, started_at) VALUES (?, ?, 1, 1)", (f"id {key}", key)
        )
        written = body.replace('": ', '":')
        db.execute(
            "INSERT INTO messages (session, seq, rev, role, body) VALUES (?, 1, ?, 'user', ?)", (row, row, written)
        )
    db.close()
    async with running(state, settings(), agent) as runtime:
        one = await runtime.get_session("main", ALL)
        assert one.session_id == "id global"
        assert (await runtime.get_session(HELPER, ALL)).spawned_by == "main"
        (message,) = (await runtime.history(HELPER, ALL, limit=9)).messages
        assert message.provenance is not None
        assert (message.provenance.source_session_key, message.text) == ("main", 'it is "global"')
        assert (await send(runtime, "main", "hello"))["status"] == "ok"
        await until_async(lambda: runtime.transcript_path(one))
        await begin(runtime, "main", "again")
