"""The first words on a connection: what we say of ourselves, and what the gateway says of itself."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol, cast

from core.model.json_codec import mapping
from core.wire.frames import NATIVE, PROTOCOLS

SCOPES: Final = ("operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.pairing")
DEFAULT_TICK: Final = 30.0
MAX_TICK: Final = 600.0
CLIENT_ID: Final = "cli"
CLIENT_MODE: Final = "cli"
ROLE: Final = "operator"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a device signs to connect (protocol#handshake).

    Attributes:
        nonce: Of the gateway's challenge.
        signed_at: ms since the Unix epoch by the gateway's clock, so that ours may be wrong.
    """

    nonce: str
    signed_at: int
    scopes: tuple[str, ...]
    platform: str


class Passport(Protocol):
    """Who we are to one gateway."""

    async def prove(self, claim: Claim) -> dict[str, Any]:
        """Return the `auth` and `device` of the connect request."""
        ...

    async def accepted(self, device_token: str | None) -> None:
        """Note that the gateway let us in, with the token it gave this device."""
        ...

    async def refused(self, code: str) -> bool:
        """Note the code of a refusal; True when there is another credential to try at once."""
        ...


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """What we say of ourselves.

    Attributes:
        passport: Token and device; None where none is asked for, on the socket of the same user.
        scopes: What is asked for; a gateway may grant less.
    """

    passport: Passport | None = None
    scopes: tuple[str, ...] = SCOPES
    caps: tuple[str, ...] = ("tool-events",)

    async def params(self, nonce: str, signed_at: int) -> dict[str, Any]:
        """Return the parameters of `connect`."""
        system = platform.system().lower() or "unknown"
        params: dict[str, Any] = {
            "minProtocol": min(PROTOCOLS),
            "maxProtocol": max(PROTOCOLS),
            "client": {
                "id": CLIENT_ID,
                "displayName": "Switchboard",
                "version": own_version(),
                "platform": system,
                "mode": CLIENT_MODE,
            },
            "role": ROLE,
            "scopes": list(self.scopes),
            "caps": list(self.caps),
        }
        if self.passport is not None:
            claim = Claim(nonce, signed_at, self.scopes, system)
            params |= await self.passport.prove(claim)
        return params


@dataclass(frozen=True, slots=True)
class Hello:
    """What a gateway says of itself; anything missing or odd becomes the usual.

    Attributes:
        version: Of its program, empty when it does not say.
        scopes: What this connection may do; None when it does not say.
        tick: Seconds between two signs of life.
        boot_id: Of this start of its program; None when it does not say.
        uptime_ms: How long its program runs; None when it does not say.
        device_token: What this device may give instead of the gateway's token from now on.
    """

    protocol: int
    version: str
    capabilities: frozenset[str]
    scopes: tuple[str, ...] | None
    tick: float
    device_token: str | None
    boot_id: str | None
    uptime_ms: float | None

    @property
    def native(self) -> bool:
        """Whether it speaks the port itself."""
        return NATIVE in self.capabilities

    @property
    def title(self) -> str:
        """Program and version, as a connection shows them."""
        return f"{'switchboard' if self.native else 'openclaw'} {self.version}".rstrip()

    @classmethod
    def read(cls, payload: object) -> "Hello":
        """Read the answer to `connect`."""
        data = mapping(payload)
        features, auth = mapping(data.get("features")), mapping(data.get("auth"))
        protocol, tick = data.get("protocol"), mapping(data.get("policy")).get("tickIntervalMs")
        seconds = tick / 1000 if isinstance(tick, int | float) and not isinstance(tick, bool) else DEFAULT_TICK
        token, scopes = auth.get("deviceToken"), auth.get("scopes")
        boot, up = mapping(data.get("server")).get("bootId"), mapping(data.get("snapshot")).get("uptimeMs")
        return cls(
            protocol=protocol if isinstance(protocol, int) else max(PROTOCOLS),
            version=_words(mapping(data.get("server")).get("version")),
            capabilities=frozenset(strings(features.get("capabilities"))),
            scopes=None if scopes is None else tuple(strings(scopes)),
            tick=seconds if 0 < seconds <= MAX_TICK else DEFAULT_TICK,
            device_token=token if isinstance(token, str) and token else None,
            boot_id=boot if isinstance(boot, str) and boot else None,
            uptime_ms=up if isinstance(up, int | float) and not isinstance(up, bool) and up >= 0 else None,
        )


def own_version() -> str:
    """Return the version of this program."""
    try:
        return version("switchboard-console")
    except PackageNotFoundError:
        return "0"


def strings(value: object) -> list[str]:
    """Return the texts of a list in somebody's JSON."""
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _words(value: object) -> str:
    return "".join(c for c in value if c.isprintable())[:60] if isinstance(value, str) else ""
