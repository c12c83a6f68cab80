"""What every route and conversation of the server is given."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from core.gateway import Gateway
from core.server.auth import Auth, Sites
from core.server.clients import Clients
from core.server.devices import Devices
from core.server.guests import Budget, Guests
from core.server.http.pages import Pages
from core.server.metrics import Metrics
from core.server.native.repeats import AnsweredRequests
from core.server.openclaw.rows import RowEncoder

MAKING: Final = 2


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What clients are told and the port does not know.

    Attributes:
        version: Of the program, such as `0.2.0`.
        boot_id: uuid4 of this start of the server.
        started_at: ms since the Unix epoch.
        store_id: Names the store: with another one, every cursor of a client is void.
        config: Returns the configuration in force, JSON-able, with every secret replaced.
        log_tail: Returns the last lines of the log, at most that many.
        backup: Writes a backup of the store and returns what is told of it; blocks.
    """

    version: str
    boot_id: str
    started_at: int
    state_dir: str
    config_path: str
    store_id: str
    config: Callable[[], dict[str, Any]]
    log_tail: Callable[[int], list[str]]
    backup: Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost.

    Attributes:
        body: Bytes of one HTTP request; the attachments of a spawn fit in (W8).
        frame: Bytes of one WebSocket frame or line.
        connections: Open at once, of all clients that have shown a token.
        guests: Open at once, of those that have not; the oldest makes room.
        guests_of_network: Of one network beyond this machine.
        guest_bytes: That are held for all guests together.
        held: Bytes that are held for all the others together: whoever needs most is let go.
        subscriptions: Sessions that one conversation watches by name.
        buffered: Bytes that wait for a client before it is let go.
        keepalive: Seconds of silence after which a stream says that it is alive (G3).
        drain: Seconds that the end of the server waits for runs at work.
    """

    body: int = 8 * 1024 * 1024
    frame: int = 8 * 1024 * 1024
    connections: int = 2048
    guests: int = 1024
    guests_of_network: int = 512
    guest_bytes: int = 16 * 1024 * 1024
    held: int = 128 * 1024 * 1024
    subscriptions: int = 1024
    buffered: int = 4 * 1024 * 1024
    keepalive: float = 15.0
    drain: float = 10.0


Farewell = Callable[[str], Coroutine[Any, Any, None]]
"""Tells one client that the server closes, and ends its conversation; it is given the reason."""


@dataclass(slots=True)
class ServerContext:
    """What the server works with.

    Attributes:
        sites: Under which names it is reached, and from which pages.
        insecure: Devices may be paired without TLS from other machines too: the owner says the network is encrypted.
        repeats: Changes that clients may ask for twice.
        farewells: Of the open conversations; each adds its own and takes it away when it ends.
        held: What waits in memory for clients.
        guests: The connections over the network.
        making: Long answers are made so many at once, for all clients; the others are served in between.
        pages: Parts of transcripts that are sent over HTTP.
        devices: Those that are paired.
        clients: Those that are past their handshake.
        rows: The JSON of sessions and messages, made once for everybody.
        ignored: Parameters by method that mean nothing here and that the log has told of.
        closing: Is set when the server begins to close: streams end.
    """

    gateway: Gateway
    auth: Auth
    facts: ServerFacts
    devices: Devices
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    repeats: AnsweredRequests = field(default_factory=AnsweredRequests)
    sites: Sites = field(default_factory=Sites)
    insecure: bool = False
    ignored: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    farewells: set[Farewell] = field(default_factory=set[Farewell])
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    making: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAKING))
    pages: Pages = field(init=False)
    held: Budget = field(init=False)
    guests: Guests = field(init=False)
    clients: Clients = field(default_factory=Clients)
    rows: RowEncoder = field(default_factory=RowEncoder)

    def __post_init__(self) -> None:
        limits = self.limits
        self.held = Budget(limits.held)
        self.pages = Pages(self.gateway, self.rows, self.held, self.making)
        self.guests = Guests(
            self.held,
            most=limits.guests,
            most_of_network=limits.guests_of_network,
            most_admitted=limits.connections,
            outside=limits.guest_bytes,
        )
        self.devices.on_revoked = self.clients.end_device
