"""The older store of OpenClaw: `sessions.json` beside one JSONL file a transcript, read without changing anything."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from core.imports.entries import Entry, milliseconds
from core.imports.report import EXAMPLES, Notes
from core.imports.source import Source, SourceSession, SourceTranscript, read_facts
from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.model.ids import UUID
from core.model.sessions import Session

INDEX: Final = "sessions.json"
KNOWN_VERSION: Final = 4
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_FILE: Final = re.compile(r"(?P<stem>.+)\.jsonl(?:\.(?P<fate>reset|deleted|bak)\.(?P<when>.+))?")
_SESSION_NAME: Final = re.compile(rf"{UUID}(?:-topic-.+)?", re.IGNORECASE)
"""What a transcript is called that no row names."""
_BESIDE: Final[Mapping[str, re.Pattern[str]]] = {
    "records of runs, which repeat what transcripts hold": re.compile(r".+\.trajectory"),
    "copies of transcripts that were made before compacting them": re.compile(
        rf".+\.checkpoint\.{UUID}", re.IGNORECASE
    ),
}
"""Files beside transcripts that end in `.jsonl` too, by their stems."""
_RECORD: Final = re.compile(r"(?P<stem>.+)\.trajectory\.jsonl")
"""What the record of a session's runs is called; its first line says whose they are."""
_BALLAST: Final = frozenset({"skillsSnapshot", "systemPromptReport", "contextBudgetStatus"})
_LEFT_OUT: Final[Mapping[str, str]] = {
    "deleted": "transcripts that were deleted there",
    "bak": "copies of transcripts that were made before compacting them",
}

_NO_TRANSCRIPTS: Final = "files that are no transcripts"

_Files = Mapping[str, list[tuple[Path, str]]]
"""The transcripts of a folder by the stem of their names, each with the time it was put aside, if it was."""


def read_source(folder: Path, agent_id: str) -> Source:
    """Return the sessions of a folder that holds `sessions.json` and transcripts.

    Raises `Unavailable` when the index or the folder cannot be read.
    """
    notes = Notes()
    index = _read_index(folder / INDEX)
    rows = {key: cast("Entry", entry) for key, entry in index.items() if isinstance(entry, dict)}
    named = {stem for row in rows.values() for stem in (_stem(row), str(row.get("sessionId"))) if stem}
    transcripts, records = _files(folder, named, notes)
    earlier = _earlier(rows, {stem: found for stem, found in transcripts.items() if stem not in named}, records)
    for key in index:
        if key not in rows:
            notes.add("rows that are no JSON object", key)
    used: set[Path] = set()
    sessions: list[SourceSession] = []
    for key, row in rows.items():
        session, files = _session(read_facts(key, agent_id, row), _stem(row), transcripts, earlier.get(key, []))
        used.update(path for path, _ in files)
        sessions.append(session)
    lost: list[str] = []
    for stem, found in transcripts.items():
        orphans = [(path, when) for path, when in found if path not in used]
        if orphans:
            sessions.append(_orphan(stem, agent_id, orphans))
            lost += [path.name for path, _ in orphans]
    sessions.sort(key=lambda session: session.facts.updated_at)
    return Source(agent_id, tuple(sessions), notes, (_told(agent_id, lost),) if lost else ())


def _told(agent_id: str, lost: list[str]) -> str:
    more = f" and {len(lost) - EXAMPLES} more" if len(lost) > EXAMPLES else ""
    return (
        f"no session that is there is known for certain to have had these transcripts of agent {agent_id}, so they"
        f" stand as archived sessions of their own: {', '.join(lost[:EXAMPLES])}{more}"
    )


def _session(
    facts: Session, stem: str | None, transcripts: _Files, earlier: list[tuple[Path, str]]
) -> tuple[SourceSession, list[tuple[Path, str]]]:
    """Return a session with its transcripts, oldest first, and their files.

    Args:
        stem: Of the file that its row names.
        earlier: Files that are its own though it does not call them by its id or name.
    """
    found = [file for each in dict.fromkeys((stem, facts.session_id)) for file in transcripts.get(each or "", [])]
    current = next((file for file in found if not file[1]), None)
    files = sorted([*(file for file in found if file[1]), *earlier], key=lambda file: file[1])
    read = [_transcript(path, _header_id(path) or path.name) for path, _ in files]
    if current is not None:
        read.append(_transcript(current[0], facts.session_id))
        files.append(current)
    else:
        read.append(SourceTranscript(facts.session_id, facts.session_id, lambda _: iter(())))
    times = [facts.created_at, *(_first_time(path) for path, _ in files)]  # a reset begins the row's time anew
    created = min((time for time in times if time), default=facts.updated_at)
    return SourceSession(facts._replace(created_at=created), tuple(read)), files


def _earlier(rows: Mapping[str, Entry], transcripts: _Files, records: Mapping[str, Path]) -> _Files:
    """Return what resets put aside under an id that is no row's own, by the key of the session it belonged to.

    A row may list the ids it had, and the record of the runs, which a reset leaves where it is, names the key. When
    these differ, or nobody says anything, it is not certain.

    Args:
        transcripts: That no row names.
        records: Of runs, by the stem of the transcript they lie beside.
    """
    claims: dict[str, set[str]] = {}
    for key, row in rows.items():
        listed = row.get("usageFamilySessionIds")
        if isinstance(listed, list) and row.get("usageFamilyKey", key) == key:  # a copied row has the list of another
            for session_id in cast("list[object]", listed):
                claims.setdefault(str(session_id), set()).add(key)
    found: dict[str, list[tuple[Path, str]]] = {}
    for stem, files in transcripts.items():
        aside = [file for file in files if file[1]]
        if aside and stem in records:
            first = _header(records[stem])
            if first.get("sessionId") == stem and isinstance(key := first.get("sessionKey"), str):
                claims.setdefault(stem, set()).add(key)
        owners = claims.get(stem, set())
        if len(owners) == 1 and (key := next(iter(owners))) in rows:
            found.setdefault(key, []).extend(aside)
    return found


def _orphan(stem: str, agent_id: str, files: list[tuple[Path, str]]) -> SourceSession:
    """Return transcripts that no row names any more as an archived session of their own."""
    files = sorted(files, key=lambda file: (not file[1], file[1]))
    newest = max(int(path.stat().st_mtime * 1000) for path, _ in files)
    created = min(_first_time(path) for path, _ in files) or newest
    read = tuple(_transcript(path, _header_id(path) or path.name) for path, _ in files)
    named = {"displayName": "an old transcript, of a session that is not known any more"}
    facts = read_facts(f"agent:{agent_id}:import:{stem}", agent_id, named | {"sessionId": read[-1].transcript_id})
    return SourceSession(facts._replace(created_at=created, updated_at=newest, archived_at=newest), read)


def _stem(row: Entry) -> str | None:
    """Return the stem of the transcript that a row names; its folder may have moved since."""
    match = _FILE.fullmatch(Path(str(row.get("sessionFile") or "")).name)
    return match["stem"] if match else None


def _files(folder: Path, named: set[str], notes: Notes) -> tuple[_Files, Mapping[str, Path]]:
    """Return the transcripts of a folder, which rows name or which are called so, and the records of runs by the stem
    of the transcript they lie beside."""
    found: dict[str, list[tuple[Path, str]]] = {}
    records: dict[str, Path] = {}
    real = folder.resolve()
    for path in sorted(_listed(folder)):
        if path.name == INDEX:
            continue
        match = _FILE.fullmatch(path.name)
        fate = match["fate"] if match else None
        if match is None or (match["when"] or "").endswith(".zst") or not path.is_file():
            deleted = ".jsonl.deleted." in path.name
            notes.add(_LEFT_OUT["deleted"] if deleted else _NO_TRANSCRIPTS, path.name)
        elif not path.resolve().is_relative_to(real):
            notes.add("links that lead out of the folder", path.name)
        elif beside := next((words for words, stem in _BESIDE.items() if stem.fullmatch(match["stem"])), None):
            notes.add(beside, path.name)
            if of_runs := _RECORD.fullmatch(path.name):
                records[of_runs["stem"]] = path
        elif fate in _LEFT_OUT:
            notes.add(_LEFT_OUT[fate], path.name)
        elif match["stem"] not in named and _SESSION_NAME.fullmatch(match["stem"]) is None:
            notes.add(_NO_TRANSCRIPTS, path.name)
        else:
            found.setdefault(match["stem"], []).append((path, match["when"] or ""))
    return found, records


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise Unavailable(f"the folder {folder} cannot be read: {error.strerror}") from None


def _read_index(path: Path) -> Mapping[str, Any]:
    """Read `sessions.json` without what no session needs here, which is most of it."""
    try:
        found = json_codec.heal(path.read_bytes(), _BALLAST)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None
    except Invalid as error:
        raise Unavailable(f"{path} is damaged: {error.message}") from None
    if not isinstance(found, dict):
        raise Unavailable(f"{path} is damaged: expected an object of sessions by their keys")
    return cast("Mapping[str, Any]", found)


def _transcript(path: Path, transcript_id: str) -> SourceTranscript:
    return SourceTranscript(transcript_id, path.name, partial(_entries, path))


def _entries(path: Path, notes: Notes) -> Iterator[Entry]:
    """Yield every entry of a file but the headers; what cannot be read is counted."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file), 1):
                if not line.strip():
                    continue
                entry = _parse(line)
                if entry is None:
                    torn = not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES
                    words = "last lines that were only half written" if torn else "lines that cannot be read"
                    notes.add(words, f"{path.name}:{number}")
                elif entry.get("type") == "session":
                    version = entry.get("version")
                    if isinstance(version, int) and version > KNOWN_VERSION:
                        words = f"transcripts of version {version}, newer than known: read as if they were known"
                        notes.add(words, path.name)
                else:
                    yield entry
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long only its beginning."""
    readline: Callable[[int], bytes] = file.readline
    while line := readline(MAX_LINE_BYTES):
        yield line
        while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = readline(MAX_LINE_BYTES)


def _parse(line: bytes) -> Entry | None:
    try:
        entry = json_codec.heal(line)
        json_codec.check_depth(entry, line)
    except Invalid:
        return None
    return cast("Entry", entry) if isinstance(entry, dict) else None


def _header(path: Path) -> Entry:
    """Return the first entry of a file, an empty one when it cannot be read; the import itself will say why."""
    try:
        with path.open("rb") as file:
            return _parse(file.readline(MAX_LINE_BYTES)) or {}
    except OSError:
        return {}


def _header_id(path: Path) -> str | None:
    header = _header(path)
    found = header.get("id")
    return found if header.get("type") == "session" and isinstance(found, str) else None


def _first_time(path: Path) -> int:
    return milliseconds(_header(path).get("timestamp"))
