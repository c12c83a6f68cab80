"""What an importer reads: the sessions of somebody else's store, whatever its format."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.imports.branch import Branch
from core.imports.entries import Entry, derived_id, milliseconds, model_ref
from core.imports.repeats import WORDS, RepeatedMessages
from core.imports.report import Notes
from core.model.json_codec import encodable, mapping
from core.model.keys import JOBS
from core.model.messages import MAX_INT
from core.model.runs import RunState
from core.model.sessions import Session

THINKING_LEVELS: Final = frozenset({"off", "minimal", "low", "medium", "high"})
VERBOSE_LEVELS: Final = frozenset({"off", "on", "full"})
_STATES: Final[Mapping[str, RunState]] = {
    "done": "done",
    "failed": "error",
    "killed": "aborted",
    "timeout": "timed_out",
    "running": "interrupted",
}
_MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class SourceTranscript:
    """One transcript of a session.

    Attributes:
        transcript_id: As the other system calls it.
        name: What notes call it.
        entries: Yields every entry but the headers, in order; may be called again. What cannot be read is noted.
    """

    transcript_id: str
    name: str
    entries: Callable[[Notes], Iterator[Entry]]

    def read(self, notes: Notes) -> Iterator[Entry]:
        """Yield the entries of the active branch, reading all of them twice and holding one at a time.

        Raises `Unavailable` when they cannot be read.
        """
        branch, repeats = Branch(), RepeatedMessages()
        for entry in self.entries(notes):
            branch.add(entry)
            repeats.add(entry)
        marks = branch.active()
        twice = repeats.among(marks)
        left = 0
        # There may be more of them by now.
        for number, (mark, entry) in enumerate(zip(marks, self.entries(Notes()), strict=False)):
            if number in twice:
                notes.add(WORDS, self.name)
            elif mark:
                yield entry
            else:
                left += entry.get("type") == "message"
        notes.add("messages on branches that were left", self.name, left)


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session to import: what its row there says (`read_facts`), and its transcripts, the current one last."""

    facts: Session
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


def read_facts(key: str, agent_id: str, entry: Mapping[str, Any]) -> Session:
    """Read a row as OpenClaw keeps it; what has another shape than expected counts as absent.

    Keys and ids are as they are there, not checked. What a checked key tells, and the messages, is for `write_session`.
    """
    delivery = _delivery(entry)
    user_chose = entry.get("modelOverrideSource", "user") == "user"
    thinking, verbose, policy = (_text(entry.get(name)) for name in ("thinkingLevel", "verboseLevel", "sendPolicy"))
    cost = entry.get("estimatedCostUsd")
    return Session(
        key=key,
        session_id=_text(entry.get("sessionId")) or derived_id(agent_id, key),
        rev=0,
        agent_id=agent_id,
        kind="other",
        chat_type="direct",
        channel="unknown",
        origin=_origin(key),
        display_name=_name(entry.get("displayName") or entry.get("subject")),
        label=_name(entry.get("label")),
        created_at=milliseconds(entry.get("createdAt")) or milliseconds(entry.get("sessionStartedAt")),
        updated_at=milliseconds(entry.get("updatedAt")),
        archived_at=_at(entry.get("archivedAt")),
        first_seq=1,
        last_seq=0,
        model=_clean(model_ref(entry.get("providerOverride"), entry.get("modelOverride"))) if user_chose else None,
        used_model=model_ref(entry.get("modelProvider"), entry.get("model")),
        thinking_level=thinking if thinking in THINKING_LEVELS else None,
        verbose_level=verbose if verbose in VERBOSE_LEVELS else None,
        system_sent=entry.get("systemSent") is True,
        aborted_last_run=entry.get("abortedLastRun") is True or entry.get("status") == "killed",
        send_policy="allow" if policy == "allow" else "deny" if policy == "deny" else None,
        last_channel=_clean(delivery.get("channel")),
        last_to=_clean(delivery.get("to")),
        last_account_id=_clean(delivery.get("accountId")),
        spawned_by=_text(entry.get("spawnedBy")),
        status=_status(entry),
        queued=0,
        started_at=_at(entry.get("startedAt")),
        ended_at=_at(entry.get("endedAt")),
        runtime_ms=_whole(entry.get("runtimeMs")),
        context_tokens=_whole(entry.get("contextTokens")),
        total_tokens=_whole(entry.get("totalTokens")),
        spent_tokens=0,
        cost_usd=float(cost) if isinstance(cost, int | float) and 0 < cost <= MAX_INT else None,
        preview=None,
        error=None,
    )


def _origin(key: str) -> str:
    """Return the kind of job that a key of an agent names, for keys that are not jobs by our grammar."""
    rest = key.split(":", 2)[2] if key.startswith("agent:") and key.count(":") > 1 else key
    return next((job for job in JOBS if rest.startswith((f"{job}:", f"{job}-"))), "import")


def _status(entry: Mapping[str, Any]) -> RunState | None:
    """Return how the last run ended; one that is said to be running while its end is noted has ended."""
    status = entry.get("status")
    started, ended = milliseconds(entry.get("startedAt")), milliseconds(entry.get("endedAt"))
    if status == "running" and ended and ended >= started:
        return "done"
    return _STATES.get(status) if isinstance(status, str) else None


def _delivery(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return channel, address and account of the last delivery, from where each generation keeps them."""
    context = mapping(mapping(entry.get("delivery")).get("context")) or mapping(entry.get("deliveryContext"))
    last = {"channel": entry.get("lastChannel"), "to": entry.get("lastTo"), "accountId": entry.get("lastAccountId")}
    return {name: context.get(name) or value for name, value in last.items()}


def _at(value: object) -> int | None:
    return milliseconds(value) or None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value <= MAX_INT else None


def _name(value: object) -> str | None:
    text = _text(value)
    return _clean(text.strip()[:_MAX_NAME_CHARS]) if text else None


def _clean(value: object) -> str | None:
    text = _text(value)
    return encodable(text) if text else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
