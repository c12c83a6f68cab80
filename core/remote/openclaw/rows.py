"""OpenClaw's rows, messages and settings in our vocabulary; anything missing, new or of a wrong type is lived with."""

from collections.abc import Mapping
from typing import Any, Final, cast

from core.model.errors import Invalid
from core.model.json_codec import mapping
from core.model.keys import GLOBAL, MAIN, ChatType, Key, kind_of, parse
from core.model.messages import INTER_SESSION, MAX_INT, Message, Provenance, read_content
from core.model.runs import RunState
from core.model.sessions import Override, Session
from core.model.wrappers import unwrapped

INTERNAL: Final = "internal"
HIDDEN: Final = "(a message that this gateway does not show)"
_STATES: Final[dict[str, RunState]] = {
    "running": "running",
    "done": "done",
    "failed": "error",
    "killed": "aborted",
    "timeout": "timed_out",
}
CHAT_TYPES: Final[dict[str, ChatType]] = {"direct": "direct", "group": "group", "channel": "channel"}
_KEYS: Final = frozenset({"key", "sessionKey", "spawnedBy", "parentSessionKey"})
PREVIEW_CHARS: Final = 160
SILENT_MS: Final = 120_000
"""A session that changed nothing for so long is not believed to run, where the gateway only remembers that it did."""


def read_row(row: Mapping[str, Any], default_agent: str, before: Session | None) -> Session | None:
    """Read a session's row; None for one that cannot be shown, because its key cannot be.

    Args:
        before: What was known of it: `rev`, places and what else the row does not tell are kept.
    """
    try:
        key = parse(text(row, "key") or "")
    except Invalid:
        return None
    origin, delivery = mapping(row.get("origin")), mapping(row.get("deliveryContext"))
    last_channel = text(row, "lastChannel") or text(delivery, "channel") or text(origin, "provider")
    provider, model = text(row, "modelProvider"), text(row, "model")
    used = f"{provider}/{model}" if provider and model else model
    created_by = _origin(key, text(row, "createdVia"))
    updated = whole(row, "updatedAt") or whole(row, "lastActivityAt") or 0
    fresh = row.get("totalTokensFresh") is not False
    spent = (whole(row, "inputTokens") or 0) + (whole(row, "outputTokens") or 0)
    policy, cost = text(row, "sendPolicy"), row.get("estimatedCostUsd")
    return Session(
        key=key.text,
        session_id=text(row, "sessionId") or (before.session_id if before else ""),
        rev=before.rev if before else 0,
        agent_id=text(row, "agentId") or key.agent_id or default_agent,
        kind=kind_of(key.text, created_by),
        chat_type=key.chat_type if key.channel else CHAT_TYPES.get(text(row, "chatType") or "", key.chat_type),
        channel=key.channel or (INTERNAL if key.kind in {"cron", "hook", "node"} else last_channel) or "unknown",
        origin=created_by,
        display_name=_name(row),
        label=text(row, "label"),
        created_at=whole(row, "createdAt") or (before.created_at if before else whole(row, "startedAt") or updated),
        updated_at=updated,
        archived_at=(whole(row, "archivedAt") or updated) if row.get("archived") is True else None,
        first_seq=before.first_seq if before else 1,
        last_seq=before.last_seq if before else 0,
        model=used if row.get("modelOverrideSource") == "user" else None,
        used_model=used,
        thinking_level=text(row, "thinkingLevel"),
        verbose_level=text(row, "verboseLevel"),
        system_sent=row.get("systemSent") is True,
        aborted_last_run=row.get("abortedLastRun") is True,
        send_policy=cast("Override", policy) if policy in {"allow", "deny"} else None,
        last_channel=last_channel,
        last_to=text(row, "lastTo") or text(delivery, "to"),
        last_account_id=text(row, "lastAccountId") or text(delivery, "accountId"),
        spawned_by=text(row, "spawnedBy") or (text(row, "parentSessionKey") if key.is_subagent else None),
        status=_status(row),
        queued=0,
        started_at=whole(row, "startedAt"),
        ended_at=whole(row, "endedAt"),
        runtime_ms=whole(row, "runtimeMs"),
        context_tokens=whole(row, "contextTokens"),
        total_tokens=(whole(row, "totalTokens") if fresh else None) or (before.total_tokens if before else None),
        spent_tokens=spent,
        cost_usd=float(cost) if isinstance(cost, int | float) and 0 < cost < MAX_INT else None,
        preview=preview(text(row, "lastMessagePreview")) or (before.preview if before else None),
        error=before.error if before else None,
    )


def settled(row: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
    """Return a listed row without a `running` that nobody has touched for long.

    Some gateways leave it standing after an abort (protocol#methods); a run at work is heard of.
    """
    silent = now_ms - (whole(row, "updatedAt") or 0) > SILENT_MS
    if silent and "hasActiveRun" not in row and text(row, "status") == "running":
        return {name: value for name, value in row.items() if name != "status"}
    return row


def read_message(data: Mapping[str, Any], base: int, fallback: int) -> Message:
    """Read a message of a history.

    Args:
        base: Added to its place, so that places go on after a reset.
        fallback: Its place when it does not say.
    """
    marks = mapping(data.get("__openclaw"))
    message = Message.read(data)
    place = whole(marks, "seq")
    provenance, role = message.provenance, message.role
    if provenance is not None and provenance.kind != INTER_SESSION:
        provenance = None  # a person on a channel
    if provenance is None and (sender := mapping(data.get("senderSession"))):
        provenance = Provenance(text(sender, "sessionKey") or "", "", "sessions_send")
    if provenance is not None and role == "assistant":
        role = "user"  # shown as if it were said here, while it came from another session
    content = message.content
    if role == "user" and len(content) == 1 and content[0].get("type") == "text":
        words = unwrapped(str(content[0].get("text", "")), inter_session=provenance is not None)
        content = ({**content[0], "text": words},)
    provider, model = text(data, "provider"), message.model
    return message._replace(
        id=message.id or text(marks, "id") or f"{place or fallback}",
        seq=base + (place or fallback),
        role=role,
        content=content,
        provenance=provenance,
        model=f"{provider}/{model}" if provider and model else model,
    )


def hidden(seq: int) -> Message:
    """Return what stands in the place of a message that the gateway counts and does not show."""
    return Message(f"hidden-{seq}", seq, 0, "system", ({"type": "text", "text": HIDDEN},))


def place_of(data: Mapping[str, Any]) -> int | None:
    """Return the place of a message in its transcript, from 1; None when it does not say."""
    return whole(mapping(data.get("__openclaw")), "seq") or None


def words_of(message: object) -> str:
    """Return the words of a message of an event, without what gateways wrap around them."""
    return "\n\n".join(_said(message))


def last_words_of(message: object) -> str:
    """Return what a run said last: its final message may hold all it said, each reply as a block."""
    return next(reversed(_said(message)), "")


def preview(words: str | None) -> str | None:
    """Return the first words in one line."""
    line = " ".join(words[: 4 * PREVIEW_CHARS].split())[:PREVIEW_CHARS] if words else ""
    return line or None


def text(data: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text and not empty; a key that is `global` there is `main` here (K5)."""
    value = data.get(name)
    if value == GLOBAL and name in _KEYS:
        return MAIN
    return value if isinstance(value, str) and value else None


def whole(data: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a number, as a whole one that is not below 0."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_INT:
        return None
    return int(value)


def rows_of(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a field that is a list."""
    value = data.get(name)
    return [mapping(row) for row in cast("list[object]", value)] if isinstance(value, list) else []


def _said(message: object) -> list[str]:
    blocks = read_content(mapping(message).get("content"))
    return [str(block["text"]) for block in blocks if isinstance(block.get("text"), str)]


def _status(row: Mapping[str, Any]) -> RunState | None:
    status = _STATES.get(text(row, "status") or "")
    active = row.get("hasActiveRun")
    if active is True:
        return "running"
    return "done" if active is False and status == "running" else status


def _origin(key: Key, created_via: str | None) -> str | None:
    if key.kind in {"cron", "hook", "node"}:
        return None
    return "spawn" if key.is_subagent else created_via


def _name(row: Mapping[str, Any]) -> str | None:
    """Return what a session is called, unless that is made of its key or of who wrote in it."""
    name = text(row, "displayName") or text(row, "derivedTitle")
    origin = mapping(row.get("origin"))
    provider, key = origin.get("provider"), text(row, "key") or ""
    made = f"{provider}:g-{key.replace(':', '-')}"
    client = origin.get("label") if provider == "webchat" else None
    return None if name in (row.get("label"), client, made) else name
