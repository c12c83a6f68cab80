"""Transcripts of an OpenClaw gateway, followed: what is told live is a hint, what the history says counts.

Live events leave tool results out, come twice on older gateways and carry what gateways wrap around words. So a hint
makes the end of the history be read again, and what is new there is told, in order and once. Places are the gateway's
own, which are dense; what it hides keeps its place. When a transcript begins anew, its places go on after the last.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.model.errors import SwitchboardError
from core.model.events import MessageAppended
from core.model.json_codec import mapping
from core.model.messages import Message
from core.remote.openclaw.features import Features
from core.remote.openclaw.feed import OpenClawHub
from core.remote.openclaw.rows import hidden, place_of, read_message, text, whole
from core.tasks import Tasks

TAIL: Final = 30
"""Messages of the end that are read at a hint."""
KNOWN: Final = 100
"""Messages of the end by which a transcript is known again."""
KEPT: Final = 500
MAX_CHARS: Final = 500_000
"""Characters of one text that are asked for; gateways cut longer ones."""
HISTORY: Final = "chat.history"
HISTORY_LIMIT: Final = 1000
"""Messages that one request gives at most."""
_SLACK: Final = 20
"""Messages that may have come since the end of a history was last read."""
_log: Final = logging.getLogger("switchboard.remote")


@dataclass(slots=True)
class TranscriptCache:
    """What is known of one transcript.

    Attributes:
        wire_id: The gateway's id of it; `session_id` is ours, another one each time it begins anew.
        base: Added to the gateway's places.
        last: The gateway's place of the newest message, 0 for none.
        first: The gateway's place of the first one that can be read.
        ids: Of the newest messages, by the gateway's place.
    """

    key: str
    wire_id: str
    session_id: str
    base: int = 0
    last: int = 0
    first: int = 1
    ids: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def first_seq(self) -> int:
        """Our place of its first message."""
        return self.base + self.first

    @property
    def last_seq(self) -> int:
        """Our place of its newest message."""
        return self.base + self.last


@dataclass(frozen=True, slots=True)
class _Page:
    """Part of a history, by the gateway's places.

    Attributes:
        offset: Where the part before it begins, counted from the end; None when there is none or it cannot be read.
    """

    session_id: str
    rows: dict[int, Mapping[str, Any]]
    offset: int | None


@dataclass(slots=True)
class Follower:
    """All transcripts that somebody looks at.

    Args:
        moved: Told when a transcript grew or began anew, after its messages.
        committed: Told of a reply that stands in a transcript: key and words.
    """

    _features: Features
    _hub: OpenClawHub
    _moved: Callable[[TranscriptCache], None]
    _committed: Callable[[str, str], None]
    _transcripts: OrderedDict[str, TranscriptCache] = field(
        init=False, default_factory=OrderedDict[str, TranscriptCache]
    )
    _locks: dict[str, asyncio.Lock] = field(init=False, default_factory=dict[str, asyncio.Lock])
    _hinted: set[str] = field(init=False, default_factory=set[str])
    _tasks: Tasks = field(init=False, default_factory=lambda: Tasks(_failed))

    def get(self, key: str) -> TranscriptCache | None:
        """Return what is known of a session's transcript."""
        return self._transcripts.get(key)

    def hint(self, key: str, place: int | None = None) -> None:
        """Note that something may have been appended; where nothing was read yet, from that place on."""
        if key not in self._transcripts and place is not None:
            self._transcripts[key] = TranscriptCache(key, "", "", last=max(place - 1, 0))
        if key not in self._hinted:
            self._hinted.add(key)
            self._tasks.spawn(self._follow(key))

    def forget(self, key: str) -> None:
        """Forget a session that is gone."""
        self._transcripts.pop(key, None)
        self._locks.pop(key, None)

    async def close(self) -> None:
        """Give up what is being read."""
        await self._tasks.stop()

    async def sync(self, key: str) -> TranscriptCache:
        """Read the end of a session's history, and tell of what is new."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            self._hinted.discard(key)  # what is hinted from now on may be newer than what is read
            page = await self._fetch(key, TAIL, 0)
            return await self._take(key, page)

    async def read(self, cached: TranscriptCache, low: int, high: int) -> list[Message]:
        """Return messages by our places, both ends included, without holes."""
        low, high = max(low, cached.first_seq), min(high, cached.last_seq)
        if low > high:
            return []
        rows = await self._range(cached.key, low - cached.base, high - cached.base, cached.last)
        return self._messages(cached, rows, low - cached.base, high - cached.base)

    async def _follow(self, key: str) -> None:
        try:
            while key in self._hinted:
                await self.sync(key)
        except SwitchboardError:
            self._hinted.discard(key)  # the connection is gone, or the session: what comes next reads it again

    async def _take(self, key: str, page: _Page) -> TranscriptCache:
        cached = self._transcripts.get(key)
        newest = max(page.rows, default=0)
        if cached is None or not cached.wire_id:
            cached = self._opened(key, page, cached)
            if cached.last == newest:
                return cached
        elif _is_another(cached, page):
            count = int(cached.session_id.partition("~")[2] or 1) + 1
            name = page.session_id if page.session_id != cached.wire_id else f"{page.session_id}~{count}"
            cached = TranscriptCache(key, page.session_id, name, base=cached.base + cached.last)
            if min(page.rows, default=1) > 1:  # too long to tell message by message
                cached.last, cached.first = newest, self._reachable(newest)
            self._transcripts[key] = cached
            self._moved(cached)
        if newest > cached.last:
            await self._tell(cached, page, newest)
        _remember(cached, page)
        return cached

    def _opened(self, key: str, page: _Page, early: TranscriptCache | None) -> TranscriptCache:
        newest = max(page.rows, default=0)
        last = min(early.last, newest) if early is not None else newest
        cached = TranscriptCache(key, page.session_id, page.session_id, last=last, first=self._reachable(newest))
        self._transcripts[key] = cached
        self._transcripts.move_to_end(key)
        _remember(cached, page)
        if len(self._transcripts) > KEPT:
            oldest = next((name for name in self._transcripts if not self._hub.wants(name)), None)
            if oldest is not None:
                self.forget(oldest)
        self._moved(cached)
        return cached

    async def _tell(self, cached: TranscriptCache, page: _Page, newest: int) -> None:
        """Tell of the messages after the last one that was told."""
        start = cached.last + 1
        rows = dict(page.rows)
        if min(rows) > start:
            rows |= await self._range(cached.key, start, min(rows) - 1, newest)
        for message in self._messages(cached, rows, start, newest):
            cached.last = message.seq - cached.base
            self._hub.tell(MessageAppended(self._hub.next(), cached.key, cached.session_id, message))
            if message.role == "assistant":
                self._committed(cached.key, message.text)
        self._moved(cached)

    def _messages(
        self, cached: TranscriptCache, rows: Mapping[int, Mapping[str, Any]], low: int, high: int
    ) -> list[Message]:
        return [
            read_message(rows[place], cached.base, place) if place in rows else hidden(cached.base + place)
            for place in range(low, high + 1)
        ]

    async def _range(self, key: str, low: int, high: int, end: int) -> dict[int, Mapping[str, Any]]:
        """Read messages of a transcript that ends at `end`, by the gateway's places; some may be missing."""
        found: dict[int, Mapping[str, Any]] = {}
        offset = max(end - high, 0)
        while True:
            page = await self._fetch(key, min(high - low + 1, HISTORY_LIMIT), offset)
            found |= {place: row for place, row in page.rows.items() if low <= place <= high}
            if min(page.rows, default=0) <= low or page.offset is None or page.offset <= offset:
                return found
            offset = page.offset

    def _reachable(self, last: int) -> int:
        """Return the first place of a transcript that can be read when it ends at `last`."""
        return 1 if self._features.takes(HISTORY, "offset") else max(1, last - HISTORY_LIMIT + 1)

    async def _fetch(self, key: str, limit: int, offset: int) -> _Page:
        """Read `limit` messages, those after the newest `offset`."""

        def params() -> dict[str, Any]:
            if self._features.takes(HISTORY, "offset"):
                part = {"limit": limit, "offset": offset}
            else:  # without pages it gives its newest ones, so that those before must be read with them
                part = {"limit": min(limit + offset + _SLACK, HISTORY_LIMIT)}
            return {"sessionKey": key, **part} | self._features.pick(HISTORY, maxChars=MAX_CHARS)

        answer = await self._features.ask(HISTORY, params, again=True)
        messages: Sequence[object] = answer["messages"] if isinstance(answer.get("messages"), list) else ()
        rows = [mapping(message) for message in messages]
        total = whole(answer, "totalMessages")
        first = 1 if total is None else max(total - offset - len(rows), 0) + 1
        places = {place_of(row) or first + n: row for n, row in enumerate(rows) if row}
        more = whole(answer, "nextOffset") if answer.get("hasMore") is True else None
        return _Page(text(answer, "sessionId") or "", places, more)


def _is_another(cached: TranscriptCache, page: _Page) -> bool:
    """Whether a transcript is no longer the one that was known: reset, or made shorter."""
    if page.session_id != cached.wire_id:
        return bool(page.session_id) and bool(cached.wire_id)
    known = {place: name for place, name in cached.ids.items() if place in page.rows}
    if any(name != _id(page.rows[place]) for place, name in known.items()):
        return True
    return not known and bool(cached.ids) and max(page.rows, default=0) <= cached.last


def _remember(cached: TranscriptCache, page: _Page) -> None:
    cached.ids |= {place: _id(row) for place, row in page.rows.items() if place <= cached.last}
    for place in sorted(cached.ids)[:-KNOWN]:
        del cached.ids[place]


def _id(row: Mapping[str, Any]) -> str:
    return text(mapping(row.get("__openclaw")), "id") or text(row, "id") or ""


def _failed(error: BaseException) -> None:
    _log.error("a transcript was not read on", exc_info=error)
