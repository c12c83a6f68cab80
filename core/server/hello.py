"""What a client is told when it is let in, and the standing facts it can ask for again (protocol#handshake,
protocol#events)."""

import platform
import socket
from typing import TYPE_CHECKING, Any, Final

from core.model.connection import REACHED
from core.server.openclaw.rows import Defaults, recent
from core.wire.frames import NATIVE

if TYPE_CHECKING:
    from core.server.context import ServerContext
    from core.server.conversation import Conversation

TICK_SECONDS: Final = 30.0
LOCAL_TICK_SECONDS: Final = 2.0
"""To processes of this machine: they have another way to read, and nobody waits long for an owner that was stopped."""
CAPABILITIES: Final = (
    NATIVE,
    "history-follow-v1",
    "events-resume-v1",
    "policy-explain-v1",
    "deliveries-v1",
    "exchanges-v1",
    "published-model-catalog",
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
SCOPE: Final = "per-sender"
"""What clients are told of `session.scope`: one that is told "global" names the one session so, and the word is not
given out here (K5). `main` and the default agent's main key mean that session."""
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
            "tickIntervalMs": int(conversation.tick_seconds * 1000),
        },
    }


async def _snapshot(context: "ServerContext") -> dict[str, Any]:
    rules = context.gateway.rules
    return {
        "presence": presence(context),
        "health": await health(context),
        "stateVersion": state_version(context),
        "uptimeMs": context.gateway.now_ms() - context.facts.started_at,
        "configPath": context.facts.config_path,
        "stateDir": context.facts.state_dir,
        "storeId": context.facts.store_id,
        "sessionDefaults": {
            "defaultAgentId": rules.default_agent,
            "mainKey": "main",
            "mainSessionKey": rules.main_key,
            "scope": SCOPE,
        },
        "authMode": "token",
    }


def state_version(context: "ServerContext") -> dict[str, int]:
    """Return which state of presence and health a client knows; nothing counts the changes of health."""
    return {"presence": context.clients.version, "health": 1}


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


def unready(context: "ServerContext") -> str | None:
    """Return why no work is accepted now, in one sentence; None when it is."""
    if context.closing.is_set():
        return "the gateway is closing"
    connection = context.gateway.connection
    waiting = connection.detail or f"the gateway is {connection.state}" if connection.state != "live" else None
    return context.gateway.unready() or waiting


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
        "failing": [reason] if (reason := unready(context)) is not None else [],
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "defaultAgentId": gateway.rules.default_agent,
        "agents": agents,
        "sessions": {"path": path, "recent": newest},
    }
