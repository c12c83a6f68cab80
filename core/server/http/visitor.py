"""Who makes an HTTP request: the token it carries, and what that token may do here (G8, protocol#roles)."""

from typing import Final, cast

from starlette.requests import HTTPConnection

from core.server.auth import Access, TokenRefused
from core.server.context import ServerContext
from core.server.guests import GUEST, Guest

SCOPES_HEADER: Final = "x-openclaw-scopes"


async def admit(context: ServerContext, request: HTTPConnection, scope: str) -> Access:
    """Return what the sender of a request may do.

    Raises:
        TokenRefused: The token is missing or wrong, or its sender is locked out.
        Forbidden: It may not do what `scope` names.
        Unavailable: Too many connections are let in.
    """
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if kind.lower() == "bearer" else None
    try:
        access = await context.auth.admit(given, peer=request.client.host if request.client else "")
    except TokenRefused as error:
        context.metrics.add("auth_failures", label=error.reason)
        raise
    wanted = request.headers.get(SCOPES_HEADER)
    if wanted is not None:
        access = access.narrowed(name.strip() for name in wanted.split(","))
    access.require(scope)
    guest_of(request).admit()
    return access


def guest_of(request: HTTPConnection) -> Guest:
    """Return the connection on which a request came (`core.server.http.protocols.Http`)."""
    return cast("Guest", request.scope["state"][GUEST])
