"""Who makes an HTTP request: the token it carries, and what that token may do here (G8, PROTOCOL II.8)."""

from typing import Final

from starlette.requests import HTTPConnection

from core.server.auth import Access, TokenRefused
from core.server.context import ServerContext

SCOPES_HEADER: Final = "x-openclaw-scopes"


def admit(context: ServerContext, request: HTTPConnection, scope: str) -> Access:
    """Return what the sender of a request may do.

    Raises:
        TokenRefused: The token is missing or wrong, or its sender is locked out.
        Forbidden: It may not do what `scope` names.
    """
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if kind.lower() == "bearer" else None
    try:
        access = context.auth.check(given, peer=request.client.host if request.client else "")
    except TokenRefused as error:
        context.metrics.add("auth_failures", label=error.reason)
        raise
    wanted = request.headers.get(SCOPES_HEADER)
    if wanted is not None:
        access = access.narrowed(name.strip() for name in wanted.split(","))
    access.require(scope)
    return access
