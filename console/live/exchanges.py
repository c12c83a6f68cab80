"""The exchanges of the sessions that somebody looks at, with the deliveries of their announces, kept true from events.

Their text enters the console's model here (architecture#threats): ids stay as they are, for they are only looked up.
"""

from typing import Final, NamedTuple

from console.live.text.clean import clean_line
from core.gateway import Gateway
from core.model.exchanges import Delivery, Exchange
from core.model.keys import split
from core.model.runs import Run, RunState

NEWEST: Final = 100
"""How many exchanges of a session are read when it is opened."""
KEPT: Final = 500
"""How many are remembered while sessions stay open; beyond that the oldest that have ended go."""


class Task(NamedTuple):
    """The run that a sub-agent was started for, not its announce step; `runtime_ms` is None while it is not over."""

    rev: int
    state: RunState
    runtime_ms: int | None


class Exchanges:
    """Exchanges by id; whoever asks for those that are not known is told of none."""

    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}
        self._announces: dict[str, Delivery] = {}
        self._spawns: dict[str, str] = {}
        self._tasks: dict[str, Task] = {}

    async def read(self, gateway: Gateway, key: str) -> None:
        """Read the newest exchanges of a session, each with its announce."""
        for exchange, announce in reversed(await gateway.exchanges(key, limit=NEWEST)):
            self.take(exchange)
            if announce is not None:
                self.take_announce(announce)

    def take(self, exchange: Exchange) -> bool:
        """Keep what is newer than what is known; whether it was."""
        known = self._exchanges.get(exchange.exchange_id)
        if known is not None and known.rev >= exchange.rev:
            return False
        reason = clean_line(exchange.reason) if exchange.reason is not None else None
        self._exchanges[exchange.exchange_id] = exchange._replace(reason=reason)
        if exchange.kind == "spawn":
            self._spawns[exchange.target] = exchange.exchange_id
            if exchange.task_state is not None:
                self._take_task(exchange.target, Task(exchange.rev, exchange.task_state, exchange.task_ms))
        if known is None and len(self._exchanges) > KEPT:
            self._drop_oldest()
        return True

    def take_announce(self, delivery: Delivery) -> bool:
        """Keep the announce of a known exchange if it is newer than what is known; whether it was."""
        known = self._announces.get(delivery.exchange_id)
        if delivery.exchange_id not in self._exchanges or (known is not None and known.rev >= delivery.rev):
            return False
        self._announces[delivery.exchange_id] = delivery._replace(
            channel=clean_line(delivery.channel, 40),
            to=clean_line(delivery.to, 80),
            text="",
            reason=clean_line(delivery.reason) if delivery.reason is not None else None,
        )
        return True

    def take_run(self, run: Run) -> None:
        """Keep what became of the task of a known spawn."""
        exchange = self.spawn_of(run.key)
        if exchange is not None and run.run_id == exchange.exchange_id:
            took = run.ended_at - (run.started_at or run.ended_at) if run.ended_at is not None else None
            self._take_task(run.key, Task(run.rev, run.state, took))

    def get(self, exchange_id: str) -> Exchange | None:
        """Return an exchange."""
        return self._exchanges.get(exchange_id)

    def announce(self, exchange_id: str) -> Delivery | None:
        """Return what became of the announce of an exchange, None before there is one."""
        return self._announces.get(exchange_id)

    def spawn_of(self, child: str) -> Exchange | None:
        """Return the exchange that a sub-agent was started with."""
        return self._exchanges.get(self._spawns.get(child, ""))

    def task_of(self, child: str) -> Task | None:
        """Return what became of the task of a sub-agent, None while that is not known."""
        return self._tasks.get(child)

    def of(self, key: str) -> list[Exchange]:
        """Return the exchanges in which a session has or had its turn, the newest first; not those it spawned."""
        found = [e for e in self._exchanges.values() if key == e.target or (key == e.requester and e.kind == "send")]
        return sorted(found, key=lambda exchange: -exchange.started_at)

    def forget(self, gateway: str | None = None) -> None:
        """Forget those of a gateway; None for all of them."""
        for known in (self._exchanges, self._announces, self._spawns, self._tasks):
            for ref in [ref for ref in known if gateway is None or split(ref)[0] == gateway]:
                del known[ref]

    def _take_task(self, child: str, task: Task) -> None:
        known = self._tasks.get(child)
        if known is None or known.rev < task.rev:
            self._tasks[child] = task

    def _drop_oldest(self) -> None:
        oldest = next((e for e in self._exchanges.values() if e.state == "ended"), None)
        if oldest is not None:
            del self._exchanges[oldest.exchange_id]
            self._announces.pop(oldest.exchange_id, None)
            if self._spawns.get(oldest.target) == oldest.exchange_id:
                del self._spawns[oldest.target]
                self._tasks.pop(oldest.target, None)
