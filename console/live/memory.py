"""What the console remembers between two starts: drafts, what was seen, and what was written lately.

One small JSON file in the state directory, replaced as a whole, so that a crash leaves the old one or the new one. A
damaged file is put aside as `console.broken` and costs what it held, nothing else.
"""

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

FILE_NAME: Final = "console.json"
HISTORY_ENTRIES: Final = 200


@dataclass(slots=True)
class Memory:
    """Drafts by session key, places seen of sessions with something new, and the composer's history, oldest first."""

    path: Path | None = None
    drafts: dict[str, str] = field(default_factory=dict[str, str])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    history: list[str] = field(default_factory=list[str])

    @classmethod
    def load(cls, directory: Path) -> "Memory":
        """Read what was remembered in a state directory."""
        path = directory / FILE_NAME
        known = _read(path)
        history = known.get("history")
        return cls(
            path,
            {key: text for key, text in _dict(known, "drafts").items() if isinstance(text, str)},
            {key: seq for key, seq in _dict(known, "seen").items() if type(seq) is int},
            [text for text in cast("list[object]", history) if isinstance(text, str)]
            if isinstance(history, list)
            else [],
        )

    def save(self) -> None:
        """Write it down; a directory that cannot be written costs the memory, not the console."""
        if self.path is None:
            return
        data = {"drafts": self.drafts, "seen": self.seen, "history": self.history[-HISTORY_ENTRIES:]}
        body = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
        temporary = self.path.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError:
            return

    def keep_draft(self, key: str, text: str) -> bool:
        """Remember what is in the composer of a session; whether that is new."""
        if self.drafts.get(key, "") == text:
            return False
        if text:
            self.drafts[key] = text
        else:
            self.drafts.pop(key, None)
        return True

    def move_to_history(self, key: str, text: str) -> None:
        """Remember something that was sent, and of the draft of its session only what stands behind it."""
        self.keep_draft(key, self.drafts.get(key, "").removeprefix(text))
        if not self.history or self.history[-1] != text:
            self.history.append(text)
            del self.history[:-HISTORY_ENTRIES]


def _read(path: Path) -> dict[str, Any]:
    """Read the file; a damaged one is put aside, so that what it held can still be looked for."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return cast("dict[str, Any]", data)
    except OSError:
        return {}
    except (ValueError, RecursionError):
        pass
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".broken"))
    return {}


def _dict(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
