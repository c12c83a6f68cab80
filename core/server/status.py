"""The standing facts about the gateway that clients are told: who is there, and how it does (protocol#events)."""

import platform
import socket
from typing import Any, Final

from core.model.connection import REACHED
from core.server.context import ServerContext
from core.server.openclaw.rows import recent

SCOPE: Final = "per-sender"
"""What clients are told of `session.scope`: one that is told "global" names the one session so, and the word is not
given out here (K5). `main` and the default agent's main key mean that session."""


def state_version(context: ServerContext) -> dict[str, int]:
    """Return which state of presence and health a client knows; nothing counts the changes of health."""
    return {"presence": context.clients.version, "health": 1}


def presence(context: ServerContext) -> list[dict[str, Any]]:
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


def unready(context: ServerContext) -> str | None:
    """Return why no work is accepted now, in one sentence; None when it is."""
    if context.closing.is_set():
        return "the gateway is closing"
    connection = context.gateway.connection
    waiting = connection.detail or f"the gateway is {connection.state}" if connection.state != "live" else None
    return context.gateway.unready() or waiting


async def health(context: ServerContext) -> dict[str, Any]:
    """Return how the gateway does, with its newest sessions."""
    gateway, path = context.gateway, context.facts.state_dir
    newest = await recent(gateway)
    agents = [
        {
            "agentId": agent.agent_id,
            "name": agent.name,
            "isDefault": agent.default,
            "heartbeat": {"enabled": False, "every": "disabled", "everyMs": None},
            "sessions": {"path": path, "recent": [each for each in newest if each["agentId"] == agent.agent_id]},
        }
        for agent in await gateway.agents()
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
