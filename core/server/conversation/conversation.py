"""The course of one client's conversation over any transport: handshake, requests, end (protocol#ours).

The reader takes frames one after the other, and none while the client leaves much of what it was sent unread.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from core.model.errors import Invalid, Unavailable
from core.model.ids import new_id
from core.server.context import ServerContext
from core.server.conversation.client import Client
from core.server.conversation.handshake import HandshakeRefused, admit
from core.server.conversation.hello import LOCAL_TICK_SECONDS, TICK_SECONDS, hello
from core.server.conversation.requests import UNKNOWN_ID, Requests
from core.server.conversation.sender import FrameSender
from core.server.status import health, state_version
from core.tasks import Tasks
from core.wire.errors import to_wire
from core.wire.frames import (
    CLOSE_NORMAL,
    CLOSE_REFUSED,
    CLOSE_RESTART,
    CLOSE_TOO_LARGE,
    CLOSE_TRY_LATER,
    NATIVE,
    BadFrame,
    Request,
    event,
    parse,
    refused,
    response,
)
from core.wire.transport import FrameTooLong, Transport

HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKE_BYTES: Final = 64 * 1024
HEALTH_TICKS: Final = 2
_log = logging.getLogger("switchboard.server")


class Conversation:
    """One client, from its first byte to its end.

    Args:
        may_pair: It comes from this machine or over TLS, so that a device may be given a token.
        on_admitted: Is called when the client has shown who it is; raises `Unavailable` when there are too many.
    """

    def __init__(
        self,
        context: ServerContext,
        transport: Transport,
        *,
        may_pair: bool = True,
        on_admitted: Callable[[], None] | None = None,
    ) -> None:
        self._context = context
        self._transport = transport
        self._may_pair = may_pair
        self._tick_seconds = LOCAL_TICK_SECONDS if transport.trusted else TICK_SECONDS
        self._on_admitted = on_admitted
        self._client: Client | None = None
        self._out = FrameSender(context, transport, self._let_go)
        self._tasks = Tasks(self._failed)
        self._end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()

    async def run(self) -> None:
        """Carry the conversation through to its end; never raises but when it is cancelled."""
        self._context.metrics.add("conversations")
        self._context.farewells.add(self.say_farewell)
        reading = self._tasks.spawn(self._converse())
        try:
            await asyncio.wait((reading, self._end), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._context.farewells.discard(self.say_farewell)
            self._context.metrics.add("conversations", -1)
            if self._client is not None:
                self._context.clients.remove(self._client)
            await self._stop()
            self._closed.set()

    def end(self, code: int, reason: str) -> None:
        """End the conversation; the first reason counts."""
        if not self._end.done():
            self._end.set_result((code, reason))

    async def say_farewell(self, reason: str) -> None:
        """Tell the client that the gateway goes away, and end; return when the connection is closed."""
        if self._client is not None:
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._out.event("shutdown", {"reason": reason})
        self.end(CLOSE_RESTART, "service restart")
        await self._closed.wait()  # else the listener closes the connection first, without the reason

    async def _converse(self) -> None:
        try:
            if (client := await self._shake_hands()) is not None:
                requests = Requests(client, self._tasks)
                await self._out.drained()
                while (text := await self._transport.receive()) is not None:
                    await requests.take(text)
                    await self._out.drained()
        except FrameTooLong:
            self.end(CLOSE_TOO_LARGE, "frame too large")
        except Unavailable:  # the connection has ended
            self.end(CLOSE_NORMAL, "")

    # The handshake

    async def _shake_hands(self) -> Client | None:
        """Return the client when it is let in; None when it is not, which it has been told then."""
        nonce = new_id()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS) as deadline:
                challenge = {"nonce": nonce, "ts": self._context.gateway.now_ms()}
                await self._out.frame(event("connect.challenge", challenge))
                text = await self._transport.receive()
                if text is not None and len(text) > HANDSHAKE_BYTES:
                    raise FrameTooLong(f"the first frame is longer than {HANDSHAKE_BYTES} bytes")
                welcome = await self._introduce(text, nonce) if text is not None else None
                deadline.reschedule(None)
        except TimeoutError:
            self.end(CLOSE_REFUSED, "handshake timeout")
            return None
        if welcome is None:
            return None
        await self._out.frame(welcome)
        client = self._client
        assert client is not None, "it was welcomed"
        if NATIVE not in client.caps:  # those that have it hear the port's own events instead
            client.begin_events()
        self._tasks.spawn(self._tick(client))
        return client

    async def _introduce(self, text: str, nonce: str) -> str | None:
        """Return what the client is told when it is let in; None when it is not, which it has been told then."""
        frame_id: str | None = None
        try:
            frame = parse(text)
            if frame is None:
                self.end(CLOSE_NORMAL, "")
                return None
            frame_id = frame.id if isinstance(frame, Request) else None
            if not isinstance(frame, Request) or frame.method != "connect":
                words = Invalid("invalid handshake: first request must be connect")
                await self._refuse(frame_id, to_wire(words), CLOSE_REFUSED)
                return None
            admitted = await admit(self._context, self._transport, frame.params, nonce=nonce, may_pair=self._may_pair)
            if self._on_admitted is not None:
                self._on_admitted()
        except HandshakeRefused as error:
            await self._refuse(frame_id, error.error, error.code)
        except BadFrame as error:
            await self._refuse(error.frame_id, to_wire(error), CLOSE_REFUSED)
        except Unavailable as error:
            await self._refuse(frame_id, to_wire(error), CLOSE_TRY_LATER)
        else:
            self._client = Client(new_id(), self._context, admitted, self._out, self._tasks, self.end)
            self._context.clients.add(self._client)
            return response(frame.id, await hello(self._client, self._tick_seconds))
        return None

    async def _refuse(self, frame_id: str | None, error: Mapping[str, Any], code: int) -> None:
        await self._out.frame(refused(frame_id or UNKNOWN_ID, error))
        self.end(code, str(error.get("message", ""))[:120])

    # Signs of life

    async def _tick(self, client: Client) -> None:
        context = self._context
        ticks, health_ticks = 0, HEALTH_TICKS * round(TICK_SECONDS / self._tick_seconds)
        while True:
            await asyncio.sleep(self._tick_seconds)
            ticks += 1
            await self._out.event("tick", {"ts": context.gateway.now_ms()})
            if ticks % health_ticks == 0 and client.events is not None:
                await self._out.event("health", await health(context), state_version=state_version(context))

    # The end

    def _let_go(self) -> None:
        if not self._end.done():
            self._context.metrics.add("conversations_dropped")
            events = self._client.events if self._client is not None else None
            told = f": told up to {events.wanted.feed.cursor}" if events is not None else ""
            self.end(CLOSE_REFUSED, f"slow consumer{told}")

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, Unavailable):
            _log.error("a conversation with %s failed", self._transport.peer, exc_info=error)
            self._context.metrics.add("errors")
        self.end(CLOSE_NORMAL, "")

    async def _stop(self) -> None:
        try:
            await self._tasks.stop()
        finally:  # also when it is cancelled meanwhile
            if self._client is not None and self._client.events is not None:
                self._client.events.wanted.feed.close()
            code, reason = self._end.result() if self._end.done() else (CLOSE_NORMAL, "")
            await self._transport.close(code, reason)
