"""How requests are worded that gateways of several makes take differently, by what each was found to take."""

from collections.abc import Mapping
from typing import Any, Final

from core.remote.openclaw.features import Features

LIST: Final = "sessions.list"
HISTORY: Final = "chat.history"
HISTORY_LIMIT: Final = 1000
"""Messages that one request gives at most."""
_SLACK: Final = 20
"""Messages that may have come since the end of a history was last read."""


def list_params(features: Features, limit: int, offset: int, *, archived: bool | str) -> dict[str, Any]:
    """Return the parameters that list a page of the sessions, or all of them where there are no pages.

    Args:
        archived: `"all"`, or whether those are wanted that are archived.
    """
    pages = {"limit": limit, "offset": offset, "includeLastMessage": True} if features.takes(LIST, "offset") else {}
    return features.pick(LIST, includeGlobal=True, includeUnknown=True, archived=archived, **pages)


def history_params(features: Features, key: str, limit: int, offset: int, max_chars: int) -> dict[str, Any]:
    """Return the parameters that read `limit` messages, those after the newest `offset`.

    A gateway without pages gives its newest ones, so that those before must be read with them.
    """
    if features.takes(HISTORY, "offset"):
        part = {"limit": limit, "offset": offset}
    else:
        part = {"limit": min(limit + offset + _SLACK, HISTORY_LIMIT)}
    return {"sessionKey": key, **part} | features.pick(HISTORY, maxChars=max_chars)


def reachable(last: int, features: Features) -> int:
    """Return the first place of a transcript that can be read when it ends at `last`."""
    return 1 if features.takes(HISTORY, "offset") else max(1, last - HISTORY_LIMIT + 1)


def row_of(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the session's row that an event carries, None when it carries none.

    The row comes nested, flat, or both; the nested one is whole.
    """
    nested = payload.get("session")
    key = payload.get("sessionKey")
    if isinstance(nested, Mapping):
        return {"key": key, **nested}
    if payload.get("sessionId") and "updatedAt" in payload:
        return {**payload, "key": key}
    return None
