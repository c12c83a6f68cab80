"""Pages of transcripts as JSON text, made in pieces while they are sent (G1, protocol#our-history)."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Final
from weakref import WeakValueDictionary

from starlette.types import Receive, Scope, Send

from core.gateway import Gateway
from core.model.access import ALL
from core.model.json_codec import encode
from core.model.messages import Message
from core.model.sessions import HistoryPage, Session
from core.server.guests import Budget, Guest
from core.server.openclaw.rows import RowEncoder

PIECE: Final = 64 * 1024
"""Bytes that are handed on at once; a client that reads slowly has no more of an answer waiting for it."""
_HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Made:
    """Bytes that were made for somebody, and are there for others as long as anybody has them."""

    __slots__ = ("__weakref__", "data", "upto")

    def __init__(self, data: bytes, upto: int = 0) -> None:
        self.data: Final = data
        self.upto: Final = upto


class Shared:
    """A page on its way to clients, however many they are: it is in memory once, and so is each part of its JSON.

    Args:
        budget: What it holds counts there as long as anybody is sent it.
    """

    def __init__(self, page: HistoryPage, rows: RowEncoder, budget: Budget) -> None:
        self.page: Final = page
        self._rows = rows
        self._budget = budget
        self._takers = set[Guest]()
        self._parts: WeakValueDictionary[int, Made] = WeakValueDictionary()

    @contextlib.contextmanager
    def taken(self, guest: Guest) -> Generator[None]:
        """Hold it for a client."""
        self._takers.add(guest)
        self._budget.hold(self, weight(self.page.messages))
        try:
            yield
        finally:
            self._takers.discard(guest)
            if not self._takers:
                self._budget.hold(self, 0)

    def drop(self) -> None:
        """End the connections of all who are sent it: too much is held."""
        for guest in list(self._takers):
            guest.drop()

    async def pieces(self, guest: Guest) -> AsyncIterator[bytes]:
        """Return the page as the history route answers it, for one client, in pieces; others are served in between.

        `messages` is `items` again, for older clients.
        """
        place, end = 0, max(1, 2 * len(self.page.messages))
        while place < end:
            part = self._parts.get(place) or self._made(place)
            self._parts[place] = part
            for start in range(0, len(part.data), PIECE):
                if guest.gone:
                    return
                guest.hold(min(len(part.data), 2 * PIECE))
                yield part.data[start : start + PIECE]
                await asyncio.sleep(0)
            place = part.upto
        guest.hold(0)

    def _made(self, place: int) -> Made:
        """Make the JSON from one message on, of as many as fit in a piece, and of one at least."""
        page, count = self.page, len(self.page.messages)
        made, end = bytearray(), 2 * count
        while True:
            if place == 0:
                made += f'{{"sessionKey":{encode(page.key)},"sessionId":{encode(page.session_id)},"items":['.encode()
            if place == count:
                made += b'],"messages":['
            if place < end:
                made += b"," if place % count else b""
                made += self._rows.message(page.messages[place % count]).encode(errors="replace")
            place += 1
            if place >= end:
                more = f'true,"nextCursor":"{page.before}"' if page.before is not None else "false"
                made += f'],"hasMore":{more}}}'.encode()
            if place >= end or len(made) >= PIECE:
                return Made(bytes(made), place)


class Pages:
    """The pages that are being sent: whoever asks for the same one meanwhile gets the same. So many as `making` allows
    are read at once; the others are served in between."""

    def __init__(self, gateway: Gateway, rows: RowEncoder, budget: Budget, making: asyncio.Semaphore) -> None:
        self._gateway = gateway
        self._rows = rows
        self._budget = budget
        self._making = making
        self._sent: WeakValueDictionary[tuple[object, ...], Shared] = WeakValueDictionary()

    async def get(
        self, session: Session, ref: str, *, limit: int, before: int | None = None, include_tools: bool
    ) -> Shared:
        """Return a page of a session, as the port's `history` does.

        Args:
            session: As it is now; with another `rev` the page may be another one.
            ref: Its key, or the id of one of its transcripts.
        """
        asked = (session.session_id, session.rev, ref, limit, before, include_tools)
        async with self._making:
            if (found := self._sent.get(asked)) is None:
                page = await self._gateway.history(ref, ALL, limit=limit, before=before, include_tools=include_tools)
                if (found := self._sent.get(asked)) is None:  # else another one read it meanwhile
                    self._sent[asked] = found = Shared(page, self._rows, self._budget)
            return found


async def send_page(shared: Shared, guest: Guest, _scope: Scope, _receive: Receive, send: Send) -> None:
    """Send a page as the answer of the history route; with the first two arguments an ASGI application."""
    with shared.taken(guest):
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async for piece in shared.pieces(guest):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def weight(messages: Iterable[Message]) -> int:
    """Return about how many bytes messages hold in memory."""
    blocks = (block for message in messages for block in message.content)
    return sum(sys.getsizeof(value) for block in blocks for value in block.values() if isinstance(value, str))
