"""Who may do what: tokens, scopes, the lock-out after wrong tokens, and which web pages may ask (G8, DESIGN 11)."""

import hashlib
import hmac
import ipaddress
import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from core.model.access import Operator
from core.model.clock import Clock
from core.model.errors import Forbidden, Unauthorized

READ: Final = "operator.read"
WRITE: Final = "operator.write"
ADMIN: Final = "operator.admin"
SCOPES: Final = frozenset({READ, WRITE, ADMIN, "operator.approvals", "operator.pairing"})
MAX_FAILURES: Final = 10
WINDOW_SECONDS: Final = 60.0
LOCKED_SECONDS: Final = 60.0
_MOST_PEERS: Final = 4096
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_IMPLIED: Final = {ADMIN: SCOPES, WRITE: frozenset({READ})}


class TokenRefused(Unauthorized):
    """The token is missing or wrong, or its sender has guessed too often.

    Attributes:
        reason: What is the matter with it.
        retry_after: Whole seconds to wait before the next attempt; None when there is no need to wait.
    """

    def __init__(
        self, message: str, reason: Literal["missing", "mismatch", "locked"], retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason: Final = reason
        self.retry_after: Final = retry_after


@dataclass(frozen=True, slots=True)
class Access:
    """What one client may do.

    Attributes:
        scopes: Some of `SCOPES`, those that others imply included.
    """

    scopes: frozenset[str]

    @property
    def owner(self) -> bool:
        """Whether it may do what is the owner's alone (P3)."""
        return ADMIN in self.scopes

    def caller(self, acting_for: str | None = None) -> Operator:
        """Return the caller that the port and the tools see.

        Args:
            acting_for: The session that the operator sends or spawns from, in any spelling.
        """
        return Operator(acting_for, owner=self.owner)

    def narrowed(self, wanted: Iterable[str]) -> "Access":
        """Return what is left when a client asks for these scopes only; nobody gets more than the token gives."""
        asked = frozenset(wanted)
        implied = frozenset(scope for name in asked for scope in _IMPLIED.get(name, ()))
        return Access((asked | implied) & self.scopes)

    def require(self, scope: str) -> None:
        """Do nothing when the client has the scope.

        Raises:
            Forbidden: It has not.
        """
        if scope not in self.scopes:
            raise Forbidden(f"missing scope: {scope}", (scope,))


OWNER: Final = Access(SCOPES)
READER: Final = Access(frozenset({READ}))


class Auth:
    """The tokens of a gateway, and who has guessed wrong lately.

    Args:
        token: Gives every scope.
        read_only_token: Gives `operator.read`; None when there is none.
        clock: Its monotonic time counts.
    """

    def __init__(self, token: str, read_only_token: str | None, clock: Clock) -> None:
        self._full = _digest(token)
        self._reading = _digest(read_only_token) if read_only_token is not None else None
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def check(self, token: str | None, *, peer: str) -> Access:
        """Return what the holder of a token may do.

        Args:
            peer: The address it comes from; wrong tokens are counted for each address alone.

        Raises:
            TokenRefused: The token is missing or wrong, or this address sent too many wrong ones.
        """
        sender = _sender(peer)
        self._check_not_locked(sender)
        if not token:
            raise TokenRefused("the gateway token is missing: send it as `Authorization: Bearer TOKEN`", "missing")
        given = _digest(token)
        is_full = hmac.compare_digest(given, self._full)
        is_reading = self._reading is not None and hmac.compare_digest(given, self._reading)
        if is_full or is_reading:
            self._failures.pop(sender, None)
            return OWNER if is_full else READER
        self._count(sender)
        raise TokenRefused("the gateway token is wrong", "mismatch")

    def _check_not_locked(self, sender: str) -> None:
        failures = self._failures.get(sender)
        if failures is None or len(failures) < MAX_FAILURES:
            return
        wait = failures[-1] + LOCKED_SECONDS - self._clock.monotonic()
        if wait <= 0:
            del self._failures[sender]
            return
        seconds = math.ceil(wait)
        sentence = f"too many wrong tokens came from this address: try again in {seconds} s"
        raise TokenRefused(sentence, "locked", seconds)

    def _count(self, sender: str) -> None:
        now = self._clock.monotonic()
        failures = self._failures.pop(sender, None) or deque[float](maxlen=MAX_FAILURES)
        while failures and failures[0] < now - WINDOW_SECONDS:
            failures.popleft()
        failures.append(now)
        self._failures[sender] = failures  # the newest stand last
        if len(self._failures) > _MOST_PEERS:
            del self._failures[next(iter(self._failures))]


@dataclass(frozen=True, slots=True)
class Sites:
    """Under which names the gateway is reached, and from which web pages (DESIGN 11).

    A page that makes its own name point at this machine still sends that name as Host; a page elsewhere sends its
    Origin. The port in a Host says nothing: a tunnel changes it.

    Attributes:
        hosts: Names besides the loopback ones and the address on which a request came in, in lower case.
        origins: Origins besides the gateway's own, such as `https://panel.example.com`.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, public_origin: str | None, origins: Collection[str] = ()) -> "Sites":
        """Return the sites of a gateway.

        Args:
            public_origin: Where it is reached from elsewhere, such as `https://gateway.example.com`.
            origins: Of the web pages that may use it.
        """
        public = [public_origin] if public_origin else []
        names = frozenset((urlsplit(origin).hostname or "").lower() for origin in public)
        return cls(names, frozenset(_origin(each) for each in (*origins, *public)))

    def check(self, host: str | None, origin: str | None, reached_at: str | None) -> None:
        """Do nothing when a request may come as it does.

        Args:
            host: Its Host header.
            origin: Its Origin header; browsers send it.
            reached_at: The address of this machine on which the request came in.

        Raises:
            Forbidden: The Host is not one of this gateway's names, or the Origin is not allowed.
        """
        name = _host_name(host or "")
        if name not in _LOOPBACK and name not in self.hosts and (not name or name != reached_at):
            raise Forbidden("this is not the Host of the gateway: set gateway.publicOrigin to the name it is used by")
        if origin is None or _origin(origin) in self.origins:
            return
        if urlsplit(origin).netloc.lower() != (host or "").lower():
            raise Forbidden("this Origin may not use the gateway: name it in gateway.controlUi.allowedOrigins")


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _sender(peer: str) -> str:
    """Return what wrong tokens are counted by: the address, of IPv6 the network that one customer has."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port and in lower case; empty when it is none."""
    try:
        parts = urlsplit(f"//{host}")
        usable = parts.netloc == host and parts.username is None and (parts.port or 1) > 0
        return (parts.hostname or "").lower() if usable else ""
    except ValueError:
        return ""


def _origin(text: str) -> str:
    return text.strip().rstrip("/").lower()
