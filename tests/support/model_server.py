"""A model endpoint on loopback that does what a test tells it to.

It is a real HTTP/1.1 server and speaks both formats: chat completions at `<url>/v1/chat/completions` and Anthropic's
messages at `<url>/v1/messages`; the path of the request decides. `<url>/v1/models` lists `ModelServer.models`.

    async with ModelServer() as server:
        server.script(stream("Hello ", "world"), refuse(429, "slow down", {"Retry-After": "2"}))
        model = server.openai_model()

Each request takes the next scripted answer; `server.handler` answers instead when it is set. What an answer is made of:

    stream(*steps)      a streamed reply; a step is text or one of `model_formats`: Say, Think, CallTool, Wait, Drop …
    whole(*steps)       the same as one JSON document, as some servers answer though a stream was asked for
    refuse(status, …)   an error in the shape of the format
    Plain(…)            any status, headers and body
    RawAnswer(…)        bytes instead of an HTTP response
    Silence()           nothing at all until the client has gone

Nothing here waits for time to pass: `Wait(event)` goes on when the test sets the event, `Hang` and `Silence` when the
client hangs up. `Request.gone` is set when the client hung up before its answer was complete.
"""

import asyncio
import contextlib
import json
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Self

from core.config.settings import ModelSettings, Secret
from core.model.messages import Usage
from tests.support.model_formats import (
    USAGE,
    Drop,
    Hang,
    Say,
    Step,
    Stream,
    Wait,
    Whole,
    anthropic_stream,
    anthropic_whole,
    openai_stream,
    openai_whole,
)

KEY: Final = "sk-test-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Plain:
    """Any HTTP response."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Bytes on the socket, after which the connection is closed."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer; the connection stays open until the client closes it."""


Answer = Stream | Whole | Plain | RawAnswer | Silence


def stream(*steps: str | Step, usage: Usage | None = USAGE, stop: str = "", ended: bool = True) -> Stream:
    """Return a streamed reply; plain text is something said."""
    return Stream(_steps(steps), usage, stop, ended)


def whole(*steps: str | Step, usage: Usage | None = USAGE, stop: str = "") -> Whole:
    """Return a reply that is not streamed; plain text is something said."""
    return Whole(_steps(steps), usage, stop)


def refuse(status: int, message: str, headers: Mapping[str, str] | None = None) -> Plain:
    """Return an error as both formats shape it."""
    error = {"type": "error", "error": {"type": "refused", "message": message}}
    return Plain(status, json.dumps(error), headers or {})


@dataclass(slots=True)
class Request:
    """One request as it came.

    Attributes:
        headers: Names in lower case.
        gone: Set when the client hung up before the answer was complete.
        answered: Set when the answer is complete.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> dict[str, Any]:
        """The body as JSON."""
        return json.loads(self.body)


class ModelServer:
    """The server; use it with `async with`.

    Attributes:
        answers: What the next requests get, in order.
        handler: Answers instead of `answers` when it is set.
        models: Ids that the endpoint lists.
        requests: Every request so far, also for the list of models.
        connections: How many connections were opened so far.
    """

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.handler: Callable[[Request], Answer] | None = None
        self.models: list[str] = ["test-model"]
        self.requests: list[Request] = []
        self.connections = 0
        self._arrived = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop, and cut every connection."""
        assert self._server is not None
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._port}"

    def openai_model(self, model_id: str = "test-model", **fields: Any) -> ModelSettings:
        """Return the settings of a model here that speaks chat completions."""
        model = ModelSettings("openai", model_id, "openai-completions", f"{self.url}/v1", Secret("literal", KEY))
        return replace(model, **fields)

    def anthropic_model(self, model_id: str = "test-model", **fields: Any) -> ModelSettings:
        """Return the settings of a model here that speaks Anthropic's messages."""
        model = ModelSettings("anthropic", model_id, "anthropic-messages", self.url, Secret("literal", KEY))
        return replace(model, **fields)

    def script(self, *answers: Answer) -> None:
        """Add answers for the next requests."""
        self.answers.extend(answers)

    async def request(self, number: int = 1) -> Request:
        """Wait for a request to arrive, counted from 1, and return it."""
        while len(self.requests) < number:
            self._arrived.clear()
            await self._arrived.wait()
        return self.requests[number - 1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the server ends: nothing is left to do for this connection
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other.

        While an answer is under way the first byte of the next request is awaited: its end instead of a byte tells
        that the client has hung up.
        """
        first = await reader.read(1)
        while first:
            request = await _read_request(first, reader)
            self.requests.append(request)
            self._arrived.set()
            next_byte = asyncio.create_task(reader.read(1))
            answering = asyncio.create_task(_Answering(request, writer).give(self._answer_to(request)))
            try:
                await asyncio.wait({next_byte, answering}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    request.gone.set()
                    return
                if not answering.result():
                    return
                request.answered.set()
                first = await next_byte
            finally:
                for task in (next_byte, answering):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                        await task

    def _answer_to(self, request: Request) -> Answer:
        if request.path.endswith("/models"):
            return Plain(body=json.dumps({"object": "list", "data": [{"id": name} for name in self.models]}))
        if self.handler is not None:
            return self.handler(request)
        if not self.answers:
            return refuse(400, "the test has scripted no answer for this request")
        return self.answers.popleft()


def closed_url() -> str:
    """Return an address on loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def _read_request(first: bytes, reader: asyncio.StreamReader) -> Request:
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in fields)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


class _Answering:
    """One answer on its way out."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._format = anthropic_stream if request.path.endswith("/messages") else openai_stream
        self._whole = anthropic_whole if request.path.endswith("/messages") else openai_whole

    async def give(self, answer: Answer) -> bool:
        """Send an answer; whether the connection can be used again."""
        match answer:
            case Stream():
                return await self._stream(answer)
            case Whole():
                await self._plain(Plain(body=json.dumps(self._whole(answer))))
            case Plain():
                await self._plain(answer)
            case RawAnswer(content):
                self._writer.write(content)
                await self._writer.drain()
                self._writer.close()
                return False
            case Silence():
                await asyncio.Event().wait()
        return True

    async def _plain(self, answer: Plain) -> None:
        body = answer.body.encode()
        self._head(answer.status, {"Content-Type": answer.content_type, **answer.headers, "Content-Length": len(body)})
        self._writer.write(body)
        await self._writer.drain()

    async def _stream(self, answer: Stream) -> bool:
        self._head(200, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        for piece in self._format(answer):
            match piece:
                case bytes():
                    await self._chunk(piece)
                case Wait(event):
                    await event.wait()
                case Hang():
                    await asyncio.Event().wait()
                case Drop():
                    self._writer.close()
                    return False
        await self._chunk(b"")
        return True

    def _head(self, status: int, headers: Mapping[str, object]) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {headers[name]}" for name in headers)]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def _chunk(self, content: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(content), content))
        await self._writer.drain()


def _steps(steps: tuple[str | Step, ...]) -> tuple[Step, ...]:
    return tuple(Say(step) if isinstance(step, str) else step for step in steps)
