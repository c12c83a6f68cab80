"""A session as server-sent events: its newest messages, then every one that is appended, once and in order (G3).

Each event names its place, `<session id>:<seq>`; a client that comes back with the last one it saw goes on from there.
What is told live comes from a feed that was opened before anything was read, so nothing falls between the two, and the
place tells what was sent already. Who does not read is not waited for: the connection ends, and the place is known.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from core.gateway import Feed
from core.model.access import ALL
from core.model.errors import NotFound, SwitchboardError
from core.model.events import Event, Gap, MessageAppended, Reloaded, SessionChanged, SessionGone
from core.model.messages import Message
from core.model.sessions import HistoryPage, Session
from core.server.answers import dumps
from core.server.context import ServerContext
from core.server.pages import page_json
from core.server.rows import message_text

RETRY: Final = b"retry: 1000\n"
"""Milliseconds until a client that lost the stream comes back; part of the first event it ever gets."""
KEEPALIVE: Final = b": keepalive\n\n"
_STEP: Final = 200
"""Messages that are read at once when some were missed."""
_KEPT_EVENTS: Final = 64
_LONGEST_KEPT: Final = 65_536
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
Put = Callable[[bytes], Awaitable[None]]


class Encoder:
    """Makes the events of messages, each once for all followers of its session."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], bytes] = {}

    def message(self, key: str, session_id: str, message: Message) -> bytes:
        """Return the event of a message."""
        place = (session_id, message.seq)
        made = self._made.get(place)
        if made is None:
            fields = f'"messageId":{dumps(message.id)},"messageSeq":{message.seq}'
            names = f'"sessionKey":{dumps(key)},"sessionId":{dumps(session_id)}'
            made = _event("message", session_id, message.seq, f'{{{names},"message":{message_text(message)},{fields}}}')
            if len(made) <= _LONGEST_KEPT:
                self._made[place] = made
            if len(self._made) > _KEPT_EVENTS:
                del self._made[next(iter(self._made))]
        return made


class Follow:
    """The stream of one client; an ASGI application, once it has begun.

    Args:
        encoder: Shared by all followers.
        ref: Canonical key or session id.
        limit: Messages of the first event.
        include_tools: Tell the results of tools too.
    """

    def __init__(self, context: ServerContext, encoder: Encoder, ref: str, *, limit: int, include_tools: bool) -> None:
        self._context = context
        self._encoder = encoder
        self._ref = ref
        self._limit = limit
        self._include_tools = include_tools
        self._key = ""
        self._session_id = ""
        self._seq = 0
        self._rev = 0
        self._opening: bytes | None = None
        self._feed: Feed | None = None

    async def begin(self, last_event_id: str | None) -> None:
        """Find the session and the place to begin at.

        Args:
            last_event_id: The place that the client saw last, None at its first time; one that is not of this session
                counts for nothing.

        Raises:
            NotFound: There is no such session.
        """
        session = await self._context.gateway.get_session(self._ref, ALL)
        self._key = session.key
        self._feed = self._context.gateway.subscribe()
        self._feed.watch(self._key)
        try:
            if not await self._resume(last_event_id):
                self._opening = await self._first_event()
        except BaseException:
            self._feed.close()
            raise

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until the client leaves, the session is deleted or the server closes."""
        assert self._feed is not None, "it has begun"
        feed, context = self._feed, self._context

        async def farewell(_reason: str) -> None:
            feed.close()

        async def put(chunk: bytes) -> None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

        context.metrics.add("followers")
        context.farewells.add(farewell)
        helpers = [asyncio.ensure_future(_until_gone(receive, feed)), asyncio.ensure_future(self._keep_alive(put))]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if self._opening is not None:
                await put(RETRY + self._opening)
            await self._tell(feed, put)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            context.metrics.add("followers", -1)
            context.farewells.discard(farewell)
            feed.close()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    # Inside: where the client stands

    async def _resume(self, last_event_id: str | None) -> bool:
        """Take up the place a client saw last; whether it is one of this session."""
        session_id, _, seq = (last_event_id or "").rpartition(":")
        if not session_id or not (seq.isascii() and seq.isdigit() and len(seq) <= 15):
            return False
        with contextlib.suppress(NotFound):
            page = await self._page(session_id, limit=1)
            session = await self._session()
            if page.key == self._key and int(seq) <= session.last_seq:
                self._session_id, self._seq = page.session_id, int(seq)
                return True
        return False

    async def _first_event(self) -> bytes:
        """Return the event of the newest messages, and stand behind them."""
        while True:
            session = await self._session()
            page = await self._page(self._ref, limit=self._limit)
            if page.session_id == session.session_id:  # else it was reset between the two
                self._seq = max(session.last_seq, page.messages[-1].seq if page.messages else 0)
                self._rev = session.rev
                break
            if page.session_id == self._ref:  # a transcript that a reset has ended
                self._seq = page.messages[-1].seq if page.messages else 0
                break
        self._session_id = page.session_id
        return _event("history", self._session_id, self._seq, page_json(page, self._context.rows))

    async def _session(self) -> Session:
        return await self._context.gateway.get_session(self._key, ALL)

    async def _page(self, ref: str, *, limit: int, before: int | None = None) -> HistoryPage:
        return await self._context.gateway.history(
            ref, ALL, limit=limit, before=before, include_tools=self._include_tools
        )

    # Inside: what the client is told

    async def _tell(self, feed: Feed, put: Put) -> None:
        """Tell everything after the opening, until the feed or the session ends."""
        try:
            await self._catch_up(put)
            async for event in feed:
                if isinstance(event, SessionGone) and event.key == self._key:
                    await put(self._deleted())
                    return
                if isinstance(event, Gap | Reloaded):
                    await self._catch_up(put)
                elif chunk := self._told(event):
                    await put(chunk)
        except NotFound:
            await put(self._deleted())
        except SwitchboardError:
            return  # it cannot be read now: the client comes back with its place

    def _told(self, event: Event) -> bytes:
        """Return what an event of the feed means to this client; empty when it means nothing."""
        chunk = b""
        if isinstance(event, MessageAppended):
            if event.key == self._key and event.message.seq > self._seq:
                if event.session_id != self._session_id:
                    chunk = self._reset(event.session_id, event.message.seq - 1)
                chunk += self._message(event.message)
        elif isinstance(event, SessionChanged) and event.session.key == self._key and event.rev > self._rev:
            self._rev = event.rev
            if event.session.session_id != self._session_id:
                chunk = self._reset(event.session.session_id, event.session.first_seq - 1)
        return chunk

    async def _catch_up(self, put: Put) -> None:
        """Tell what was appended behind the place; of a transcript that has ended, its rest first."""
        session = await self._session()
        self._rev = max(self._rev, session.rev)
        if session.session_id != self._session_id:
            await self._tell_missed(self._session_id, session.first_seq - 1, put)
            await put(self._reset(session.session_id, session.first_seq - 1))
        await self._tell_missed(self._key, session.last_seq, put)

    async def _tell_missed(self, ref: str, last_seq: int, put: Put) -> None:
        """Tell the messages behind the place, up to a `seq`, a few at a time however many they are."""
        while self._seq < last_seq:
            below = self._seq + 1 + _STEP
            page = await self._page(ref, limit=_STEP, before=below)
            for message in page.messages:
                if self._seq < message.seq <= last_seq and (chunk := self._message(message)):
                    await put(chunk)
            self._seq = min(last_seq, below - 1)

    def _message(self, message: Message) -> bytes:
        """Return the event of a message, which is the place then; empty for what is not asked for."""
        self._seq = message.seq
        if message.role == "toolResult" and not self._include_tools:
            return b""
        return self._encoder.message(self._key, self._session_id, message)

    def _reset(self, session_id: str, seq: int) -> bytes:
        names = f'"sessionKey":{dumps(self._key)},"previousSessionId":{dumps(self._session_id)}'
        self._session_id, self._seq = session_id, seq
        return _event("reset", session_id, seq, f'{{{names},"sessionId":{dumps(session_id)}}}')

    def _deleted(self) -> bytes:
        data = f'{{"sessionKey":{dumps(self._key)},"sessionId":{dumps(self._session_id)}}}'
        return _event("deleted", self._session_id, self._seq, data)

    async def _keep_alive(self, put: Put) -> None:
        while True:
            await asyncio.sleep(self._context.limits.keepalive)
            await put(KEEPALIVE)


async def _until_gone(receive: Receive, feed: Feed) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the body of a request that has none
    feed.close()


def _event(name: str, session_id: str, seq: int, data: str) -> bytes:
    """Return one event; JSON has no line breaks of its own."""
    return f"event: {name}\nid: {session_id}:{seq}\ndata: {data}\n\n".encode(errors="replace")
