"""How the fuzzer writes on the sockets: a connection of frames that is made anew when it was lost, and HTTP by hand."""

import asyncio
import contextlib
import json
from typing import Any

import websockets

from core.model.ids import new_id
from tests.support.servers import TOKEN
from tests.tools.fuzz.asks import Fetch, path_of


class Line:
    """A connection that is made anew when it was lost."""

    def __init__(self, url: str, hello: dict[str, Any]) -> None:
        self._url = url
        self._hello = hello
        self._waiting: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self._dialing = asyncio.Lock()
        self._socket: Any = None
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, method: str, params: Any, *, answers: int = 1) -> dict[str, Any]:
        """Send a request and return its last answer.

        Raises:
            ConnectionError: The connection ended first; with the code and the reason.
        """
        frame_id, socket = new_id(), await self._open()
        reading, frame = self._reading, dict[str, Any]()
        came = self._waiting[frame_id] = asyncio.Queue()
        try:
            await self._put(socket, json.dumps({"type": "req", "id": frame_id, "method": method, "params": params}))
            for _ in range(answers):
                got = None if reading is None or (reading.done() and came.empty()) else await came.get()
                if got is None:
                    raise ConnectionError(f"{socket.close_code} {socket.close_reason}")
                frame = got
                if not frame["ok"]:
                    break
            return frame
        finally:
            del self._waiting[frame_id]

    async def tell(self, content: str | bytes) -> None:
        """Send what need not be answered."""
        await self._put(await self._open(), content)

    async def _put(self, socket: Any, content: str | bytes) -> None:
        try:
            await socket.send(content)
        except websockets.ConnectionClosed as error:
            raise ConnectionError(str(error)) from None

    def cut(self) -> None:
        """Lose the connection, as a cable does."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            await self._socket.close()
        if self._reading is not None:
            await self._reading

    async def _open(self) -> Any:
        async with self._dialing:
            if self._socket is None or self._reading is None or self._reading.done():
                socket = await websockets.connect(self._url, max_size=None, proxy=None, compression=None)
                await introduce(socket, self._hello)
                self._socket, self._reading = socket, asyncio.create_task(self._read(socket))
            return self._socket

    async def _read(self, socket: Any) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in socket:
                frame = json.loads(text)
                if frame["type"] == "res" and frame["id"] in self._waiting:
                    self._waiting[frame["id"]].put_nowait(frame)
        for came in self._waiting.values():
            came.put_nowait(None)


async def introduce(socket: Any, hello: dict[str, Any]) -> dict[str, Any]:
    """Go through the introduction and return its answer."""
    await socket.recv()
    await socket.send(json.dumps({"type": "req", "id": "hello", "method": "connect", "params": hello}))
    return json.loads(await socket.recv())


def written(fetch: Fetch, host: str) -> bytes:
    """Return a request as it goes over the wire; it asks for the end of the connection after the answer."""
    key = fetch.key if isinstance(fetch.key, str) else str(fetch.key)
    body = b""
    if fetch.body is not None:
        body = fetch.body if isinstance(fetch.body, bytes) else json.dumps(fetch.body).encode()
        if isinstance(fetch.body, str):
            body = fetch.body.encode(errors="surrogatepass")
        body += b"\r\n" * ("transfer-encoding" in dict(fetch.headers))  # no chunk, and not waited for
    headers = [*fetch.headers, ("connection", "close")]
    names = {name for name, _ in headers}
    if body and not names & {"content-length", "transfer-encoding"}:
        headers.append(("content-length", str(len(body))))
    head = f"{fetch.verb} {path_of(fetch.path, key)} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers)
    return head.replace("{host}", host).replace("{token}", TOKEN).encode("latin-1") + b"\r\n" + body
