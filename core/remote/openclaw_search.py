"""Words in the transcripts of an OpenClaw gateway: its own search where it has one, else what one session holds."""

import re
from collections.abc import Mapping
from typing import Any, Final

from core.model.sessions import HistoryPage, SearchHit
from core.remote.openclaw_rows import rows_of, text, whole
from core.rules.redact import redact

READ: Final = 1000
"""Messages of one session that are looked through."""
MOST: Final = 25
"""Hits that a gateway gives at most."""
SNIPPET_CHARS: Final = 160


def scan(page: HistoryPage, query: str, limit: int, *, redacted: bool) -> list[SearchHit]:
    """Return the messages of a page that hold every word, newest first."""
    words = [word.lower() for word in query.split()]
    hits: list[SearchHit] = []
    for message in reversed(page.messages):
        said = redact(message.text) if redacted else message.text
        lowered = said.lower()
        if words and len(hits) < limit and all(word in lowered for word in words):
            start = max(min(lowered.index(word) for word in words) - SNIPPET_CHARS // 4, 0)
            snippet = said[start : start + SNIPPET_CHARS]
            spans = _spans(snippet, words)
            hits.append(
                SearchHit(
                    page.key, page.session_id, message.id, message.seq, message.timestamp, message.role, snippet, spans
                )
            )
    return hits


def read_hits(answer: Mapping[str, Any], query: str, *, redacted: bool) -> list[SearchHit]:
    """Read the answer of `sessions.search`; it does not tell places, so that they are 0."""
    words = [word.lower() for word in query.split()]
    hits: list[SearchHit] = []
    for row in rows_of(answer, "results"):
        key, found = text(row, "sessionKey"), text(row, "snippet") or ""
        if key is None:
            continue
        snippet = " ".join((redact(found) if redacted else found)[: 2 * SNIPPET_CHARS].split())[:SNIPPET_CHARS]
        hits.append(
            SearchHit(
                key=key,
                session_id=text(row, "sessionId") or "",
                message_id=text(row, "messageId") or "",
                seq=0,
                timestamp=whole(row, "timestamp") or 0,
                role=text(row, "role") or "",
                snippet=snippet,
                spans=_spans(snippet, words),
            )
        )
    return hits


def _spans(snippet: str, words: list[str]) -> tuple[tuple[int, int], ...]:
    if not words:
        return ()
    pattern = "|".join(re.escape(word) for word in words)
    return tuple(found.span() for found in re.finditer(pattern, snippet, re.IGNORECASE))
