"""What every gateway shares that has somebody else answer: each read and each write of the port, handed on
(architecture#port)."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path

from core.gateway import AgentInfo, ModelInfo, Overrides, Reads, Writes
from core.model.access import Caller, Scope
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import HistoryPage, NewSession, SearchHit, Session, SessionPage, SessionPatch, SessionQuery


class DelegatingGateway(ABC):
    """The reads and writes of a `core.gateway.Gateway`: a kind of gateway says who does them, and overrides those that
    it does otherwise."""

    @abstractmethod
    async def _reads(self, ref: str | None) -> Reads:
        """Return who answers what is asked about a key or id, or about no single one for None."""

    @abstractmethod
    async def _writes(self, ref: str | None) -> Writes:
        """Return who changes what a key or id stands for, or, for None, makes something new."""

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        return await (await self._reads(None)).list_sessions(query, scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id."""
        return await (await self._reads(ref)).get_session(ref, scope)

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
        there = await self._reads(ref)
        return await there.history(
            ref, scope, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
        )

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        return await (await self._reads(key)).search(text, scope, key=key, limit=limit, redacted=redacted)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        return await (await self._reads(None)).agents()

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        return await (await self._reads(None)).models()

    async def overrides(self) -> Overrides:
        """Return the overrides of the send policy that wait for a session of their key."""
        return await (await self._reads(None)).overrides()

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        return await (await self._reads(key)).runs(key, scope, limit=limit)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        return await (await self._reads(run_id)).wait_run(run_id, timeout)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce, None when the run has none."""
        return await (await self._reads(exchange_id)).exchange(exchange_id)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session."""
        return await (await self._reads(key)).exchanges(key, limit=limit)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        return await (await self._reads(key)).deliveries(key, states=states, limit=limit)

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's file is, None where there is none to reach."""
        return await (await self._reads(session.key)).transcript_path(session)

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Have a message accepted for a session."""
        return await (await self._writes(request.target)).start_run(request, caller)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop runs of a session; return their ids."""
        return await (await self._writes(ref)).abort(ref, caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await (await self._writes(ref)).patch(ref, patch, caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await (await self._writes(ref)).reset(ref, caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await (await self._writes(ref)).archive(ref, caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message."""
        return await (await self._writes(new.key or new.parent)).create(new, caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await (await self._writes(ref)).delete(ref, caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run."""
        return await (await self._writes(ref)).append(ref, draft, caller)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await (await self._writes(delivery_id)).retry_delivery(delivery_id, caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give a delivery up."""
        return await (await self._writes(delivery_id)).drop_delivery(delivery_id, caller)
