"""What is read of an OpenClaw gateway: out of what is known of it, and asked for where that is not enough."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from core.gateway import AgentInfo, ModelInfo
from core.model.access import Scope
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.messages import Message, brief
from core.model.runs import Run, RunOutcome
from core.model.sessions import HistoryPage, Override, SearchHit, SearchHits, Session, SessionPage, SessionQuery
from core.remote.openclaw import search
from core.remote.openclaw.cache import GatewayCache
from core.remote.openclaw.rows import rows_of, text, whole
from core.rules.policy import PolicyDecision, decide
from core.tasks import racing


class OpenClawReads:
    """The reads of an `OpenClawGateway`; see `core.gateway.Gateway`."""

    _known: GatewayCache

    def unready(self) -> str | None:
        link = self._known.link
        return None if link.live else link.connection.detail or "there is no connection to this gateway"

    def policy_of(self, session: Session) -> PolicyDecision | None:
        if session.send_policy is None and not self._known.rules_known:
            return None
        return decide(self._known.rules.send_policy, session)

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        return self._known.index.page(query, scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        session = self._known.find(ref, scope)
        if self._known.hub.wants(session.key) and self._known.follower.get(session.key) is None:
            await self._known.follower.sync(session.key)
            session = self._known.index.rows.get(session.key, session)
        return session

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
        """Return the newest `limit` messages, or those before a `seq`, in order; of the current transcript only."""
        session = self._known.find(ref, scope)
        cached = self._known.follower.get(session.key)
        if cached is None or before is None or not cached.wire_id:
            cached = await self._known.follower.sync(session.key)
        end = cached.last_seq + 1 if before is None else min(before, cached.last_seq + 1)
        found: list[Message] = []
        while len(found) < limit and end > cached.first_seq:
            start = max(cached.first_seq, end - max(limit - len(found), 1))
            part = await self._known.follower.read(cached, start, end - 1)
            found = [message for message in part if include_tools or message.role != "toolResult"] + found
            end = start
        messages = tuple(brief(message) if in_brief else message for message in found)
        return HistoryPage(session.key, cached.session_id, messages, end if end > cached.first_seq else None)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold the words; of one session when `key` is given.

        Raises `Unavailable` when this gateway cannot search all sessions.
        """
        if key is not None:
            page = await self.history(key, scope, limit=search.READ)
            return search.scan(page, text, limit, redacted=redacted)
        rows = [row for row in self._known.index.rows.values() if self._known.index.sees(scope, row)]
        by_agent: dict[str, list[str]] = {agent.agent_id: [] for agent in self._known.agents}
        for row in rows:
            by_agent.setdefault(row.agent_id, []).append(row.key)
        answer = await search.search_all(self._known.features, text, by_agent, self._known.rules.default_agent)
        seen = {row.key for row in rows}
        found = [hit for hit in search.read_hits(answer.rows, text, redacted=redacted) if hit.key in seen]
        return SearchHits(found[:limit], answer.unsearched)

    async def agents(self) -> list[AgentInfo]:
        return list(self._known.agents)

    async def models(self) -> list[ModelInfo]:
        found: dict[str, ModelInfo] = {}
        for params in self._known.for_each_agent("models.list"):
            answer = await self._known.features.ask("models.list", params, again=True)
            for row in rows_of(answer, "models"):
                if name := text(row, "id"):
                    ref = "/".join(part for part in (text(row, "provider"), name) if part)
                    found.setdefault(ref, ModelInfo(ref, whole(row, "contextWindow")))
        return list(found.values())

    async def overrides(self) -> dict[str, Override]:
        """Return nothing: there, an override needs a session."""
        return {}

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session that were heard of, newest first."""
        self._known.find(key, scope)
        return self._known.live.of(key, limit)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends; it is heard, and asked for in case that was missed."""
        end = self._known.link.clock.sleep(timeout) if timeout is not None else asyncio.Event().wait()
        waits = self._known.live.ended(run_id), self._known.ask_for_end(run_id, timeout), end
        async with racing(*waits) as (heard, asked, alarm):
            if asked.done():
                asked.result()
            await asyncio.wait((heard, alarm), return_when=asyncio.FIRST_COMPLETED)
        return self._outcome(run_id)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:  # noqa: ARG002
        """Return None: these gateways do not tell of exchanges."""
        return None

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:  # noqa: ARG002
        """Return nothing: these gateways do not tell of exchanges."""
        return []

    async def deliveries(
        self,
        key: str | None = None,  # noqa: ARG002
        *,
        states: Collection[DeliveryState] = (),  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> list[Delivery]:
        """Return nothing: these gateways keep their deliveries to themselves."""
        return []

    async def transcript_path(self, session: Session) -> Path | None:  # noqa: ARG002
        """Return None: their files are on another machine."""
        return None

    def _outcome(self, run_id: str) -> RunOutcome:
        run = self._known.live.get(run_id)
        if run is None or run.live:
            lost = None if self._known.link.live else f"{self.unready()}; what became of the run is not known"
            error = lost or self._known.live.standing(run_id)
            return RunOutcome(run_id, run.key if run else "", "timeout", "running", error=error)
        if run.state == "done":
            return RunOutcome(run_id, run.key, "ok", run.state, reply=self._known.live.replies.get(run_id, ""))
        return RunOutcome(run_id, run.key, "error", run.state, error=run.error or f"the run ended as {run.state}")
