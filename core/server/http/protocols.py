"""HTTP and WebSocket for clients that may be slow, stuck or hostile; uvicorn's, with limits on what each may cost."""

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame
from websockets.streams import StreamReader

from core.server.auth import network_of
from core.server.guests import GUEST, Guest, Guests

if TYPE_CHECKING:
    from asyncio.transports import BaseTransport

    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

STALLED_SECONDS: Final = 30.0
"""A client that takes nothing for so long is let go; it comes back with its place."""
IDLE_SECONDS: Final = 10.0
"""How long a connection may stay with half a request, or none."""
HANDSHAKE_BYTES: Final = 64 * 1024
"""Of one message, before a token was shown."""
MAX_FRAGMENTS: Final = 4096
"""Of one message."""
FRAMES: Final = 64
"""Of one connection, read at once; then the others have their turn."""
BREATH_SECONDS: Final = 0.01
"""Until it has its next one, and so its pings are answered at a bounded rate."""
GUEST_BREATH_SECONDS: Final = 0.1
DEADLINE_SECONDS: Final = 12.0
"""A ServerWebSocket that has shown no token by then ends, whatever holds it up."""
_INVALID: Final = b'{"error":{"type":"invalid_request","message":"this is no HTTP request that the gateway can read"}}'


class _Unstuck(asyncio.Protocol):
    """The part of a protocol that drops a client which no longer reads."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stalled: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._stalled)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._stalled)
        super().resume_writing()


class Http(_Unstuck, H11Protocol):
    """HTTP for clients that may be slow, stuck or silent on purpose."""

    guest: Guest
    _watch: asyncio.TimerHandle | None = None

    def __init__(self, guests: Guests, config: Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, {})
        self._guests = guests

    def connection_made(self, transport: "BaseTransport") -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)  # pyright: ignore[reportArgumentType] - uvicorn narrows it
        self.guest = self._guests.enter(network_of(self.client[0] if self.client else ""), self.transport)
        self.app_state[GUEST] = self.guest
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._watch)
        self.guest.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came; whole requests are answered."""
        super().data_received(data)
        if not self._at_work():
            self.guest.hold(len(self.conn.trailing_data[0]))

    def eof_received(self) -> None:
        """Answer no more: whoever hangs up with an answer under way would be written to in vain, again and again."""
        if self._at_work():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()  # whoever waits to write sees that then

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Give the connection on; it stays the guest that it was."""
        _cancel(self._watch)
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says it as all other errors do
        """Answer what is no HTTP, and end the connection."""
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=_INVALID),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _at_work(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _await_request(self) -> None:
        _cancel(self._watch)
        self._watch = self.loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """End a connection on which no request has come in time; one that is answered is looked at when it is done."""
        if not self._at_work():
            self.transport.abort()


class ServerWebSocket(_Unstuck, WebSocketsSansIOProtocol):
    """WebSocket for clients that may be stuck, or send what costs more to read than to write.

    So many frames are read at once, and no more while a message waits or the client takes nothing: what it sends stays
    in its own machine then.
    """

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.guest = cast("Guest", app_state[GUEST])
        self.guest.on_admitted = self._admitted
        self._reader = self.conn.reader = _Reader()
        self.conn.parser = self.conn.parse()
        next(self.conn.parser)
        self.conn.max_message_size = HANDSHAKE_BYTES
        self._breath: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = self.loop.call_later(DEADLINE_SECONDS, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._breath)
        _cancel(self._deadline)
        self.guest.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came; when it is too much at once, the rest waits for its turn."""
        if self._reader.waiting:
            self._reader.feed_data(data)
            self.transport.pause_reading()
        else:
            self._reader.begin()
            super().data_received(data)
        if self.conn.handshake_exc is not None:  # a header that is too long, among others: uvicorn does not look at it
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        self._look()

    def eof_received(self) -> None:
        """Send no more: whoever hangs up without a word would be written to in vain, again and again."""
        self.disconnected = True
        self.writable.set()  # whoever waits to write sees that then
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})

    def resume_writing(self) -> None:
        """Go on reading: the client takes what it is sent."""
        super().resume_writing()
        self._look()

    async def receive(self) -> "ASGIReceiveEvent":
        """Wait for the next message; while one waits, nothing is read."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._look()
        return message

    async def send(self, message: "ASGISendEvent") -> None:
        """Send something; after a close, the answer to it is read at once."""
        await self.writable.wait()
        self.disconnected = self.disconnected or self.transport.is_closing()
        await super().send(message)
        if self.close_sent:
            self._look()

    def handle_ping(self) -> None:
        """Answer, unless nobody is there any more."""
        if not self.transport.is_closing():
            super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        """Take in a part of a message; they may not be too many."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    def _look(self) -> None:
        """Read on, soon, when that may be; count what is held."""
        if self.transport.is_closing():
            return
        self.guest.hold(len(self._reader.buffer) + (self.conn.current_size or 0))
        if self.read_paused or not self.writable.is_set():
            self.transport.pause_reading()
        elif not self._reader.waiting:
            self.transport.resume_reading()
        elif self._breath is None:
            self.transport.pause_reading()
            delay = BREATH_SECONDS if self.guest.admitted else GUEST_BREATH_SECONDS
            self._breath = self.loop.call_later(delay, self._go_on)

    def _go_on(self) -> None:
        self._breath = None
        if self.transport.is_closing() or self.read_paused or not self.writable.is_set():
            return  # whoever ends that looks again
        self._reader.begin()
        super().data_received(b"")
        self._look()

    def _end(self) -> None:
        self.transport.abort()

    def _admitted(self) -> None:
        _cancel(self._deadline)
        self.conn.max_message_size = self.config.ws_max_size


class _Reader(StreamReader):
    """What came and is not read yet; it holds the reading of frames up when they are many: more may be `waiting`."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = False
        self._left = FRAMES

    def begin(self) -> None:
        """Let some frames be read."""
        self.waiting = False
        self._left = FRAMES

    def at_eof(self) -> Generator[None, None, bool]:
        """Tell whether nothing comes any more; this is asked before each frame."""
        if self._left == 0:
            self.waiting = True
            yield
        self._left -= 1
        return (yield from super().at_eof())


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
