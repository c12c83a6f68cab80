"""Finding the session a tool call names, with the difference between absent and invisible (K6, V5, S12)."""

from dataclasses import replace
from typing import Any

from core.gateway import Gateway
from core.model.access import ALL, OPERATOR, Caller, Operator, SessionCaller
from core.model.errors import NotFound
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


async def identified(gateway: Gateway, caller: Caller) -> Caller:
    """Return a caller with the agent that its session's row names: the rules are that agent's."""
    if not isinstance(caller, SessionCaller) or caller.agent_id is not None:
        return caller
    try:
        return replace(caller, agent_id=(await gateway.get_session(caller.key, ALL)).agent_id)
    except NotFound:
        return caller


async def agent_acting(gateway: Gateway, caller: Caller) -> str:
    """Return the agent that a caller acts as: of its session, or of the one that the operator acts for."""
    if isinstance(caller, Operator) and caller.acting_for is not None:
        caller = await identified(gateway, SessionCaller(caller.acting_for))
    return gateway.rules.agent_of(caller)


def canonical(gateway: Gateway, caller: Caller, text: str) -> str:
    """Return the canonical key that a caller means; a session id comes back unchanged.

    Raises `Invalid` when the key is malformed or reserved.
    """
    return gateway.rules.resolve(text, gateway.rules.agent_of(caller))


async def policy_subject(gateway: Gateway, text: str) -> Session:
    """Return the session that a text names, or would have if there were one: what send policy is asked about (P5).

    Raises:
        Invalid: The key is malformed.
        NotFound: There is no such session, and the text is no key in full.
    """
    try:
        return await gateway.get_session(canonical(gateway, OPERATOR, text), ALL)
    except NotFound:
        return gateway.rules.absent(text, await gateway.overrides())


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
        sentence = (
            f"session {ref} is not visible from here: {grant.words} limits what this session may see; name one that is"
        )
        raise Refusal(sentence, grant.limited_by) from None
