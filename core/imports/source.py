"""What an importer reads: the sessions of somebody else's store, whatever its format."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.imports.entries import Entry, derived_id, milliseconds, model_ref, record
from core.imports.report import Notes
from core.model.messages import MAX_INT
from core.model.runs import RunState
from core.model.sessions import Override

THINKING_LEVELS: Final = frozenset({"off", "minimal", "low", "medium", "high"})
VERBOSE_LEVELS: Final = frozenset({"off", "on", "full"})
_STATES: Final[Mapping[str, RunState]] = {
    "done": "done",
    "failed": "error",
    "killed": "aborted",
    "timeout": "timed_out",
    "running": "interrupted",
}
_JOBS: Final = ("cron", "hook", "node")
_MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class SourceTranscript:
    """One transcript of a session.

    Attributes:
        transcript_id: As the other system calls it.
        read: Yields the entries of the active branch in order; may be called again. What is left out goes to the notes.
    """

    transcript_id: str
    read: Callable[[Notes], Iterator[Entry]]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the other system's row says of a session; times in ms since the Unix epoch.

    Attributes:
        key: As it is there, not checked.
        agent_id: Whose folder it was found in.
        used_model: Of the last reply.
        spawned_by: Key there of who spawned it.
        cost_usd: US dollars, None when unknown or free.
    """

    key: str
    agent_id: str
    session_id: str
    origin: str
    label: str | None = None
    display_name: str | None = None
    channel: str | None = None
    to: str | None = None
    account_id: str | None = None
    send_policy: Override | None = None
    model: str | None = None
    used_model: str | None = None
    thinking_level: str | None = None
    verbose_level: str | None = None
    system_sent: bool = False
    aborted_last_run: bool = False
    status: RunState | None = None
    started_at: int | None = None
    ended_at: int | None = None
    runtime_ms: int | None = None
    context_tokens: int | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    spawned_by: str | None = None
    created_at: int = 0
    updated_at: int = 0
    archived_at: int | None = None


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session to import.

    Attributes:
        transcripts: Oldest first; the last one is the current.
    """

    facts: SessionFacts
    transcripts: tuple[SourceTranscript, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The store of one agent.

    Attributes:
        sessions: Least recently used first, so that what is newest is found first by a search here.
        notes: What is left out before any session is read.
        notices: What the operator should know.
    """

    agent_id: str
    sessions: tuple[SourceSession, ...]
    notes: Notes = field(default_factory=Notes)
    notices: tuple[str, ...] = ()


def read_facts(key: str, agent_id: str, entry: Mapping[str, Any]) -> SessionFacts:
    """Read a row as OpenClaw keeps it; what has another shape than expected counts as absent."""
    delivery = _delivery(entry)
    user_chose = entry.get("modelOverrideSource", "user") == "user"
    thinking, verbose, policy = (_text(entry.get(name)) for name in ("thinkingLevel", "verboseLevel", "sendPolicy"))
    updated = milliseconds(entry.get("updatedAt"))
    cost = entry.get("estimatedCostUsd")
    return SessionFacts(
        key=key,
        agent_id=agent_id,
        session_id=_text(entry.get("sessionId")) or derived_id(agent_id, key),
        origin=_origin(key),
        label=_name(entry.get("label")),
        display_name=_name(entry.get("displayName") or entry.get("subject")),
        channel=_text(delivery.get("channel")),
        to=_text(delivery.get("to")),
        account_id=_text(delivery.get("accountId")),
        send_policy="allow" if policy == "allow" else "deny" if policy == "deny" else None,
        model=model_ref(entry.get("providerOverride"), entry.get("modelOverride")) if user_chose else None,
        used_model=model_ref(entry.get("modelProvider"), entry.get("model")),
        thinking_level=thinking if thinking in THINKING_LEVELS else None,
        verbose_level=verbose if verbose in VERBOSE_LEVELS else None,
        system_sent=entry.get("systemSent") is True,
        aborted_last_run=entry.get("abortedLastRun") is True or entry.get("status") == "killed",
        status=_status(entry),
        started_at=_at(entry.get("startedAt")),
        ended_at=_at(entry.get("endedAt")),
        runtime_ms=_whole(entry.get("runtimeMs")),
        context_tokens=_whole(entry.get("contextTokens")),
        total_tokens=_whole(entry.get("totalTokens")),
        cost_usd=float(cost) if isinstance(cost, int | float) and 0 < cost <= MAX_INT else None,
        spawned_by=_text(entry.get("spawnedBy")),
        created_at=milliseconds(entry.get("createdAt")) or milliseconds(entry.get("sessionStartedAt")),
        updated_at=updated,
        archived_at=_at(entry.get("archivedAt")),
    )


def _origin(key: str) -> str:
    """Return the kind of job that a key of an agent names, for keys that are not jobs by our grammar."""
    rest = key.split(":", 2)[2] if key.startswith("agent:") and key.count(":") > 1 else key
    return next((job for job in _JOBS if rest.startswith((f"{job}:", f"{job}-"))), "import")


def _status(entry: Mapping[str, Any]) -> RunState | None:
    """Return how the last run ended; one that is said to be running while its end is noted has ended."""
    status = entry.get("status")
    started, ended = milliseconds(entry.get("startedAt")), milliseconds(entry.get("endedAt"))
    if status == "running" and ended and ended >= started:
        return "done"
    return _STATES.get(status) if isinstance(status, str) else None


def _delivery(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return channel, address and account of the last delivery, from where each generation keeps them."""
    context = record(record(entry.get("delivery")).get("context")) or record(entry.get("deliveryContext"))
    last = {"channel": entry.get("lastChannel"), "to": entry.get("lastTo"), "accountId": entry.get("lastAccountId")}
    return {name: context.get(name) or value for name, value in last.items()}


def _at(value: object) -> int | None:
    return milliseconds(value) or None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value <= MAX_INT else None


def _name(value: object) -> str | None:
    text = _text(value)
    return text.strip()[:_MAX_NAME_CHARS] or None if text else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
