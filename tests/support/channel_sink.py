"""A channel on loopback that does what a test tells it to: an HTTP server, and the channel that posts to it.

    async with ChannelSink() as sink:
        sink.script(Busy(retry_after=3), Accept())
        runtime.start(…, channels={"discord": sink.channel("discord")})

Each post takes the next scripted answer, and `Accept()` when there is none; `sink.handler` answers instead when it is
set. `sink.shut()` refuses connections until
`sink.listen()`, on the same port.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from core.channels import ChannelBusy, OutgoingText, Rejected


@dataclass(frozen=True, slots=True)
class Accept:
    """Take the text and say so."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Take nothing and say 429."""

    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Take nothing and say 400 with these words."""

    words: str


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the text and never say so; the connection stays open until the other side leaves."""


@dataclass(frozen=True, slots=True)
class Die:
    """Take the text and cut the connection before a word."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Take the text, and say so when the event is set."""

    event: asyncio.Event


Answer = Accept | Busy | Refuse | Hang | Die | Hold


@dataclass(frozen=True, slots=True)
class Post:
    """One post as it came."""

    channel: str
    delivery_id: str
    to: str
    account_id: str | None
    text: str


class ChannelSink:
    """The server; use it with `async with`.

    Attributes:
        posts: Every post that was read whole so far.
        taken: Those whose text the channel has, whatever it said about it.
        handler: Answers instead of the script when it is set.
        at_once: The highest number of posts of one channel under way at the same time.
    """

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.taken: list[Post] = []
        self.handler: Callable[[Post], Answer] | None = None
        self.at_once = 0
        self._answers: dict[str, deque[Answer]] = {}
        self._under_way: dict[str, int] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        """Start to listen."""
        await self.listen()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop, and cut every connection."""
        await self.shut()

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def channel(self, name: str) -> "HttpChannel":
        """Return the channel that posts here."""
        return HttpChannel(name, self.port)

    def script(self, *answers: Answer, channel: str = "discord") -> None:
        """Add answers for the next posts of a channel."""
        self._answers.setdefault(channel, deque()).extend(answers)

    def texts(self, channel: str = "discord") -> list[str]:
        """Return what a channel has, in order."""
        return [post.text for post in self.taken if post.channel == channel]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the server ends
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        size = int(head.lower().partition("content-length:")[2].split()[0])
        data = json.loads(await reader.readexactly(size))
        post = Post(head.split()[1].removeprefix("/"), data["id"], data["to"], data["account"], data["text"])
        self.posts.append(post)
        self._under_way[post.channel] = self._under_way.get(post.channel, 0) + 1
        self.at_once = max(self.at_once, *self._under_way.values())
        try:
            await self._answer(post, self._next(post), reader, writer)
        finally:
            self._under_way[post.channel] -= 1

    def _next(self, post: Post) -> Answer:
        if self.handler is not None:
            return self.handler(post)
        scripted = self._answers.get(post.channel)
        return scripted.popleft() if scripted else Accept()

    async def _answer(
        self, post: Post, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match answer:
            case Busy(retry_after):
                after = {} if retry_after is None else {"Retry-After": str(retry_after)}
                await _say(writer, "429 Too Many Requests", "slow down", after)
            case Refuse(words):
                await _say(writer, "400 Bad Request", words)
            case Hang():
                self.taken.append(post)
                await reader.read()
            case Die():
                self.taken.append(post)
            case Hold(event):
                self.taken.append(post)
                await event.wait()
                await _say(writer, "200 OK", "")
            case Accept():
                self.taken.append(post)
                await _say(writer, "200 OK", "")


@dataclass(frozen=True, slots=True)
class HttpChannel:
    """A channel that posts each text to a sink, over a connection of its own."""

    name: str
    port: int

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Post one text; see `core.channels.Channel`."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            raise ChannelBusy(f"{self.name} refused the connection") from None
        try:
            body = json.dumps(
                {
                    "id": outgoing.delivery_id,
                    "to": outgoing.to,
                    "account": outgoing.account_id,
                    "text": outgoing.text,
                }
            ).encode()
            writer.write(f"POST /{self.name} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.read()).decode()
            if not answer:
                raise ConnectionResetError("the connection was cut")
            head, _, said = answer.partition("\r\n\r\n")
            status, after = head.split()[1], head.partition("Retry-After: ")[2].split("\r\n")[0]
            if status == "429":
                raise ChannelBusy(f"{self.name} is busy: {said}", float(after) if after else None)
            if status != "200":
                raise Rejected(f"{self.name} refused the text: {said}")
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def _say(writer: asyncio.StreamWriter, status: str, words: str, headers: Mapping[str, str] | None = None) -> None:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    writer.write("\r\n".join([*lines, "", words]).encode())
    await writer.drain()
