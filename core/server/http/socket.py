"""A WebSocket of Starlette as a transport, and the conversation over it."""

import contextlib

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from core.model.errors import Unavailable
from core.server.auth import is_loopback
from core.server.context import ServerContext
from core.server.conversation.conversation import Conversation
from core.server.http.visitor import guest_of
from core.wire.frames import CLOSE_TRY_LATER
from core.wire.transport import FrameTooLong


class WebSocketTransport:
    """Frames of at most `limit` characters as messages of an accepted WebSocket, never trusted; see `Transport`."""

    def __init__(self, websocket: WebSocket, *, limit: int) -> None:
        self.trusted = False
        self.peer = websocket.client.host if websocket.client is not None else "unknown"
        self._websocket = websocket
        self._limit = limit

    async def receive(self) -> str | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            text = (message.get("bytes") or b"").decode(errors="replace")
        if len(text) > self._limit:
            raise FrameTooLong(f"a frame is longer than {self._limit} bytes")
        return text

    async def send(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # the second one: it was closed before
            raise Unavailable("the connection has ended") from None

    async def close(self, code: int, reason: str) -> None:
        if self._websocket.application_state is not WebSocketState.DISCONNECTED:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await self._websocket.close(code, reason)


async def serve_socket(websocket: WebSocket, context: ServerContext) -> None:
    """Hold a conversation over a WebSocket, from its upgrade to its end; its Host and Origin are known to be right."""
    await websocket.accept()
    transport = WebSocketTransport(websocket, limit=context.limits.frame)
    if context.guests.full:
        await transport.close(CLOSE_TRY_LATER, "too many connections")
        return
    near = context.insecure or is_loopback(transport.peer) or websocket.url.scheme == "wss"
    await Conversation(context, transport, may_pair=near, on_admitted=guest_of(websocket).admit).run()
