"""Listens on a port, inside the loop that runs already, and closes without losing anything (G8,
architecture#server)."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from core.model.errors import Invalid, Unavailable
from core.server.auth import is_loopback
from core.server.context import ServerContext
from core.server.http.protocols import Http, ServerWebSocket
from core.tasks import Tasks

PING_SECONDS: Final = 20.0
"""So often a WebSocket is asked whether anybody is there, and so long may the answer take: dead cables say nothing."""
TLS_SECONDS: Final = 10.0
"""How long a client may take to agree on the encryption."""
MOST: Final = 60
"""Lines that the server logs within a window."""
WINDOW_SECONDS: Final = 60.0
_FAREWELL_SECONDS: Final = 3.0
_log = logging.getLogger("switchboard.server")
_CLOSE_SECONDS: Final = 5
_WORDS: Final = {
    errno.EADDRINUSE: "something else listens there: stop that, or choose another port with --port",
    errno.EADDRNOTAVAIL: "this machine does not have that address: choose another with --bind",
    errno.EACCES: "that needs more rights: choose a port from 1024 on with --port",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen.

    Attributes:
        host: An IP address of this machine; the unspecified one for all.
        port: 0 for any that is free.
        certificate: File with the certificate chain, None for no TLS.
        key: File with its key.
        insecure: Listen beyond loopback without TLS all the same.
        proxies: Addresses of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    proxies: tuple[str, ...] = ()

    def check(self, *, has_token: bool) -> None:
        """Refuse what would give the sessions to the network.

        Raises `Invalid` when it is reachable from elsewhere and has no token, or sends it in the clear.
        """
        if is_loopback(self.host):
            return
        if not has_token:
            raise Invalid(
                f"a gateway that listens on {self.host} needs a token: set gateway.auth.token,"
                " or start it once on loopback, which makes one"
            )
        if self.certificate is None and not self.insecure:
            raise Invalid(
                f"a gateway that listens on {self.host} would send its token in the clear:"
                " set gateway.tls.certPath and keyPath, or say --insecure where the network itself is encrypted"
            )


class Door:
    """A port that is held, so that nobody else gets it; who knocks waits until a `NetworkListener` opens.

    Attributes:
        place: Where it is.
        port: The real one.

    Raises `Unavailable` when the port cannot be had, `Invalid` when the certificate cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self.place: Final = place
        self.tls: Final = _tls(place) if place.certificate is not None else None
        self.socket: Final = _bound(place)
        self.port: Final[int] = self.socket.getsockname()[1]

    def url(self, scheme: str = "http") -> str:
        """Return where it is reached from this machine; with TLS the scheme, `http` or `ws`, gets an `s`."""
        everywhere = ipaddress.ip_address(self.place.host).is_unspecified
        host = ("::1" if ":" in self.place.host else "127.0.0.1") if everywhere else self.place.host
        secure = "s" if self.tls is not None else ""
        return f"{scheme}{secure}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """Give the port free."""
        self.socket.close()


class NetworkListener(uvicorn.Server):
    """A gateway that listens at a door; it leaves the signals of the process alone."""

    def __init__(self, app: ASGIApp, context: ServerContext, door: Door) -> None:
        super().__init__(_config(app, context, door))
        self._context = context
        self._ready = asyncio.Event()
        self._serving = asyncio.ensure_future(self.serve([door.socket]))

    @property
    def connections(self) -> Collection[object]:
        """The protocols of the connections that are open, as uvicorn keeps them."""
        return self.server_state.connections

    @classmethod
    async def open(cls, app: ASGIApp, context: ServerContext, door: Door) -> "NetworkListener":
        """Begin to serve; when this returns, requests are answered."""
        with contextlib.suppress(Unavailable):  # on a full disk they stay in the file, where they open nothing
            await context.devices.keep_only(context.auth.issuers)
        listener = cls(app, context, door)
        ready = asyncio.ensure_future(listener._ready.wait())
        await asyncio.wait((ready, listener._serving), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not listener._ready.is_set():
            await listener._serving  # raises what kept it from starting
        return listener

    async def close(self, drained: Callable[[], Awaitable[None]], reason: str) -> None:
        """Accept nothing new, let the runs at work end, take leave of the clients, and stop.

        Args:
            drained: Waits for the runs; they get `limits.drain` seconds, and clients hear of their ends.
            reason: What conversations are told.
        """
        self._context.closing.set()
        for server in self.servers:
            server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.limits.drain):
                await drained()
        leaving = Tasks(lambda error: _log.error("a client was not told of the end", exc_info=error))
        told = [leaving.spawn(farewell(reason)) for farewell in list(self._context.farewells)]
        if told:
            await asyncio.wait(told, timeout=_FAREWELL_SECONDS)
        self.should_exit = True
        await self._serving
        await leaving.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave them to whoever runs the loop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # no socket of its own: it would wait a minute for half an agreement on TLS
        secured, backlog = self.config.ssl, self.config.backlog
        protocol = partial(Http, self._context.guests, self.config, self.server_state)
        seconds = TLS_SECONDS if secured is not None else None
        for each in sockets or ():
            server = await asyncio.get_running_loop().create_server(
                protocol, sock=each, backlog=backlog, ssl=secured, ssl_handshake_timeout=seconds
            )
            self.servers.append(server)
        self._ready.set()


class Sparing(logging.Filter):
    """A log that strangers cannot fill: whatever they provoke, what was written before stays to be read.

    It lets so many lines a minute through, and says with the next one how many it has kept back.

    Args:
        now: Seconds that never go back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self.begin()

    def begin(self) -> None:
        """Begin a window, as a server that is started."""
        self._began = self._now()
        self._let_through = 0
        self._kept_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        now = self._now()
        if now - self._began >= WINDOW_SECONDS:
            self._began, self._let_through = now, 0
        if self._let_through >= MOST:
            self._kept_back += 1
            return False
        self._let_through += 1
        if self._kept_back:
            record.msg = f"{record.getMessage()} ({self._kept_back} more lines of the server were not written)"
            record.args = ()
            self._kept_back = 0
        return True


SPARING: Final = Sparing()
"""The one of this process."""


def _config(app: ASGIApp, context: ServerContext, door: Door) -> uvicorn.Config:
    """Return how uvicorn is to serve; it logs only what is wrong with the server itself."""
    tls = door.tls
    SPARING.begin()
    logging.getLogger("switchboard.server").addFilter(SPARING)
    logger = logging.getLogger("uvicorn")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # else it writes to stderr where nobody has opened a log

    return uvicorn.Config(
        app,
        http=Http,
        ws=ServerWebSocket,
        ws_max_size=context.limits.frame,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        proxy_headers=bool(door.place.proxies),
        forwarded_allow_ips=list(door.place.proxies),
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )


def _bound(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        bound = socket.create_server((place.host, place.port), family=family, backlog=512)
    except OSError as error:
        why = _WORDS.get(error.errno or 0, error.strerror or "it is no address of this machine")
        raise Unavailable(f"the gateway cannot listen on {place.host} port {place.port}: {why}") from None
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it too: else a frame waits 40 ms
    return bound


def _tls(place: Place) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(place.certificate or "", place.key, password=lambda: "")
    except ssl.SSLError as error:
        why = (error.reason or "they are not usable").replace("_", " ").lower()
        raise Invalid(f"the certificate {place.certificate} and the key {place.key} do not work: {why}") from None
    except OSError as error:
        raise Invalid(f"{error.filename or place.certificate} cannot be read: {error.strerror}") from None
    return context
