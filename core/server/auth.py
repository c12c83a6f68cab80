"""Who may do what: tokens, scopes, the lock-out after wrong tokens, and which web pages may ask (G8,
architecture#threats)."""

import contextlib
import hashlib
import hmac
import ipaddress
import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from core.clock import Clock
from core.model.access import Operator
from core.model.errors import Forbidden, Unauthorized

READ: Final = "operator.read"
WRITE: Final = "operator.write"
ADMIN: Final = "operator.admin"
PAIRING: Final = "operator.pairing"
SCOPES: Final = frozenset({READ, WRITE, ADMIN, "operator.approvals", PAIRING})
MAX_FAILURES: Final = 10
"""Wrong tokens of one network within a minute; from then on its wrong ones are answered slowly."""
MAX_ALL_FAILURES: Final = 1_000
"""Of all networks together: who guesses from everywhere is slowed everywhere."""
WINDOW_SECONDS: Final = 60.0
LOCKED_SECONDS: Final = 60.0
REFUSAL_SECONDS: Final = 1.0
"""How long the answer to a wrong token is held back from a network that has guessed too often."""
_MOST_HELD: Final = 256
_MOST_PEERS: Final = 4096
_EVERYBODY: Final = "everybody"
LOOPBACK: Final = "loopback"
"""The network of this machine (`network_of`)."""
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
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
    """What one client may do: some of `SCOPES`, those that others imply included."""

    scopes: frozenset[str]

    @property
    def owner(self) -> bool:
        """Whether it may do what is the owner's alone (P3)."""
        return ADMIN in self.scopes

    def caller(self, acting_for: str | None = None) -> Operator:
        """Return the caller that the port and the tools see, as which it may act for a session, in any spelling."""
        return Operator(acting_for, owner=self.owner)

    def narrowed(self, wanted: Iterable[str]) -> "Access":
        """Return what is left when a client asks for these scopes only; nobody gets more than the token gives."""
        asked = frozenset(wanted)
        implied = frozenset(scope for name in asked for scope in _IMPLIED.get(name, ()))
        return Access((asked | implied) & self.scopes)

    def require(self, scope: str) -> None:
        """Raise `Forbidden` when the client lacks a scope."""
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
        self._held = 0
        self._issuers = {True: _name(self._full), False: _name(self._full + (self._reading or b""))}

    def check(self, token: str | None, *, peer: str) -> Access:
        """Return what the holder of a token may do; a right one is let in however often others have guessed.

        Args:
            peer: The address it comes from; wrong tokens are counted for each network alone, and for all together.

        Raises `TokenRefused` when the token is missing or wrong, or wrong once more after too many wrong ones.
        """
        if not token:
            raise TokenRefused("the gateway token is missing: send it as `Authorization: Bearer TOKEN`", "missing")
        given = _digest(token)
        is_full = hmac.compare_digest(given, self._full)
        is_reading = self._reading is not None and hmac.compare_digest(given, self._reading)
        if is_full or is_reading:
            return OWNER if is_full else READER
        network = network_of(peer)
        self._check_not_locked(network, MAX_FAILURES)
        self._check_not_locked(_EVERYBODY, MAX_ALL_FAILURES)
        self._count(network, MAX_FAILURES)
        self._count(_EVERYBODY, MAX_ALL_FAILURES)
        raise TokenRefused("the gateway token is wrong", "mismatch")

    async def admit(self, token: str | None, *, peer: str) -> Access:
        """Do as `check` does; who guesses too often waits for the refusal."""
        try:
            return self.check(token, peer=peer)
        except TokenRefused as error:
            if error.reason == "locked" and self._held < _MOST_HELD:
                self._held += 1
                try:
                    await self._clock.sleep(REFUSAL_SECONDS)
                finally:
                    self._held -= 1
            raise

    def issuer(self, access: Access) -> str:
        """Return what names the token that gives a client its rights, without giving it away.

        Whatever is issued to the client holds as long as that token is the gateway's: the reading one, too, is void
        with the gateway's own.
        """
        return self._issuers[access.owner]

    @property
    def issuers(self) -> frozenset[str]:
        """The names of the tokens in force."""
        return frozenset(self._issuers.values())

    def _check_not_locked(self, sender: str, most: int) -> None:
        failures = self._failures.get(sender)
        if failures is None or len(failures) < most:
            return
        wait = failures[-1] + LOCKED_SECONDS - self._clock.monotonic()
        if wait <= 0:
            del self._failures[sender]
            return
        seconds = math.ceil(wait)
        sentence = f"too many wrong tokens came from this address, and this one is wrong: try again in {seconds} s"
        raise TokenRefused(sentence, "locked", seconds)

    def _count(self, sender: str, most: int) -> None:
        now = self._clock.monotonic()
        failures = self._failures.pop(sender, None) or deque[float](maxlen=most)
        while failures and failures[0] < now - WINDOW_SECONDS:
            failures.popleft()
        failures.append(now)
        self._failures[sender] = failures  # the newest stand last
        if len(self._failures) > _MOST_PEERS:
            del self._failures[next(iter(self._failures))]


@dataclass(frozen=True, slots=True)
class Sites:
    """Under which names the gateway is reached, and from which web pages (architecture#threats).

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
        """Refuse a request that may not come as it does.

        Args:
            host: Its Host header.
            origin: Its Origin header; browsers send it.
            reached_at: The address of this machine on which the request came in.

        Raises `Forbidden` when the Host is not one of this gateway's names, or the Origin is not allowed.
        """
        name = _host_name(host or "")
        if name not in _LOCAL_NAMES and name not in self.hosts and (not name or name != reached_at):
            raise Forbidden("this is not the Host of the gateway: set gateway.publicOrigin to the name it is used by")
        if origin is None or _origin(origin) in self.origins:
            return
        place = None
        with contextlib.suppress(ValueError):  # then it is no URL
            place = urlsplit(origin).netloc.lower()
        if place != (host or "").lower():
            raise Forbidden("this Origin may not use the gateway: name it in gateway.controlUi.allowedOrigins")


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def network_of(peer: str) -> str:
    """Return what strangers are counted by: the address; of IPv6 the network that one customer has, of this machine
    all that is loopback."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _name(digest: bytes) -> str:
    """Return a name for what a digest is of; it says nothing about the digest."""
    return hashlib.sha256(b"issued by " + digest).hexdigest()[:32]


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
