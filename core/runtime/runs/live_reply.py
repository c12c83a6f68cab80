"""The reply under way in one run: its words so far, told to watchers at most 30 times a second (architecture#feeds)."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from core.model.events import Activity, BlockKind, Delta, ToolProgress
from core.model.messages import Block, text_block, thinking_block
from core.runtime.feed import EventHub

DELTA_SECONDS: Final = 1 / 30
ACTIVITY_SECONDS: Final = 0.5
ACTIVITY_CHARS: Final = 160


@dataclass(slots=True)
class _LiveBlock:
    """A block as it grows, put together only when somebody wants it; `told` counts the characters watchers heard of."""

    kind: BlockKind
    told: int = 0
    _parts: list[str] = field(default_factory=list[str])
    _new: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """All of its words."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def add(self, text: str) -> None:
        """Append words."""
        self._parts.append(text)
        self._new.append(text)

    def take_new(self) -> str:
        """Return the words that were not told yet, and count them as told."""
        new = "".join(self._new)
        self._new.clear()
        self.told += len(new)
        return new


class RunningReply:
    """Collects the deltas of one run until a message of it is committed."""

    def __init__(self, key: str, run_id: str, hub: EventHub) -> None:
        self._key = key
        self._run_id = run_id
        self._hub = hub
        self._blocks: list[_LiveBlock] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next_activity = 0.0
        self._words = ""

    def add(self, kind: BlockKind, text: str) -> None:
        """Append words; watchers hear of them within 1/30 s."""
        if not text:
            return
        if not self._blocks or self._blocks[-1].kind != kind:
            self._blocks.append(_LiveBlock(kind))
        self._blocks[-1].add(text)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(DELTA_SECONDS, self._tell)

    def tool(self, call_id: str, name: str, note: str = "") -> None:
        """Tell that a tool started or is at work."""
        self._hub.passing(ToolProgress(self._key, self._run_id, call_id, name, note[:200]))
        self._hub.passing(Activity(self._key, self._run_id, f"{name} {note}".strip()[:ACTIVITY_CHARS]))

    def content(self) -> tuple[Block, ...]:
        """Return the words so far as blocks of a message."""
        return tuple(
            text_block(block.text) if block.kind == "text" else thinking_block(block.text) for block in self._blocks
        )

    def so_far(self) -> Iterator[Delta]:
        """Return everything said so far, for somebody who starts watching now."""
        for number, block in enumerate(self._blocks):
            yield Delta(self._key, self._run_id, number, block.kind, 0, block.text)

    def clear(self) -> None:
        """Start anew: what was said has been committed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._blocks.clear()
        self._words = ""

    def _tell(self) -> None:
        self._timer = None
        is_watched = self._hub.watched(self._key)
        for number, block in enumerate(self._blocks):
            told, new = block.told, block.take_new()
            if new:
                self._words = (self._words + new)[-ACTIVITY_CHARS * 2 :]
                if is_watched:
                    self._hub.passing(Delta(self._key, self._run_id, number, block.kind, told, new))
        now = asyncio.get_running_loop().time()
        if now >= self._next_activity:
            self._next_activity = now + ACTIVITY_SECONDS
            self._hub.passing(Activity(self._key, self._run_id, " ".join(self._words.split())[-ACTIVITY_CHARS:]))
