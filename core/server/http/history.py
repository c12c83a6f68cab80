"""`GET /sessions/{sessionKey}/history`: a page as JSON, or the session's stream (G1-G3, protocol#our-history)."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid
from core.model.keys import quoted
from core.server.auth import READ
from core.server.context import ServerContext
from core.server.http.follow import Encoder, Follow
from core.server.http.pages import send_page
from core.server.http.visitor import admit, guest_of
from core.tools.target import canonical

DEFAULT_MESSAGES: Final = 50
MAX_MESSAGES: Final = 1000
"""Of one page; a higher limit is cut to that. Long ones fill a page sooner."""
_WORDS: Final = {"1": True, "true": True, "0": False, "false": False}
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


async def history(context: ServerContext, encoder: Encoder, request: Request) -> ASGIApp:
    """Answer the route.

    Args:
        encoder: Shared by all who follow.

    Raises `SwitchboardError` when the session does not exist, or the query or the token is wrong.
    """
    await admit(context, request, READ)
    query, guest = request.query_params, guest_of(request)
    limit = min(_whole("limit", query.get("limit", str(DEFAULT_MESSAGES))), MAX_MESSAGES)
    cursor = query.get("cursor")
    before = _whole("cursor", cursor.removeprefix("seq:")) if cursor is not None else None
    follows = _yes_or_no("follow", query) or "text/event-stream" in request.headers.get("accept", "").lower()
    if follows and before is not None:
        raise Invalid("cursor pages backwards and follow goes forwards: leave one of them out")
    include_tools = _yes_or_no("includeTools", query)
    ref = canonical(context.gateway, OPERATOR, request.path_params["key"])
    if follows and request.method == "GET":
        follow = Follow(context, encoder, ref, limit, include_tools, guest)
        await follow.begin(request.headers.get("last-event-id"))
        return follow
    session = await context.gateway.get_session(ref, ALL)
    shared = await context.pages.get(session, ref, limit=limit, before=before, include_tools=include_tools)
    return partial(send_page, shared, guest)


def _whole(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) < 1:
        raise Invalid(f"{name} must be a whole number from 1, not {quoted(text)}")
    return int(text)


def _yes_or_no(name: str, query: Mapping[str, str]) -> bool:
    text = query.get(name, "0")
    if text.lower() not in _WORDS:
        raise Invalid(f"{name} must be 1 or 0, not {quoted(text)}")
    return _WORDS[text.lower()]
