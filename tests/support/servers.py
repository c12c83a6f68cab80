"""Real servers over real runtimes on loopback, and clients for them."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

import tests.support.quick_server  # noqa: F401  # pyright: ignore[reportUnusedImport] - imported for what it does
from core.clock import Clock, SystemClock
from core.gateway import Gateway
from core.model.ids import new_id
from core.runtime.gateway import Runtime
from core.server.auth import Auth, Sites
from core.server.context import Limits, ServerContext, ServerFacts
from core.server.devices import Devices
from core.server.http.app import create_app
from core.server.http.listen import Door, NetworkListener, Place
from core.store.maintenance.backup import create_inside
from tests.support.runtimes import running

TOKEN = "the-full-token-of-these-tests"
READ_ONLY = "the-reading-token-of-these-tests"


@dataclass
class Served:
    """A server at work.

    Attributes:
        runtime: What it serves.
    """

    runtime: Runtime
    context: ServerContext
    door: Door
    listener: NetworkListener

    def client(self, token: str | None = TOKEN, **more: Any) -> httpx.AsyncClient:
        """Return a client with a token; `headers` adds to it."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        headers |= more.pop("headers", {})
        more.setdefault("verify", False)  # for a server without TLS, where it saves reading the system's certificates
        return httpx.AsyncClient(base_url=self.door.url(), headers=headers, trust_env=False, timeout=30, **more)


def history_path(key: str) -> str:
    """Return the path of a session's history."""
    return f"/sessions/{quote(key, safe='')}/history"


def context_for(
    gateway: Gateway,
    state: Path,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    sites: Sites | None = None,
    read_only: str | None = READ_ONLY,
) -> ServerContext:
    """Return what a server over a gateway works with."""
    facts = ServerFacts(
        version="0.0.0",
        boot_id=new_id(),
        started_at=gateway.now_ms(),
        state_dir=str(state),
        config_path=str(state / "config.json5"),
        store_id="store",
        config=dict[str, Any],
        log_tail=lambda lines: [f"line {n}" for n in range(lines)],
        backup=lambda: create_inside(state, version="0.0.0", now_ms=gateway.now_ms()).as_json(),
    )
    auth = Auth(TOKEN, read_only, clock or SystemClock())
    return ServerContext(gateway, auth, facts, Devices(state), limits=limits or Limits(), sites=sites or Sites())


@contextlib.asynccontextmanager
async def served(runtime: Runtime, place: Place | None = None, **more: Any) -> AsyncGenerator[Served]:
    """Serve a runtime that is at work, on any free port; `more` goes to `context_for`."""
    context = context_for(runtime, runtime.store.directory, **more)
    door = Door(place or Place())
    listener = await NetworkListener.open(create_app(context), context, door)
    try:
        yield Served(runtime, context, door, listener)
    finally:
        await listener.close(_at_once, "the test is over")


@contextlib.asynccontextmanager
async def serving(state: Path, **more: Any) -> AsyncGenerator[Served]:
    """Start a runtime on a state directory and serve it."""
    async with running(state) as runtime, served(runtime, **more) as server:
        yield server


async def _at_once() -> None:
    """Wait for no run."""
