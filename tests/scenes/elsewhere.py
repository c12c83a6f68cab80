"""Gateways besides the one of a scene: one that is well, one that is lost, one that does not know us, one not open."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from console.hosts.gateways import KnownGateway
from core.config.settings import GatewaySettings, Settings
from core.model.access import OPERATOR
from core.model.sessions import SessionPatch
from core.runtime.gateway import Runtime
from tests.support.lines import Line
from tests.support.runtimes import begin

if TYPE_CHECKING:
    from tests.scenes.day import SceneHost

CHECKOUT: Final = "agent:main:slack:group:checkout"
SCOPES: Final = ("operator.read", "operator.write", "operator.approvals")
ADDRESSES: Final = {
    "prod": "wss://prod.example:18789",
    "lab": "ws://127.0.0.1:19001",
    "home": "wss://home.example:18789",
    "eu": "wss://eu.example:18789",
}
PAIRING: Final = "home does not know this device yet: approve it there with `openclaw devices approve 7f3a91`"
DENIED: Final = "prod does not allow sessions_spawn from outside: gateway.tools.allow there must name it"


class Elsewhere:
    """The other gateways.

    Attributes:
        lines: Those that are open, by name.
    """

    def __init__(self, prod: Runtime, lab: Runtime, now: int) -> None:
        self.lines = {
            "prod": Line(prod, version="switchboard 0.2.0", latency_ms=12.0, heard_at=now, scopes=SCOPES),
            "lab": Line(lab, version="openclaw 2026.9.6", latency_ms=3.0, heard_at=now, scopes=SCOPES),
            "home": Line(lab),
        }
        for name, line in self.lines.items():
            line.become(address=ADDRESSES[name])
        self.lines["home"].become(state="refused", detail=PAIRING)

    @property
    def known(self) -> list[KnownGateway]:
        """All that have a name."""
        return [
            KnownGateway(GatewaySettings(name, address), "configuration" if name == "prod" else "stored")
            for name, address in ADDRESSES.items()
        ]

    def open(self, name: str) -> Line:
        """Open one; no scene does."""
        return self.lines[name]

    def lose_the_lab(self, now: int) -> None:
        """Cut the way to one of them."""
        detail = "lab cannot be reached: the connection was reset"
        self.lines["prod"].become(heard_at=now)
        self.lines["lab"].become(state="lost", heard_at=now - 14_000, retry_at=now + 3_000, detail=detail)


@contextlib.asynccontextmanager
async def elsewhere(host: "SceneHost", folder: Path) -> AsyncGenerator[Elsewhere]:
    """Open the others, and live their morning."""
    prod, lab = (Runtime.open(folder / name, host.clock) for name in ("prod", "lab"))
    backends: Any = host.cast
    try:
        for runtime in (prod, lab):
            await runtime.start(Settings(), backends, command="scene")
        await _live(prod, CHECKOUT, "Is checkout up?", "checkout")
        await _live(prod, "hook:release", "Release 1.42 to all regions.")
        await _live(lab, "agent:main:main", "Which model answers our tickets best?", "evals")
        yield Elsewhere(prod, lab, host.clock.now_ms())
    finally:
        await prod.close()
        await lab.close()


async def _live(runtime: Runtime, key: str, message: str, label: str | None = None) -> None:
    await begin(runtime, key, message)
    await runtime.drained()
    if label is not None:
        await runtime.patch(key, SessionPatch({"label": label}), OPERATOR)
