"""Methods over one conversation: its history, a message into it, the end of what runs in it (protocol#methods,
protocol#our-send-policy)."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from core.model.access import ALL
from core.model.errors import Invalid, NotFound
from core.model.ids import new_id
from core.model.messages import Draft, Message, text_block
from core.model.runs import LIVE_STATES, RunRequest, RunTicket
from core.model.sessions import HistoryPage, Session
from core.server.auth import ADMIN, READ, WRITE
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.openclaw.find import found_key, session_of
from core.server.openclaw.rows import defaults, message_text
from core.server.params import KeyParams, MethodParams
from core.wire.frames import RawJson, encode

MAX_MESSAGES: Final = 1_000
MAX_HISTORY: Final = 6 * 1024 * 1024
"""Characters of one answer; older messages are left out and can be asked for with `offset`."""


class HistoryParams(MethodParams):
    """Parameters of `chat.history`.

    Attributes:
        offset: How many of the newest messages are left out.
        max_chars: Of each text; the rest is cut.
        max_bytes: Of all messages; older ones are left out.
    """

    session_key: str
    agent_id: str | None = None
    session_id: str | None = None
    limit: int = Field(default=200, ge=1, le=MAX_MESSAGES)
    offset: int = Field(default=0, ge=0)
    max_chars: int | None = Field(default=None, ge=1, le=500_000)
    max_bytes: int | None = Field(default=None, ge=1)


class SendParams(MethodParams):
    """Parameters of `chat.send`; what a gateway with channels would do with `deliver` means nothing here."""

    session_key: str
    message: str
    idempotency_key: str = Field(min_length=1, max_length=200)
    agent_id: str | None = None
    session_id: str | None = None
    thinking: str | None = None
    deliver: bool | None = None
    timeout_ms: int | None = Field(default=None, ge=0)
    attachments: list[Any] = Field(default_factory=list[Any])


class _SessionSendParams(KeyParams):
    message: str
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    thinking: str | None = None
    timeout_ms: int | None = Field(default=None, ge=0)
    attachments: list[Any] = Field(default_factory=list[Any])


class _AbortParams(MethodParams):
    session_key: str
    run_id: str | None = None
    agent_id: str | None = None
    preserve_side_runs: bool | None = None


class _SessionAbortParams(KeyParams):
    run_id: str | None = None


class _InjectParams(MethodParams):
    session_key: str
    message: str = Field(min_length=1)
    label: str | None = Field(default=None, max_length=100)


async def _history(client: Client, params: HistoryParams) -> RawJson:
    gateway = client.gateway
    key = params.session_id or await found_key(client, params.session_key, params.agent_id)
    try:
        session = await gateway.get_session(key, ALL)
    except NotFound:  # it is yet to be made
        fields = {"sessionKey": key, "messages": list[str](), "hasMore": False, "totalMessages": 0}
        return RawJson(encode(fields | {"defaults": await defaults(gateway, gateway.rules.default_agent)}))
    ref, before = params.session_id or session.session_id, None
    if params.offset:
        newest = await gateway.history(ref, ALL, limit=1)
        last = newest.messages[-1].seq if newest.messages else session.first_seq
        before = max(1, last + 1 - params.offset)
    page = await gateway.history(ref, ALL, limit=params.limit, before=before, in_brief=params.max_chars is not None)
    return await _answer(client, session, page, params)


async def _answer(client: Client, session: Session, page: HistoryPage, params: HistoryParams) -> RawJson:
    texts = _texts(client, page.messages, params)
    cut = len(texts) < len(page.messages)
    fields: dict[str, Any] = {
        "sessionKey": session.key,
        "sessionId": page.session_id,
        "hasMore": cut or page.before is not None,
        "offset": params.offset,
        "pendingInputs": {"items": [], "total": session.queued},
        "defaults": await defaults(client.gateway, session.agent_id),
    }
    if fields["hasMore"]:
        fields["nextOffset"] = params.offset + len(texts)
    if page.session_id == session.session_id:
        fields["totalMessages"] = session.last_seq - session.first_seq + 1
    levels = (("thinkingLevel", session.thinking_level), ("verboseLevel", session.verbose_level))
    fields.update((name, level) for name, level in levels if level is not None)
    if session.status == "running":
        reply = client.events.runs.under_way(session.key) if client.events is not None else None
        if reply is not None:
            told = {"runId": reply.run_id, "text": reply.text, "startedAt": session.started_at}
            fields["inFlightRun"] = told | {"events": []}
    row = client.context.rows.text(session)
    return RawJson(f'{encode(fields)[:-1]},"messages":[{",".join(texts)}],"sessionInfo":{row}}}')


def _texts(client: Client, messages: Sequence[Message], params: HistoryParams) -> list[str]:
    """Return the newest messages that fit one answer, as JSON, in order."""
    found, size = list[str](), 0
    most = min(params.max_bytes or MAX_HISTORY, MAX_HISTORY)
    for message in reversed(messages):
        kept, chars = client.context.rows.message, params.max_chars
        text = kept(message) if chars is None else message_text(_shortened(message, chars))
        size += len(text)
        if found and size > most:
            break
        found.append(text)
    return found[::-1]


def _shortened(message: Message, chars: int) -> Message:
    content = tuple(
        {**block, "text": f"{block['text'][:chars]}\n...(truncated)...", "cut": len(block["text"]) - chars}
        if isinstance(block.get("text"), str) and len(block["text"]) > chars
        else block
        for block in message.content
    )
    return message._replace(content=content)


async def _send(client: Client, params: SendParams) -> dict[str, Any]:
    key = await found_key(client, params.session_key, params.agent_id)
    request = RunRequest(
        params.session_id or key,
        params.message,
        run_id=params.idempotency_key,
        create=True,
        timeout_ms=params.timeout_ms,
        agent_id=params.agent_id.lower() if params.agent_id else None,
    )
    _check_attachments(params.attachments)
    return await _accept(client, request, params.idempotency_key)


async def _send_to(client: Client, params: _SessionSendParams) -> dict[str, Any]:
    _check_attachments(params.attachments)
    session = await session_of(client, params.key, params.agent_id)
    run_id = params.idempotency_key or new_id()
    request = RunRequest(session.key, params.message, run_id=run_id, timeout_ms=params.timeout_ms)
    return await _accept(client, request, run_id)


async def _accept(client: Client, request: RunRequest, run_id: str) -> dict[str, Any]:
    """Have a message accepted, and say how its run stands when it was accepted before."""
    try:
        await client.gateway.wait_run(run_id, 0)
        known = True
    except NotFound:
        known = False
    ticket = await start(client, request)
    status = "in_flight" if ticket.state in LIVE_STATES else "ok" if ticket.state == "done" else "error"
    return {"runId": ticket.run_id, "status": status if known else "started"}


async def start(client: Client, request: RunRequest) -> RunTicket:
    """Have a message accepted, as the client's own run."""
    assert request.run_id is not None, "every message has an idempotency key"
    client.began(request.run_id)
    return await client.gateway.start_run(request, client.caller)


def _check_attachments(attachments: Sequence[Any]) -> None:
    if attachments:
        raise Invalid("messages with attachments are not taken here: put the words into the message")


async def _abort(client: Client, params: _AbortParams) -> dict[str, Any]:
    stopped = await _stop(client, params.session_key, params.agent_id, params.run_id)
    return {"ok": True, "aborted": bool(stopped), "runIds": stopped}


async def _abort_session(client: Client, params: _SessionAbortParams) -> dict[str, Any]:
    stopped = await _stop(client, params.key, params.agent_id, params.run_id)
    return {
        "ok": True,
        "abortedRunId": stopped[0] if stopped else None,
        "status": "aborted" if stopped else "no-active-run",
    }


async def _stop(client: Client, key: str, agent_id: str | None, run_id: str | None) -> list[str]:
    try:
        session = await session_of(client, key, agent_id)
        return await client.gateway.abort(session.key, client.caller, run_id=run_id)
    except NotFound:
        return []


async def _inject(client: Client, params: _InjectParams) -> dict[str, Any]:
    session = await session_of(client, params.session_key)
    words = f"[{params.label}]\n\n{params.message}" if params.label else params.message
    draft = Draft("assistant", (text_block(words),), stop_reason="stop")
    message = await client.gateway.append(session.session_id, draft, client.caller)
    return {"ok": True, "messageId": message.id, "messageSeq": message.seq}


CHAT: Final = (
    Method("chat.history", READ, HistoryParams, _history, heavy=True),
    Method("chat.startup", READ, HistoryParams, _history, heavy=True),
    Method("chat.send", WRITE, SendParams, _send),
    Method("chat.abort", WRITE, _AbortParams, _abort),
    Method("chat.inject", ADMIN, _InjectParams, _inject),
    Method("sessions.send", WRITE, _SessionSendParams, _send_to),
    Method("sessions.abort", WRITE, _SessionAbortParams, _abort_session),
)
