"""`sessions_search`: words in the transcripts a caller may see (T1, H5)."""

from typing import Any

from pydantic import Field

from core.gateway import Gateway
from core.model.access import Caller, Operator
from core.model.keys import shown
from core.model.sessions import unsearched
from core.tools.params import Limit, Text, ToolParams
from core.tools.target import find

NAME = "sessions_search"
DESCRIPTION = "Search the transcripts of the sessions you may see for messages that hold every word; newest first."
DEFAULT_HITS = 20
MAX_HITS = 100


class SessionsSearchParams(ToolParams):
    """Parameters of `sessions_search`."""

    query: Text = Field(min_length=1, description="Words; the last one may be the start of a word.")
    session_key: str | None = Field(default=None, description="Only this session, by key or id.")
    limit: Limit = Field(default=DEFAULT_HITS, description=f"Hits at most, up to {MAX_HITS}.")


async def run(gateway: Gateway, caller: Caller, params: SessionsSearchParams) -> dict[str, Any]:
    """Return `{count, results: [{sessionKey, sessionId, messageId, seq, timestamp, role, snippet}]}`.

    With `unsearched: [{place, reason}]` where something could not be looked into.
    """
    only = (await find(gateway, caller, params.session_key)).key if params.session_key else None
    limit = min(params.limit, MAX_HITS)
    agent_id = gateway.rules.whose_main(caller)
    redacted = not isinstance(caller, Operator)
    hits = await gateway.search(
        params.query, gateway.rules.grant(caller).scope, key=only, limit=limit, redacted=redacted
    )
    results = [
        {
            "sessionKey": shown(hit.key, agent_id),
            "sessionId": hit.session_id,
            "messageId": hit.message_id,
            "seq": hit.seq,
            "timestamp": hit.timestamp,
            "role": hit.role,
            "snippet": hit.snippet,
        }
        for hit in hits
    ]
    left_out = [each._asdict() for each in unsearched(hits)]
    return {"count": len(results), "results": results} | ({"unsearched": left_out} if left_out else {})
