"""What is read of one of our own gateways; a wait for a run goes on when the connection is lost meanwhile."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from core.gateway import AgentInfo, ModelInfo
from core.model.access import Scope
from core.model.errors import Unavailable
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.runs import Run, RunOutcome
from core.model.sessions import HistoryPage, Override, SearchHit, Session, SessionPage, SessionQuery
from core.remote.link import Link
from core.remote.native.requests import ANSWER_SECONDS, PortRequests
from core.remote.refusal import RequestNotTaken

WAIT_SECONDS: Final = 20.0
"""How long the gateway is asked to wait for a run at a time; a longer wait asks again."""
PAUSE_SECONDS: Final = 0.25
"""Before a wait that could not be made is tried again."""
_MANY_FAILURES: Final = 8


class NativeReads:
    """The reads of a gateway; see `core.gateway.Reads`."""

    def __init__(self, link: Link, requests: PortRequests) -> None:
        self._link = link
        self._requests = requests

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        return await self._requests.call("list_sessions", query=query, scope=scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id."""
        return await self._requests.call("get_session", ref=ref, scope=scope)

    async def history(
        self,
        ref: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        include_tools: bool = True,
        in_brief: bool = False,
    ) -> HistoryPage:
        """Return the newest `limit` messages, or those before a `seq`, in order."""
        return await self._requests.call(
            "history",
            ref=ref,
            scope=scope,
            limit=limit,
            before=before,
            include_tools=include_tools,
            in_brief=in_brief,
        )

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        return await self._requests.call("search", text=text, scope=scope, key=key, limit=limit, redacted=redacted)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        return await self._requests.call("agents")

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        return await self._requests.call("models")

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides of the send policy that wait for a session of their key; older gateways keep none."""
        try:
            return await self._requests.call("overrides")
        except RequestNotTaken:
            return {}

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        return await self._requests.call("runs", key=key, scope=scope, limit=limit)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds, also across lost connections."""
        clock = self._link.clock
        end = None if timeout is None else clock.monotonic() + timeout
        failures = 0
        while True:
            left = WAIT_SECONDS if end is None else max(0.0, end - clock.monotonic())
            try:
                outcome: RunOutcome = await self._requests.call(
                    "wait_run",
                    seconds=left + ANSWER_SECONDS,
                    run_id=run_id,
                    timeout=min(left, WAIT_SECONDS),
                )
            except Unavailable:
                failures = 0 if not self._link.live else failures + 1
                is_over = end is not None and clock.monotonic() >= end
                if is_over or failures >= _MANY_FAILURES or self._link.connection.state == "refused":
                    raise
                await clock.sleep(PAUSE_SECONDS)
                continue
            if outcome.status != "timeout" or (end is not None and clock.monotonic() >= end):
                return outcome
            failures = 0

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""
        return await self._requests.call("exchange", exchange_id=exchange_id)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first, each with the delivery of its announce."""
        return await self._requests.call("exchanges", key=key, limit=limit)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        return await self._requests.call("deliveries", key=key, states=states, limit=limit)

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, when that is on this machine."""
        return await self._requests.call("transcript_path", session=session)
