"""Sessions as rows of a list, and the queries over them (L1-L6)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from core.model.keys import JOBS, ChatType, Job, Key, Kind, shown
from core.model.messages import Message
from core.model.runs import RunState

Override = Literal["allow", "deny"]


class Session(NamedTuple):
    """One session: a row of the store, and so a tuple, made five times as fast as a frozen dataclass of that width.

    Attributes:
        key: Canonical key.
        session_id: The current transcript; a reset makes a new one.
        rev: Global order of its last durable change.
        first_seq: `seq` of the first message of the current transcript, or where it will stand.
        last_seq: `seq` of the newest message of the key, 0 when there never was one.
        origin: What created it when the key does not tell: `cron`, `hook`, `node`, `operator`, `spawn`, a channel.
        channel: As L5 says: of the group's entry, else the last channel, `internal` for jobs, else `unknown`.
        status: State of the newest run that is not over, else of the last one that ended; None before any.
        queued: Runs accepted and not yet started.
        model: The session's own override, None for the agent's model.
        used_model: Ref of the model that gave the last reply.
        send_policy: The session's own override, never the effective policy (P2).
        total_tokens: Tokens in the context after the last reply.
        context_tokens: The model's context window in tokens.
        spent_tokens: Tokens of all runs so far, in and out.
        cost_usd: US dollars of all runs so far, None when no price is known.
        preview: First words of the newest message of a person or an agent, without line breaks.
        error: Why the last run failed, None when it did not.
        updated_at: ms since the Unix epoch of the last message or run; the other `_at` likewise.
        runtime_ms: How long the last run took.
    """

    key: str
    session_id: str
    rev: int
    agent_id: str
    kind: Kind
    chat_type: ChatType
    channel: str
    origin: str | None
    display_name: str | None
    label: str | None
    created_at: int
    updated_at: int
    archived_at: int | None
    first_seq: int
    last_seq: int
    model: str | None
    used_model: str | None
    thinking_level: str | None
    verbose_level: str | None
    system_sent: bool
    aborted_last_run: bool
    send_policy: Override | None
    last_channel: str | None
    last_to: str | None
    last_account_id: str | None
    spawned_by: str | None
    status: RunState | None
    queued: int
    started_at: int | None
    ended_at: int | None
    runtime_ms: int | None
    context_tokens: int | None
    total_tokens: int | None
    spent_tokens: int
    cost_usd: float | None
    preview: str | None
    error: str | None

    def row(
        self, agent_id: str | None, *, children: tuple[str, ...] = (), transcript_path: str | None = None
    ) -> dict[str, Any]:
        """Return the row of `sessions_list` as a caller of that agent sees it (L4); absent values are left out."""
        delivery = {"channel": self.last_channel, "to": self.last_to, "accountId": self.last_account_id}
        row: dict[str, Any] = {
            "key": shown(self.key, agent_id),
            "kind": self.kind,
            "channel": self.channel,
            "displayName": self.display_name,
            "label": self.label,
            "updatedAt": self.updated_at,
            "sessionId": self.session_id,
            "model": self.model or self.used_model,
            "contextTokens": self.context_tokens,
            "totalTokens": self.total_tokens,
            "thinkingLevel": self.thinking_level,
            "verboseLevel": self.verbose_level,
            "systemSent": self.system_sent,
            "abortedLastRun": self.aborted_last_run,
            "sendPolicy": self.send_policy,
            "lastChannel": self.last_channel,
            "lastTo": self.last_to,
            "lastAccountId": self.last_account_id,
            "deliveryContext": {name: value for name, value in delivery.items() if value is not None} or None,
            "transcriptPath": transcript_path,
            "spawnedBy": shown(self.spawned_by, agent_id) if self.spawned_by else None,
            "childSessions": [shown(child, agent_id) for child in children] or None,
            "status": self.status,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "runtimeMs": self.runtime_ms,
            "estimatedCostUsd": self.cost_usd,
        }
        return {name: value for name, value in row.items() if value is not None}


def absent(key: Key, agent_id: str, override: Override | None) -> Session:
    """Return the session that a key would have, as the rules would read it; its id is empty.

    `override` is what waits for it (P5).
    """
    known: dict[str, Any] = dict.fromkeys(Session._fields)
    known |= dict.fromkeys(("rev", "created_at", "updated_at", "last_seq", "queued", "spent_tokens"), 0)
    internal = key.kind in JOBS or key.is_subagent
    known |= {
        "key": key.text,
        "session_id": "",
        "agent_id": agent_id,
        "kind": key.kind,
        "chat_type": key.chat_type,
        "channel": "internal" if internal else key.channel or ("webchat" if key.kind == "main" else "unknown"),
        "send_policy": override,
        "first_seq": 1,
        "system_sent": False,
        "aborted_last_run": False,
    }
    return Session(**known)


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions, newest first (L1, L2, L6).

    Attributes:
        limit: Rows at most, None for all.
        updated_after: Only sessions updated at or after that ms.
        search: Substring of key, label, display name or newest message, any case.
        archived: True for the archived only, False for the others, None for both.
    """

    kinds: tuple[Kind, ...] = ()
    limit: int | None = None
    offset: int = 0
    updated_after: int | None = None
    search: str | None = None
    agent_id: str | None = None
    label: str | None = None
    spawned_by: str | None = None
    archived: bool | None = False


@dataclass(frozen=True, slots=True)
class SessionPage:
    """The answer to a `SessionQuery`.

    `children` are keys of the sessions each row spawned, by the row's key; rows without any are absent.
    """

    sessions: tuple[Session, ...]
    children: dict[str, tuple[str, ...]]
    has_more: bool


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Part of one transcript, in order.

    Give `before` back to read the page before this one; it is None when this one starts the transcript.
    """

    key: str
    session_id: str
    messages: tuple[Message, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One message that matches a search.

    `snippet` has the words around the first match, at most 160 characters; `spans`, start and end of each match in it.
    """

    key: str
    session_id: str
    message_id: str
    seq: int
    timestamp: int
    role: str
    snippet: str
    spans: tuple[tuple[int, int], ...]


class Unsearched(NamedTuple):
    """A gateway, or an agent of one, that a search did not look into, and why, in one sentence."""

    place: str
    reason: str


class SearchHits(list[SearchHit]):
    """What a search found, newest first, where it could not look everywhere.

    `unsearched` is what it did not look into.
    """

    def __init__(self, hits: Iterable[SearchHit] = (), unsearched: Iterable[Unsearched] = ()) -> None:
        super().__init__(hits)
        self.unsearched = tuple(unsearched)


def unsearched(hits: list[SearchHit]) -> tuple[Unsearched, ...]:
    """Return what a search did not look into."""
    return hits.unsearched if isinstance(hits, SearchHits) else ()


@dataclass(frozen=True, slots=True)
class SessionPatch:
    """What to change of a session; a field that is not named stays as it is.

    Named are any of `label`, `model`, `thinkingLevel`, `verboseLevel`, `sendPolicy`; None clears one.
    """

    fields: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that the operator makes before anything is said in it.

    Attributes:
        key: Canonical key, None for one of its own: `agent:<id>:dashboard:<uuid>`.
        agent_id: Whose session a generated key is for, None for the default agent.
        parent: Key of the session it belongs to, None for none.
        origin: What it is for, where the key is an explicit one and does not say so (K3, K7).
    """

    key: str | None = None
    agent_id: str | None = None
    label: str | None = None
    model: str | None = None
    parent: str | None = None
    origin: Job | None = None
