"""What only the operator may do, and what only the owner (P3)."""

from dataclasses import replace

from core.model.access import Caller, Operator, SessionCaller
from core.model.errors import Forbidden
from core.store import sessions
from core.store.database import Db


def identified(db: Db, caller: Caller) -> Caller:
    """Return a caller with the agent that its session's row names: the rules are that agent's."""
    if not isinstance(caller, SessionCaller) or caller.agent_id is not None:
        return caller
    session = sessions.by_key(db, caller.key)
    return caller if session is None else replace(caller, agent_id=session.agent_id)


def require_operator(caller: Caller, deed: str) -> None:
    """Refuse a deed, as it follows "can", to agents (`Forbidden`)."""
    if not isinstance(caller, Operator):
        raise Forbidden(f"only the operator can {deed}", ("operator",))


def require_owner(caller: Caller, deed: str) -> None:
    """Refuse a deed, as it follows "can", to agents, and to operators without `operator.admin` (`Forbidden`)."""
    if not isinstance(caller, Operator) or not caller.owner:
        raise Forbidden(f"only the owner can {deed}", ("owner",))
