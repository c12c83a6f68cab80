"""Methods over sessions: the list, its subscriptions, one session, and what changes it (protocol#methods,
protocol#our-methods)."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from core.model.access import ALL
from core.model.errors import Invalid, NotFound
from core.model.ids import new_id
from core.model.keys import MAIN, Job, parse
from core.model.runs import LIVE_STATES, RunRequest
from core.model.sessions import NewSession, Session, SessionPage, SessionPatch, SessionQuery
from core.server.auth import ADMIN, READ, WRITE
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.openclaw.chat import start
from core.server.openclaw.find import key_of, session_of
from core.server.openclaw.rows import defaults, model_fields, row
from core.server.params import ClosedParams, KeyParams, MethodParams, Nothing
from core.tools.target import policy_subject
from core.wire.frames import RawJson, encode

DEFAULT_LIMIT: Final = 100
MAX_ROWS: Final = 10_000
MAX_MESSAGES: Final = 1_000
FOREIGN: Final = frozenset({"fast_mode", "reasoning_level", "elevated_level", "response_usage", "group_activation"})
"""What clients of OpenClaw set, and means nothing here."""
Sort = Literal["updatedAt", "lastInteractionAt", "activity"]


class ListParams(MethodParams):
    """Parameters of `sessions.list`: as OpenClaw's, without those that mean nothing here."""

    limit: int | None = Field(default=None, ge=1, le=MAX_ROWS)
    offset: int = Field(default=0, ge=0)
    active_minutes: int | None = Field(default=None, ge=1)
    include_global: bool = True
    include_unknown: bool = False
    include_derived_titles: bool = True
    include_last_message: bool = True
    label: str | None = None
    spawned_by: str | None = None
    agent_id: str | None = None
    search: str | None = Field(default=None, max_length=1_000)
    sort_by: Sort = "updatedAt"
    active_only: bool = False
    archived: bool | Literal["all"] = False
    exclude_subagents: bool = False
    exclude_cron: bool = False
    exclude_system: bool = False
    configured_agents_only: bool = False

    @property
    def filters(self) -> bool:
        """Whether rows are left out that the store cannot leave out."""
        excludes = self.exclude_subagents or self.exclude_cron or self.exclude_system
        return self.active_only or excludes or self.configured_agents_only or not self.include_global


class SubscribeParams(ListParams):
    """Parameters of `sessions.subscribe`.

    Attributes:
        after: A `rev`: tell first what changed since (`events-resume-v1`).
        store_id: Of the store that it is of; another one makes it void.
    """

    after: int | None = Field(default=None, ge=0)
    store_id: str | None = None


class _PreviewParams(MethodParams):
    keys: list[str] = Field(min_length=1, max_length=64)
    limit: int = Field(default=12, ge=1, le=50)
    max_chars: int = Field(default=240, ge=20, le=2_000)


class ResolveParams(MethodParams):
    """Parameters of `sessions.resolve`: one of the first three."""

    key: str | None = None
    session_id: str | None = None
    label: str | None = None
    agent_id: str | None = None
    spawned_by: str | None = None
    include_global: bool = True
    include_unknown: bool = False
    allow_missing: bool = False


class _GetParams(KeyParams):
    limit: int = Field(default=200, ge=1, le=MAX_MESSAGES)


class CreateParams(MethodParams):
    """Parameters of `sessions.create`; there are no hooks here, and a parent goes on as it is.

    Attributes:
        origin: What the session is for, where its key is an explicit one (K3, K7); ours alone.
    """

    key: str | None = None
    agent_id: str | None = None
    label: str | None = Field(default=None, max_length=512)
    model: str | None = None
    parent_session_key: str | None = None
    origin: Job | None = None
    message: str | None = None
    task: str | None = None
    emit_command_hooks: bool = False
    succeeds_parent: bool | None = None

    @model_validator(mode="after")
    def _one_message(self) -> "CreateParams":
        if self.message is not None and self.task is not None:
            raise ValueError("give message or task, not both")
        return self


class PatchParams(KeyParams, ClosedParams):
    """Parameters of `sessions.patch`: what is named is changed, null clears."""

    label: str | None = None
    model: str | None = None
    thinking_level: str | None = None
    verbose_level: str | None = None
    send_policy: Literal["allow", "deny"] | None = None
    archived: bool | None = None
    fast_mode: Any = None
    reasoning_level: Any = None
    elevated_level: Any = None
    response_usage: Any = None
    group_activation: Any = None


class ResetParams(KeyParams, ClosedParams):
    """Parameters of `sessions.reset`."""

    reason: Literal["new", "reset"] = "reset"


class DeleteParams(KeyParams, ClosedParams):
    """Parameters of `sessions.delete`; its transcripts always go with a session."""

    delete_transcript: bool = True
    emit_lifecycle_hooks: bool = True


class _SearchParams(MethodParams):
    query: str = Field(min_length=1, max_length=1_000)
    limit: int = Field(default=10, ge=1, le=100)
    key: str | None = None


class _UsageParams(MethodParams):
    key: str | None = None
    limit: int = Field(default=50, ge=1, le=MAX_ROWS)


async def rows(client: Client, params: ListParams) -> RawJson:
    """Return the answer of `sessions.list`."""
    gateway, limit = client.gateway, params.limit
    if limit is None and client.admitted.protocol > 3:
        limit = DEFAULT_LIMIT  # older clients know of no pages
    page = await _page(client, params, limit)
    shown = len(page.sessions)
    after = params.offset + shown
    fields: dict[str, Any] = {
        "ts": gateway.now_ms(),
        "path": client.context.facts.state_dir,
        "count": shown,
        "limitApplied": limit,
        "offset": params.offset,
        "nextOffset": after if page.has_more else None,
        "hasMore": page.has_more,
        "owners": [],
        "defaults": await defaults(gateway, params.agent_id or gateway.rules.default_agent),
    }
    if not page.has_more:
        fields["totalCount"] = after
    array = await client.context.rows.array(page.sessions, page.children)
    return RawJson(f'{encode(fields)[:-1]},"sessions":{array}}}')


async def _page(client: Client, params: ListParams, limit: int | None) -> SessionPage:
    gateway = client.gateway
    minutes = params.active_minutes
    query = SessionQuery(
        limit=None if params.filters else limit,
        offset=0 if params.filters else params.offset,
        updated_after=gateway.now_ms() - minutes * 60_000 if minutes is not None else None,
        search=params.search or None,
        agent_id=params.agent_id,
        label=params.label,
        spawned_by=await key_of(client, params.spawned_by) if params.spawned_by else None,
        archived=None if params.archived == "all" else params.archived,
    )
    page = await gateway.list_sessions(query, ALL)
    if not params.filters:
        return page
    agents = frozenset(agent.agent_id for agent in await gateway.agents())
    kept = [session for session in page.sessions if _is_wanted(session, params, agents)]
    end = len(kept) if limit is None else params.offset + limit
    return SessionPage(tuple(kept[params.offset : end]), page.children, len(kept) > end)


def _is_wanted(session: Session, params: ListParams, agents: frozenset[str]) -> bool:
    return not (
        (params.active_only and session.status not in LIVE_STATES)
        or (params.exclude_subagents and parse(session.key).is_subagent)
        or (params.exclude_cron and session.kind == "cron")
        or (params.exclude_system and session.kind in {"hook", "node"})
        or (params.configured_agents_only and session.agent_id not in agents)
        or (not params.include_global and session.key == MAIN)
    )


async def _subscribe(client: Client, params: SubscribeParams) -> object:
    pump = client.begin_events()
    other = params.store_id is not None and params.store_id != client.context.facts.store_id
    known = pump.subscribe(None if other else params.after)
    answer: dict[str, Any] = {
        "subscribed": True,
        "storeId": client.context.facts.store_id,
        "cursor": pump.wanted.feed.cursor,
        "reset": other or not known,
    }
    if params.model_fields_set <= {"after", "store_id"}:
        return answer
    return RawJson(f'{encode(answer)[:-1]},"list":{(await rows(client, params)).text}}}')


async def _unsubscribe(client: Client, params: Nothing) -> dict[str, Any]:  # noqa: ARG001 - one shape
    if client.events is not None:
        client.events.unsubscribe()
    return {"subscribed": False}


async def _follow(client: Client, params: KeyParams) -> dict[str, Any]:
    key = await key_of(client, params.key, params.agent_id)
    client.begin_events().wanted.follow(key)
    return {"subscribed": True, "key": key}


async def _unfollow(client: Client, params: KeyParams) -> dict[str, Any]:
    try:
        key = await key_of(client, params.key, params.agent_id)
    except NotFound:  # it may have been deleted since
        key = client.gateway.rules.resolve(params.key, params.agent_id)
    if client.events is not None:
        client.events.wanted.unfollow(key)
    return {"subscribed": False, "key": key}


async def _preview(client: Client, params: _PreviewParams) -> dict[str, Any]:
    previews = [await _preview_of(client, key, params) for key in params.keys]
    return {"ts": client.gateway.now_ms(), "previews": previews}


async def _preview_of(client: Client, key: str, params: _PreviewParams) -> dict[str, Any]:
    try:
        ref = client.gateway.rules.resolve(key)
        page = await client.gateway.history(ref, ALL, limit=params.limit, include_tools=False, in_brief=True)
    except (NotFound, Invalid):
        return {"key": key, "status": "missing", "items": []}
    items = [{"role": each.role, "text": _cut(each.text, params.max_chars)} for each in page.messages if each.text]
    return {"key": key, "status": "ok" if items else "empty", "items": items}


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 3]}..."


async def _resolve(client: Client, params: ResolveParams) -> dict[str, Any]:
    wanted = params.key or params.session_id or params.label
    if wanted is None:
        raise Invalid("Either key, sessionId or label is required")
    parent = await key_of(client, params.spawned_by) if params.spawned_by else None
    try:
        session = await (
            _labelled(client, params, wanted, parent)
            if params.label is not None and wanted is params.label
            else session_of(client, wanted)
        )
    except NotFound:
        if params.allow_missing:
            return {"ok": False}
        raise NotFound(f"No session found: {wanted[:200]}") from None
    return {"ok": True, "key": session.key, "agentId": session.agent_id}


async def _labelled(client: Client, params: ResolveParams, label: str, parent: str | None) -> Session:
    query = SessionQuery(limit=2, label=label, agent_id=params.agent_id, spawned_by=parent)
    found = list((await client.gateway.list_sessions(query, ALL)).sessions)
    if not found:
        raise NotFound("none has that label")
    if len(found) > 1:
        raise Invalid(f"Multiple sessions found with label: {label[:200]}")
    return found[0]


async def _describe(client: Client, params: KeyParams) -> RawJson:
    try:
        session = await session_of(client, params.key, params.agent_id)
    except NotFound:
        return RawJson('{"session":null}')
    return RawJson(f'{{"session":{client.context.rows.text(session)}}}')


async def _get(client: Client, params: _GetParams) -> RawJson:
    try:
        ref = client.gateway.rules.resolve(params.key, params.agent_id)
        page = await client.gateway.history(ref, ALL, limit=params.limit)
    except NotFound:
        return RawJson('{"messages":[]}')
    more = f',"hasMore":{"false" if page.before is None else "true"}'
    return RawJson(f'{{"messages":[{",".join(map(client.context.rows.message, page.messages))}]{more}}}')


async def _create(client: Client, params: CreateParams) -> RawJson:
    gateway = client.gateway
    if params.agent_id is not None and params.agent_id not in {a.agent_id for a in await gateway.agents()}:
        raise NotFound(f'Unknown agent id "{params.agent_id[:80]}"')
    new = NewSession(
        key=_new_key(client, params),
        agent_id=params.agent_id,
        label=params.label or None,
        model=params.model or None,
        parent=await key_of(client, params.parent_session_key) if params.parent_session_key else None,
        origin=params.origin,
    )
    session = await gateway.create(new, client.caller)
    fields: dict[str, Any] = {"ok": True, "key": session.key, "sessionId": session.session_id, "runStarted": False}
    message = params.message or params.task
    if message:
        ticket = await start(client, RunRequest(session.session_id, message, run_id=new_id()))
        fields |= {"runStarted": True, "runId": ticket.run_id, "status": "started"}
    return _with_entry(client, fields, session)


def _new_key(client: Client, params: CreateParams) -> str | None:
    """Return the key of a new session; a word without a form of its own becomes one of the agent's sessions."""
    if params.key is None:
        return None
    key = client.gateway.rules.resolve(params.key, params.agent_id)
    agent_id = params.agent_id or client.gateway.rules.default_agent
    return key if parse(key).structured or params.origin is not None else f"agent:{agent_id}:{key}"


def _with_entry(client: Client, fields: dict[str, Any], session: Session) -> RawJson:
    fields = fields | {"resolved": model_fields(session.model or session.used_model)}
    return RawJson(f'{encode(fields)[:-1]},"entry":{client.context.rows.text(session)}}}')


async def _patch(client: Client, params: PatchParams) -> RawJson:
    named = params.model_fields_set - {"key", "agent_id"}
    if foreign := sorted(named & FOREIGN):
        raise Invalid(f"sessions have no {to_camel(foreign[0])} here: nothing was changed")
    if "send_policy" in named:
        client.access.require(ADMIN)
    if named == {"send_policy"}:  # it may wait for its session
        key = client.gateway.rules.resolve(params.key, params.agent_id)
        session = await policy_subject(client.gateway, key)
    else:
        session = await session_of(client, params.key, params.agent_id)
    fields = params.model_dump(by_alias=True, include=set(named - {"archived"}))
    patch = SessionPatch({name: value or None for name, value in fields.items()})
    if patch.fields:
        ref = session.session_id or session.key
        session = await client.gateway.patch(ref, patch, client.caller)
    if params.archived is not None:
        ref, caller = session.session_id, client.caller
        session = await client.gateway.archive(ref, caller, archived=params.archived)
    found = {"ok": True, "path": client.context.facts.state_dir, "key": session.key}
    if not session.session_id:
        return RawJson(encode(found | {"waiting": session.send_policy is not None}))
    return _with_entry(client, found, session)


async def _reset(client: Client, params: ResetParams) -> RawJson:
    session = await session_of(client, params.key, params.agent_id)
    session = await client.gateway.reset(session.session_id, client.caller)
    return _with_entry(client, {"ok": True, "key": session.key}, session)


async def _delete(client: Client, params: DeleteParams) -> dict[str, Any]:
    if not params.delete_transcript:
        raise Invalid("a session goes with its transcripts: archive it with sessions.patch {archived: true} instead")
    ref = client.gateway.rules.resolve(params.key, params.agent_id)
    try:
        session = await session_of(client, ref)
        await client.gateway.delete(ref, client.caller)
    except NotFound:
        return {"ok": True, "key": ref, "deleted": False, "archived": []}
    return {"ok": True, "key": session.key, "deleted": True, "archived": []}


async def _search(client: Client, params: _SearchParams) -> dict[str, Any]:
    key = (await session_of(client, params.key)).key if params.key is not None else None
    hits = await client.gateway.search(params.query, ALL, key=key, limit=params.limit)
    results = [
        {
            "sessionKey": hit.key,
            "sessionId": hit.session_id,
            "messageId": hit.message_id,
            "messageSeq": hit.seq,
            "role": hit.role,
            "timestamp": hit.timestamp,
            "snippet": hit.snippet,
            "score": len(hits) - place,
        }
        for place, hit in enumerate(hits)
    ]
    return {"results": results}


async def _usage(client: Client, params: _UsageParams) -> dict[str, Any]:
    """Return what sessions have used since they were made; nothing is kept by the day."""
    if params.key is not None:
        found = (await session_of(client, params.key),)
    else:
        found = (await client.gateway.list_sessions(SessionQuery(limit=params.limit, archived=None), ALL)).sessions
    each = [
        {
            name: value
            for name, value in row(session).items()
            if name in {"key", "label", "sessionId", "updatedAt", "agentId", "chatType", "modelProvider", "model"}
        }
        | {"usage": {"totalTokens": session.spent_tokens, "totalCost": session.cost_usd}}
        for session in found
    ]
    return {"updatedAt": client.gateway.now_ms(), "sessions": each, "totals": _totals(found)}


async def _cost(client: Client, params: Nothing) -> dict[str, Any]:  # noqa: ARG001 - one shape
    """Return what all sessions have used; nothing is kept by the day."""
    every = SessionQuery(limit=MAX_ROWS, archived=None)
    found = (await client.gateway.list_sessions(every, ALL)).sessions
    return {"updatedAt": client.gateway.now_ms(), "days": 0, "daily": [], "totals": _totals(found)}


def _totals(found: Sequence[Session]) -> dict[str, Any]:
    costs = [session.cost_usd for session in found]
    return {
        "totalTokens": sum(session.spent_tokens for session in found),
        "totalCost": sum(cost for cost in costs if cost is not None),
        "missingCostEntries": costs.count(None),
    }


SESSIONS: Final = (
    Method("sessions.list", READ, ListParams, rows),
    Method("sessions.subscribe", READ, SubscribeParams, _subscribe),
    Method("sessions.unsubscribe", READ, Nothing, _unsubscribe),
    Method("sessions.messages.subscribe", READ, KeyParams, _follow),
    Method("sessions.messages.unsubscribe", READ, KeyParams, _unfollow),
    Method("sessions.preview", READ, _PreviewParams, _preview),
    Method("sessions.resolve", READ, ResolveParams, _resolve),
    Method("sessions.describe", READ, KeyParams, _describe),
    Method("sessions.get", READ, _GetParams, _get, heavy=True),
    Method("sessions.create", WRITE, CreateParams, _create),
    Method("sessions.patch", WRITE, PatchParams, _patch),
    Method("sessions.reset", ADMIN, ResetParams, _reset),
    Method("sessions.delete", ADMIN, DeleteParams, _delete),
    Method("sessions.search", READ, _SearchParams, _search),
    Method("sessions.usage", READ, _UsageParams, _usage),
    Method("usage.cost", READ, Nothing, _cost),
)
