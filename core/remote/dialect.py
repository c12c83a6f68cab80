"""What differs between OpenClaw gateways, found by what they name and answer, never by their version."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.remote.hello import Hello

ADMIN: Final = "operator.admin"
READ: Final = "operator.read"
WRITE: Final = "operator.write"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One gateway's ways.

    Attributes:
        pages: Lists and histories can be read in pages, from any place; else the list comes whole, and of a history
            only the end.
        patches_need_admin: Any change of a session is the owner's.
        archives: Sessions can be archived.
        searches: Transcripts can be searched.
        invokes: Tools can be called over the connection; else over HTTP.
        expects: A message can name the transcript that it is meant for.
    """

    pages: bool
    patches_need_admin: bool
    archives: bool
    searches: bool
    invokes: bool
    expects: bool

    @classmethod
    def of(cls, hello: Hello) -> "Dialect":
        """Return the ways of a gateway that said this hello."""
        newer = "sessions.describe" in hello.methods
        return cls(
            pages=newer,
            patches_need_admin=not newer,
            archives=newer,
            searches="sessions.search" in hello.methods,
            invokes="tools.invoke" in hello.methods,
            expects=newer,
        )

    def list_params(self, limit: int, offset: int) -> dict[str, Any]:
        """Return the parameters that list all sessions, or a page of them."""
        everything = {"includeGlobal": True, "includeUnknown": True}
        if not self.pages:
            return everything
        return everything | {"limit": limit, "offset": offset, "archived": "all", "includeLastMessage": True}

    def history_params(self, key: str, limit: int, offset: int, max_chars: int) -> dict[str, Any]:
        """Return the parameters that read `limit` messages, those after the newest `offset`.

        A gateway without pages gives its newest ones, so that those before must be read with them.
        """
        params: dict[str, Any] = {"sessionKey": key, "maxChars": max_chars}
        if self.pages:
            return params | {"limit": limit, "offset": offset}
        return params | {"limit": min(limit + offset + _SLACK, HISTORY_LIMIT)}


HISTORY_LIMIT: Final = 1000
"""Messages that one request gives at most."""
_SLACK: Final = 20
"""Messages that may have come since the end of a history was last read."""


def reachable(last: int, dialect: Dialect) -> int:
    """Return the first place of a transcript that can be read when it ends at `last`."""
    return 1 if dialect.pages else max(1, last - HISTORY_LIMIT + 1)


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
