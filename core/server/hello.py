"""What a client is told when it is let in, and the standing facts it can ask for again (PROTOCOL I.1, I.4)."""

import platform
import socket
from typing import TYPE_CHECKING, Any, Final

from core.model.connection import REACHED
from core.server.rows import Defaults, recent
from core.wire.frames import NATIVE

if TYPE_CHECKING:
    from core.server.context import ServerContext
    from core.server.conversation import Conversation

TICK_SECONDS: Final = 30.0
CAPABILITIES: Final = (
    NATIVE,
    "history-follow-v1",
    "events-resume-v1",
    "policy-explain-v1",
    "deliveries-v1",
    "exchanges-v1",
)
EVENTS: Final = (
    "connect.challenge",
    "agent",
    "chat",
    "session.message",
    "session.tool",
    "sessions.changed",
    "presence",
    "tick",
    "shutdown",
    "health",
    "port.events",
)
_BUFFERS: Final = 16
"""A client is let go when it leaves so many times of what a conversation usually holds for it."""


def max_buffered(context: "ServerContext") -> int:
    """Return the bytes that may wait for one client before it is let go."""
    return _BUFFERS * context.limits.buffered


async def hello(conversation: "Conversation") -> dict[str, Any]:
    """Return the payload of `hello-ok`."""
    from core.server.methods import METHODS  # they know the conversation

    context, admitted = conversation.context, conversation.admitted
    auth: dict[str, Any] = {
        "method": admitted.method,
        "role": "operator",
        "scopes": sorted(admitted.access.scopes),
    }
    if admitted.device_token is not None:
        auth |= {"deviceToken": admitted.device_token[0], "issuedAtMs": admitted.device_token[1]}
    return {
        "type": "hello-ok",
        "protocol": admitted.protocol,
        "server": {"version": context.facts.version, "bootId": context.facts.boot_id, "connId": conversation.id},
        "features": {
            "methods": ["connect", *METHODS],
            "events": list(EVENTS),
            "capabilities": list(CAPABILITIES),
        },
        "snapshot": await _snapshot(context),
        "auth": auth,
        "policy": {
            "maxPayload": context.limits.frame,
            "maxBufferedBytes": max_buffered(context),
            "tickIntervalMs": int(TICK_SECONDS * 1000),
        },
    }


async def _snapshot(context: "ServerContext") -> dict[str, Any]:
    rules = context.gateway.rules
    return {
        "presence": presence(context),
        "health": await health(context),
        "stateVersion": {"presence": context.clients.version, "health": 1},
        "uptimeMs": context.gateway.now_ms() - context.facts.started_at,
        "configPath": context.facts.config_path,
        "stateDir": context.facts.state_dir,
        "storeId": context.facts.store_id,
        "sessionDefaults": {
            "defaultAgentId": rules.default_agent,
            "mainKey": "main",
            "mainSessionKey": rules.main_key,
            "scope": "global" if rules.global_scope else "per-sender",
        },
        "authMode": "token",
    }


def presence(context: "ServerContext") -> list[dict[str, Any]]:
    """Return who is there, the gateway first."""
    facts = context.facts
    own = {
        "host": socket.gethostname(),
        "version": facts.version,
        "platform": platform.system().lower(),
        "mode": "gateway",
        "reason": "self",
        "instanceId": facts.boot_id,
        "text": f"Gateway: switchboard {facts.version}",
        "ts": context.gateway.now_ms(),
    }
    return [own, *context.clients.presence()]


async def health(context: "ServerContext") -> dict[str, Any]:
    """Return how the gateway does, with its newest sessions."""
    gateway, path = context.gateway, context.facts.state_dir
    newest = await recent(gateway)
    defaults = await Defaults.of(gateway)
    agents = [
        {
            "agentId": agent.agent_id,
            "name": agent.name,
            "isDefault": agent.default,
            "heartbeat": {"enabled": False, "every": "disabled", "everyMs": None},
            "sessions": {"path": path, "recent": [each for each in newest if each["agentId"] == agent.agent_id]},
        }
        for agent in defaults.agents
    ]
    return {
        "ok": gateway.connection.state in REACHED,
        "ts": gateway.now_ms(),
        "durationMs": 0,
        "state": gateway.connection.state,
        "detail": gateway.connection.detail,
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "defaultAgentId": gateway.rules.default_agent,
        "agents": agents,
        "sessions": {"path": path, "recent": newest},
    }
