"""A session as server-sent events: its newest messages, then every one that is appended, once and in order (G3).

Each event names its place, `<session id>:<seq>`; a client that comes back with the last one it saw goes on from there.
What is told live comes from a feed that was opened before anything was read, so nothing falls between the two, and the
place tells what was sent already. Who does not read is not waited for: the connection ends, and the place is known.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from starlette.types import Receive, Scope, Send

from core.gateway import Feed
from core.model.access import ALL
from core.model.errors import NotFound, SwitchboardError
from core.model.events import Event, Gap, MessageAppended, Reloaded, SessionChanged, SessionGone
from core.model.json_codec import encode
from core.model.keys import quoted
from core.model.messages import Message
from core.model.paging import forwards
from core.model.sessions import HistoryPage, Session
from core.server.context import ServerContext
from core.server.guests import Guest
from core.server.http.pages import PIECE, Made, Shared
from core.server.openclaw.rows import message_text
from core.tasks import Tasks

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
_log = logging.getLogger("switchboard.server")
Put = Callable[[bytes], Awaitable[None]]


class Encoder:
    """Makes the events of messages, each once for all followers of its session."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[tuple[str, int], Made] = WeakValueDictionary()
        self._kept: deque[Made] = deque(maxlen=_KEPT_EVENTS)

    def message(self, key: str, session_id: str, message: Message) -> Made:
        """Return the event of a message; a long one is there for others as long as somebody is sent it."""
        place = (session_id, message.seq)
        made = self._made.get(place)
        if made is None:
            fields = f'"messageId":{encode(message.id)},"messageSeq":{message.seq}'
            names = f'"sessionKey":{encode(key)},"sessionId":{encode(session_id)}'
            text = f'{{{names},"message":{message_text(message)},{fields}}}'
            self._made[place] = made = Made(_event("message", session_id, message.seq, text))
            if len(made.data) <= _LONGEST_KEPT:
                self._kept.append(made)
        return made


@dataclass(eq=False, slots=True)
class Follow:
    """The stream of one client; an ASGI application, once it has begun.

    Attributes:
        encoder: Shared by all followers.
        ref: Canonical key or session id.
        limit: Messages of the first event.
        include_tools: Tell the results of tools too.
        guest: The connection; what waits for it is counted.
    """

    context: ServerContext
    encoder: Encoder
    ref: str
    limit: int
    include_tools: bool
    guest: Guest
    _key: str = ""
    _session_id: str = ""
    _seq: int = 0
    _rev: int = 0
    _opening: Shared | None = None
    _made: Made | None = None
    _feed: Feed | None = None

    async def begin(self, last_event_id: str | None) -> None:
        """Find the session and the place to begin at.

        Args:
            last_event_id: The place that the client saw last, None at its first time; one that is not of this session
                counts for nothing.

        Raises `NotFound` when there is no such session.
        """
        self._key = (await self.context.gateway.get_session(self.ref, ALL)).key
        self._feed = self.context.gateway.subscribe()
        self._feed.watch(self._key)
        with contextlib.ExitStack() as unless_begun:
            unless_begun.callback(self._feed.close)
            if not await self._resume(last_event_id):
                self._opening = await self._first_page()
            unless_begun.pop_all()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until the client leaves, the session is deleted or the server closes."""
        assert self._feed is not None, "it has begun"
        feed, context = self._feed, self.context

        async def farewell(_reason: str) -> None:
            feed.close()

        sending = asyncio.Lock()

        async def put(chunk: bytes) -> None:
            async with sending:  # nothing comes between the parts of an event
                self.guest.hold(len(chunk))
                for start in range(0, len(chunk), PIECE):
                    await send({"type": "http.response.body", "body": chunk[start : start + PIECE], "more_body": True})
                self.guest.hold(0)

        context.metrics.add("followers")
        context.farewells.add(farewell)
        helpers = Tasks(lambda error: _log.error("the stream of %s failed", quoted(self._key), exc_info=error))
        helpers.spawn(_until_gone(receive, feed))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if (opening := self._opening) is not None:
                self._opening = None
                await self._open(opening, put)
                del opening
            helpers.spawn(self._keep_alive(put))
            await self._tell(feed, put)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            context.metrics.add("followers", -1)
            context.farewells.discard(farewell)
            feed.close()
            await helpers.stop()

    # Inside: where the client stands

    async def _resume(self, last_event_id: str | None) -> bool:
        """Take up the place a client saw last; whether it is one of this session."""
        session_id, _, seq = (last_event_id or "").rpartition(":")
        if not session_id or not (seq.isascii() and seq.isdigit() and len(seq) <= 15):
            return False
        with contextlib.suppress(NotFound):
            session = await self._session()
            page = (await self._page(session, session_id, limit=1)).page
            if page.key == self._key and int(seq) <= session.last_seq:
                self._session_id, self._seq = page.session_id, int(seq)
                return True
        return False

    async def _first_page(self) -> Shared:
        """Return the newest messages, and stand behind them."""
        while True:
            session = await self._session()
            shared = await self._page(session, self.ref, limit=self.limit)
            page = shared.page
            if page.session_id == session.session_id:  # else it was reset between the two
                self._seq = max(session.last_seq, page.messages[-1].seq if page.messages else 0)
                self._rev = session.rev
                break
            if page.session_id == self.ref:  # a transcript that a reset has ended
                self._seq = page.messages[-1].seq if page.messages else 0
                break
        self._session_id = page.session_id
        return shared

    async def _open(self, shared: Shared, put: Put) -> None:
        """Tell the newest messages, in one event that is made while it is sent."""
        await put(RETRY + f"event: history\nid: {self._session_id}:{self._seq}\ndata: ".encode())
        with shared.taken(self.guest):
            async for piece in shared.pieces(self.guest):
                await put(piece)
        await put(b"\n\n")

    async def _session(self) -> Session:
        return await self.context.gateway.get_session(self._key, ALL)

    async def _page(self, session: Session, ref: str, *, limit: int, before: int | None = None) -> Shared:
        return await self.context.pages.get(session, ref, limit=limit, before=before, include_tools=self.include_tools)

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
            await self._tell_missed(session, self._session_id, session.first_seq - 1, put)
            await put(self._reset(session.session_id, session.first_seq - 1))
        await self._tell_missed(session, self._key, session.last_seq, put)

    async def _tell_missed(self, session: Session, ref: str, last_seq: int, put: Put) -> None:
        """Tell the messages behind the place, up to a `seq`, a few at a time however many they are."""
        with contextlib.ExitStack() as held:

            async def read(limit: int, before: int) -> HistoryPage:
                held.close()
                shared = await self._page(session, ref, limit=limit, before=before)
                held.enter_context(shared.taken(self.guest))
                return shared.page

            async for messages, upto in forwards(read, self._seq, last_seq, _STEP):
                if self.guest.gone:
                    return
                for message in messages:
                    if self._seq < message.seq and (chunk := self._message(message)):
                        await put(chunk)
                self._seq = max(self._seq, upto)
                del messages  # they are not held while the next ones are waited for

    def _message(self, message: Message) -> bytes:
        """Return the event of a message, which is the place then; empty for what is not asked for."""
        self._seq = message.seq
        if message.role == "toolResult" and not self.include_tools:
            return b""
        self._made = self.encoder.message(self._key, self._session_id, message)  # kept for others meanwhile
        return self._made.data

    def _reset(self, session_id: str, seq: int) -> bytes:
        names = f'"sessionKey":{encode(self._key)},"previousSessionId":{encode(self._session_id)}'
        self._session_id, self._seq = session_id, seq
        return _event("reset", session_id, seq, f'{{{names},"sessionId":{encode(session_id)}}}')

    def _deleted(self) -> bytes:
        data = f'{{"sessionKey":{encode(self._key)},"sessionId":{encode(self._session_id)}}}'
        return _event("deleted", self._session_id, self._seq, data)

    async def _keep_alive(self, put: Put) -> None:
        while True:
            await asyncio.sleep(self.context.limits.keepalive)
            await put(KEEPALIVE)


async def _until_gone(receive: Receive, feed: Feed) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the body of a request that has none
    feed.close()


def _event(name: str, session_id: str, seq: int, data: str) -> bytes:
    """Return one event; JSON has no line breaks of its own."""
    return f"event: {name}\nid: {session_id}:{seq}\ndata: {data}\n\n".encode(errors="replace")
