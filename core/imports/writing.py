"""Writing one session of somebody else's store as ours, in one transaction."""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from core.imports.entries import Cut, derived_id, items
from core.imports.report import Notes
from core.imports.source import SourceSession, SourceTranscript
from core.model.errors import Invalid, SwitchboardError
from core.model.keys import JOBS, kind_of, parse, resolve
from core.model.messages import Message
from core.model.sessions import Session
from core.store import imported, messages, runs, sessions
from core.store.database import Tx

BATCH: Final = 500
"""Messages that are in memory at a time, or fewer when they are long."""
MAX_BATCH_CHARS: Final = 4_000_000
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")

CONTINUED: Final = "sessions that were continued here since"
TAKEN: Final = "sessions whose key another session has here"
DIFFERENT: Final = "sessions whose earlier messages there are others now"
SHARED: Final = "sessions with a transcript that belongs to another session here"
ON_THEIR_OWN: Final = "earlier transcripts that are here already, as sessions of their own"
TOO_LATE: Final = "earlier transcripts that were found only after their session had come"
DELETED_HERE: Final = "sessions that were deleted here"


class Left(SwitchboardError):
    """A session is left alone; the message is the reason, as the report words it."""


class Stopped(SwitchboardError):
    """The import was told to stop in the middle of a session."""

    def __init__(self) -> None:
        super().__init__("the import was stopped")


class Written(NamedTuple):
    """What was written of a session, which was not here before when it is new."""

    new: bool
    messages: int
    transcripts: int


def write_session(tx: Tx, key: str, session: SourceSession, notes: Notes, count: Callable[[int], None]) -> Written:
    """Write what is new of a session.

    Args:
        key: As it is here.
        notes: Gets what was left out of its transcripts.
        count: Told from time to time how many messages were read; may raise `Stopped`.

    Raises:
        Left: It stays as it is; the sentence is the reason.
        Unavailable: The other store cannot be read.
    """
    writing = _Writing(tx, key, session.facts, count)
    for transcript in _to_write(tx.db, key, session.transcripts, notes):
        writing.begin(transcript.transcript_id, session.facts.created_at)
        for item in items(transcript.read(notes), transcript.transcript_id, notes):
            if isinstance(item, Cut):
                writing.begin(derived_id(transcript.transcript_id, item.entry_id), item.at)
            else:
                writing.add(item)
    return writing.finish()


def _to_write(
    db: sqlite3.Connection, key: str, transcripts: Sequence[SourceTranscript], notes: Notes
) -> Sequence[SourceTranscript]:
    """Return the transcripts without earlier ones that came before it was known whose they are, or cannot come now."""
    *earlier, current = transcripts
    begins = imported.transcript_ids(db, key)[:1]
    kept: list[SourceTranscript] = []
    for transcript in earlier:
        own_id = _safe(transcript.transcript_id)
        if own_id in begins:
            notes.add(TOO_LATE, key, len(kept))
            kept.clear()
        if imported.owner_of(db, own_id) in {None, key}:
            kept.append(transcript)
        else:
            notes.add(ON_THEIR_OWN, transcript.transcript_id)
    if _safe(current.transcript_id) in begins:
        notes.add(TOO_LATE, key, len(kept))
        kept.clear()
    return [*kept, current]


def _safe(transcript_id: str) -> str:
    return transcript_id if _SAFE_ID.fullmatch(transcript_id) else derived_id(transcript_id)


class _Writing:
    """A session on its way in: compares with what is here, then writes what follows."""

    def __init__(self, tx: Tx, key: str, facts: Session, count: Callable[[int], None]) -> None:
        self._tx = tx
        self._key = key
        self._facts = facts
        self._count = count
        self._here = sessions.by_key(tx.db, key)
        self._known = self._here.last_seq if self._here is not None else 0
        self._ids_here = imported.transcript_ids(tx.db, key)
        self._ids: list[str] = []
        self._begun: tuple[str, int] | None = None
        self._first = 1
        self._seq = 0
        self._last: Message | None = None
        self._spoken: Message | None = None
        self._batch: list[Message] = []
        self._weight = 0
        self._written = 0
        self._transcripts = 0
        self._spent = 0
        self._cost = 0.0
        self._checked = False

    def begin(self, transcript_id: str, at: int) -> None:
        """Begin a transcript; it counts once it has a message, or when it is the last one."""
        safe = _safe(transcript_id)
        self._begun = (derived_id(safe, str(len(self._ids))) if safe in self._ids else safe, at)
        self._spoken = None

    def add(self, message: Message) -> None:
        """Take the next message."""
        if self._begun is not None:
            self._enter(*self._begun)
        self._seq += 1
        if self._seq > self._known:
            if not self._checked:
                self._check()
            self._batch.append(message._replace(seq=self._seq))
            if message.usage is not None:
                self._spent += message.usage.context
                self._cost += message.usage.cost_usd or 0.0
        self._last = message
        if message.role in {"user", "assistant"}:
            self._spoken = message
        self._weight += sum(
            len(value) for block in message.content for value in block.values() if isinstance(value, str)
        )
        if self._seq % BATCH == 0 or self._weight > MAX_BATCH_CHARS:
            self._flush()

    def finish(self) -> Written:
        """Write what is left, and the row."""
        if self._begun is not None:
            self._enter(*self._begun)
        if not self._checked:
            self._check()
        self._flush()
        if self._written or self._transcripts:
            sessions.update(self._tx, self._key, **self._columns())
        return Written(self._here is None, self._written, self._transcripts)

    def _enter(self, transcript_id: str, at: int) -> None:
        """Make a transcript the current one; one that is not here yet is inserted, with the session if need be."""
        self._begun = None
        self._first = self._seq + 1
        number = len(self._ids)
        self._ids.append(transcript_id)
        if number < len(self._ids_here):
            return
        if not self._checked and self._here is not None:
            self._check()
        db = self._tx.db
        if imported.was_deleted(db, transcript_id):
            raise Left(DELETED_HERE)
        if imported.owner_of(db, transcript_id) is not None:
            raise Left(SHARED)
        if number == 0:
            sessions.add(self._tx, _row(self._key, self._facts, transcript_id))
            self._checked = True
        self._flush()
        sessions.begin_transcript(self._tx, self._key, transcript_id, self._seq + 1, at or self._facts.created_at)
        self._transcripts += 1

    def _check(self) -> None:
        """Leave a session alone that does not begin with what is here."""
        self._checked = True
        here, db = self._here, self._tx.db
        if here is None:
            return
        if self._ids_here[:1] != self._ids[:1]:
            raise Left(TAKEN)
        last = messages.at(db, self._key, self._known)
        same = (last.id if last else None) == (self._last.id if self._last else None)
        if self._ids_here == self._ids[: len(self._ids_here)] and same and self._seq >= self._known:
            return
        raise Left(CONTINUED if runs.of_session(db, self._key, limit=1) else DIFFERENT)

    def _flush(self) -> None:
        self._count(self._seq)
        self._weight = 0
        if self._batch:
            imported.insert_messages(self._tx, self._key, self._batch)
            self._written += len(self._batch)
            self._batch = []

    def _columns(self) -> dict[str, object]:
        """Return what the row says once all messages are there."""
        facts, here, last = self._facts, self._here, self._last
        status, stop = facts.status, last.stop_reason if last is not None else None
        aborted = facts.aborted_last_run or (status == "interrupted" and stop == "aborted")
        ended = facts.ended_at or (facts.updated_at if status is not None else None)
        spoken = self._spoken
        cost = self._cost or facts.cost_usd or 0.0
        return {
            "session_id": self._ids[-1],
            "first_seq": self._first,
            "last_seq": self._seq,
            "preview": messages.first_words(spoken.role, spoken.content) if spoken is not None else None,
            "updated_at": max(facts.updated_at, here.updated_at if here is not None else 0) or self._tx.now,
            "archived_at": facts.archived_at,
            "status": "aborted" if aborted and status == "interrupted" else status,
            "started_at": facts.started_at,
            "ended_at": ended,
            "runtime_ms": facts.runtime_ms,
            "aborted_last_run": int(aborted),
            "system_sent": int(facts.system_sent),
            "used_model": facts.used_model,
            "context_tokens": facts.context_tokens,
            "total_tokens": facts.total_tokens,
            "spent_tokens": self._spent + (here.spent_tokens if here is not None else 0),
            "cost_usd": cost + (here.cost_usd or 0.0 if here is not None else 0.0) or None,
            "error": last.text[:200] if last is not None and stop == "error" and last.role == "system" else None,
        }


def _row(key: str, facts: Session, session_id: str) -> Session:
    """Return the row of a session that has no messages yet, as it is here."""
    parsed = parse(key)
    kind, parent = kind_of(key, facts.origin), None
    with contextlib.suppress(Invalid):  # it cannot be a key here
        parent = resolve(facts.spawned_by, facts.agent_id) if facts.spawned_by else None
    return facts._replace(
        key=key,
        session_id=session_id,
        agent_id=parsed.agent_id or facts.agent_id,
        kind=kind,
        chat_type=parsed.chat_type,
        channel="internal" if kind in JOBS else parsed.channel or facts.last_channel or "unknown",
        spawned_by=parent,
    )
