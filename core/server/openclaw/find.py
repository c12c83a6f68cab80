"""What a client means by a key."""

import re
from typing import Final

from core.model.access import ALL
from core.model.errors import NotFound
from core.model.ids import UUID
from core.model.keys import main_key, parse
from core.model.sessions import Session
from core.server.conversation.client import Client

_SESSION_ID: Final = re.compile(UUID, re.IGNORECASE)


async def key_of(client: Client, text: str, agent_id: str | None = None) -> str:
    """Return the key of the session that a client names; the main session of an agent is there before its first word.

    Args:
        agent_id: Whose session a short form such as `main` is, None for the default agent.

    Raises `Invalid` when the key is malformed, `NotFound` when there is none.
    """
    rules = client.gateway.rules
    key = rules.resolve(text, agent_id)
    if key == rules.main_key or key in map(main_key, rules.agents):
        return key
    return (await session_of(client, text, agent_id)).key


async def found_key(client: Client, text: str, agent_id: str | None = None) -> str:
    """Return the canonical key that a client means, or that its first message would have.

    A bare key (`foo`, `acp-bridge:x`) that no session has is `agent:<agentId>:<key>`, as clients of OpenClaw expect.

    Raises `Invalid` when the key is malformed or reserved.
    """
    rules = client.gateway.rules
    ref = rules.resolve(text, agent_id)
    if parse(ref).structured or _SESSION_ID.fullmatch(ref):
        return ref
    try:
        await client.gateway.get_session(ref, ALL)
    except NotFound:
        return rules.resolve(f"agent:{agent_id or rules.default_agent}:{ref}")
    return ref


async def session_of(client: Client, text: str, agent_id: str | None = None) -> Session:
    """Return the session that a client names.

    Raises:
        Invalid: The key is malformed.
        NotFound: There is none; in the words that clients of OpenClaw know.
    """
    try:
        return await client.gateway.get_session(await found_key(client, text, agent_id), ALL)
    except NotFound:
        raise NotFound(f"session not found: {text[:200]}") from None
