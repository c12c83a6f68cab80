"""What only the operator may do, and what only the owner (P3)."""

from core.model.access import Caller, Operator
from core.model.errors import Forbidden


def require_operator(caller: Caller, deed: str) -> None:
    """Refuse a deed to agents.

    Args:
        deed: What is refused, as it follows "can".

    Raises:
        Forbidden: The caller is a session.
    """
    if not isinstance(caller, Operator):
        raise Forbidden(f"only the operator can {deed}", ("operator",))


def require_owner(caller: Caller, deed: str) -> None:
    """Refuse a deed to agents, and to operators without `operator.admin`.

    Args:
        deed: What is refused, as it follows "can".

    Raises:
        Forbidden: The caller is not the owner.
    """
    if not isinstance(caller, Operator) or not caller.owner:
        raise Forbidden(f"only the owner can {deed}", ("owner",))
