"""What a client means by a key."""

from core.model.access import ALL
from core.model.errors import NotFound
from core.model.keys import resolve
from core.model.sessions import Session
from core.server.conversation import Conversation


def canonical_key(conversation: Conversation, text: str, agent_id: str | None = None) -> str:
    """Return the canonical key that a client means; a session id comes back unchanged.

    Args:
        agent_id: Whose session a short form such as `main` is, None for the default agent.

    Raises:
        Invalid: The key is malformed or reserved.
    """
    rules = conversation.gateway.rules
    return resolve(text, agent_id or rules.default_agent, global_scope=rules.global_scope)


async def session_of(conversation: Conversation, text: str, agent_id: str | None = None) -> Session:
    """Return the session that a client names.

    Raises:
        Invalid: The key is malformed.
        NotFound: There is none; in the words that clients of OpenClaw know.
    """
    try:
        return await conversation.gateway.get_session(canonical_key(conversation, text, agent_id), ALL)
    except NotFound:
        raise NotFound(f"session not found: {text[:200]}") from None
