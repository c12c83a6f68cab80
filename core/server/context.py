"""What every route and conversation of the server is given."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.gateway import Gateway
from core.server.auth import Auth, Sites
from core.server.clients import Clients
from core.server.devices import Devices
from core.server.metrics import Metrics
from core.server.repeats import Repeats
from core.server.rows import Rows


@dataclass(frozen=True, slots=True)
class Facts:
    """What clients are told and the port does not know.

    Attributes:
        version: Of the program, such as `0.2.0`.
        boot_id: uuid4 of this start of the server.
        started_at: ms since the Unix epoch.
        store_id: Names the store: with another one, every cursor of a client is void.
        config: Returns the configuration in force, JSON-able, with every secret replaced.
        log_tail: Returns the last lines of the log, at most that many.
    """

    version: str
    boot_id: str
    started_at: int
    state_dir: str
    config_path: str
    store_id: str
    config: Callable[[], dict[str, Any]]
    log_tail: Callable[[int], list[str]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost.

    Attributes:
        body: Bytes of one HTTP request; the attachments of a spawn fit in (W8).
        frame: Bytes of one WebSocket frame or line.
        connections: Open at once, of all clients.
        subscriptions: Sessions that one conversation watches by name.
        buffered: Bytes that wait for a client before it is let go.
        keepalive: Seconds of silence after which a stream says that it is alive (G3).
        drain: Seconds that the end of the server waits for runs at work.
    """

    body: int = 8 * 1024 * 1024
    frame: int = 8 * 1024 * 1024
    connections: int = 2048
    subscriptions: int = 1024
    buffered: int = 4 * 1024 * 1024
    keepalive: float = 15.0
    drain: float = 10.0


Farewell = Callable[[str], Awaitable[None]]
"""Tells one client that the server closes, and ends its conversation; it is given the reason."""


@dataclass(slots=True)
class ServerContext:
    """What the server works with.

    Attributes:
        sites: Under which names it is reached, and from which pages.
        insecure: Devices may be paired without TLS from other machines too: the owner says the network is encrypted.
        repeats: Changes that clients may ask for twice.
        farewells: Of the open conversations; each adds its own and takes it away when it ends.
        devices: Those that are paired.
        clients: The conversations that are past their handshake.
        rows: The JSON of sessions and messages, made once for everybody.
        closing: Is set when the server begins to close: streams end.
    """

    gateway: Gateway
    auth: Auth
    facts: Facts
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    repeats: Repeats = field(default_factory=Repeats)
    sites: Sites = field(default_factory=Sites)
    insecure: bool = False
    farewells: set[Farewell] = field(default_factory=set[Farewell])
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    devices: Devices = field(init=False)
    clients: Clients = field(default_factory=Clients)
    rows: Rows = field(default_factory=Rows)

    def __post_init__(self) -> None:
        self.devices = Devices(Path(self.facts.state_dir))
