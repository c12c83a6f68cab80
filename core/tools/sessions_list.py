"""`sessions_list`: sessions as rows, newest first (L1-L6)."""

from typing import Any, cast

from pydantic import Field, field_validator

from core.gateway import Gateway
from core.model.access import Caller
from core.model.errors import NotFound
from core.model.keys import KINDS, Kind
from core.model.sessions import SessionQuery
from core.rules.redact import Allowance
from core.tools.params import Limit, Number, Text, ToolParams, Whole
from core.tools.reading import readable, readable_text
from core.tools.target import find

NAME = "sessions_list"
DESCRIPTION = "List the sessions you may see, newest first, each with its state, model, tokens and cost."
DEFAULT_ROWS = 50
MAX_ROWS = 200
MAX_MESSAGES = 20
MAX_MINUTES = 100 * 366 * 24 * 60
MAX_OFFSET = 1_000_000_000


class SessionsListParams(ToolParams):
    """Parameters of `sessions_list`."""

    kinds: list[str] | None = Field(default=None, description=f"Only these kinds: {', '.join(KINDS)}.")
    limit: Limit = Field(default=DEFAULT_ROWS, description=f"Rows at most, up to {MAX_ROWS}.")
    active_minutes: Number | None = Field(
        default=None, gt=0, le=MAX_MINUTES, description="Only sessions updated within that many minutes."
    )
    message_limit: Whole = Field(
        default=0, ge=0, description=f"Add that many of the newest messages to each row, up to {MAX_MESSAGES}."
    )
    search: Text | None = Field(default=None, description="Part of key, label, name or newest message.")
    agent_id: Text | None = Field(default=None, description="Only sessions of this agent.")
    label: Text | None = Field(default=None, description="Only sessions with exactly this label.")
    spawned_by: str | None = Field(default=None, description="Only sub-agents that this session (key or id) spawned.")
    archived: bool = Field(default=False, description="List the archived sessions instead.")
    offset: Whole = Field(
        default=0, ge=0, le=MAX_OFFSET, description="Skip that many rows; the answer's nextOffset gives the next page."
    )

    @field_validator("kinds")
    @classmethod
    def _known_kinds(cls, kinds: list[str] | None) -> list[str] | None:
        for kind in kinds or ():
            if kind not in KINDS:
                raise ValueError(f'"{kind}" is no kind of session: use any of {", ".join(KINDS)}')
        return kinds


async def run(gateway: Gateway, caller: Caller, params: SessionsListParams) -> dict[str, Any]:
    """Return `{count, sessions}`, with `hasMore` and `nextOffset` where there are more.

    Messages for an agent share one allowance: `truncated` and `omitted` tell of those that did not fit (H5).
    """
    limit, minutes = min(params.limit, MAX_ROWS), params.active_minutes
    query = SessionQuery(
        kinds=tuple(cast("list[Kind]", params.kinds or [])),
        limit=limit,
        offset=params.offset,
        updated_after=None if minutes is None else gateway.now_ms() - int(minutes * 60_000),
        search=params.search or None,
        agent_id=params.agent_id.lower() if params.agent_id else None,
        label=params.label,
        spawned_by=(await find(gateway, caller, params.spawned_by)).key if params.spawned_by else None,
        archived=params.archived,
    )
    scope = gateway.rules.grant(caller).scope
    page = await gateway.list_sessions(query, scope)
    agent_id = gateway.rules.whose_main(caller)
    rows: list[dict[str, Any]] = []
    allowance, omitted = Allowance(), 0
    for session in page.sessions:
        path = await gateway.transcript_path(session)
        children = page.children.get(session.key, ())
        row = session.row(agent_id, children=children, transcript_path=str(path) if path else None)
        row |= {name: readable_text(caller, row[name]) for name in ("label", "displayName") if name in row}
        if params.message_limit:
            count = min(params.message_limit, MAX_MESSAGES)
            try:
                history = await gateway.history(session.key, scope, limit=count, include_tools=False)
            except NotFound:
                continue  # it was deleted meanwhile
            row["messages"], missing = readable(caller, history.messages, allowance)
            omitted += missing
        rows.append(row)
    result: dict[str, Any] = {"count": len(rows), "sessions": rows}
    if page.has_more:
        result |= {"hasMore": True, "nextOffset": params.offset + len(rows)}
    if omitted:
        result |= {"truncated": True, "omitted": omitted}
    return result
