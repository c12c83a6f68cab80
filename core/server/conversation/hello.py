"""What a client is told when it is let in (protocol#handshake)."""

from typing import Any, Final

from core.server.context import ServerContext
from core.server.conversation.client import Client
from core.server.conversation.sender import max_buffered
from core.server.methods import METHODS
from core.server.status import SCOPE, health, presence, state_version
from core.wire.frames import NATIVE

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


async def hello(client: Client, tick_seconds: float) -> dict[str, Any]:
    """Return the payload of `hello-ok` for a client that gets a sign of life every `tick_seconds`."""
    context, admitted = client.context, client.admitted
    auth: dict[str, Any] = {"method": admitted.method, "role": "operator", "scopes": sorted(admitted.access.scopes)}
    if admitted.device_token is not None:
        auth |= {"deviceToken": admitted.device_token[0], "issuedAtMs": admitted.device_token[1]}
    return {
        "type": "hello-ok",
        "protocol": admitted.protocol,
        "server": {"version": context.facts.version, "bootId": context.facts.boot_id, "connId": client.id},
        "features": {"methods": ["connect", *METHODS], "events": list(EVENTS), "capabilities": list(CAPABILITIES)},
        "snapshot": await _snapshot(context),
        "auth": auth,
        "policy": {
            "maxPayload": context.limits.frame,
            "maxBufferedBytes": max_buffered(context),
            "tickIntervalMs": int(tick_seconds * 1000),
        },
    }


async def _snapshot(context: ServerContext) -> dict[str, Any]:
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
