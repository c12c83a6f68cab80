"""What was announced on channels, or should have been: the newest deliveries, and all that are not over."""

from collections.abc import Iterable
from typing import Final

from console.live.text.clean import clean, clean_line
from core.gateway import Gateway
from core.model.exchanges import OPEN_DELIVERIES, STUCK_DELIVERIES, Delivery
from core.model.keys import split

NEWEST: Final = 200
"""So many are kept whatever their state."""
MOST: Final = 1000
"""So many at most of those that are not over."""


class Deliveries:
    """The deliveries, with every text that is drawn cleaned; `stuck` counts those that wait for the operator."""

    def __init__(self) -> None:
        self.stuck = 0
        self._rows: dict[str, Delivery] = {}

    async def load(self, gateway: Gateway) -> None:
        """Read those that are not over, and the newest."""
        live = await gateway.deliveries(states=OPEN_DELIVERIES | STUCK_DELIVERIES, limit=MOST)
        self.take([*live, *await gateway.deliveries(limit=NEWEST)])

    def take(self, found: Iterable[Delivery]) -> None:
        """Take in what was read or heard; what is known in a newer state stays as it is."""
        for delivery in found:
            known = self._rows.get(delivery.delivery_id)
            if known is None or known.rev < delivery.rev:
                self.stuck += (delivery.state in STUCK_DELIVERIES) - (
                    known is not None and known.state in STUCK_DELIVERIES
                )
                self._rows[delivery.delivery_id] = _cleaned(delivery)
        if len(self._rows) > 2 * (NEWEST + MOST):
            over = [each for each in self.newest_first() if each.state not in OPEN_DELIVERIES | STUCK_DELIVERIES]
            for delivery in over[NEWEST:]:
                del self._rows[delivery.delivery_id]

    def forget(self, gateway: str) -> None:
        """Forget those of a gateway."""
        kept = {ref: each for ref, each in self._rows.items() if split(ref)[0] != gateway}
        self.stuck = sum(each.state in STUCK_DELIVERIES for each in kept.values())
        self._rows = kept

    def get(self, delivery_id: str) -> Delivery | None:
        """Return a delivery as it was last heard of."""
        return self._rows.get(delivery_id)

    def newest_first(self) -> list[Delivery]:
        """Return all of them."""
        return sorted(self._rows.values(), key=lambda each: (each.created_at, each.delivery_id), reverse=True)


def _cleaned(delivery: Delivery) -> Delivery:
    return delivery._replace(
        channel=clean_line(delivery.channel, 24),
        to=clean_line(delivery.to, 200),
        account_id=clean_line(delivery.account_id, 80) if delivery.account_id else None,
        text=clean(delivery.text),
        reason=clean_line(delivery.reason, 400) if delivery.reason else None,
    )
