"""Rows of transcripts: append, read a page, find a message."""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterable
from typing import Final

from core.model.errors import NotFound
from core.model.events import MessageAppended
from core.model.ids import new_id
from core.model.json_codec import encodable
from core.model.messages import BRIEF_TOOL_CHARS, Block, Draft, Message, Role, brief
from core.model.runs import Run
from core.model.sessions import HistoryPage, Session
from core.store import sessions
from core.store.database import Tx
from core.store.search import index_message

PREVIEW_CHARS: Final = 160
PAGE_CHARS: Final = 4 * 1024 * 1024
"""Of the messages of one page, as they are stored; a page that would hold more says where to go on."""
_OF_SESSION: Final = "session = (SELECT id FROM sessions WHERE key = ?)"


def append(tx: Tx, key: str, draft: Draft, run_id: str | None = None, *, preview: bool = True) -> Message:
    """Append a message to the current transcript of a session and return it.

    Args:
        preview: Its first words are what the session's row shows.

    Raises:
        NotFound: There is no such session.
    """
    session = sessions.count_message(
        tx, key, first_words(draft.role, draft.content) if preview else None, note=draft.role == "system"
    )
    if session is None:
        raise NotFound(f"session {key} does not exist any more")
    message = Message(new_id(), session.last_seq, tx.now, *draft, run_id)
    message, body = message.storable()
    rev = tx.next_rev()
    short = brief(message) if len(body) > BRIEF_TOOL_CHARS else message
    cursor = tx.db.execute(
        "INSERT INTO messages (session, seq, rev, role, run_id, brief, body)"
        " VALUES ((SELECT id FROM sessions WHERE key = ?), ?, ?, ?, ?, ?, ?)",
        (key, session.last_seq, rev, message.role, run_id, None if short is message else short.encode(), body),
    )
    index_message(tx, cursor.lastrowid or 0, message)
    tx.events.append(MessageAppended(rev, key, session.session_id, message))
    return message


def page(
    db: sqlite3.Connection,
    session: Session,
    session_id: str,
    *,
    limit: int,
    before: int | None = None,
    include_tools: bool = True,
    in_brief: bool = False,
) -> HistoryPage:
    """Return the newest `limit` messages of a transcript, or those before a `seq`, in order.

    The cost depends on the limit alone, not on the length of the transcript (H4), and is bounded: a page that would
    hold more than `PAGE_CHARS` ends sooner, and has one message at least.

    Args:
        include_tools: Keep messages of role `toolResult`; they are left out before the limit counts (H1).
        in_brief: Cut what is long, as `core.model.messages.brief` does.
    """
    first, last = _bounds(db, session, session_id)
    below = last + 1 if before is None else min(before, last + 1)
    said = "" if include_tools else " AND role <> 'toolResult'"
    rows = db.execute(
        f"SELECT {'coalesce(brief, body)' if in_brief else 'body'}, run_id FROM messages"
        f" WHERE {_OF_SESSION} AND seq >= ? AND seq < ?{said} ORDER BY seq DESC LIMIT ?",
        (session.key, first, below, limit),
    )
    found, room = list[tuple[str, str | None]](), PAGE_CHARS
    with contextlib.closing(rows):
        for row in rows:
            found.append(row)
            room -= len(row[0])
            if room <= 0:
                break
    messages = tuple(Message.decode(body, run_id) for body, run_id in reversed(found))
    more = bool(messages) and (len(found) == limit or room <= 0) and messages[0].seq > first
    return HistoryPage(session.key, session_id, messages, messages[0].seq if more else None)


def newest(db: sqlite3.Connection, session: Session, limit: int) -> tuple[Message, ...]:
    """Return the newest messages of a session's transcript, however long they are, in order."""
    first, _ = _bounds(db, session, session.session_id)
    found = _select(db, session.key, "seq >= ? ORDER BY seq DESC LIMIT ?", first, limit)
    return tuple(reversed(found))


def since(db: sqlite3.Connection, key: str, rev: int) -> list[MessageAppended]:
    """Return the messages of a session appended after a rev, in order.

    Read from the newest back, as far as they are newer: the cost does not depend on the length of the transcript.
    """
    rows = db.execute(
        "SELECT m.rev, t.session_id, m.body, m.run_id FROM messages AS m JOIN transcripts AS t ON t.key = ?"
        " AND t.first_seq <= m.seq AND (t.last_seq IS NULL OR m.seq <= t.last_seq)"
        f" WHERE {_OF_SESSION} ORDER BY m.seq DESC",
        (key, key),
    )
    with contextlib.closing(rows):
        newer = list(itertools.takewhile(lambda row: row[0] > rev, rows))
    return [
        MessageAppended(at, key, session_id, Message.decode(body, run_id))
        for at, session_id, body, run_id in reversed(newer)
    ]


def of_run(db: sqlite3.Connection, run_id: str, key: str, after_seq: int) -> list[Message]:
    """Return what a run wrote after its input, in order."""
    return _select(db, key, "seq > ? AND run_id = ? ORDER BY seq", after_seq, run_id)


def posted(db: sqlite3.Connection, key: str, after_seq: int) -> list[Message]:
    """Return the results of sub-agents that were posted to a session after one of its messages, in order."""
    is_result = "SELECT 1 FROM exchanges WHERE exchange_id = messages.run_id AND kind = 'spawn' AND target <> ?"
    rest = f"seq > ? AND role = 'user' AND EXISTS ({is_result}) ORDER BY seq"
    return _select(db, key, rest, after_seq, key)


def at(db: sqlite3.Connection, key: str, seq: int) -> Message | None:
    """Return one message of a session by its place."""
    return next(iter(_select(db, key, "seq = ?", seq)), None)


def first_words(role: Role, content: Iterable[Block]) -> str | None:
    """Return the first words of what a person or an agent said; None for what does not speak to anybody."""
    if role not in {"user", "assistant"}:
        return None
    for block in content:
        if block.get("type") == "text":
            words = str(block.get("text", ""))[: PREVIEW_CHARS * 2].strip()
            if not words.isprintable():  # line breaks of any script, among others
                words = " ".join(words.split())
            if words:
                return encodable(words[:PREVIEW_CHARS])
    return None


def reply_of(db: sqlite3.Connection, run: Run) -> Message | None:
    """Return the last words of a run, None while or when it has none."""
    return at(db, run.key, run.reply_seq) if run.reply_seq is not None else None


def _select(db: sqlite3.Connection, key: str, rest: str, *values: object) -> list[Message]:
    """Return the messages of a session that the rest of a query asks for."""
    rows = db.execute(f"SELECT body, run_id FROM messages WHERE {_OF_SESSION} AND {rest}", (key, *values))
    return [Message.decode(body, run_id) for body, run_id in rows]


def _bounds(db: sqlite3.Connection, session: Session, session_id: str) -> tuple[int, int]:
    """Return the first and last `seq` of a transcript of this session."""
    if session_id == session.session_id:
        return session.first_seq, session.last_seq
    row = db.execute(
        "SELECT first_seq, last_seq FROM transcripts WHERE session_id = ? AND key = ?", (session_id, session.key)
    ).fetchone()
    if row is None:
        raise NotFound(f"session {session.key} never had a transcript with the id {session_id}")
    return row[0], session.last_seq if row[1] is None else row[1]
