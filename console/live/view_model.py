"""What the console shows, as plain data: its gateways, the sessions, the open transcripts, what was announced.

`console.live.synchronizer` keeps it true. Whoever draws is told at most once per batch that something changed.
"""

from typing import TYPE_CHECKING

from console.live.book import Book
from console.live.changes import PendingChanges
from console.live.deliveries import Deliveries
from console.live.exchanges import Exchanges
from console.live.memory import Memory
from console.live.rates import Rates
from console.live.text.words import LOCAL
from console.live.transcripts import Transcripts
from core.clock import SystemClock
from core.gateway import Gateway
from core.model.connection import REACHED, Connection
from core.model.keys import joined, split
from core.multi import MultiGateway

if TYPE_CHECKING:
    from collections.abc import Callable


class ViewModel:
    """What the operator works with.

    Attributes:
        gateway: All gateways whose sessions are shown.
        memory: What is remembered between two starts.
        changes: What is to be drawn again.
        book: The sessions.
        exchanges: Those of the open sessions and of the sub-agents below them.
        transcripts: The open ones.
        wall_ms: The time here in ms since the Unix epoch, which is not that of every gateway.
    """

    def __init__(self, gateway: Gateway, memory: Memory) -> None:
        self.gateway = gateway if isinstance(gateway, MultiGateway) else MultiGateway({"": gateway})
        self.memory = memory
        self.changes = PendingChanges()
        self.book = Book(self.gateway.policy_of)
        self.deliveries = Deliveries()
        self.rates = Rates()
        self.exchanges = Exchanges()
        self.transcripts = Transcripts(self.gateway, self.book, self.exchanges, self.changes)
        self.wall_ms: Callable[[], int] = SystemClock().now_ms
        self._lost: dict[str, Connection] = {}

    @property
    def main_key(self) -> str:
        """The session that is meant where none is named."""
        return joined(self.gateway.home, self.gateway.rules.main_key)

    def place_of(self, key: str) -> str:
        """Return the gateway of a key for the screen: `@prod`; empty while there is only one."""
        return f"@{self.gateway.owner(key) or LOCAL}" if len(self.gateway.names) > 1 else ""

    def now_ms(self, key: str = "") -> int:
        """Return the time of the gateway of a key, in ms since the Unix epoch; of one that was lost, when that was."""
        gateway = self.gateway.of(key)
        silent = self.silent_ms(key)
        return gateway.now_ms() - (silent or 0)

    def silent_ms(self, key: str) -> int | None:
        """Return for how many ms nothing was heard of the gateway of a key; None while it is reached."""
        connection = self._lost.get(split(key)[0])
        if connection is None:
            return None
        return max(0, self.wall_ms() - connection.heard_at) if connection.heard_at is not None else 0

    def note_connections(self) -> None:
        """Note which gateways are not reached: every row asks for that."""
        self._lost = {each.name: each for each in self.gateway.connections() if each.state not in REACHED}
