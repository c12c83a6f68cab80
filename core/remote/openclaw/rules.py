"""The rules of an OpenClaw gateway, out of its configuration; what that does not say stays untold, whatever ours is."""

from collections.abc import Mapping
from typing import Any, Final

from core.model.json_codec import mapping
from core.model.sessions import Override
from core.remote.hello import strings
from core.remote.openclaw.rows import CHAT_TYPES, rows_of, text, whole
from core.rules.limits import (
    AGENT_TOOLS_CONTROL,
    ALLOW_AGENTS_CONTROL,
    CHILDREN_CONTROL,
    DEPTH_CONTROL,
    SUBAGENT_TOOLS_CONTROL,
    SpawnLimits,
    ToolFilter,
)
from core.rules.limits import SANDBOX_CONTROL as SANDBOXED_CONTROL
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import (
    AGENT_TO_AGENT_CONTROL,
    SANDBOX_CONTROL,
    VISIBILITY_CONTROL,
    AgentToAgent,
    SandboxVisibility,
    Visibility,
    VisibilityRules,
)

_VISIBILITY: Final[dict[str | None, Visibility]] = {"self": "self", "tree": "tree", "agent": "agent", "all": "all"}
_ACTIONS: Final[dict[str | None, Override]] = {"allow": "allow", "deny": "deny"}
_SANDBOX: Final[dict[str | None, SandboxVisibility]] = {"spawned": "spawned", "all": "all"}


def read_rules(config: Mapping[str, Any], agents: Mapping[str, Any]) -> RuleSet:
    """Read the rules out of a configuration and the list of agents.

    Args:
        config: As `config.get` gives it; empty when it was refused.
        agents: As `agents.list` gives it.
    """
    session, tools = mapping(config.get("session")), mapping(config.get("tools"))
    defaults = mapping(mapping(config.get("agents")).get("defaults"))
    limits, sandbox = mapping(defaults.get("subagents")), mapping(defaults.get("sandbox"))
    of_subagents = mapping(mapping(tools.get("subagents")).get("tools"))
    peers = mapping(tools.get("agentToAgent"))
    own = _own(config)
    ids = {name.lower(): text(row, "name") for row in rows_of(agents, "agents") if (name := text(row, "id"))}
    default = (text(agents, "defaultId") or "main").lower()
    known = {name: _agent(name, title, own.get(name, {}), sandbox) for name, title in (ids or {default: None}).items()}
    visibility = _VISIBILITY.get(text(mapping(tools.get("sessions")), "visibility"))
    of_sandbox = _SANDBOX.get(text(sandbox, "sessionToolsVisibility"))
    depth, children = whole(limits, "maxSpawnDepth"), whole(limits, "maxChildrenPerAgent")
    modes = [text(mapping(each.get("sandbox")), "mode") for each in (defaults, *own.values())]
    told = {
        VISIBILITY_CONTROL: visibility is not None,
        AGENT_TO_AGENT_CONTROL: isinstance(peers.get("enabled"), bool),
        SANDBOX_CONTROL: of_sandbox is not None,
        SANDBOXED_CONTROL: any(modes),
        SUBAGENT_TOOLS_CONTROL: bool(of_subagents),
        ALLOW_AGENTS_CONTROL: any("subagents" in each for each in own.values()),
        DEPTH_CONTROL: depth is not None,
        CHILDREN_CONTROL: children is not None,
        AGENT_TOOLS_CONTROL: False,  # it has more lists than ours, and they are not read here
    }
    return RuleSet(
        agents=known,
        default_agent=default,
        global_scope=(text(agents, "scope") or text(session, "scope")) == "global",
        send_policy=_send_policy(mapping(session.get("sendPolicy"))),
        visibility=VisibilityRules(visibility or "tree", _peers(peers), of_sandbox or "spawned"),
        subagent_tools=_filter(of_subagents),
        spawning=SpawnLimits(depth or 1, children or SpawnLimits().max_children),
        untold=frozenset(control for control, is_told in told.items() if not is_told),
    )


def _own(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return what the configuration says of each agent: in a list on older gateways, by id on newer ones."""
    agents = mapping(config.get("agents"))
    own = {name.lower(): row for row in rows_of(agents, "list") if (name := text(row, "id"))}
    return own | {name.lower(): mapping(row) for name, row in mapping(agents.get("entries")).items()}


def _agent(name: str, title: str | None, own: Mapping[str, Any], sandbox: Mapping[str, Any]) -> AgentRules:
    mode = text(mapping(own.get("sandbox")), "mode") or text(sandbox, "mode") or "off"
    allowed = tuple(strings(mapping(own.get("subagents")).get("allowAgents")))
    seen = _SANDBOX.get(text(mapping(own.get("sandbox")), "sessionToolsVisibility"))
    return AgentRules(name, title, sandboxed=mode != "off", allow_agents=allowed, sandbox=seen)


def _peers(data: Mapping[str, Any]) -> AgentToAgent:
    allow = tuple(strings(data.get("allow"))) if isinstance(data.get("allow"), list) else None
    return AgentToAgent(enabled=data.get("enabled") is True, allow=allow)


def _filter(data: Mapping[str, Any]) -> ToolFilter:
    allow = tuple(strings(data.get("allow"))) if isinstance(data.get("allow"), list) else None
    return ToolFilter(allow, tuple(strings(data.get("deny"))))


def _send_policy(data: Mapping[str, Any]) -> SendPolicy:
    rules: list[Rule] = []
    for rule in rows_of(data, "rules"):
        match, action = mapping(rule.get("match")), _ACTIONS.get(text(rule, "action"))
        if action is not None:
            chat_type = CHAT_TYPES.get(text(match, "chatType") or "")
            conditions = Match(
                text(match, "channel"), chat_type, text(match, "keyPrefix") or text(match, "rawKeyPrefix")
            )
            rules.append(Rule(action, conditions))
    return SendPolicy(tuple(rules), "deny" if data.get("default") == "deny" else "allow")
