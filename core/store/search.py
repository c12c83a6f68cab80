"""Full-text search over transcripts, newest first."""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from core.model.access import Scope
from core.model.messages import Message
from core.model.sessions import SearchHit
from core.store.database import Tx
from core.store.sessions import but, scope_condition

MAX_INDEXED_CHARS: Final = 65_536
SNIPPET_CHARS: Final = 160
_WORD: Final = re.compile(r"\w+", re.UNICODE)


_INDEX: Final = "INSERT INTO message_words (rowid, words) VALUES (?, ?)"
_FORGET: Final = "INSERT INTO message_words (message_words, rowid, words) VALUES ('delete', ?, ?)"


def index_message(tx: Tx, row_id: int, message: Message, *, forget: bool = False) -> None:
    """Make the words of a message findable, or of a deleted one no more; of a very long one the first 65,536
    characters. The index holds no text, so it must be told which words to forget.
    """
    words = searchable_text(message)[:MAX_INDEXED_CHARS]
    if words:
        tx.afterwards.append((_FORGET if forget else _INDEX, (row_id, words)))


def searchable_text(message: Message) -> str:
    """Return the words of a message that a search looks at: text, and what tools answered."""
    return "\n".join(str(block["text"]) for block in message.content if isinstance(block.get("text"), str))


def messages(
    db: sqlite3.Connection,
    text: str,
    scope: Scope,
    *,
    key: str | None = None,
    limit: int,
    hidden: Sequence[str] = (),
    clean: Callable[[str], str] | None = None,
) -> list[SearchHit]:
    """Return messages that hold every word of the text, the last word as a prefix, newest first.

    Args:
        key: Only this session.
        hidden: Keys of sessions to leave out.
        clean: Takes out of the words what must not be shown; a message without a match in the rest is left out.
    """
    terms: list[str] = _WORD.findall(unicodedata.normalize("NFC", text))
    if not terms:
        return []
    match = " ".join(f'"{term}"' for term in terms) + "*"
    scope_sql, values = scope_condition(scope, "s")
    only = "" if key is None else " AND s.key = ?"
    rows = db.execute(
        "SELECT s.key, m.seq, m.body FROM message_words AS w JOIN messages AS m ON m.id = w.rowid"
        f" JOIN sessions AS s ON s.id = m.session WHERE w.words MATCH ? AND {scope_sql}{only}"
        f" AND {but(hidden, 's')} ORDER BY w.rowid DESC LIMIT ?",
        (match, *values, *(() if key is None else (key,)), *hidden, limit),
    ).fetchall()
    pattern = re.compile("|".join(rf"\b{re.escape(term)}" for term in terms), re.IGNORECASE)
    hits = [_hit(db, session_key, seq, Message.decode(body), pattern, clean) for session_key, seq, body in rows]
    return [hit for hit in hits if hit is not None]


def _hit(
    db: sqlite3.Connection,
    key: str,
    seq: int,
    message: Message,
    pattern: re.Pattern[str],
    clean: Callable[[str], str] | None,
) -> SearchHit | None:
    session_id = db.execute(
        "SELECT session_id FROM transcripts WHERE key = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1",
        (key, seq),
    ).fetchone()[0]
    words = searchable_text(message)
    if clean is not None:
        cleaned = clean(words[:MAX_INDEXED_CHARS])
        if pattern.search(words) and not pattern.search(cleaned):
            return None
        words = cleaned
    snippet, spans = _snippet(words, pattern)
    return SearchHit(key, session_id, message.id, seq, message.timestamp, message.role, snippet, spans)


def _snippet(text: str, pattern: re.Pattern[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut the words around the first match, and say where the matches stand in the cut."""
    first = pattern.search(text)
    at = first.start() if first else 0
    start = max(0, at - SNIPPET_CHARS // 4)
    if start:
        start = max(text.find(" ", start, at) + 1, start)  # a whole word, if there is one before the match
    shown = " ".join(text[start : start + SNIPPET_CHARS].split())
    cut = f"…{shown}" if start else shown
    if len(cut) > SNIPPET_CHARS or start + SNIPPET_CHARS < len(text):
        cut = f"{cut[: SNIPPET_CHARS - 1]}…"
    return cut, tuple(match.span() for match in pattern.finditer(cut))
