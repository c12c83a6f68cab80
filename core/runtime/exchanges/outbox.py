"""Sends what is to be announced: one delivery at a time per channel, tried again only where the channel provably did
nothing (S11)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from core.channels import Channel, ChannelBusy, Channels, OutgoingText, Rejected
from core.config.settings import Settings
from core.model.errors import Unavailable
from core.model.exchanges import Delivery
from core.runtime.exchanges.announce import note_denied
from core.store import deliveries, sessions
from core.store.database import Store, Tx
from core.tasks import Tasks, racing

T = TypeVar("T")
ATTEMPTS: Final = 8
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 300.0
ANSWER_SECONDS: Final = 30.0
"""How long a channel may take; after that nobody knows whether it has the text."""
STORE_RETRY_SECONDS: Final = 1.0
BROKEN_RETRY_SECONDS: Final = 60.0
"""How long a channel is left alone after a delivery broke inside."""
GRACE_SECONDS: Final = 5.0
"""How long a delivery that is under way may take to end when the runtime is closed."""

_log = logging.getLogger("switchboard.outbox")


class Outbox:
    """The deliveries of a runtime at work, over the channels that are configured, by name."""

    def __init__(self, store: Store, channels: Channels, settings: Callable[[], Settings]) -> None:
        self._store = store
        self._channels = channels
        self._settings = settings
        self._sending = Tasks(lambda error: _log.error("a delivery broke off", exc_info=error))
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._resting: dict[str, int] = {}  # until when, in ms, by channel
        self._alarm: asyncio.Task[None] | None = None
        self._closed = False

    def look(self) -> None:
        """Start what is due, and look again when the next one is."""
        if self._closed:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self._store.clock.now_ms()
        later: list[int] = []
        try:
            pending = self._store.read(lambda db: deliveries.in_state(db, "pending"))
        except Unavailable as error:
            _log.warning("cannot read what is to be delivered: %s", error.message)
            self._alarm = asyncio.create_task(self._look_in(STORE_RETRY_SECONDS))
            return
        for delivery in pending:
            if delivery.channel in self._busy:
                continue
            due_at = max(delivery.due_at, self._resting.get(delivery.channel, 0))
            if due_at > now:
                later.append(due_at)
                continue
            task = self._sending.spawn(self._send(delivery), name=f"delivery {delivery.delivery_id}")
            self._busy[delivery.channel] = task
            task.add_done_callback(lambda _, channel=delivery.channel: self._sent(channel))
        if later:
            self._alarm = asyncio.create_task(self._look_in((min(later) - now) / 1000))

    async def idle(self) -> None:
        """Wait until nothing is being sent; what is to be tried again later is left."""
        while self._busy:
            await asyncio.wait(list(self._busy.values()))
            await asyncio.sleep(0)  # what the end of one starts

    async def close(self) -> None:
        """Begin nothing more, and give what is under way a moment to end; what does not is `unknown` at the next start.

        It is a time of the wall, whatever the clock of the runtime is: somebody waits for the end of the process.
        """
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._busy:
            await asyncio.wait(list(self._busy.values()), timeout=GRACE_SECONDS)
        tasks = [*self._busy.values(), *([self._alarm] if self._alarm else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_in(self, seconds: float) -> None:
        await self._store.clock.sleep(seconds)
        self._alarm = None
        self.look()

    def _sent(self, channel: str) -> None:
        del self._busy[channel]
        self.look()

    async def _send(self, delivery: Delivery) -> None:
        """Take one delivery from `pending` as far as it goes."""
        try:
            channel = self._channels.get(delivery.channel)
            taken = await self._write(lambda tx: self._take(tx, delivery, channel))
            if taken is not None and channel is not None:
                await self._write(await self._ask(channel, taken))
        except Exception:  # noqa: BLE001 - whatever it was, the channel goes on after a while
            _log.exception("delivery %s broke off", delivery.delivery_id)
            self._resting[delivery.channel] = self._store.clock.now_ms() + round(BROKEN_RETRY_SECONDS * 1000)

    async def _write(self, function: Callable[[Tx], T]) -> T:
        """Write what must be written, trying again while the store cannot; what `close` cuts off is for recovery."""
        while True:
            try:
                return await self._store.write(function)
            except Unavailable as error:
                _log.warning("cannot write: %s", error.message)
                await self._store.clock.sleep(STORE_RETRY_SECONDS)

    def _take(self, tx: Tx, delivery: Delivery, channel: Channel | None) -> Delivery | None:
        """Turn a pending delivery into one that is being sent; None when it is not to be sent."""
        now = deliveries.by_id(tx.db, delivery.delivery_id)
        if now is None or now.state != "pending":
            return None
        session = sessions.by_key(tx.db, now.key)
        decision = self._settings().rules.send_decision(session) if session is not None else None
        if decision is not None and not decision.allowed:
            deliveries.move(tx, now.delivery_id, "skipped", note_denied(tx, now.key, decision))
            return None
        if channel is None:
            deliveries.move(tx, now.delivery_id, "failed", f"no route to {now.address}: the channel is not configured")
            return None
        return deliveries.move(tx, now.delivery_id, "sending", attempts=now.attempts + 1)

    async def _ask(self, channel: Channel, delivery: Delivery) -> Callable[[Tx], Delivery]:
        """Ask the channel, and return what to write about its answer."""
        outgoing = OutgoingText(delivery.delivery_id, delivery.to, delivery.account_id, delivery.text)
        async with racing(channel.deliver(outgoing), self._store.clock.sleep(ANSWER_SECONDS)) as (answer, _):
            pass
        return lambda tx: _answered(tx, delivery, answer)


def _answered(tx: Tx, delivery: Delivery, answer: "asyncio.Task[None]") -> Delivery:
    if not answer.done() or answer.cancelled():
        return deliveries.move(tx, delivery.delivery_id, "unknown", f"no answer within {ANSWER_SECONDS:g} s")
    error = answer.exception()
    match error:
        case None:
            return deliveries.move(tx, delivery.delivery_id, "sent")
        case ChannelBusy() if delivery.attempts < ATTEMPTS:
            wait = max(
                error.retry_after or 0.0, min(FIRST_WAIT_SECONDS * 2 ** (delivery.attempts - 1), LONGEST_WAIT_SECONDS)
            )
            return deliveries.move(tx, delivery.delivery_id, "pending", str(error), due_at=tx.now + round(wait * 1000))
        case ChannelBusy():
            return deliveries.move(
                tx, delivery.delivery_id, "failed", f"given up after {delivery.attempts} attempts: {error}"
            )
        case Rejected():
            return deliveries.move(tx, delivery.delivery_id, "failed", str(error))
        case _:
            reason = f"{type(error).__name__} while it was being sent: only the channel knows whether it arrived"
            return deliveries.move(tx, delivery.delivery_id, "unknown", reason)
