"""What this process answers others with, while it owns a state directory: over the network, or on the socket in it."""

import os
from collections import deque
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from console.log import LOG_NAME
from core.config.paths import Places
from core.config.redacted import redacted_config
from core.model.ids import new_id
from core.runtime.gateway import Runtime
from core.server.auth import Auth, Sites
from core.server.clients import Clients
from core.server.context import ServerContext, ServerFacts
from core.server.devices import Devices
from core.server.metrics import Metrics
from core.store.maintenance.backup import create_inside

_TAIL_BYTES: Final = 262_144
"""Of the log, where its last lines are looked for."""


class Company(NamedTuple):
    """Who is connected to this process, and what they do: over the network and on the socket alike.

    Attributes:
        devices: Those that are paired: one that is revoked on the socket ends over the network.
    """

    clients: Clients
    metrics: Metrics
    devices: Devices

    @classmethod
    def of(cls, state: Path) -> "Company":
        """Return that of a process that begins to serve a state directory."""
        return cls(Clients(), Metrics(), Devices(state))


def server_context(
    runtime: Runtime,
    places: Places,
    auth: Auth,
    sites: Sites,
    *,
    insecure: bool = False,
    company: Company | None = None,
) -> ServerContext:
    """Return what a server over this process's runtime works with; `company` is shared with another such server."""
    clients, metrics, devices = company or Company.of(places.state)
    program = version("switchboard-console")
    facts = ServerFacts(
        version=program,
        boot_id=new_id(),
        started_at=runtime.now_ms(),
        state_dir=str(places.state),
        config_path=str(places.config),
        store_id=runtime.store_id,
        config=lambda: redacted_config(places),
        log_tail=lambda lines: _tail(places.state, lines),
        backup=lambda: create_inside(places.state, version=program, now_ms=runtime.now_ms()).as_json(),
    )
    return ServerContext(
        runtime, auth, facts, devices, insecure=insecure, sites=sites, clients=clients, metrics=metrics
    )


def _tail(state: Path, lines: int) -> list[str]:
    try:
        with (state / LOG_NAME).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:  # there is no log yet
        return []
    return list(deque(text.splitlines(), maxlen=lines))
