"""What strangers may cost, and what waits in memory for everybody together.

A connection is a guest until it has shown a token. Guests have a budget of their own, in connections and in bytes, and
the oldest goes first: whoever opens thousands pushes out its own, and never those that were let in.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from core.model.errors import Unavailable
from core.server.auth import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable

GUEST: Final = "guest"
"""Under this name the application finds the connection in the state of its scope."""


class Holder(Protocol):
    """Something for which bytes are held in memory."""

    def drop(self) -> None:
        """End it, so that they are held no longer."""
        ...


class Line(Protocol):
    """What a connection goes over; the transports of asyncio are such."""

    def abort(self) -> None:
        """End it at once."""
        ...

    def is_closing(self) -> bool:
        """Whether it ends."""
        ...


class Budget:
    """Bytes that are held for many, `total` now; when they are more than `most`, whoever holds most is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Holder, int] = {}
        self.total = 0

    def hold(self, holder: Holder, size: int) -> None:
        """Note how much is held for one now; 0 when nothing is."""
        self.total += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.total > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            self.total -= self._held.pop(largest)
            largest.drop()


class Guest:
    """One connection, from its first byte to its end.

    Attributes:
        network: Where it comes from (`core.server.auth.network_of`).
        admitted: It has shown a token.
        on_admitted: Is called when it is let in.
    """

    def __init__(self, guests: "Guests", network: str, line: Line) -> None:
        self.network: Final = network
        self.admitted = False
        self.on_admitted: Callable[[], None] | None = None
        self._guests = guests
        self._line = line
        self._size = 0

    @property
    def gone(self) -> bool:
        """Whether what is sent reaches nobody any more."""
        return self._line.is_closing()

    def admit(self) -> None:
        """Let it in; a second call does nothing. Raises as `Guests.admit` does."""
        if not self.admitted:
            self._guests.admit(self)
            self.admitted = True
            self.hold(self._size)
            if self.on_admitted is not None:
                self.on_admitted()

    def hold(self, size: int) -> None:
        """Note how many bytes are held for it."""
        self._size = size
        self._guests.outside.hold(self, 0 if self.admitted else size)
        self._guests.inside.hold(self, size if self.admitted else 0)

    def leave(self) -> None:
        """Forget it: it has ended."""
        self.hold(0)
        self._guests.forget(self)

    def drop(self) -> None:
        """End the connection at once."""
        self._guests.forget(self)
        self._line.abort()


class Guests:
    """All connections of a server.

    Args:
        inside: Bytes that are held for all that were let in.
        most: Guests at once; one more, and the oldest goes.
        most_of_network: Of one network beyond this machine.
        most_admitted: Connections that were let in.
        outside: Bytes that are held for all guests together.
    """

    def __init__(self, inside: Budget, *, most: int, most_of_network: int, most_admitted: int, outside: int) -> None:
        self.inside: Final = inside
        self.outside: Final = Budget(outside)
        self._most = most
        self._most_of_network = most_of_network
        self._most_admitted = most_admitted
        self._waiting: dict[Guest, None] = {}  # the oldest first
        self._networks = Counter[str]()
        self._admitted = set[Guest]()

    @property
    def waiting(self) -> int:
        """How many have shown no token yet."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether nobody else is let in."""
        return len(self._admitted) >= self._most_admitted

    def enter(self, network: str, line: Line) -> Guest:
        """Take a new connection in as a guest; the oldest one makes room for it."""
        if network != LOOPBACK and self._networks[network] >= self._most_of_network:
            next(guest for guest in self._waiting if guest.network == network).drop()
        elif len(self._waiting) >= self._most:
            next(iter(self._waiting)).drop()
        guest = Guest(self, network, line)
        self._waiting[guest] = None
        self._networks[network] += 1
        return guest

    def admit(self, guest: Guest) -> None:
        """Count a guest among those that are let in; raises `Unavailable` when they are too many."""
        if self.full:
            raise Unavailable("the gateway serves as many connections as it may: try again later")
        self.forget(guest)
        self._admitted.add(guest)

    def forget(self, guest: Guest) -> None:
        """Count a connection no longer."""
        self._admitted.discard(guest)
        if guest in self._waiting:
            del self._waiting[guest]
            self._networks[guest.network] -= 1
            if not self._networks[guest.network]:
                del self._networks[guest.network]
