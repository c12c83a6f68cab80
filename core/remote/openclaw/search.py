"""Words in the transcripts of an OpenClaw gateway: its own search where it has one, else what one session holds."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from core.model.errors import Unavailable
from core.model.sessions import HistoryPage, SearchHit, Unsearched
from core.remote.openclaw.features import Features
from core.remote.openclaw.rows import rows_of, text, whole
from core.remote.refusal import RequestNotTaken
from core.rules.redact import redact

READ: Final = 1000
"""Messages of one session that are looked through."""
MOST: Final = 25
"""Hits that a gateway gives at most."""
SNIPPET_CHARS: Final = 160
KEYS: Final = 200
"""Sessions that one search may name."""
METHOD: Final = "sessions.search"
CANNOT: Final = (
    "this gateway cannot search its transcripts: search in one session, with `search TEXT --in KEY` or / in its"
    " transcript"
)
EVERYTHING: Final = {"archived": "all", "includeGlobal": True, "includeUnknown": True}

Asked = Mapping[str, Any]
Keys = Mapping[str, Sequence[str]]


class SearchAnswer(NamedTuple):
    """The rows that a gateway found, and what it did not look into."""

    rows: list[Mapping[str, Any]]
    unsearched: tuple[Unsearched, ...] = ()


async def search_all(features: Features, query: str, keys: Keys, default: str) -> SearchAnswer:
    """Have a gateway search its sessions: all at once, agent by agent, or else its default agent's only.

    Args:
        keys: Of the sessions of each agent.
        default: The gateway's default agent.

    Raises `Unavailable` when it cannot search.
    """
    asked = {"query": query, "limit": MOST}
    if features.takes(METHOD, "scope"):
        with contextlib.suppress(RequestNotTaken):
            answer = await features.ask(METHOD, {**asked, "scope": EVERYTHING}, again=True)
            return SearchAnswer(rows_of(answer, "results"))
    if features.takes(METHOD, "sessionKeys"):
        with contextlib.suppress(RequestNotTaken):
            return SearchAnswer(await _by_agent(features, asked, keys))
    if features.has(METHOD):
        with contextlib.suppress(RequestNotTaken):
            answer = await features.ask(METHOD, asked, again=True)
            why = "this gateway searches its default agent only"
            others = tuple(Unsearched(f"agent {name}", why) for name in keys if name != default)
            return SearchAnswer(rows_of(answer, "results"), others)
    raise Unavailable(CANNOT)


async def _by_agent(features: Features, asked: Asked, keys: Keys) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for agent_id, names in keys.items():
        for start in range(0, len(names), KEYS):
            some = {**asked, "sessionKeys": list(names[start : start + KEYS])}

            def params(some: Asked = some, agent_id: str = agent_id) -> dict[str, Any]:
                return {**some, **features.pick(METHOD, agentId=agent_id)}

            rows += rows_of(await features.ask(METHOD, params, again=True), "results")
    return rows


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


def read_hits(rows: Iterable[Mapping[str, Any]], query: str, *, redacted: bool) -> list[SearchHit]:
    """Read the rows of `sessions.search`, newest first; they do not tell places, so that these are 0."""
    words = [word.lower() for word in query.split()]
    hits: list[SearchHit] = []
    for row in rows:
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
    return sorted(hits, key=lambda hit: -hit.timestamp)


def _spans(snippet: str, words: list[str]) -> tuple[tuple[int, int], ...]:
    if not words:
        return ()
    pattern = "|".join(re.escape(word) for word in words)
    return tuple(found.span() for found in re.finditer(pattern, snippet, re.IGNORECASE))
