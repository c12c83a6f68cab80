"""Whether everything that a state directory holds fits together, and mending what can be mended from the rest.

The database is what counts; the transcripts beside it, its search index and the rights of files are made anew from it.
"""

import contextlib
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.files import FILE_MODE, FOLDER_MODE
from core.model import json_codec
from core.model.errors import Invalid
from core.store import jsonl
from core.store.maintenance.backup import FOLDER as BACKUPS
from core.store.maintenance.backup import inside
from core.store.schema import statements

Mend = Callable[[sqlite3.Connection], None]
_LEFT_OVER: Final = re.compile(r"\..+\.[0-9a-f-]{32,36}|\.switchboard-.+")
"""What a write that was killed leaves behind."""
_EXAMPLES: Final = 3
_QUESTION: Final = re.compile(r"^-- (\w+): (.+)\n", re.MULTILINE)
_TAIL: Final = 65_536
BEHIND: Final = "lack the newest messages"
AHEAD: Final = "hold more than the database"
LOST: Final = (
    "it was probably copied without its switchboard.db-wal, or that was removed; copy the whole folder again, or use"
    " `switchboard restore`"
)
ALONE: Final = (
    "if it was copied alone, the newest messages may be missing in it too, which only a copy of the whole folder or"
    " `switchboard restore` brings back"
)
Judge = Callable[[Path, int, int], str]
"""Says what is wrong with the file of a transcript that holds messages from a number to a number."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not fit.

    Attributes:
        topic: What it is about, in one word.
        words: What is wrong, with examples.
        mend: Mends it, on a connection that may write; None when nothing here can.
    """

    topic: str
    words: str
    mend: Mend | None = None


def check(db: sqlite3.Connection, state: Path, *, is_owned: bool) -> Iterator[Problem]:
    """Yield what is wrong with a state directory; changes nothing. Blocks.

    Args:
        db: A connection to its database, within one transaction.
        is_owned: Somebody is at work on it: what is being written at this moment is no problem.

    Raises:
        sqlite3.Error: The database is too damaged to be read.
    """
    damaged = list(_damage(db))
    yield from damaged
    if any(problem.mend is None for problem in damaged):
        return  # whatever else is found comes of that
    yield from _parts(db, state, is_owned=is_owned, to_the_end=True)


def glance(db: sqlite3.Connection, state: Path, *, is_owned: bool) -> Iterator[Problem]:
    """Return what is wrong as far as that is told without reading messages and files to their end; see `check`."""
    return _parts(db, state, is_owned=is_owned, to_the_end=False)


def _parts(db: sqlite3.Connection, state: Path, *, is_owned: bool, to_the_end: bool) -> Iterator[Problem]:
    yield from _rows(db)
    if to_the_end:
        yield from _bodies(db)
    yield from _trees(db)
    yield from _names(db)
    if not is_owned:
        yield from _transcripts(db, state, _verdict if to_the_end else _verdict_at_the_end)
        yield from _left_over(state)
    yield from _rights(state)


def _damage(db: sqlite3.Connection) -> Iterator[Problem]:
    """Ask SQLite; an index is made anew from its table, and nothing else is."""
    try:
        found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    indexes = [line for line in found if "index" in line and "malformed" not in line]
    if indexes:
        yield Problem("indexes", _some(indexes), lambda db: db.execute("REINDEX") and None)
    others = [line for line in found if line not in indexes]
    if others:
        yield Problem("database", f"it is damaged ({_some(others)}): restore a backup")


def _rows(db: sqlite3.Connection) -> Iterator[Problem]:
    for statement in statements("check.sql"):
        _, topic, words, question = _QUESTION.split(statement)
        found = [str(row[0]) for row in db.execute(question)]
        if found:
            yield Problem(topic, words.format(_some(found)))


def _bodies(db: sqlite3.Connection) -> Iterator[Problem]:
    unread: list[str] = []
    for key, seq, body in db.execute(
        "SELECT s.key, m.seq, m.body FROM messages AS m JOIN sessions AS s ON s.id = m.session"
    ):
        try:
            fits = json_codec.heal(body)["seq"] == seq
        except (Invalid, KeyError, TypeError):
            fits = False
        if not fits:
            unread.append(f"{key} {seq}")
    if unread:
        yield Problem("messages", f"messages cannot be read, or say another number than their row: {_some(unread)}")


def _trees(db: sqlite3.Connection) -> Iterator[Problem]:
    """Follow each sub-agent up to whoever spawned the first; a parent may be deleted, and none is its own ancestor."""
    parents: dict[str, str] = dict(db.execute("SELECT key, spawned_by FROM sessions WHERE spawned_by IS NOT NULL"))
    known: set[str] = set()
    rings: list[str] = []
    for start in parents:
        way: dict[str, None] = {}
        key: str | None = start
        while key is not None and key not in known and key not in way:
            way[key] = None
            key = parents.get(key)
        if key is not None and key in way:
            rings.append(key)
        known.update(way)
    if rings:
        yield Problem("spawns", f"sessions are their own ancestors: {_some(rings)}")


def _names(db: sqlite3.Connection) -> Iterator[Problem]:
    """Hold the names that are searched against the rows."""
    question = (
        "SELECT s.key FROM sessions AS s LEFT JOIN session_names AS n ON n.rowid = s.id WHERE n.rowid IS NULL"
        " OR n.key IS NOT s.key OR n.label IS NOT s.label OR n.display_name IS NOT s.display_name"
        " UNION ALL SELECT n.key FROM session_names AS n"
        " WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = n.rowid)"
    )
    found = [str(row[0]) for row in db.execute(question)]
    if found:
        yield Problem("search", f"the names of sessions are not found as they are: {_some(found)}", _rename)


def _rename(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM session_names")
    db.execute(
        "INSERT INTO session_names (rowid, key, label, display_name) SELECT id, key, label, display_name FROM sessions"
    )


def _transcripts(db: sqlite3.Connection, state: Path, verdict_of: Judge) -> Iterator[Problem]:
    """Hold the files of transcripts against the rows, which they are made from."""
    question = (
        "SELECT t.session_id, t.key, t.first_seq, coalesce(t.last_seq, s.last_seq) FROM transcripts AS t"
        " JOIN sessions AS s ON s.key = t.key"
    )
    known = {
        str(session_id): (str(key), int(first), int(last)) for session_id, key, first, last in db.execute(question)
    }
    written = {session_id: each for session_id, each in known.items() if each[1] <= each[2]}
    if written and not os.path.lexists(state / "transcripts"):
        found = [(session_id, key) for session_id, (key, _, _) in written.items()]
        words = f"no transcripts lie beside a database that knows {len(written)}: {ALONE}"
        yield Problem("files", words, partial(_rewrite, state=state, found=found, whole=False))
        return
    wrong: dict[str, list[tuple[str, str]]] = {}
    for session_id, (key, first, last) in known.items():
        path = jsonl.transcript_path(state, session_id)
        verdict = verdict_of(path, first, last)
        if verdict:
            wrong.setdefault(verdict, []).append((session_id, key))
    for verdict, found in wrong.items():
        names = _some([key for _, key in found])
        if verdict == AHEAD:
            yield Problem("database", f"transcripts {verdict}: {names}: {LOST}")
            continue
        mend = partial(_rewrite, state=state, found=found, whole=verdict != BEHIND)
        yield Problem("files", f"transcripts {verdict}: {names}", mend)
    folder = state / "transcripts"
    strangers = [path for path in inside(folder) if path.suffix == ".jsonl" and path.stem not in known]
    if len(strangers) > len(known):  # the database is the one to be doubted, so nothing is removed for it
        words = f"{len(strangers)} transcripts lie beside a database that knows {len(known)}: {LOST}"
        yield Problem("database", words)
    elif strangers:
        words = f"transcripts of sessions that are not there: {_some([path.name for path in strangers])}"
        yield Problem("files", words, lambda _: _remove(strangers))


def _verdict_at_the_end(path: Path, first: int, last: int) -> str:
    """Return what is wrong with the file of a transcript as its last line tells, to be read after its name."""
    if last < first:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            line = file.read().splitlines()[-1]
        written = json_codec.heal(line)["message"]["seq"]
    except FileNotFoundError:
        return BEHIND
    except (OSError, Invalid, LookupError, TypeError, UnicodeDecodeError):
        return ""  # a line that is longer, or torn: a whole look tells
    return BEHIND if written < last else AHEAD if written > last else ""


def _verdict(path: Path, first: int, last: int) -> str:
    """Return what is wrong with the file of a transcript, to be read after its name; empty for nothing."""
    if last < first:
        return ""  # nothing was said in it
    if not os.path.lexists(path):
        return BEHIND
    if path.is_symlink() or not path.is_file():
        return "are no files"
    written = first - 1
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    return BEHIND  # a torn line is cut off when the next one is written
                entry: dict[str, Any] = json_codec.heal(line)
                if number == 0:
                    continue
                if entry["type"] != "message" or entry["message"]["seq"] != written + 1:
                    return "do not hold what was said in its order"
                written += 1
    except (OSError, Invalid, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        return "cannot be read"
    if written > last:
        return AHEAD
    return BEHIND if written < last else ""


def _rewrite(db: sqlite3.Connection, state: Path, found: list[tuple[str, str]], *, whole: bool) -> None:
    """Write files of transcripts from the rows."""
    for session_id, key in found:
        if whole:
            jsonl.remove(state, [session_id])
        jsonl.append_new(db, state, key, session_id)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _left_over(state: Path) -> Iterator[Problem]:
    folders = (state, state / "identity", state / BACKUPS, state / "transcripts")
    found = [path for folder in folders for path in inside(folder) if _LEFT_OVER.fullmatch(path.name)]
    if found:
        words = f"files were left by writes that were cut short: {_some([path.name for path in found])}"
        yield Problem("files", words, lambda _: _remove(found))


def _rights(state: Path) -> Iterator[Problem]:
    """Look at who may read and write what we keep; workspaces are their agents' own."""
    open_ones: list[Path] = []
    links: list[Path] = []
    for path in [state, *_all(state)]:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            links.append(path)
        elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            wanted = FOLDER_MODE if stat.S_ISDIR(mode) else FILE_MODE
            if stat.S_IMODE(mode) & 0o077 & ~wanted:
                open_ones.append(path)
    if open_ones:
        names = _some([str(path.relative_to(state)) for path in open_ones])
        yield Problem("rights", f"others may look into files, or change them: {names}", lambda _: _close(open_ones))
    if links:
        names = _some([str(path.relative_to(state)) for path in links])
        yield Problem("rights", f"links lie where files should, and are not followed: {names}")


def _close(paths: list[Path]) -> None:
    """Take the rights of others away."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


def _all(folder: Path) -> Iterator[Path]:
    """Yield what lies in the state directory and is ours; no link is followed."""
    for path in inside(folder):
        yield path
        if path.is_dir() and not path.is_symlink() and path.name != "workspaces":
            yield from _all(path)


def _some(found: list[str]) -> str:
    """Return the first few, and how many more there are."""
    more = f" and {len(found) - _EXAMPLES} more" if len(found) > _EXAMPLES else ""
    return ", ".join(found[:_EXAMPLES]) + more
