"""One tool for one client, as `POST /tools/invoke` and the methods of WebSocket clients run it (G7, protocol#http)."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from core.gateway import Gateway
from core.model.access import Caller, SessionCaller
from core.model.errors import Invalid, NotFound
from core.model.keys import quoted
from core.model.runs import RunRequest, RunTicket
from core.server.auth import READ, WRITE, Access
from core.server.context import ServerContext
from core.tools.dispatch import READING, TOOL_NAMES, dispatch
from core.tools.target import canonical
from core.wire.frames import encode


def scope_of(name: str) -> str:
    """Return the scope that a tool needs."""
    return READ if name in READING else WRITE


async def run_tool(
    context: ServerContext,
    access: Access,
    name: str,
    args: Mapping[str, Any],
    session_key: str | None,
    *,
    as_session: bool = False,
    once: str | None = None,
) -> dict[str, Any]:
    """Run a session tool for a client and return its result; what a rule refuses is one with a `status`.

    Args:
        once: The idempotency key: asked again with it, the same is answered, and nothing is done twice.
        session_key: The session that the operator sends or spawns from (S13), in any spelling.
        as_session: Act as that session instead, with its rights and no others.

    Raises:
        NotFound: There is no such tool, or what it works on does not exist.
        Forbidden: The client lacks the scope that the tool needs.
        Conflict: The idempotency key stands for another call.
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
        session = await context.gateway.get_session(ref, context.gateway.rules.grant(caller).scope)
        caller = SessionCaller(session.key, agent_id=session.agent_id)
    context.metrics.add("tool_calls", label=name)
    if once is None or name in READING:  # what only reads may be done again, and its answers are not worth keeping
        return await dispatch(context.gateway, caller, name, args)
    gateway = cast("Gateway", _Once(context.gateway, once))
    what = encode([name, args, session_key, as_session, access.owner])
    return await context.repeats.once(f"tool {once}", what, lambda: dispatch(gateway, caller, name, args))


class _Once:
    """A gateway on which a tool begins the run that a key stands for: it is stored under that id, and so a call that is
    repeated begins no other one, also after a restart."""

    def __init__(self, gateway: Gateway, key: str) -> None:
        self._gateway = gateway
        self._run_id = f"once-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:32]}"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the gateway has
        return getattr(self._gateway, name)

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept the message of the call."""
        return await self._gateway.start_run(replace(request, run_id=self._run_id), caller)
