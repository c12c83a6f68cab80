"""Gateways on real sockets that do what a test says, and the way to them."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import json
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.clock import Clock
from core.model.connection import Connection
from core.remote.credentials import ProfilePassport
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.profile import Profile, Tls
from core.remote.websocket import dialer
from tests.support.clock import FakeClock

NONCE = "nonce-1"
NOW = 1_700_000_000_000
HELLO: dict[str, Any] = {
    "type": "hello-ok",
    "protocol": 4,
    "server": {"version": "2026.1.1", "connId": "c"},
    "features": {"methods": ["sessions.list"], "events": [], "capabilities": []},
    "snapshot": {},
    "auth": {"role": "operator", "scopes": ["operator.admin", "operator.read", "operator.write"]},
    "policy": {"tickIntervalMs": 30_000},
}


class Conversation:
    """One connection to a scripted gateway.

    Attributes:
        asked: Every request so far.
    """

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.asked: list[dict[str, Any]] = []

    async def challenge(self, **more: Any) -> None:
        """Speak first."""
        await self.tell("connect.challenge", {"nonce": NONCE, "ts": NOW} | more)

    async def next(self) -> dict[str, Any]:
        """Wait for a request."""
        self.asked.append(json.loads(await self.socket.recv()))
        return self.asked[-1]

    async def greet(self, **hello: Any) -> dict[str, Any]:
        """Go through the introduction; return the parameters of `connect`."""
        await self.challenge()
        request = await self.next()
        await self.answer(request, HELLO | hello)
        return request["params"]

    async def answer(self, request: dict[str, Any], payload: object) -> None:
        """Grant a request."""
        await self.send({"type": "res", "id": request["id"], "ok": True, "payload": payload})

    async def refuse(self, request: dict[str, Any], code: str, message: str, **more: Any) -> None:
        """Refuse a request."""
        error = {"code": code, "message": message, **more}
        await self.send({"type": "res", "id": request["id"], "ok": False, "error": error})

    async def tell(self, event: str, payload: object, **more: Any) -> None:
        """Tell something unasked."""
        await self.send({"type": "event", "event": event, "payload": payload, **more})

    async def send(self, frame: object) -> None:
        """Send a frame, or any text."""
        await self.socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    async def stay(self) -> None:
        """Answer nothing more, until the other end goes."""
        while True:
            await self.next()


Script = Callable[[Conversation], Awaitable[None]]


class Scripted:
    """A gateway that follows a script with everybody who connects.

    Attributes:
        conversations: With everybody so far.
        script: What is done with the next one.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.conversations: list[Conversation] = []
        self.port = 0

    async def take(self, socket: ServerConnection) -> None:
        """Follow the script, and close at its end."""
        conversation = Conversation(socket)
        self.conversations.append(conversation)
        with contextlib.suppress(ConnectionClosed):
            await self.script(conversation)


@contextlib.asynccontextmanager
async def scripted(script: Script, *, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncGenerator[Scripted]:
    """Listen on loopback."""
    gateway = Scripted(script)
    async with serve(
        gateway.take, "127.0.0.1", port, ssl=tls, compression=None, max_size=None, close_timeout=0.1
    ) as server:
        gateway.port = server.sockets[0].getsockname()[1]
        yield gateway


@contextlib.asynccontextmanager
async def linked(
    port: int, state: Path, clock: Clock, *, token: str | None = "secret-token", tls: Tls | None = None
) -> AsyncGenerator[Link]:
    """Return a link to a port of this machine, not begun yet."""
    scheme = "wss" if tls is not None else "ws"
    profile = Profile("prod", f"{scheme}://127.0.0.1:{port}", lambda: token, tls or Tls())
    passport = ProfilePassport(profile, state)
    link = Link(dialer(profile), HelloRequest(passport), clock=clock, name="prod", address=str(profile.origin))
    try:
        yield link
    finally:
        await link.close()


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, str]:
    """Make a certificate that nobody vouches for; return the server's side and its fingerprint."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    today = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context, made.fingerprint(hashes.SHA256()).hex()


async def comes(clock: FakeClock, kept: "Kept", condition: Callable[[], object]) -> None:
    """Let the time go on to the next attempts until a condition holds; fail when it does not in time."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        if kept.connection.retry_at is not None:
            await clock.advance(0.5)
        await asyncio.sleep(0.002)  # the sockets are real


class Kept(Protocol):
    """What has a connection."""

    @property
    def connection(self) -> Connection:
        """Its state."""
        ...


class Cable:
    """What lies between a client and a gateway, and can be cut in several ways.

    Attributes:
        silent: Nothing gets through any more, and nobody is told.
        only: Bytes from the gateway that still get through before both ends are parted, None for all.
    """

    def __init__(self, port: int) -> None:
        self.silent = False
        self.only: int | None = None
        self.port = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, back]
        with contextlib.suppress(OSError):
            await asyncio.gather(self._pass(reader, back, None), self._pass(there, writer, back))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: asyncio.StreamWriter | None
    ) -> None:
        while chunk := await reader.read(65_536):
            if self.silent:
                continue
            if other is not None and self.only is not None:
                chunk, self.only = chunk[: self.only], None
                writer.write(chunk)
                await writer.drain()
                writer.close()
                other.transport.abort()
                return
            writer.write(chunk)
            await writer.drain()
        if not self.silent:
            writer.close()
