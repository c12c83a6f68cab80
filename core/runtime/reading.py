"""What a runtime answers without changing anything: from its store, and from the settings that are in force."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from core.gateway import AgentInfo, ModelInfo, Overrides
from core.model.access import Scope
from core.model.errors import Unavailable
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.runs import BUILTIN_MODEL, Run, RunOutcome
from core.model.sessions import HistoryPage, SearchHit, Session, SessionPage, SessionQuery
from core.rules.ruleset import RuleSet
from core.runtime.following import Following
from core.runtime.runs.waiters import Waiters
from core.store import deliveries, exchanges, jsonl, messages, runs, search, sessions
from core.store.database import Db, Store

if TYPE_CHECKING:
    from core.config.settings import Settings

T = TypeVar("T")
INLINE_ROWS: Final = 200
"""Reads of up to that many rows run on the loop's own connection; longer ones on the reader thread."""


@dataclass(eq=False, slots=True)
class Reading:
    """The reads of a runtime; see `core.gateway.Reads`.

    Attributes:
        _start_over: Set, except while a start is expected.
        _settings: Returns those of this process; None before the configuration was read.
    """

    _store: Store
    _waiters: Waiters
    _following: Following
    _start_over: asyncio.Event
    _settings: "Callable[[], Settings | None]"

    @property
    def rules(self) -> RuleSet:
        """The rules in force here: the owner's, else our own; the defaults until there is a configuration."""
        if self._following.owner is not None:
            return self._following.owner.rules
        settings = self._settings()
        return settings.rules if settings is not None else RuleSet()

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        hidden = self._unlisted

        def read(db: Db) -> SessionPage:
            return sessions.select(db, query, scope, hidden=hidden)

        return await self._read(read, inline=query.limit is not None and query.limit <= INLINE_ROWS)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        return await self._read(lambda db: sessions.named(db, ref, scope))

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

        def read(db: Db) -> HistoryPage:
            session = sessions.named(db, ref, scope)
            session_id = session.session_id if ref == session.key else ref
            return messages.page(
                db, session, session_id, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
            )

        return await self._read(read, inline=limit <= INLINE_ROWS and in_brief)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        hidden = self._unlisted
        clean = _load_redact() if redacted else None

        def read(db: Db) -> list[SearchHit]:
            return search.messages(db, text, scope, key=key, limit=limit, hidden=hidden, clean=clean)

        return await self._store.scan(read)

    async def agents(self) -> list[AgentInfo]:
        """Return the agents that the owner has configured, else our own, the default one first."""
        if self._following.owner is not None:
            return await self._following.owner.agents()
        default, agents = self.rules.default_agent, (await self._configured()).agents
        found = [AgentInfo(a.agent_id, a.name, a.model, a.agent_id == default) for a in agents.values()]
        return sorted(found, key=lambda agent: (not agent.default, agent.agent_id))

    async def models(self) -> list[ModelInfo]:
        if self._following.owner is not None:
            return await self._following.owner.models()
        models = (await self._configured()).models.values()
        known = [ModelInfo(model.ref, model.context_window) for model in models]
        return [*sorted(known, key=lambda model: model.ref), ModelInfo(BUILTIN_MODEL, None)]

    async def overrides(self) -> Overrides:
        return await self._read(sessions.waiting_overrides)

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        session = await self.get_session(key, scope)
        return await self._read(lambda db: runs.of_session(db, session.key, limit=limit))

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, or will be after the next run."""
        return jsonl.transcript_path(self._store.directory, session.session_id)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:

        def read(db: Db) -> tuple[Exchange, Delivery | None] | None:
            found = exchanges.by_id(db, exchange_id)
            return (found, deliveries.of_exchange(db, exchange_id)) if found is not None else None

        return await self._read(read)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:

        def read(db: Db) -> list[tuple[Exchange, Delivery | None]]:
            found = exchanges.of_session(db, key, limit=limit)
            announces = deliveries.of_exchanges(db, [exchange.exchange_id for exchange in found])
            return [(exchange, announces.get(exchange.exchange_id)) for exchange in found]

        return await self._read(read)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        is_short = not states and limit <= INLINE_ROWS  # those in a state may be far apart
        return await self._read(lambda db: deliveries.newest(db, key=key, states=states, limit=limit), inline=is_short)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        return await self._waiters.wait(run_id, timeout)

    @property
    def _unlisted(self) -> tuple[str, ...]:
        """The sessions that lists leave out; before the configuration is read, nobody knows which `main` is meant."""
        known = self._settings() is not None or self._following.owner is not None
        return self.rules.unlisted if known else ("unknown",)

    async def _configured(self) -> "Settings":
        await self._start_over.wait()
        settings = self._settings()
        if settings is None:
            raise Unavailable("the configuration has not been read yet")
        return settings

    async def _read(self, function: Callable[[Db], T], *, inline: bool = True) -> T:
        return self._store.read(function) if inline else await self._store.scan(function)


def _load_redact() -> Callable[[str], str]:
    from core.rules.redact import redact

    return redact
