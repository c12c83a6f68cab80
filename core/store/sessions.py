"""Rows of sessions: create, read, list, change."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from core.model.access import Agents, All, One, Scope, Tree
from core.model.errors import NotFound
from core.model.events import SessionChanged
from core.model.ids import new_id
from core.model.keys import GLOBAL, JOBS, MAIN, kind_of, parse, quoted
from core.model.sessions import Override, Session, SessionPage, SessionQuery, absent
from core.store.database import Tx
from core.store.tables import insert

_COLUMNS: Final = ", ".join(Session._fields)
_SYSTEM_SENT: Final = Session._fields.index("system_sent")
_COMMON_KINDS: Final = frozenset({"group", "other"})
_TREE: Final = (
    "(WITH RECURSIVE tree (key) AS (VALUES (?) UNION SELECT child.key FROM sessions AS child"
    " JOIN tree ON child.spawned_by = tree.key) SELECT key FROM tree)"
)

_FINISHED_CHILDREN: Final = (
    "FROM sessions WHERE spawned_by IS NOT NULL AND origin = 'spawn' AND archived_at IS NULL AND ended_at IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM exchanges WHERE target = sessions.key AND state <> 'ended')"
)


class SessionInsert(NamedTuple):
    """What is known of a session when it is created.

    Attributes:
        channel: Channel of a room, or the one a direct chat came through; None when unknown.
        origin: `cron`, `hook` or `node` for a job under a free key, else who made it (K7).
    """

    key: str
    agent_id: str
    channel: str | None = None
    origin: str | None = None
    display_name: str | None = None
    label: str | None = None
    model: str | None = None
    thinking_level: str | None = None
    spawned_by: str | None = None


def create(tx: Tx, new: SessionInsert) -> Session:
    """Insert a session with an empty transcript and return it."""
    key, kind = parse(new.key), kind_of(new.key, new.origin)
    internal = kind in JOBS
    known = {
        **new._asdict(),
        "session_id": new_id(),
        "kind": kind,
        "channel": "internal" if internal else key.channel or new.channel or "unknown",
        "last_channel": None if internal or key.chat_type != "direct" else new.channel,
        "created_at": tx.now,
        "updated_at": tx.now,
    }
    session = add(tx, absent(key, new.agent_id, None)._replace(**known))
    begin_transcript(tx, new.key, session.session_id, 1, tx.now)
    tx.rows.pop(new.key, None)
    return session


def add(tx: Tx, session: Session) -> Session:
    """Insert a session as it is given, but for its `rev` and an override of the send policy that waits for it."""
    override = take_override(tx, session.key) or session.send_policy
    session = session._replace(rev=tx.next_rev(), send_policy=override)
    columns = session._asdict()
    columns["stored_key"] = stored_key(columns.pop("key"))
    insert(
        tx.db,
        "session_names",
        {
            "rowid": insert(tx.db, "sessions", columns),
            "key": session.key,
            "label": session.label,
            "display_name": session.display_name,
        },
    )
    tx.touched[session.key] = None
    return session


def begin_transcript(tx: Tx, key: str, session_id: str, first_seq: int, started_at: int) -> None:
    """Begin a transcript of a session; the one before it ends there."""
    tx.db.execute("UPDATE transcripts SET last_seq = ? WHERE key = ? AND last_seq IS NULL", (first_seq - 1, key))
    tx.db.execute(
        "INSERT INTO transcripts (session_id, key, first_seq, started_at) VALUES (?, ?, ?, ?)",
        (session_id, key, first_seq, started_at),
    )


def update(tx: Tx, key: str, **columns: object) -> None:
    """Change columns of a session. Names of columns come from our own code, never from data."""
    assignments = ", ".join(f"{column} = ?" for column in columns)
    tx.db.execute(f"UPDATE sessions SET {assignments}, rev = ? WHERE key = ?", (*columns.values(), tx.next_rev(), key))
    if "label" in columns or "display_name" in columns:
        tx.db.execute(
            "UPDATE session_names SET (label, display_name) = (SELECT label, display_name FROM sessions WHERE key = ?)"
            " WHERE rowid = (SELECT id FROM sessions WHERE key = ?)",
            (key, key),
        )
    tx.rows.pop(key, None)
    tx.touched[key] = None


def count_message(tx: Tx, key: str, preview: str | None, *, note: bool) -> Session | None:
    """Give a session one more message and return its row; None when there is no such session.

    A `note`, which only switchboard says, does not bring an archived session back.
    """
    known = tx.rows.get(key) or by_key(tx.db, key)
    if known is None:
        return None
    session = tx.rows[key] = known._replace(
        last_seq=known.last_seq + 1,
        updated_at=max(known.updated_at, tx.now),
        archived_at=known.archived_at if note else None,
        rev=tx.next_rev(),
        preview=preview or known.preview,
    )
    tx.db.execute(
        "UPDATE sessions SET last_seq = ?, updated_at = ?, archived_at = ?, rev = ?, preview = ? WHERE key = ?",
        (session.last_seq, session.updated_at, session.archived_at, session.rev, session.preview, key),
    )
    tx.touched[key] = None
    return session


def new_transcript(tx: Tx, session: Session) -> str:
    """Start a new transcript for a session and return its id; the old one stays readable by its own."""
    session_id, first = new_id(), session.last_seq + 1
    begin_transcript(tx, session.key, session_id, first, tx.now)
    update(
        tx,
        session.key,
        session_id=session_id,
        first_seq=first,
        total_tokens=None,
        preview=None,
        error=None,
        status=None,
        aborted_last_run=0,
        system_sent=0,
    )
    return session_id


def finish(tx: Tx) -> None:
    """Turn the sessions a write touched into events; the last step of every write."""
    for key in tx.touched:
        session = tx.rows.get(key) or by_key(tx.db, key)
        if session is not None:
            tx.rows[key] = session
            tx.events.append(SessionChanged(session.rev, session))


def live_children(db: sqlite3.Connection, key: str) -> int:
    """Return how many sub-agents that a session spawned have a run that is not over."""
    row = db.execute(
        "SELECT count(*) FROM sessions WHERE spawned_by = ? AND status IN ('queued', 'running')", (key,)
    ).fetchone()
    return int(row[0])


def live_descendants(db: sqlite3.Connection, key: str) -> list[str]:
    """Return the keys of what a session spawned, at any depth, that have a run which is not over."""
    rows = db.execute(
        f"SELECT key FROM sessions WHERE key IN {_TREE} AND key <> ? AND status IN ('queued', 'running') ORDER BY id",
        (key, key),
    )
    return [row[0] for row in rows]


def finished_children(db: sqlite3.Connection, until: int) -> list[str]:
    """Return the keys of sub-agents whose last run ended by that ms, and that nothing is to follow (W7)."""
    return [row[0] for row in db.execute(f"SELECT key {_FINISHED_CHILDREN} AND ended_at <= ?", (until,))]


def first_finished_child(db: sqlite3.Connection) -> int | None:
    """Return when the first of the sub-agents that are done, and not in the archive, ended; None without any."""
    end: int | None = db.execute(f"SELECT min(ended_at) {_FINISHED_CHILDREN}").fetchone()[0]
    return end


def by_key(db: sqlite3.Connection, key: str, scope: Scope | None = None) -> Session | None:
    """Return the session with that canonical key, None when there is none in the scope."""
    return _one(db, "key = ?", key, scope)


def by_id(db: sqlite3.Connection, session_id: str, scope: Scope | None = None) -> Session | None:
    """Return the session that has, or had before a reset, the transcript with that id."""
    found = db.execute("SELECT key FROM transcripts WHERE session_id = ?", (session_id,)).fetchone()
    return by_key(db, found[0], scope) if found else None


def named(db: sqlite3.Connection, ref: str, scope: Scope | None = None) -> Session:
    """Return the session that a canonical key or a session id names; `NotFound` without one in the scope."""
    session = by_key(db, ref, scope) or by_id(db, ref, scope)
    if session is None:
        raise NotFound(f"no session has the key or id {quoted(ref)}: list the sessions to see those there are")
    return session


def select(db: sqlite3.Connection, query: SessionQuery, scope: Scope, *, hidden: Sequence[str] = ()) -> SessionPage:
    """Return the sessions a query asks for but the `hidden` keys, newest first, and one page only."""
    where, values = _conditions(query, hidden)
    scope_sql, scope_values = scope_condition(scope)
    limit = -1 if query.limit is None else query.limit + 1
    found = db.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join([*where, scope_sql])}"
        " ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?",
        (*values, *scope_values, limit, query.offset),
    ).fetchall()
    has_more = query.limit is not None and len(found) > query.limit
    rows = tuple(_read(row) for row in (found[:-1] if has_more else found))
    return SessionPage(rows, _children(db, rows, scope), has_more)


def changed_since(db: sqlite3.Connection, rev: int) -> list[Session]:
    """Return the sessions changed after a rev, in the order of their changes."""
    return [_read(row) for row in db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE rev > ? ORDER BY rev", (rev,))]


def keys_touched_since(db: sqlite3.Connection, rev: int) -> list[str]:
    """Return the keys of the sessions that may have messages newer than a rev.

    A message takes its number right after the row of its session, so a row that stands at the rev itself counts.
    """
    return [row[0] for row in db.execute("SELECT key FROM sessions WHERE rev >= ?", (rev,))]


def waiting_overrides(db: sqlite3.Connection) -> dict[str, Override]:
    """Return the overrides of the send policy that were set on keys without a session and wait for it, by key (P5)."""
    return dict(db.execute("SELECT key, send_policy FROM overrides ORDER BY key").fetchall())


def put_override(tx: Tx, key: str, override: Override | None) -> None:
    """Let an override wait, or none any more."""
    take_override(tx, key)
    if override is not None:
        tx.db.execute("INSERT INTO overrides (key, send_policy) VALUES (?, ?)", (key, override))


def take_override(tx: Tx, key: str) -> Override | None:
    """Return what waits for the session that is made now, and let it wait no longer."""
    found = tx.db.execute("DELETE FROM overrides WHERE key = ? RETURNING send_policy", (key,)).fetchone()
    return found[0] if found else None


def by_label(db: sqlite3.Connection, label: str) -> Session | None:
    """Return the session in the list, not in the archive, that has a label."""
    return _one(db, "label = ? AND archived_at IS NULL", label, None)


def is_child(db: sqlite3.Connection, child_id: str) -> bool:
    """Whether a sub-agent has that id at the end of its key."""
    keys = db.execute(
        "SELECT key FROM sessions WHERE spawned_by IS NOT NULL AND key LIKE ?", (f"%:subagent:{child_id}",)
    )
    return any(key.endswith(f":subagent:{child_id}") for (key,) in keys)


def but(hidden: Sequence[str], table: str = "sessions") -> str:
    """Return the condition that keeps sessions out of lists and searches; their keys are its values (K5)."""
    return " AND ".join([f"{table}.key <> ?"] * len(hidden)) or "1"


def stored_key(key: str) -> str:
    """Return what the store calls the session with a key; the schema gives it back as `key` (K5)."""
    return GLOBAL if key == MAIN else key


def scope_condition(scope: Scope, table: str = "sessions") -> tuple[str, tuple[str, ...]]:
    """Return a scope as a condition over `sessions` (or an alias of it), with its values."""
    match scope:
        case All():
            return "1", ()
        case One(key):
            return f"{table}.key = ?", (key,)
        case Tree(root):
            return f"{table}.key IN {_TREE}", (root,)
        case Agents(ids, root):
            of_agents, values = f"{table}.agent_id IN ({', '.join('?' * len(ids))})", tuple(sorted(ids))
            if root is None:
                return of_agents, values
            return f"({of_agents} OR {table}.key IN {_TREE})", (*values, root)


def _conditions(query: SessionQuery, hidden: Sequence[str]) -> tuple[list[str], list[Any]]:
    where, values = [but(hidden)], list[Any](hidden)
    if query.kinds:
        where.append(f"kind IN ({', '.join('?' * len(query.kinds))})")
        values.extend(query.kinds)
        if _COMMON_KINDS.isdisjoint(query.kinds):  # in these words the planner finds the index of the rare kinds
            where.append("kind NOT IN ('group', 'other')")
    if query.archived is not None:
        where.append("archived_at IS NOT NULL" if query.archived else "archived_at IS NULL")
    for column, value in (
        ("updated_at >= ?", query.updated_after),
        ("agent_id = ?", query.agent_id),
        ("label = ?", query.label),
        ("spawned_by = ?", query.spawned_by),
    ):
        if value is not None:
            where.append(column)
            values.append(value)
    if query.search:
        condition, needles = search_condition(query.search)
        where.append(condition)
        values.extend(needles)
    return where, values


def search_condition(text: str) -> tuple[str, list[str]]:
    """Match a substring of the names (trigram index from three characters on) or of the newest message."""
    text = text.replace("\0", "")  # SQLite's query language ends there
    like = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    preview = "preview LIKE ? ESCAPE '\\'"
    if len(text) >= 3:
        phrase = '"' + text.replace('"', '""') + '"'
        return f"(id IN (SELECT rowid FROM session_names WHERE session_names MATCH ?) OR {preview})", [phrase, like]
    names = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in ("key", "label", "display_name"))
    return f"({names} OR {preview})", [like] * 4


def _children(db: sqlite3.Connection, rows: tuple[Session, ...], scope: Scope) -> dict[str, tuple[str, ...]]:
    """Return what each row spawned and is not archived, as far as the scope shows it."""
    parents = [row.key for row in rows] if len(rows) <= 500 else None
    where = "spawned_by IS NOT NULL" if parents is None else f"spawned_by IN ({', '.join('?' * len(parents))})"
    scope_sql, scope_values = scope_condition(scope)
    children: dict[str, list[str]] = {}
    for parent, child in db.execute(
        f"SELECT spawned_by, key FROM sessions WHERE {where} AND archived_at IS NULL AND {scope_sql} ORDER BY id",
        (*(parents or ()), *scope_values),
    ):
        children.setdefault(parent, []).append(child)
    return {parent: tuple(keys) for parent, keys in children.items()}


def _one(db: sqlite3.Connection, condition: str, value: str, scope: Scope | None) -> Session | None:
    scope_sql, scope_values = scope_condition(scope) if scope is not None else ("1", ())
    row = db.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE {condition} AND {scope_sql}", (value, *scope_values)
    ).fetchone()
    return _read(row) if row else None


def _read(row: tuple[Any, ...]) -> Session:
    values = list(row)
    values[_SYSTEM_SENT : _SYSTEM_SENT + 2] = map(bool, row[_SYSTEM_SENT : _SYSTEM_SENT + 2])
    return Session(*values)
