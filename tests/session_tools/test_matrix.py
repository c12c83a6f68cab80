"""P1-P5, V1-V5: send policy × override × channel × chat type × caller × surface, against a second, plainer oracle.

The oracle says what a send and a read come to, and names every control that refuses it. It knows the world below by
heart and shares no code with the rules.
"""

import asyncio
import itertools
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.cli.parser import run as command_line
from core.agents.port import AgentEvent, Reply, Turn
from core.config.settings import AgentSettings, Settings
from core.mcp import call as mcp_call
from core.model.access import OPERATOR, Caller, Operator, SessionCaller
from core.model.errors import Forbidden
from core.model.keys import ChatType
from core.model.messages import Usage, text_block
from core.model.runs import RunRequest
from core.model.sessions import Override, SessionQuery
from core.multi import MultiGateway
from core.rules.limits import ToolFilter
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.runtime.gateway import Runtime
from core.store import sessions
from core.store.database import Tx
from core.tools.dispatch import dispatch
from tests.support.runtimes import Agent, begin, call, running
from tests.support.stores import create, say


@dataclass(frozen=True)
class Place:
    """A session of the world."""

    key: str
    channel: str
    chat_type: str
    parent: str | None = None

    @property
    def agent(self) -> str:
        """Who owns it."""
        return self.key.split(":")[1] if self.key.startswith("agent:") else "main"


MAIN = Place("agent:main:main", "webchat", "direct")
OPS = Place("agent:ops:main", "telegram", "direct")
BOX = Place("agent:box:main", "webchat", "direct")
GROUP = Place("agent:main:discord:group:a", "discord", "group")
ROOM = Place("agent:main:discord:channel:a", "discord", "channel")
OTHER = Place("agent:ops:slack:channel:b", "slack", "channel")
CHILD = Place("agent:main:subagent:1", "internal", "direct", MAIN.key)
GRANDCHILD = Place("agent:ops:subagent:2:subagent:3", "internal", "direct", CHILD.key)
BOXED = Place("agent:box:subagent:4", "internal", "direct", BOX.key)
CRON = Place("cron:nightly", "internal", "direct")
WORLD = (MAIN, OPS, BOX, GROUP, ROOM, OTHER, CHILD, GRANDCHILD, BOXED, CRON)
BY_KEY = {place.key: place for place in WORLD}
CALLERS = (None, MAIN, GROUP, CHILD, BOX, OPS, BOXED)
"""None is the operator."""
OVERRIDES = (None, "allow", "deny")

Written = tuple[Override, str | None, ChatType | None, str | None]
"""A rule: action, channel, chat type, prefix."""


@dataclass(frozen=True)
class Policy:
    """A send policy as the oracle reads it."""

    rules: tuple[Written, ...] = ()
    default: str = "allow"


POLICIES = (
    Policy(),
    Policy(default="deny"),
    Policy((("deny", "discord", None, None),)),
    Policy((("allow", None, None, None), ("deny", None, "group", None), ("deny", "discord", None, None))),
    Policy((("allow", "webchat", "direct", None), ("allow", None, None, "cron:")), "deny"),
    Policy((("deny", None, None, "agent:ops:"), ("deny", None, None, "subagent:"), ("allow", None, "channel", None))),
)


@dataclass(frozen=True)
class View:
    """The settings of visibility."""

    setting: str = "tree"
    sandbox: str = "spawned"
    peers: tuple[str, ...] | None = None
    subagents_have_tools: bool = True


VIEWS = (
    View("all", peers=("*",), subagents_have_tools=False),
    *(
        View(setting, sandbox, peers)
        for setting in ("self", "tree", "agent", "all")
        for sandbox in ("spawned", "all")
        for peers in (None, ("*",), ("main", "ops"))
    ),
)


# What the oracle says


def seen(caller: Place | None, target: Place, view: View) -> str | None:
    """Return the control that hides a session from a caller, None when it is seen."""
    if caller is None:
        return None
    if view.setting == "self":
        return None if target == caller else "tools.sessions.visibility=self"
    family, up = target == caller, target.parent
    while up is not None:
        family, up = family or up == caller.key, BY_KEY[up].parent
    if view.setting == "tree":
        return None if family else "tools.sessions.visibility=tree"
    if caller.agent == "box" and view.sandbox == "spawned":
        return None if family else "agents.defaults.sandbox.sessionToolsVisibility=spawned"
    if family or target.agent == caller.agent:
        return None
    if view.setting == "agent":
        return "tools.sessions.visibility=agent"
    if view.peers is None:
        return "tools.agentToAgent.enabled=false"
    both = "*" in view.peers or {caller.agent, target.agent} <= set(view.peers)
    return None if both else "tools.agentToAgent.allow"


def hits(rule: Written, target: Place) -> bool:
    """Say whether a rule is about a session."""
    _, channel, chat_type, prefix = rule
    bare = target.key.split(":", 2)[2] if target.key.startswith("agent:") else target.key
    return (
        channel in {None, target.channel}
        and chat_type in {None, target.chat_type}
        and (prefix is None or target.key.startswith(prefix) or bare.startswith(prefix))
    )


def denied(target: Place, policy: Policy, override: str | None) -> list[str]:
    """Return every control that denies a message to a session; none when it is allowed."""
    if override is not None:
        return ["sendPolicy override"] if override == "deny" else []
    found = [n for n, rule in enumerate(policy.rules) if rule[0] == "deny" and hits(rule, target)]
    if found:
        return [f"session.sendPolicy.rules[{n}]" for n in found]
    allowed = any(hits(rule, target) for rule in policy.rules)
    return [] if allowed or policy.default == "allow" else ["session.sendPolicy.default"]


def refused(
    caller: Place | None, target: Place, policy: Policy, view: View, override: str | None
) -> dict[str, list[str]]:
    """Return the controls that refuse a send and a read; an empty list for none.

    What a caller may not see is refused as that and nothing else: the policy of a hidden session is hidden as well.
    """
    if caller is not None and "subagent:" in caller.key and not view.subagents_have_tools:
        return {"sessions_send": ["tools.subagents.tools"], "sessions_history": ["tools.subagents.tools"]}
    hidden = seen(caller, target, view)
    if hidden is not None:
        return {"sessions_send": [hidden], "sessions_history": [hidden]}
    return {"sessions_send": denied(target, policy, override), "sessions_history": []}


# What the product says


def rules_of(policy: Policy, view: View) -> RuleSet:
    """Return the rules in force."""
    agents = {name: AgentRules(name, sandboxed=name == "box") for name in ("main", "ops", "box")}
    rules = [Rule(action, Match(channel, kind, prefix)) for action, channel, kind, prefix in policy.rules]
    words: Any = view  # the words of the tables are literals to the type checker
    default: Any = policy.default
    peers = AgentToAgent(view.peers is not None, view.peers)
    return RuleSet(
        agents=agents,
        send_policy=SendPolicy(tuple(rules), default),
        visibility=VisibilityRules(words.setting, peers, words.sandbox),
        subagent_tools=ToolFilter(allow=("sessions_*",)) if view.subagents_have_tools else ToolFilter(),
    )


def settings_of(policy: Policy, view: View) -> Settings:
    """Return a whole configuration without reply-back turns."""
    agents = {name: AgentSettings(name) for name in ("main", "ops", "box")}
    return Settings(rules=rules_of(policy, view), agents=agents, max_ping_pong_turns=0, max_hops=10**6)


def fill(tx: Tx, overrides: dict[str, str | None] | None = None) -> None:
    """Make the world."""
    for place in WORLD:
        recorded = {} if place.channel in {"discord", "slack", "internal"} else {"channel": place.channel}
        if place.parent is not None:
            recorded = {"channel": "internal", "origin": "spawn"}
        create(tx, place.key, spawned_by=place.parent, **recorded)
        say(tx, place.key, "hello")
    for key, override in (overrides or {}).items():
        sessions.update(tx, key, send_policy=override)


@pytest.mark.spec("P1", "P2", "P5", "V1", "V2", "V3", "V4")
async def test_the_rules_alone_over_everything(state: Path) -> None:
    async with running(state, Settings(), Agent(held=True)) as runtime:
        await runtime.store.write(fill)
        rows = {place: await runtime.get_session(place.key, runtime.rules.grant(OPERATOR).scope) for place in WORLD}
        count = 0
        for policy, view in itertools.product(POLICIES, VIEWS):
            rules = rules_of(policy, view)
            for caller in CALLERS:
                asking: Caller = OPERATOR if caller is None else SessionCaller(caller.key)
                grant = rules.grant(asking)
                page = await runtime.list_sessions(SessionQuery(archived=None), grant.scope)
                shown = {row.key for row in page.sessions}
                for target in WORLD:
                    hidden = seen(caller, target, view)
                    assert (target.key in shown) == (hidden is None), (view, caller, target)
                    assert hidden is None or grant.limited_by == (hidden,), (view, caller, target)
            for target, override in itertools.product(WORLD, OVERRIDES):
                decision = rules.send_decision(rows[target]._replace(send_policy=override))
                expected = denied(target, policy, override)
                assert decision.allowed == (not expected), (policy, target, override)
                assert decision.allowed or list(decision.decided_by) == expected
                count += 1
        assert count == len(POLICIES) * len(VIEWS) * len(WORLD) * len(OVERRIDES)


Ask = Callable[[Runtime, Place | None, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""One surface: asks for a tool as a caller and returns its result."""


async def by_tool(runtime: Runtime, caller: Place | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as the console and the command line do, and as a session from outside."""
    return await call(runtime, tool, OPERATOR if caller is None else SessionCaller(caller.key), **arguments)


async def by_console(runtime: Runtime, caller: Place | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Act in the console; the session that the operator acts for changes no right."""
    asking = Operator(caller.key if caller is not None else None)
    return await dispatch(MultiGateway({"": runtime}), asking, tool, arguments)


async def by_gateway(runtime: Runtime, caller: Place | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write through the port itself, past every tool."""
    asking = Operator(caller.key if caller is not None else None)
    if tool != "sessions_send":
        return await call(runtime, tool, asking, **arguments)
    try:
        ticket = await runtime.start_run(RunRequest(arguments["sessionKey"], arguments["message"]), asking)
    except Forbidden as error:
        return {"status": "forbidden", "error": error.message, "decidedBy": list(error.decided_by)}
    return {"status": "accepted", "runId": ticket.run_id}


async def by_mcp(runtime: Runtime, caller: Place | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as a client of the Model Context Protocol."""
    result = await mcp_call(runtime, OPERATOR if caller is None else SessionCaller(caller.key), tool, arguments)
    assert result.is_error == (result.structured_content.get("status") == "forbidden")
    return result.structured_content


async def by_agent(runtime: Runtime, caller: Place | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let the agent of a session call a tool in a real turn."""
    assert caller is not None
    ticket = await begin(runtime, caller.key, f"call {json.dumps([tool, arguments])}")
    outcome = await runtime.wait_run(ticket.run_id, 20)
    return json.loads(outcome.reply or "")


async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Call the tool that the input names and answer with its result; else say something."""
    said = "well"
    words = turn.transcript[-1].text
    if words.startswith("call "):
        tool, arguments = json.loads(words.removeprefix("call "))
        said = (await turn.call_tool("c", tool, arguments)).text
    yield Reply((text_block(said),), Usage(1, 1), "test")


SURFACES: dict[Ask, bool] = {by_tool: True, by_console: False, by_gateway: False, by_mcp: True, by_agent: True}
"""With whether a session that asks there has its own rights, and not the operator's."""


def cases() -> Iterator[tuple[Policy, View, dict[str, str | None], list[tuple[Ask, Place | None, Place]]]]:
    """Return a fixed sample of the product: every policy with every view, and in each of them a few of the rest."""
    chance = random.Random(7)
    for policy, view in itertools.product(POLICIES, VIEWS):
        overrides = {place.key: chance.choice(OVERRIDES) for place in WORLD}
        every = [
            (ask, caller, target)
            for ask, caller, target in itertools.product(SURFACES, CALLERS, WORLD)
            if caller != target and (caller is not None or ask is not by_agent)
        ]
        yield policy, view, overrides, chance.sample(every, 5)


@pytest.mark.spec("P1", "P2", "P4", "V1", "V2", "V3", "V4", "V5", "W3", "S12")
async def test_every_surface_decides_the_same(state: Path) -> None:
    refusals = 0
    async with running(state, settings_of(POLICIES[0], VIEWS[0]), Agent(play)) as runtime:
        await runtime.store.write(fill)
        for policy, view, overrides, asked in cases():
            await runtime.store.write(lambda tx, overrides=overrides: override(tx, overrides))
            runtime.settings = settings_of(policy, view)
            for ask, caller, target in asked:
                if ask is by_agent and caller is not None and denied(caller, policy, overrides[caller.key]):
                    continue  # no message can be sent to a caller that is itself denied
                acting = caller if SURFACES[ask] else None
                expected = refused(acting, target, policy, view, overrides[target.key])
                for tool, controls in expected.items():
                    arguments = {"sessionKey": target.key}
                    if tool == "sessions_send":
                        arguments |= {"message": "hello", "timeoutSeconds": 0}
                    result = await ask(runtime, caller, tool, arguments)
                    where = (ask.__name__, policy, view, caller, target, overrides[target.key], tool)
                    assert result.get("decidedBy", []) == controls, where
                    assert (result.get("status") == "forbidden") == bool(controls), where
                    assert "runId" not in result or not controls, where
                    refusals += bool(controls)
        await runtime.drained()
    assert refusals > 200


def override(tx: Tx, overrides: dict[str, str | None]) -> None:
    """Set the overrides of a case."""
    for key, word in overrides.items():
        sessions.update(tx, key, send_policy=word)


@pytest.mark.spec("P1", "P2", "P4", "P5", "V4")
@pytest.mark.parametrize("policy", [POLICIES[1], POLICIES[3], POLICIES[5]])
def test_the_command_line_decides_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: Policy) -> None:
    chance = random.Random(len(policy.rules))
    overrides = {place.key: chance.choice(OVERRIDES) for place in WORLD}

    async def prepare() -> None:
        async with running(tmp_path / "state") as runtime:
            await runtime.store.write(lambda tx: fill(tx, overrides))

    asyncio.run(prepare())
    config = tmp_path / "config.json5"
    config.write_text(json.dumps(written(policy)))
    everywhere = ("--json", "--state", str(tmp_path / "state"), "--config", str(config))
    for target in WORLD:
        expected = denied(target, policy, overrides[target.key])
        code = command_line(["send", target.key, "hello", *everywhere])
        result = json.loads(capsys.readouterr().out)
        assert (code, result.get("decidedBy", [])) == ((4, expected) if expected else (0, [])), target
        assert command_line(["policy", target.key, *everywhere]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["effective"] == ("deny" if expected else "allow")
        assert not expected or shown["decidedBy"] == expected
        assert command_line(["history", target.key, *everywhere]) == 0
        messages = json.loads(capsys.readouterr().out)["messages"]
        assert len(messages) == (1 if expected else 3)


def written(policy: Policy) -> dict[str, Any]:
    """Return a policy as the configuration file has it."""
    names = ("channel", "chatType", "keyPrefix")
    rules = [
        {"action": action, "match": {name: word for name, word in zip(names, match, strict=True) if word}}
        for action, *match in policy.rules
    ]
    agents = [{"id": "main"}, {"id": "ops"}, {"id": "box", "sandbox": {"mode": "all"}}]
    return {"session": {"sendPolicy": {"rules": rules, "default": policy.default}}, "agents": {"list": agents}}
