"""State directories of both generations of OpenClaw, written by the tests in the shapes the gateways give them."""

import json
import sqlite3
import sys
import weakref
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

START = 1_795_000_000_000
SID = "11111111-2222-4333-8444-555555555555"
Entry = dict[str, Any]
_SCHEMA = """
CREATE TABLE session_nodes (
  session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL, entry_json TEXT NOT NULL,
  updated_at INTEGER NOT NULL, status TEXT, created_at INTEGER, created_via TEXT, parent_session_key TEXT,
  spawned_by TEXT, label TEXT, display_name TEXT, archived_at INTEGER
) STRICT;
CREATE TABLE session_windows (
  session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE transcript_events (
  session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL, event_zstd BLOB,
  PRIMARY KEY (session_id, seq)
) STRICT;
CREATE TABLE session_pending_inputs (id INTEGER PRIMARY KEY, session_key TEXT NOT NULL) STRICT;
"""


def iso(ms: int) -> str:
    """Return a time as the transcripts write it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Talk:
    """A transcript that grows entry by entry, each hanging on the one before it."""

    def __init__(self, session_id: str = SID, version: int = 3) -> None:
        self.session_id = session_id
        self.entries: list[Entry] = [
            {"type": "session", "version": version, "id": session_id, "timestamp": iso(START), "cwd": "/"}
        ]
        self.last: str | None = None
        self.clock = START

    def add(self, kind: str, **more: Any) -> str:
        """Append an entry and return its id."""
        self.clock += 1000
        entry_id = more.pop("id", f"{len(self.entries):08x}")
        parent = more.pop("parentId", self.last)
        self.entries.append({"type": kind, "id": entry_id, "parentId": parent, "timestamp": iso(self.clock), **more})
        self.last = entry_id
        return entry_id

    def user(self, text: str, *, provenance: Mapping[str, str] | None = None, **more: Any) -> str:
        """Append what a person or another session says."""
        message: dict[str, Any] = {
            "role": "user",
            "content": [{"type": "text", "text": text}],
            "timestamp": self.clock + 1,
        }
        if provenance is not None:
            message["provenance"] = dict(provenance)
        return self.add("message", message=message, **more)

    def reply(self, text: str, **more: Any) -> str:
        """Append an answer of a model with its cost."""
        usage = {
            "input": 100,
            "output": 10,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 110,
            "cost": {"total": 0.5},
        }
        message = {
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "provider": "lab",
            "model": "small",
            "usage": usage,
            "stopReason": "stop",
            "timestamp": self.clock + 1,
            **more,
        }
        return self.add("message", message=message)

    def tool(self, name: str, arguments: Mapping[str, Any], answer: str) -> None:
        """Append a tool call and what came of it."""
        call = {"type": "toolCall", "id": f"call_{len(self.entries)}", "name": name, "arguments": dict(arguments)}
        self.reply("", content=[call], stopReason="toolUse")
        result = {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": name,
            "content": [{"type": "text", "text": answer}],
            "isError": False,
            "timestamp": self.clock + 1,
        }
        self.add("message", message=result)

    def lines(self) -> str:
        """Return the transcript as a file of the older generation."""
        return "".join(f"{json.dumps(entry)}\n" for entry in self.entries)


def row(session_id: str = SID, **more: Any) -> Entry:
    """Return a row as both generations keep it."""
    return {"sessionId": session_id, "updatedAt": START + 60_000, "skillsSnapshot": {"prompt": "x" * 2000}, **more}


class Older:
    """A state directory with `sessions.json` and JSONL files."""

    def __init__(self, path: Path, agent: str = "main") -> None:
        self.path = path
        self.folder = path / "agents" / agent / "sessions"
        self.folder.mkdir(parents=True)
        self.index: dict[str, Any] = {}

    def put(self, key: str, talk: Talk, *, name: str | None = None, **more: Any) -> Path:
        """Write or replace a session."""
        file = self.write(talk, name or f"{talk.session_id}.jsonl")
        self.index[key] = row(talk.session_id, sessionFile=f"/moved/since/{file.name}", **more)
        (self.folder / "sessions.json").write_text(json.dumps(self.index))
        return file

    def write(self, talk: Talk, name: str) -> Path:
        """Write a transcript."""
        file = self.folder / name
        file.write_text(talk.lines())
        return file


class Newer:
    """A state directory with one database an agent."""

    def __init__(self, path: Path, agent: str = "main", *, version: int = 23) -> None:
        self.path = path
        self.file = path / "agents" / agent / "agent" / "openclaw-agent.sqlite"
        self.file.parent.mkdir(parents=True)
        self.db = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self.db.close)  # a test may go on writing to the end; any thread may end it
        self.db.executescript(_SCHEMA)
        self.db.execute(f"PRAGMA user_version = {version}")

    def put(self, key: str, talks: Sequence[Talk] | Talk, *, packed: bool = False, **more: Any) -> None:
        """Write or replace a session; of several transcripts the last is the current one."""
        talks = [talks] if isinstance(talks, Talk) else talks
        current = talks[-1].session_id
        columns = {name: more.pop(name, None) for name in ("label", "display_name", "status", "spawned_by")}
        archived = more.pop("archived_at", None)
        entry = row(current, **{"createdAt": START, **more})
        self.db.execute("BEGIN")
        self.db.execute(
            "REPLACE INTO session_nodes (session_key, current_session_id, entry_json, updated_at, created_at, label,"
            " display_name, status, spawned_by, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, current, json.dumps(entry), entry["updatedAt"], START, *columns.values(), archived),
        )
        for number, talk in enumerate(talks):
            window = (talk.session_id, key, START + number)
            self.db.execute(
                "REPLACE INTO session_windows (session_id, session_key, created_at) VALUES (?, ?, ?)", window
            )
            self.db.execute("DELETE FROM transcript_events WHERE session_id = ?", (talk.session_id,))
            for seq, event in enumerate(talk.entries):
                text = json.dumps(event)
                squeezed = compress(text.encode()) if packed and seq else None
                values = (talk.session_id, seq, None if squeezed else text, START, squeezed)
                self.db.execute(
                    "INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_zstd)"
                    " VALUES (?, ?, ?, ?, ?)",
                    values,
                )
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the database, as a gateway that has ended."""
        self.db.close()
