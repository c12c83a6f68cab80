"""Where a gateway is and what is needed to reach it."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from core.model.errors import Invalid
from core.model.keys import quoted

_SCHEMES: Final = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_PORTS: Final = {"ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Tls:
    """How the certificate of a `wss` gateway is checked.

    Attributes:
        ca_file: PEM file with the authorities to trust, None for those of the system.
        fingerprint: SHA-256 of the one certificate to accept, in hexadecimal; no authority is asked then.
    """

    ca_file: Path | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port: what credentials belong to."""

    scheme: str
    host: str
    port: int

    @property
    def secure(self) -> bool:
        """Whether it is reached over TLS."""
        return self.scheme == "wss"

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Profile:
    """One gateway of the operator's.

    Attributes:
        name: How the operator calls it.
        url: `ws://`, `wss://`, `http://` or `https://`, without user, query or fragment.
        token: Reads the gateway's token when it is needed; None when there is none.
        insecure: Reach it without TLS although it is not on this machine.
    """

    name: str
    url: str
    token: Callable[[], str | None] = field(default=lambda: None, repr=False)
    tls: Tls = Tls()
    insecure: bool = False

    @property
    def origin(self) -> Origin:
        """What the profile's credentials belong to.

        Raises `Invalid` when the URL cannot be meant, or would send what is secret in the open.
        """
        return parse_url(self.url)[0]


def parse_url(url: str) -> tuple[Origin, str]:
    """Return origin and WebSocket URL of a gateway.

    Raises `Invalid` when the URL cannot be meant, or holds what does not belong into one.
    """
    shown = quoted(url.partition("?")[0].rpartition("@")[2])  # what may be a secret is not repeated
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise Invalid(f"the gateway's address {shown} is malformed: use ws://host:port or wss://host") from None
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname:
        raise Invalid(f"the gateway's address {shown} is malformed: use ws://host:port or wss://host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid(f"the gateway's address {shown} must not hold a user, query or fragment: tokens go elsewhere")
    origin = Origin(scheme, parts.hostname.lower(), port or _PORTS[scheme])
    return origin, f"{origin}{parts.path or '/'}"


def check_open(profile: Profile) -> None:
    """Refuse to reach a gateway elsewhere without TLS, unless that was asked for.

    Raises `Invalid` when it is not on this machine, and nothing says that it may be.
    """
    origin = profile.origin
    if not origin.secure and not origin.loopback and not profile.insecure:
        raise Invalid(
            f"{origin} is on another machine and not encrypted: use wss://, a tunnel, or say --insecure if you"
            " trust the network between"
        )
