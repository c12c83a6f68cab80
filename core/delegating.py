"""What every gateway shares that has somebody else answer: each read and each write of the port, handed on
(architecture#port)."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from core.gateway import AgentInfo, ModelInfo, Overrides, Reads, Writes
from core.model.access import Caller, Scope
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import HistoryPage, NewSession, SearchHit, Session, SessionPage, SessionPatch, SessionQuery

T = TypeVar("T")


class DelegatingGateway(ABC):
    """The reads and writes of a `core.gateway.Gateway`, documented there: a kind of gateway says who does them, and
    overrides those that it does otherwise."""

    @abstractmethod
    async def _reads(self, ref: str | None) -> Reads:
        """Return who answers what is asked about a key or id, or about no single one for None."""

    @abstractmethod
    async def _writes(self, ref: str | None) -> Writes:
        """Return who changes what a key or id stands for, or, for None, makes something new."""

    def _given(self, value: T) -> T:
        """Return what is asked with the keys and ids that it has there; they are the same unless a kind says so."""
        return value

    def _told(self, answer: T) -> T:
        """Return what is answered with the keys and ids that it has here."""
        return answer

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        there = await self._reads(None)
        return self._told(await there.list_sessions(self._given(query), self._given(scope)))

    async def get_session(self, ref: str, scope: Scope) -> Session:
        there = await self._reads(ref)
        return self._told(await there.get_session(self._given(ref), self._given(scope)))

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
        there = await self._reads(ref)
        ref, scope = self._given(ref), self._given(scope)
        return self._told(
            await there.history(ref, scope, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief)
        )

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        there = await self._reads(key)
        scope, key = self._given(scope), self._given(key)
        return self._told(await there.search(text, scope, key=key, limit=limit, redacted=redacted))

    async def agents(self) -> list[AgentInfo]:
        return await (await self._reads(None)).agents()

    async def models(self) -> list[ModelInfo]:
        return await (await self._reads(None)).models()

    async def overrides(self) -> Overrides:
        return await (await self._reads(None)).overrides()

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        there = await self._reads(key)
        return self._told(await there.runs(self._given(key), self._given(scope), limit=limit))

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        there = await self._reads(run_id)
        return self._told(await there.wait_run(self._given(run_id), timeout))

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        there = await self._reads(exchange_id)
        return self._told(await there.exchange(self._given(exchange_id)))

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        there = await self._reads(key)
        return self._told(await there.exchanges(self._given(key), limit=limit))

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        there = await self._reads(key)
        return self._told(await there.deliveries(self._given(key), states=states, limit=limit))

    async def transcript_path(self, session: Session) -> Path | None:
        there = await self._reads(session.key)
        return await there.transcript_path(self._given(session))

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        there = await self._writes(request.target)
        return self._told(await there.start_run(self._given(request), self._given(caller)))

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        there = await self._writes(ref)
        return self._told(await there.abort(self._given(ref), self._given(caller), run_id=self._given(run_id)))

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        there = await self._writes(ref)
        return self._told(await there.patch(self._given(ref), patch, self._given(caller)))

    async def reset(self, ref: str, caller: Caller) -> Session:
        there = await self._writes(ref)
        return self._told(await there.reset(self._given(ref), self._given(caller)))

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        there = await self._writes(ref)
        return self._told(await there.archive(self._given(ref), self._given(caller), archived=archived))

    async def create(self, new: NewSession, caller: Caller) -> Session:
        there = await self._writes(new.key or new.parent)
        return self._told(await there.create(self._given(new), self._given(caller)))

    async def delete(self, ref: str, caller: Caller) -> None:
        there = await self._writes(ref)
        await there.delete(self._given(ref), self._given(caller))

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        there = await self._writes(ref)
        return self._told(await there.append(self._given(ref), self._given(draft), self._given(caller)))

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        there = await self._writes(delivery_id)
        return self._told(await there.retry_delivery(self._given(delivery_id), self._given(caller)))

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        there = await self._writes(delivery_id)
        return self._told(await there.drop_delivery(self._given(delivery_id), self._given(caller)))
