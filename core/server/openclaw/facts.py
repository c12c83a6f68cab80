"""Methods that tell what the gateway is and how it does."""

import zlib
from typing import Any, Final

from pydantic import Field

from core.model.commands import COMMANDS, CommandSpec
from core.model.errors import Invalid
from core.server.auth import READ
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.openclaw.rows import THINKING_LEVELS, defaults, model_fields, recent
from core.server.params import MethodParams, Nothing
from core.server.status import SCOPE, health, presence
from core.wire.frames import encode

MAX_LINES: Final = 5_000


class _HealthParams(MethodParams):
    probe: bool = False
    include_sensitive: bool = False


class _StatusParams(MethodParams):
    include_channel_summary: bool = True
    include_cli_projection: bool = False


class AgentIdentityParams(MethodParams):
    """Parameters of what can be asked for one agent."""

    agent_id: str | None = None


class _ModelsParams(MethodParams):
    view: str | None = None
    agent_id: str | None = None


class _CommandsParams(MethodParams):
    agent_id: str | None = None
    provider: str | None = None
    scope: str | None = None
    include_args: bool = True


class _LogsParams(MethodParams):
    cursor: int | None = Field(default=None, ge=0)
    limit: int = Field(default=500, ge=1, le=MAX_LINES)
    max_bytes: int = Field(default=250_000, ge=1, le=1_000_000)


async def _health(client: Client, params: _HealthParams) -> dict[str, Any]:  # noqa: ARG001 - one shape
    return await health(client.context)


async def _status(client: Client, params: _StatusParams) -> dict[str, Any]:  # noqa: ARG001 - one shape
    context, gateway = client.context, client.gateway
    default = gateway.rules.default_agent
    path, newest = context.facts.state_dir, await recent(gateway)
    return {
        "runtimeVersion": context.facts.version,
        "connection": {"state": gateway.connection.state, "detail": gateway.connection.detail},
        "uptimeMs": gateway.now_ms() - context.facts.started_at,
        "clients": len(context.clients),
        "heartbeat": {"defaultAgentId": default, "agents": []},
        "channelSummary": [],
        "queuedSystemEvents": [],
        "sessions": {
            "paths": [path],
            "defaults": await defaults(gateway, default),
            "recent": newest,
            "byAgent": [
                {
                    "agentId": agent.agent_id,
                    "path": path,
                    "recent": [each for each in newest if each["agentId"] == agent.agent_id],
                }
                for agent in await gateway.agents()
            ],
        },
    }


async def _presence(client: Client, params: Nothing) -> list[dict[str, Any]]:  # noqa: ARG001 - one shape
    return presence(client.context)


async def _agents(client: Client, params: Nothing) -> dict[str, Any]:  # noqa: ARG001 - one shape
    rules = client.gateway.rules
    agents = [
        {
            "id": agent.agent_id,
            **({"name": agent.name} if agent.name else {}),
            "model": {"primary": agent.model},
            "thinkingLevels": [{"id": level, "label": level} for level in THINKING_LEVELS],
        }
        for agent in await client.gateway.agents()
    ]
    return {"defaultId": rules.default_agent, "mainKey": "main", "scope": SCOPE, "agents": agents}


async def _models(client: Client, params: _ModelsParams) -> dict[str, Any]:  # noqa: ARG001 - one shape
    models: list[dict[str, Any]] = []
    for model in await client.gateway.models():
        named = model_fields(model.ref)
        found: dict[str, Any] = {"id": named["model"], "name": named["model"], "provider": named["modelProvider"]}
        if model.context_window is not None:
            found["contextWindow"] = model.context_window
        models.append(found | {"ref": model.ref, "available": True})
    return {"models": models}


async def _commands(client: Client, params: _CommandsParams) -> dict[str, Any]:  # noqa: ARG001 - one shape
    return {"commands": [_command(spec, with_args=params.include_args) for spec in COMMANDS.values()]}


def _command(spec: CommandSpec, *, with_args: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": spec.name,
        "nativeName": spec.name,
        "textAliases": [f"/{spec.name}"],
        "description": spec.help,
        "category": "session",
        "source": "native",
        "scope": "both",
        "acceptsArgs": bool(spec.arguments),
    }
    if with_args and spec.arguments:
        argument: dict[str, Any] = {"name": "value", "description": spec.arguments, "type": "string"}
        if spec.choices:
            argument["choices"] = [{"value": choice, "label": choice} for choice in spec.choices]
        found["args"] = [argument | {"required": spec.required}]
    return found


async def _config(client: Client, params: Nothing) -> dict[str, Any]:  # noqa: ARG001 - one shape
    facts = client.context.facts
    config = facts.config()
    return {
        "path": facts.config_path,
        "exists": True,
        "valid": True,
        "raw": encode(config),
        "parsed": config,
        "config": config,
        "runtimeConfig": config,
        "issues": [],
    }


async def _logs(client: Client, params: _LogsParams) -> dict[str, Any]:
    """Return the end of the log; with the cursor of an earlier answer, what came after it."""
    lines = client.context.facts.log_tail(params.limit)
    marks = [zlib.crc32(line.encode("utf-8", "replace")) for line in lines]
    known = params.cursor is not None and params.cursor in marks
    fresh = lines[len(marks) - marks[::-1].index(params.cursor) :] if params.cursor is not None and known else lines
    kept, size = list[str](), 0
    for line in reversed(fresh):
        size += len(line)
        if size > params.max_bytes:
            break
        kept.append(line)
    return {
        "file": f"{client.context.facts.state_dir}/log",
        "cursor": marks[-1] if marks else 0,
        "size": size,
        "lines": kept[::-1],
        "truncated": len(kept) < len(fresh),
        "reset": params.cursor is not None and not known,
    }


async def _metadata(client: Client, params: AgentIdentityParams) -> dict[str, Any]:
    """Return what a chat offers beside its messages."""
    models = await _models(client, _ModelsParams(agent_id=params.agent_id))
    return models | await _commands(client, _CommandsParams()) | {"swarmEnabled": False}


async def _identity(client: Client, params: AgentIdentityParams) -> dict[str, Any]:
    """Return how an agent is shown; without a name in the configuration, by its id."""
    wanted = params.agent_id or client.gateway.rules.default_agent
    agent = next((agent for agent in await client.gateway.agents() if agent.agent_id == wanted), None)
    if agent is None:
        raise Invalid(f'Unknown agent id "{wanted[:80]}"')
    name = agent.name or agent.agent_id
    return {"agentId": agent.agent_id, "name": name, "avatar": name[:1].upper()}


FACTS: Final = (
    Method("health", READ, _HealthParams, _health),
    Method("status", READ, _StatusParams, _status),
    Method("system-presence", READ, Nothing, _presence),
    Method("agents.list", READ, Nothing, _agents),
    Method("agent.identity.get", READ, AgentIdentityParams, _identity),
    Method("chat.metadata", READ, AgentIdentityParams, _metadata),
    Method("models.list", READ, _ModelsParams, _models),
    Method("commands.list", READ, _CommandsParams, _commands),
    Method("config.get", READ, Nothing, _config),
    Method("logs.tail", READ, _LogsParams, _logs),
)
