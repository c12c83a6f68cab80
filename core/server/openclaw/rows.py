"""Rows of sessions and messages in the shape of OpenClaw's RPC; the JSON of a row is made once (protocol#methods,
protocol#two-shapes)."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from core.gateway import Gateway
from core.model.access import ALL
from core.model.keys import MAIN, main_key
from core.model.messages import Message
from core.model.runs import LIVE_STATES
from core.model.sessions import Session, SessionQuery
from core.wire.frames import encode

MAX_CACHED: Final = 20_000
"""Rows whose JSON is kept, about 0.8 KB each."""
MAX_MESSAGES: Final = 4_096
LONGEST_MESSAGE: Final = 2_048
"""Characters of a message whose JSON is kept; so all of them are 8 MB at most."""
RECENT: Final = 5
SLICE: Final = 250
STATUS: Final = {
    "queued": "running",
    "running": "running",
    "done": "done",
    "error": "failed",
    "aborted": "killed",
    "timed_out": "timeout",
    "interrupted": "failed",
}
THINKING_LEVELS: Final = ("off", "minimal", "low", "medium", "high")


class RowEncoder:
    """The JSON of rows, by key and `rev`."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[int, str]] = {}
        self._messages: dict[tuple[str, int, int], str] = {}

    def text(self, session: Session, children: Sequence[str] = ()) -> str:
        """Return a row as JSON text."""
        known = self._texts.get(session.key)
        if known is not None and known[0] == session.rev:
            text = known[1]
        else:
            text = encode(row(session))
            self._texts.pop(session.key, None)
            self._texts[session.key] = (session.rev, text)
            if len(self._texts) > MAX_CACHED:
                del self._texts[next(iter(self._texts))]
        return f'{text[:-1]},"childSessions":{encode(list(children))}}}' if children else text

    async def array(self, sessions: Sequence[Session], children: dict[str, tuple[str, ...]]) -> str:
        """Return rows as a JSON array; others are served between the slices of a long one."""
        texts = list[str]()
        for start in range(0, len(sessions), SLICE):
            if start:
                await asyncio.sleep(0)
            texts += [self.text(each, children.get(each.key, ())) for each in sessions[start : start + SLICE]]
        return f"[{','.join(texts)}]"

    def message(self, found: Message) -> str:
        """Return a message as JSON text; short ones are kept, for others who watch and for whoever reads again."""
        place = (found.id, found.seq, found.timestamp)  # ids that came from elsewhere may be of several sessions
        text = self._messages.get(place)
        if text is None:
            text = message_text(found)
            if len(text) <= LONGEST_MESSAGE:
                self._messages[place] = text
            if len(self._messages) > MAX_MESSAGES:
                del self._messages[next(iter(self._messages))]
        return text


async def defaults(gateway: Gateway, agent_id: str) -> dict[str, Any]:
    """Return what sessions of an agent have that do not say otherwise."""
    ref = next((agent.model for agent in await gateway.agents() if agent.agent_id == agent_id), None)
    window = next((model.context_window for model in await gateway.models() if model.ref == ref), None)
    return {
        **model_fields(ref),
        **({"contextTokens": window} if window is not None else {}),
        "thinkingLevels": [{"id": level, "label": level} for level in THINKING_LEVELS],
        "thinkingOptions": list(THINKING_LEVELS),
        "thinkingDefault": "off",
    }


async def recent(gateway: Gateway) -> list[dict[str, Any]]:
    """Return key and age of the newest sessions, for health and status."""
    page = await gateway.list_sessions(SessionQuery(limit=RECENT), ALL)
    now = gateway.now_ms()
    return [
        {"key": each.key, "agentId": each.agent_id, "updatedAt": each.updated_at, "age": max(0, now - each.updated_at)}
        for each in page.sessions
    ]


def row(session: Session) -> dict[str, Any]:
    """Return a row; what is absent is left out."""
    named = session.display_name or session.label
    found: dict[str, Any] = {
        "key": session.key,
        "kind": kind(session),
        "agentId": session.agent_id,
        "label": session.label,
        "displayName": named,
        "derivedTitle": named,
        "lastMessagePreview": session.preview,
        "chatType": session.chat_type,
        "channel": session.channel,
        "lastChannel": session.last_channel,
        "lastTo": session.last_to,
        "lastAccountId": session.last_account_id,
        "sessionId": session.session_id,
        "updatedAt": session.updated_at,
        "lastActivityAt": session.updated_at,
        "createdAt": session.created_at,
        "createdVia": session.origin,
        "isMain": session.key in {MAIN, main_key(session.agent_id)},
        "systemSent": session.system_sent,
        "abortedLastRun": session.aborted_last_run,
        "thinkingLevel": session.thinking_level,
        "verboseLevel": session.verbose_level,
        "sendPolicy": session.send_policy,
        "totalTokens": session.total_tokens,
        "totalTokensFresh": session.total_tokens is not None,
        "contextTokens": session.context_tokens,
        "estimatedCostUsd": session.cost_usd,
        "status": STATUS[session.status] if session.status is not None else None,
        "hasActiveRun": session.status in LIVE_STATES,
        "startedAt": session.started_at,
        "endedAt": session.ended_at,
        "runtimeMs": session.runtime_ms,
        "lastRunError": session.error,
        "spawnedBy": session.spawned_by,
        "parentSessionKey": session.spawned_by,
        "spawnDepth": session.key.count(":subagent:"),
        **model_fields(session.model or session.used_model),
        "archived": session.archived_at is not None,
        "archivedAt": session.archived_at,
        "messageCount": session.last_seq - session.first_seq + 1,
        "rev": session.rev,
    }
    return {name: value for name, value in found.items() if value is not None}


def kind(session: Session) -> str:
    """Return the kind that their rows have."""
    if session.key == "unknown":
        return session.key
    return "direct" if session.chat_type == "direct" else "group"


def model_fields(ref: str | None) -> dict[str, Any]:
    """Return provider and model of a ref."""
    if not ref:
        return {}
    provider, slash, model = ref.partition("/")
    return {"modelProvider": provider, "model": model if slash else provider}


def message(found: Message) -> dict[str, Any]:
    """Return a message as RPC and HTTP show it: the flat object, and what else their clients look for.

    A client that shows a message before it is stored knows it again by its run (protocol#events).
    """
    marks: dict[str, Any] = {"id": found.id, "seq": found.seq}
    if found.run_id is not None:
        marks["runId"] = found.run_id
        if found.role == "user":
            marks["idempotencyKey"] = f"{found.run_id}:user"
    return found.as_json() | {"__openclaw": marks}


def message_text(found: Message) -> str:
    """Return such a message as JSON text."""
    return encode(message(found))
