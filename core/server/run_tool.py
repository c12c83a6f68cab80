"""One tool for one client, as `POST /tools/invoke` and the methods of WebSocket clients run it (G7, PROTOCOL I.9)."""

from collections.abc import Mapping
from typing import Any, Final

from core.model.access import Caller, SessionCaller
from core.model.errors import Invalid, NotFound
from core.model.keys import quoted
from core.server.auth import READ, WRITE, Access
from core.server.context import ServerContext
from core.tools.dispatch import TOOL_NAMES, dispatch
from core.tools.target import canonical

_READING: Final = frozenset({"sessions_list", "sessions_history", "sessions_search", "agents_list"})
"""The tools that change nothing."""


def scope_of(name: str) -> str:
    """Return the scope that a tool needs."""
    return READ if name in _READING else WRITE


async def run_tool(
    context: ServerContext,
    access: Access,
    name: str,
    args: Mapping[str, Any],
    session_key: str | None,
    *,
    as_session: bool = False,
) -> dict[str, Any]:
    """Run a session tool for a client and return its result; what a rule refuses is one with a `status`.

    Args:
        session_key: The session that the operator sends or spawns from (S13), in any spelling.
        as_session: Act as that session instead, with its rights and no others.

    Raises:
        NotFound: There is no such tool, or what it works on does not exist.
        Forbidden: The client lacks the scope that the tool needs.
        SwitchboardError: The arguments are wrong, or it cannot be done.
    """
    if name not in TOOL_NAMES:
        raise NotFound(f"there is no tool {quoted(name)}: use one of {', '.join(TOOL_NAMES)}")
    access.require(scope_of(name))
    caller: Caller = access.caller(session_key)
    if as_session:
        if session_key is None:
            raise Invalid("tools.invoke as a session needs sessionKey")
        ref = canonical(context.gateway, access.caller(), session_key)
        caller = SessionCaller((await context.gateway.get_session(ref, context.gateway.rules.grant(caller).scope)).key)
    context.metrics.add("tool_calls", label=name)
    return await dispatch(context.gateway, caller, name, args)
