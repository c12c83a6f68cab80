"""Finding the session a tool call names, with the difference between absent and invisible (K6, V5, S12)."""

from typing import Any

from core.gateway import Gateway
from core.model.access import ALL, Caller
from core.model.errors import NotFound
from core.model.keys import resolve
from core.model.sessions import Session


class Refusal(Exception):
    """A rule refuses the call: a result with a status, not an error."""

    def __init__(self, error: str, decided_by: tuple[str, ...]) -> None:
        super().__init__(error)
        self.error = error
        self.decided_by = decided_by

    def result(self) -> dict[str, Any]:
        """Return the tool's answer."""
        return {"status": "forbidden", "error": self.error, "decidedBy": list(self.decided_by)}


def canonical(gateway: Gateway, caller: Caller, text: str) -> str:
    """Return the canonical key that a caller means; a session id comes back unchanged.

    Raises:
        Invalid: The key is malformed or reserved.
    """
    rules = gateway.rules
    return resolve(text, rules.agent_of(caller), global_scope=rules.global_scope)


async def find(gateway: Gateway, caller: Caller, text: str) -> Session:
    """Return the session a caller names by key, short form or id.

    Raises:
        Invalid: The key is malformed.
        NotFound: There is no such session.
        Refusal: There is one, and the caller may not see it.
    """
    ref = canonical(gateway, caller, text)
    grant = gateway.rules.grant(caller)
    try:
        return await gateway.get_session(ref, grant.scope)
    except NotFound:
        if grant.scope is ALL:
            raise
        await gateway.get_session(ref, ALL)  # says that it is absent, if it is
        sentence = f"session {text} is not visible from here: {grant.words} limits what this session may see"
        raise Refusal(sentence, grant.limited_by) from None
