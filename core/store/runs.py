"""Rows of runs: accept, start, end, and what they mean for their session's row."""

import sqlite3
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

from core.model.errors import Conflict
from core.model.events import RunChanged
from core.model.messages import Draft, Usage
from core.model.runs import NEXT_STATES, Run, RunKind, RunRequest, RunState, bare_run
from core.model.sessions import Session
from core.store import sessions
from core.store.database import Tx
from core.store.tables import Table

_USAGE: Final = Run._fields.index("usage")
_USAGE_COLUMNS: Final = ("input_tokens", "output_tokens", "cache_read", "cache_write", "cost_usd")
_SPENT: Final = "run_id, key, session_id, kind, state, accepted_at, ended_at"
_TABLE: Final = Table(
    "runs",
    "run_id",
    ", ".join((*Run._fields[:_USAGE], *_USAGE_COLUMNS)),
    lambda row: Run(*row[:_USAGE], usage=Usage(*row[_USAGE:])),
    RunChanged,
)
by_id: Final = _TABLE.by_id
changed_since: Final = _TABLE.changed_since


class NewRun(NamedTuple):
    """What is known of a run when it is accepted: its columns; see `Run`."""

    run_id: str
    kind: RunKind
    input_seq: int
    fingerprint: str
    requester: str | None = None
    model: str | None = None
    thinking: str | None = None
    timeout_ms: int = 0
    exchange: str | None = None
    turn: int = 0
    root: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended.

    Attributes:
        last_words: The reply, or what had been said of it; the first becomes the run's reply.
        context_window: The model's window in tokens, None when unknown.
        died: Of an interrupted run: its process died, nobody chose that end.
    """

    state: RunState
    last_words: tuple[Draft, ...] = ()
    error: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    last_call: Usage | None = None
    context_window: int | None = None
    died: bool = False


def fingerprint(request: RunRequest) -> str:
    """Return what tells two requests with the same idempotency key apart."""
    parts = "\0".join((request.target, request.message, str(request.spawn)))
    import hashlib  # its C parts take 3 ms that reading alone does not need

    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass"))
    for attachment in request.spawn.attachments if request.spawn is not None else ():
        digest.update(hashlib.sha256(attachment.content.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


def accept(tx: Tx, session: Session, new: NewRun) -> Run:
    """Insert a run in state `queued`."""
    run = _insert(tx, session, new, state="queued")
    _summarise(tx, session.key)
    return run


def record_command(tx: Tx, session: Session, new: NewRun) -> Run:
    """Insert a command as a run that is over; it says nothing about the session's work."""
    return _insert(tx, session, new, state="done", reply_seq=new.input_seq, started_at=tx.now, ended_at=tx.now)


def start(tx: Tx, run_id: str) -> Run | None:
    """Turn a queued run into a running one; None when it is not queued any more."""
    run = by_id(tx.db, run_id)
    if run is None or run.state != "queued":
        return None
    return _update(tx, run_id, state="running", started_at=tx.now)


def begin_again(tx: Tx, run: Run) -> Run:
    """Queue a running run once more: whoever ran it has died and it had written nothing."""
    return _update(tx, run.run_id, state="queued", started_at=None, attempts=run.attempts + 1)


def end(tx: Tx, run_id: str, end: End, reply_seq: int | None = None) -> Run:
    """Give a run its last state; the session's totals follow. `Conflict`: it cannot go from its state to that one."""
    run = by_id(tx.db, run_id)
    if run is None or end.state not in NEXT_STATES.get(run.state, frozenset()):
        state = "absent" if run is None else run.state
        raise Conflict(f"run {run_id} is {state} and cannot become {end.state}")
    usage = end.usage
    tx.db.execute(
        "UPDATE sessions SET spent_tokens = spent_tokens + ?, cost_usd = CASE WHEN ? IS NULL THEN cost_usd"
        " ELSE coalesce(cost_usd, 0) + ? END, total_tokens = coalesce(?, total_tokens),"
        " context_tokens = coalesce(?, context_tokens), used_model = coalesce(?, used_model),"
        " updated_at = max(updated_at, ?) WHERE key = ?",
        (
            usage.context,
            usage.cost_usd,
            usage.cost_usd,
            end.last_call.context if end.last_call else None,
            end.context_window,
            end.model,
            tx.now,
            run.key,
        ),
    )
    return _update(
        tx,
        run_id,
        state=end.state,
        ended_at=tx.now,
        reply_seq=reply_seq,
        error=end.error,
        model=run.model if end.model is None else end.model,
        **dict(zip(_USAGE_COLUMNS, astuple(usage), strict=True)),
    )


def same_request(db: sqlite3.Connection, run_id: str, print_: str) -> Run | None:
    """Return the run that an idempotency key already stands for, also of a deleted session; None when it is new.

    `Conflict` when the key was used for another request.
    """
    row = db.execute(
        "SELECT fingerprint FROM runs WHERE run_id = ? UNION ALL SELECT fingerprint FROM spent_runs WHERE run_id = ?",
        (run_id, run_id),
    ).fetchone()
    if row is None:
        return None
    if row[0] != print_:
        raise Conflict(f"run id {run_id} was used for another message: give each message its own")
    return by_id(db, run_id) or spent(db, run_id)


def spend(tx: Tx, key: str) -> None:
    """Delete the runs of a session; their ids stay used, so that no message that is sent again runs again."""
    tx.db.execute(
        f"INSERT OR IGNORE INTO spent_runs ({_SPENT}, fingerprint)"
        f" SELECT {_SPENT}, fingerprint FROM runs WHERE key = ?",
        (key,),
    )
    tx.db.execute("DELETE FROM runs WHERE key = ?", (key,))


def spent(db: sqlite3.Connection, run_id: str) -> Run | None:
    """Return what is known of a run whose session was deleted; None when there was none with that id."""
    row = db.execute(f"SELECT {_SPENT} FROM spent_runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    found_id, key, session_id, kind, state, accepted_at, ended_at = row
    error = None if state == "done" else "its session was deleted"
    return bare_run(found_id, key, session_id, kind, state, accepted_at)._replace(ended_at=ended_at, error=error)


def has_steps(db: sqlite3.Connection, run_id: str) -> bool:
    """Whether there are runs whose ids are this one with a colon and more."""
    found = db.execute("SELECT 1 FROM runs WHERE run_id > ? AND run_id < ? LIMIT 1", (f"{run_id}:", f"{run_id};"))
    return found.fetchone() is not None


def live(db: sqlite3.Connection, key: str | None = None) -> list[Run]:
    """Return the runs that are queued or running, of all sessions or of one, in the order of their acceptance."""
    only, values = ("", ()) if key is None else (" AND key = ?", (key,))
    return _TABLE.select(db, f"WHERE state IN ('queued', 'running'){only} ORDER BY id", *values)


def of_session(db: sqlite3.Connection, key: str, *, limit: int) -> list[Run]:
    """Return the newest runs of a session, newest first."""
    return _TABLE.select(db, "WHERE key = ? ORDER BY id DESC LIMIT ?", key, limit)


def _insert(tx: Tx, session: Session, new: NewRun, **columns: object) -> Run:
    where = {"key": session.key, "session_id": session.session_id}
    return _TABLE.insert(tx, **new._asdict(), **where, accepted_at=tx.now, **columns)


def _update(tx: Tx, run_id: str, **columns: object) -> Run:
    """Change a run, and what its session's row says of it."""
    run = _TABLE.update(tx, run_id, **columns)
    _summarise(tx, run.key)
    return run


def _summarise(tx: Tx, key: str) -> None:
    """Write what a session's row says of its runs: the running one, else the next queued, else the last that ended."""
    live_runs = tx.db.execute(
        "SELECT state, started_at FROM runs WHERE key = ? AND state IN ('queued', 'running')"
        " ORDER BY state = 'running' DESC, id",
        (key,),
    ).fetchall()
    if live_runs:
        state, started_at = live_runs[0]
        queued = len(live_runs) - (state == "running")
        sessions.update(tx, key, status=state, queued=queued, started_at=started_at, ended_at=None, runtime_ms=None)
        return
    state, started_at, ended_at, error = tx.db.execute(
        "SELECT state, started_at, ended_at, error FROM runs WHERE key = ? AND kind <> 'command'"
        " ORDER BY id DESC LIMIT 1",
        (key,),
    ).fetchone()
    sessions.update(
        tx,
        key,
        status=state,
        queued=0,
        started_at=started_at,
        ended_at=ended_at,
        runtime_ms=ended_at - started_at if started_at is not None else 0,
        aborted_last_run=state == "aborted",
        error=error if state != "done" else None,
    )
