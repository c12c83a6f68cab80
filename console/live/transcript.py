"""One session's transcript on the screen: all of it by place, a part of it in memory, and the reply under way.

Places (`seq`) are dense, so every message has an index from the first moment on; items are fetched by pages where the
screen looks, and the least recently seen are dropped beyond 8 MB.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from console.live.items import Item, Part, read_item
from console.live.text.clean import clean, clean_line
from console.live.text.markdown_blocks import BlockedText
from core.model.events import BlockKind, Delta, ToolProgress
from core.model.exchanges import Exchange
from core.model.messages import Message, brief
from core.model.runs import Run, RunKind

PAGE: Final = 100
CACHE_BYTES: Final = 8_000_000
NEAR: Final = 64
"""A tool's answer stands at most that many messages below its call."""
KEPT_STEPS: Final = 5_000
"""Messages of which it is known which step of which exchange they are."""


class Step(NamedTuple):
    """Which step of which exchange a message began, or ended as its reply; `turn` of a `reply` counts from 1."""

    exchange_id: str
    kind: RunKind
    turn: int


@dataclass(slots=True)
class LiveBlock:
    """One block of the reply under way: `raw` as it came, for offsets count its characters, and cleaned in `words`."""

    kind: BlockKind
    raw: str = ""
    words: BlockedText = field(default_factory=BlockedText)

    def take(self, offset: int, text: str) -> None:
        """Put words at an offset, in place of what was there; nothing when some before them are missing."""
        if offset > len(self.raw):
            return
        goes_on = offset == len(self.raw) and not self.raw.endswith("\r")  # a line end may come in two pieces
        self.raw = self.raw[:offset] + text
        if goes_on:
            self.words.append(clean(text))
        else:
            self.words.replace(clean(self.raw))


@dataclass(slots=True)
class LiveTool:
    """A tool at work."""

    name: str
    note: str
    started_at: int


@dataclass(slots=True)
class LiveReply:
    """The reply under way."""

    run_id: str
    blocks: list[LiveBlock] = field(default_factory=list[LiveBlock])
    tools: dict[str, LiveTool] = field(default_factory=dict[str, LiveTool])


class Transcript:
    """What is known of one transcript.

    Attributes:
        first: `seq` of its first message.
        last: `seq` of its newest, `first - 1` when it is empty.
        version: Rises with every change that must be drawn.
        changed: Places whose item came or changed since somebody last took them.
        unfolded: Places that are shown in full.
        steps: What is known of places in exchanges.
        refused: Why pages could not be read, by their number.
    """

    def __init__(self, key: str, session_id: str, first: int, last: int) -> None:
        self.key = key
        self.session_id = session_id
        self.first = first
        self.last = max(last, first - 1)
        self.version = 0
        self.live: LiveReply | None = None
        self.unfolded: set[int] = set()
        self.changed: set[int] = set()
        self.wanted: set[int] = set()
        self.steps: dict[int, Step] = {}
        self.refused: dict[int, str] = {}
        self._ends: dict[str, int] = {}
        self._results: dict[str, int] = {}
        self._items: OrderedDict[int, Item] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def item(self, seq: int) -> Item | None:
        """Return the item at a place; None when it is not in memory, and then it is wanted."""
        found = self._items.get(seq)
        if found is None:
            if self.first <= seq <= self.last and self._page_of(seq) not in self.refused:
                self.wanted.add(self._page_of(seq))
            return None
        self._items.move_to_end(seq)
        return found

    def peek(self, seq: int) -> Item | None:
        """Return the item at a place if it is in memory."""
        return self._items.get(seq)

    def next_page(self) -> tuple[int, int] | None:
        """Return `before` and `limit` of a page that somebody looked for; None when nothing is wanted."""
        if not self.wanted:
            return None
        page = max(self.wanted)
        self.wanted.discard(page)
        start = self.first + page * PAGE
        return min(start + PAGE, self.last + 1), PAGE

    def refuse(self, first: int, last: int, why: str) -> None:
        """Note why these places could not be read: it stands there until they are looked for again."""
        self.last = max(self.last, last)
        pages = range(self._page_of(max(first, self.first)), self._page_of(last) + 1)
        self.refused.update(dict.fromkeys(pages, clean_line(why)))
        self.version += 1

    def look_again(self) -> None:
        """Let what could not be read be wanted once more."""
        self.refused.clear()
        self.version += 1

    def why_missing(self, seq: int) -> str:
        """Return why a place that is not in memory could not be read; empty while it is being read."""
        return self.refused.get(self._page_of(seq), "")

    def take_page(self, messages: Iterable[Message]) -> None:
        """Keep fetched messages."""
        for message in messages:
            if self.first <= message.seq <= self.last and message.seq not in self._items:
                self._keep(read_item(message))
        self.version += 1

    def append(self, message: Message) -> bool:
        """Add a message at the end; False when it is known already, or when others before it are missing."""
        if message.seq != self.last + 1:
            return False
        self.last = message.seq
        self._keep(read_item(brief(message)))
        if message.role == "assistant":
            self.live = None
        elif message.role == "toolResult" and self.live is not None:
            self.live.tools.pop(message.tool_call_id or "", None)
        self.version += 1
        return True

    def apply_delta(self, delta: Delta) -> None:
        """Add words to the reply under way."""
        live = self._live_of(delta.run_id)
        if delta.block > len(live.blocks):
            return
        if delta.block == len(live.blocks):
            live.blocks.append(LiveBlock(delta.kind))
        live.blocks[delta.block].take(delta.offset, delta.text)
        self.version += 1

    def apply_tool(self, progress: ToolProgress, now_ms: int) -> None:
        """Show a tool at work."""
        live = self._live_of(progress.run_id)
        known = live.tools.get(progress.call_id)
        started = known.started_at if known else now_ms
        live.tools[progress.call_id] = LiveTool(clean_line(progress.name, 80), clean_line(progress.note), started)
        self.version += 1

    def take_run(self, run: Run) -> None:
        """Remember which messages a run of an exchange is made of; forget the reply under way of one that is over."""
        if not run.live and self.live is not None and self.live.run_id == run.run_id:
            self.live = None
            self.version += 1
        if run.exchange is None or run.session_id != self.session_id:
            return
        step = Step(run.exchange, run.kind, run.turn)
        for seq in (run.input_seq, run.reply_seq):
            if seq is not None and self.steps.get(seq) != step:
                self.steps[seq] = step
                self.changed.add(seq)
                end = self._ends.get(run.exchange, 0)
                self.changed.add(end)  # it may have been the last until now
                self._ends[run.exchange] = max(end, seq)
                self.version += 1
        while len(self.steps) > KEPT_STEPS:
            del self.steps[next(iter(self.steps))]

    def ends(self, seq: int) -> str | None:
        """Return the id of the exchange whose last message here stands at a place, None for any other place."""
        step = self.steps.get(seq)
        return step.exchange_id if step is not None and self._ends.get(step.exchange_id) == seq else None

    def touch(self, exchange: Exchange) -> None:
        """Note that something became of an exchange: what tells of it must be drawn again."""
        self.changed.update((self._ends.get(exchange.exchange_id, 0), self._results.get(exchange.target, 0)))
        self.version += 1

    def take_changed(self) -> Sequence[int]:
        """Return the places that came or changed since the last call."""
        changed = sorted(self.changed)
        self.changed.clear()
        return changed

    def toggle(self, seq: int) -> None:
        """Show a place in full, or folded again."""
        self.unfolded ^= {seq}
        self.changed.add(seq)
        self.version += 1

    def _live_of(self, run_id: str) -> LiveReply:
        if self.live is None or self.live.run_id != run_id:
            self.live = LiveReply(run_id)
        return self.live

    def _page_of(self, seq: int) -> int:
        return (seq - self.first) // PAGE

    def call_of(self, result_seq: int, call_id: str) -> tuple[Item, Part] | None:
        """Return the call that a result answers, if it is in memory."""
        for seq in range(result_seq - 1, max(self.first, result_seq - NEAR) - 1, -1):
            item = self._items.get(seq)
            for part in item.parts if item is not None else ():
                if part.kind == "call" and part.call_id == call_id:
                    return (item, part) if item is not None else None
        return None

    def answered(self, call_seq: int, call_id: str) -> bool:
        """Whether a call's result stands below it."""
        for seq in range(call_seq + 1, min(self.last, call_seq + NEAR) + 1):
            item = self._items.get(seq)
            if item is not None and any(part.kind == "result" and part.call_id == call_id for part in item.parts):
                return True
        return False

    def _keep(self, item: Item) -> None:
        self._items[item.seq] = item
        if item.is_result and item.source is not None:
            self._results[item.source] = item.seq
        self._weight += item.weight
        self.changed.add(item.seq)
        # Neighbours depend on it: calls and results on each other, the author's line on who spoke before.
        near = range(item.seq - 8, item.seq) if item.role == "toolResult" else range(item.seq + 1, item.seq + 9)
        self.changed.update(seq for seq in near if seq in self._items)
        while self._weight > CACHE_BYTES and len(self._items) > PAGE:
            _, dropped = self._items.popitem(last=False)
            self._weight -= dropped.weight
