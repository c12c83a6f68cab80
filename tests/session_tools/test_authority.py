"""V1-V5, W3, W4, K1: whoever acts in a session has the rights of the agent that its row names, on every surface.

Kinds of session × owners × surfaces. The oracle below says what each caller may do, and shares no code with the rules.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.config.settings import AgentSettings, Settings
from core.mcp import call as mcp_call
from core.mcp import tools_of
from core.model.access import ALL, OPERATOR, SessionCaller
from core.model.errors import Conflict, Forbidden, NotFound
from core.model.messages import Provenance
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import NewSession
from core.rules.limits import ToolFilter
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import VisibilityRules
from core.store import sessions
from core.store.database import Tx
from core.tools.dispatch import TOOL_NAMES
from core.tools.target import identified
from tests.session_tools.test_matrix import play
from tests.support.runtimes import Agent, begin
from tests.support.stores import say
from tests.support.web_socket import TOKEN, Client, Served, connected, serving

OWNERS = ("main", "ops", "box")
"""The default agent, another one, and one that is sandboxed and has no search."""
KINDS = ("main", "group", "cron", "hook", "node", "subagent", "other")
SANDBOX = "agents.defaults.sandbox.sessionToolsVisibility=spawned"
AGENT = "tools.sessions.visibility=agent"


@dataclass(frozen=True)
class Place:
    """A session of the world."""

    owner: str
    kind: str

    @property
    def key(self) -> str:
        """Its key; those of jobs do not say whose they are."""
        named = {
            "main": f"agent:{self.owner}:main",
            "group": f"agent:{self.owner}:discord:group:{self.owner}",
            "subagent": f"agent:{self.owner}:subagent:{self.owner}",
            "other": f"agent:{self.owner}:notes",
            "node": f"node-{self.owner}",
        }
        return named.get(self.kind, f"{self.kind}:{self.owner}")


WORLD = tuple(Place(owner, kind) for owner in OWNERS for kind in KINDS)
ADOPTED = "agent:box:subagent:adopted"
"""A sub-agent of `box` that a session of `ops` spawned."""
PARENTS = {place.key: f"agent:{place.owner}:main" for place in WORLD if place.kind == "subagent"}
PARENTS[ADOPTED] = "agent:ops:main"


def seen(caller: Place) -> set[str]:
    """Return the keys that a caller sees, with visibility `agent`; a sandboxed one what it spawned."""
    below = {key for key, parent in PARENTS.items() if parent == caller.key}
    if caller.owner == "box":
        return {caller.key} | below
    return {place.key for place in WORLD if place.owner == caller.owner} | below


def settings() -> Settings:
    """Return the configuration of the world."""
    rules = RuleSet(
        agents={
            "main": AgentRules("main"),
            "ops": AgentRules("ops", allow_agents=("main",)),
            "box": AgentRules("box", sandboxed=True, tools=ToolFilter(deny=("sessions_search",))),
        },
        visibility=VisibilityRules("agent"),
        subagent_tools=ToolFilter(allow=("sessions_*", "agents_list")),
    )
    return Settings(rules=rules, agents={name: AgentSettings(name) for name in OWNERS}, max_ping_pong_turns=0)


def fill(tx: Tx) -> None:
    """Make the world."""
    for place in WORLD:
        new = sessions.SessionInsert(place.key, place.owner, origin="spawn" if place.key in PARENTS else None)
        sessions.create(tx, new)
    sessions.create(tx, sessions.SessionInsert(ADOPTED, "box", origin="spawn"))
    for key, parent in PARENTS.items():
        sessions.update(tx, key, spawned_by=parent)
    for key in (*(place.key for place in WORLD), ADOPTED):
        say(tx, key, f"copper in {key}")


@dataclass
class World:
    """The world, served, with a client of each surface."""

    server: Served
    http: httpx.AsyncClient
    socket: Client


@pytest.fixture
async def world(state: Path) -> AsyncIterator[World]:
    """Serve the world."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(state, settings(), Agent(play)))
        await server.runtime.store.write(fill)
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{server.port}"
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=headers, trust_env=False))
        socket = await stack.enter_async_context(connected(server))
        yield World(server, http, socket)


Ask = Callable[[World, str, str, dict[str, Any]], Awaitable[dict[str, Any]]]


async def by_agent(world: World, key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let the agent of a session call a tool in a real turn."""
    ticket = await begin(world.server.runtime, key, f"call {json.dumps([tool, arguments])}")
    return json.loads((await world.server.runtime.wait_run(ticket.run_id, 20)).reply or "")


async def by_mcp(world: World, key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as a client of the Model Context Protocol that acts as a session."""
    return (await mcp_call(world.server.runtime, SessionCaller(key), tool, arguments)).structured_content or {}


async def by_socket(world: World, key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool over WebSocket, as a session."""
    answer = await world.socket.ask("tools.invoke", name=tool, args=arguments, sessionKey=key, **{"as": "session"})
    return answer["output"]["details"]


async def by_port(world: World, key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as our own remote client does, which may name any agent it likes."""
    caller = {"type": "SessionCaller", "key": key, "agent_id": "main"}
    return await world.socket.ask("port.tool", name=tool, arguments=arguments, caller=caller, once=f"{key}{arguments}")


async def by_http(world: World, key: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool over HTTP for a session: it is the requester, the authority is the operator's (S13)."""
    body = {"tool": tool, "args": arguments, "sessionKey": key}
    return (await world.http.post("/tools/invoke", json=body)).json()["result"]["details"]


@pytest.mark.spec("V1", "V3", "V5", "W3", "W4", "K1")
@pytest.mark.parametrize("ask", [by_agent, by_mcp, by_socket, by_port])
async def test_a_session_has_the_rights_of_the_agent_of_its_row(world: World, ask: Ask) -> None:
    for caller in WORLD:
        rows = (await ask(world, caller.key, "sessions_list", {"limit": 200}))["sessions"]
        own = f"agent:{caller.owner}:main"
        assert {own if row["key"] == "main" else row["key"] for row in rows} == seen(caller), caller
        searched = await ask(world, caller.key, "sessions_search", {"query": "copper"})
        assert searched.get("decidedBy") == (["agents.list[].tools"] if caller.owner == "box" else None), caller
        named = await ask(world, caller.key, "agents_list", {})
        assert named["requester"] == caller.owner
        assert {row["id"] for row in named["agents"]} == {caller.owner, *({"main"} if caller.owner == "ops" else ())}
        for target in (Place("main", "main"), Place("ops", "main"), Place("box", "other")):
            read = await ask(world, caller.key, "sessions_history", {"sessionKey": target.key})
            control = SANDBOX if caller.owner == "box" else AGENT
            assert read.get("decidedBy") == (None if target.key in seen(caller) else [control]), (caller, target)
            if target.key not in seen(caller):
                sent = {"sessionKey": target.key, "message": "hello", "timeoutSeconds": 0}
                assert (await ask(world, caller.key, "sessions_send", sent)).get("decidedBy") == [control]
        mine = await ask(world, caller.key, "sessions_history", {"sessionKey": "main"})
        if own in seen(caller):
            assert f"copper in {own}" in json.dumps(mine["messages"][:1]), "main is that of its own agent"


@pytest.mark.spec("W4", "S13", "V4")
async def test_for_a_session_over_http_the_requester_is_its_agent(world: World) -> None:
    for caller in WORLD:
        named = await by_http(world, caller.key, "agents_list", {})
        assert named["requester"] == caller.owner, caller
        rows = (await by_http(world, caller.key, "sessions_list", {"limit": 200}))["sessions"]
        assert {f"agent:{owner}:notes" for owner in OWNERS} <= {row["key"] for row in rows}
        if caller.kind != "subagent":
            child = (await by_http(world, caller.key, "sessions_spawn", {"task": "say hi"}))["childSessionKey"]
            assert child.startswith(f"agent:{caller.owner}:subagent:"), caller


@pytest.mark.spec("W3")
async def test_the_tools_that_a_session_is_offered_are_those_of_its_agent(world: World) -> None:
    runtime = world.server.runtime
    for caller in WORLD:
        has = set(TOOL_NAMES) - ({"sessions_search"} if caller.owner == "box" else set())
        has -= {"sessions_spawn"} if caller.kind == "subagent" else set()
        acting = await identified(runtime, SessionCaller(caller.key))
        assert {tool.name for tool in tools_of(runtime, acting)} == has, caller
        answer = await world.socket.ask("tools.effective", sessionKey=caller.key)
        assert {tool["id"] for tool in answer["groups"][0]["tools"]} == has, caller
        assert answer["agentId"] == caller.owner


@pytest.mark.spec("V1", "V5", "W9")
async def test_the_transaction_that_accepts_asks_the_same(world: World) -> None:
    runtime = world.server.runtime
    caller = SessionCaller("cron:box")
    request = RunRequest("agent:main:main", "hello", provenance=Provenance("cron:box", "internal", "sessions_send"))
    with pytest.raises(NotFound):
        await runtime.start_run(request, caller)
    with pytest.raises(NotFound):
        await runtime.abort("agent:main:main", caller)
    with pytest.raises(Forbidden, match="sandboxed"):
        await runtime.start_run(RunRequest("", "work", spawn=SpawnSpec("cron:box", "main")), OPERATOR)


@pytest.mark.spec("K3", "K6")
async def test_a_job_belongs_to_the_agent_that_it_is_made_for(world: World) -> None:
    runtime = world.server.runtime
    for key in ("cron:made", "hook:made", "node-made"):
        assert (await world.socket.ask("sessions.create", key=key, agentId="box"))["key"] == key
        assert (await runtime.get_session(key, ALL)).agent_id == "box"
        again = await runtime.create(NewSession(key, "BOX"), OPERATOR)
        assert again.agent_id == "box"
        with pytest.raises(Conflict, match='belongs to agent "box"'):
            await runtime.create(NewSession(key, "main"), OPERATOR)
    await world.socket.ask("chat.send", sessionKey="cron:sent", agentId="Box", message="hi", idempotencyKey="1")
    assert (await runtime.get_session("cron:sent", ALL)).agent_id == "box"
    refused = await world.socket.error("sessions.create", key="agent:ops:x", agentId="box")
    assert refused["message"] == 'session key "agent:ops:x" is not of agent "box": leave one of them out'


@pytest.mark.spec("G6")
async def test_events_name_the_agent_of_the_row(world: World) -> None:
    await world.socket.ask("sessions.subscribe")
    await begin(world.server.runtime, "cron:ops", "hello")
    for name in ("session.message", "sessions.changed", "chat", "agent"):
        frame = await world.socket.until(
            lambda frame, name=name: frame["event"] == name and frame["payload"].get("sessionKey") == "cron:ops"
        )
        assert frame["payload"].get("agentId", "ops") == "ops", frame
