"""`GET /sessions/{sessionKey}/history`: a page as JSON, or the session's stream (G1-G3, protocol#our-history)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid
from core.model.keys import quoted
from core.server.auth import READ
from core.server.context import ServerContext
from core.server.http.follow import Encoder, Follow
from core.server.http.pages import HistoryText
from core.server.http.visitor import admit, guest_of
from core.tools.target import canonical

DEFAULT_MESSAGES: Final = 50
MAX_MESSAGES: Final = 1000
_WORDS: Final = {"1": True, "true": True, "0": False, "false": False}
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the query asks for.

    Attributes:
        limit: Messages at most, 1 to 1,000; more is cut to that. Long ones fill a page sooner.
        before: `seq` before which the page ends, None for the newest.
    """

    limit: int
    before: int | None
    include_tools: bool
    follow: bool

    @classmethod
    def read(cls, query: Mapping[str, str], accept: str) -> "Asked":
        """Read the query.

        Raises:
            Invalid: A value cannot be meant.
        """
        limit = _whole("limit", query.get("limit", str(DEFAULT_MESSAGES)))
        cursor = query.get("cursor")
        before = _whole("cursor", cursor.removeprefix("seq:")) if cursor is not None else None
        follow = _yes_or_no("follow", query) or "text/event-stream" in accept.lower()
        if follow and before is not None:
            raise Invalid("cursor pages backwards and follow goes forwards: leave one of them out")
        return cls(min(limit, MAX_MESSAGES), before, _yes_or_no("includeTools", query), follow)


async def history(context: ServerContext, encoder: Encoder, request: Request) -> ASGIApp:
    """Answer the route.

    Args:
        encoder: Shared by all who follow.

    Raises:
        SwitchboardError: The session does not exist, or the query or the token is wrong.
    """
    await admit(context, request, READ)
    asked = Asked.read(request.query_params, request.headers.get("accept", ""))
    ref = canonical(context.gateway, OPERATOR, request.path_params["key"])
    if asked.follow and request.method == "GET":
        guest = guest_of(request)
        follow = Follow(context, encoder, ref, limit=asked.limit, include_tools=asked.include_tools, guest=guest)
        await follow.begin(request.headers.get("last-event-id"))
        return follow
    session = await context.gateway.get_session(ref, ALL)
    shared = await context.pages.get(
        session, ref, limit=asked.limit, before=asked.before, include_tools=asked.include_tools
    )
    return HistoryText(shared, guest_of(request))


def _whole(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) < 1:
        raise Invalid(f"{name} must be a whole number from 1, not {quoted(text)}")
    return int(text)


def _yes_or_no(name: str, query: Mapping[str, str]) -> bool:
    text = query.get(name, "0")
    if text.lower() not in _WORDS:
        raise Invalid(f"{name} must be 1 or 0, not {quoted(text)}")
    return _WORDS[text.lower()]
