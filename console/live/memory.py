"""What the console remembers between two starts: drafts, what was seen, and what was written lately.

One small JSON file in the state directory, replaced as a whole, so that a crash leaves the old one or the new one. A
damaged file is put aside as `console.broken` and costs what it held, nothing else.
"""

import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from core.files import write_file
from core.model import json_codec
from core.model.errors import Invalid, SwitchboardError

FILE_NAME: Final = "console.json"
HISTORY_ENTRIES: Final = 200


Taken = tuple[int, dict[str, Any]]
"""What was remembered at one moment, behind a number: the later, the higher."""


@dataclass(slots=True)
class Memory:
    """Drafts by session key, places seen of sessions with something new, and the composer's history, oldest first."""

    path: Path | None = None
    drafts: dict[str, str] = field(default_factory=dict[str, str])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    history: list[str] = field(default_factory=list[str])
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _taken: int = 0
    _written: int = 0

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
        """Write it down now."""
        self.write(self.take())

    def take(self) -> Taken:
        """Return what is remembered at this moment, to be written by `write`."""
        self._taken += 1
        history = self.history[-HISTORY_ENTRIES:]
        return (self._taken, {"drafts": dict(self.drafts), "seen": dict(self.seen), "history": history})

    def write(self, taken: Taken) -> None:
        """Write it down, on any thread; what was taken later is never replaced by it.

        The disk may take its time. A directory that cannot be written costs the memory, not the console.
        """
        if self.path is None:
            return
        number, facts = taken
        body = json_codec.encode(facts).encode()
        with self._writing, contextlib.suppress(OSError, SwitchboardError):
            if number > self._written:
                self._written = number
                write_file(self.path, body)

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
        data: Any = json_codec.heal(path.read_bytes())
        if isinstance(data, dict):
            return cast("dict[str, Any]", data)
    except OSError:
        return {}
    except Invalid:
        pass
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".broken"))
    return {}


def _dict(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
