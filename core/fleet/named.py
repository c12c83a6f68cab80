"""One gateway of a fleet under its name: the port, with the name before every key and id."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.fleet.naming import Naming
from core.gateway import Action, AgentInfo, Feed, Gateway, ModelInfo, NativeTool
from core.model.access import Caller, Scope
from core.model.connection import Connection
from core.model.events import Cursor, Event
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import (
    HistoryPage,
    NewSession,
    Override,
    SearchHit,
    SearchHits,
    Session,
    SessionPage,
    SessionPatch,
    SessionQuery,
    Unsearched,
    unsearched,
)
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet


class Named:
    """A `Gateway` whose refs carry a name; see `core.gateway.Gateway`.

    Attributes:
        inner: The gateway itself.
    """

    def __init__(self, name: str, inner: Gateway) -> None:
        self.inner = inner
        self._naming = Naming(name)

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; their keys have no name."""
        return self.inner.rules

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        return self._naming.connection(self.inner.connection)

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        return self.inner.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible, None when it is."""
        return self.inner.refusal(action, self._naming.maybe_bare(key))

    def unready(self) -> str | None:
        """Return why nothing can be accepted there now; None when all is well."""
        return self.inner.unready()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session, None where the rules are not told."""
        return self.inner.policy_of(self._naming.bare_session(session))

    def native_tool(self, name: str) -> NativeTool:
        """Return a session tool: it runs where the gateway says, with keys as the gateway knows them."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            from core.tools.dispatch import dispatch

            naming = self._naming
            return naming.result(await dispatch(self.inner, naming.caller(caller), name, naming.arguments(arguments)))

        return run

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        naming = self._naming
        query = replace(query, spawned_by=naming.maybe_bare(query.spawned_by))
        page = await self.inner.list_sessions(query, naming.scope(scope))
        children = {naming.ref(key): tuple(map(naming.ref, below)) for key, below in page.children.items()}
        return SessionPage(tuple(map(naming.session, page.sessions)), children, page.has_more)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by key, in any spelling, or id."""
        naming = self._naming
        key = self.inner.rules.resolve(naming.bare(ref))
        return naming.session(await self.inner.get_session(key, naming.scope(scope)))

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
        """Return the newest messages, or those before a `seq`, in order."""
        naming = self._naming
        page = await self.inner.history(
            naming.bare(ref),
            naming.scope(scope),
            limit=limit,
            before=before,
            include_tools=include_tools,
            in_brief=in_brief,
        )
        messages = tuple(map(naming.message, page.messages))
        return HistoryPage(naming.ref(page.key), naming.ref(page.session_id), messages, page.before)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        naming = self._naming
        hits = await self.inner.search(
            text, naming.scope(scope), key=naming.maybe_bare(key), limit=limit, redacted=redacted
        )
        named = [replace(hit, key=naming.ref(hit.key), session_id=naming.ref(hit.session_id)) for hit in hits]
        places = (Unsearched(f"{each.place} of {naming.name}", each.reason) for each in unsearched(hits))
        return SearchHits(named, places)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        return await self.inner.agents()

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        return await self.inner.models()

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        naming = self._naming
        return [naming.run(run) for run in await self.inner.runs(naming.bare(key), naming.scope(scope), limit=limit)]

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""
        found = await self.inner.exchange(self._naming.bare(exchange_id))
        return self._pair(*found) if found is not None else None

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first."""
        return [self._pair(*found) for found in await self.inner.exchanges(self._naming.bare(key), limit=limit)]

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides that wait for a session of their key."""
        return {self._naming.ref(key): override for key, override in (await self.inner.overrides()).items()}

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        naming = self._naming
        found = await self.inner.deliveries(naming.maybe_bare(key), states=states, limit=limit)
        return [naming.delivery(delivery) for delivery in found]

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's file is, None where there is none to reach."""
        return await self.inner.transcript_path(self._naming.bare_session(session))

    def subscribe(self, after: Cursor | None = None) -> "NamedFeed":
        """Hear of every durable change from now on, or of everything since a cursor."""
        return NamedFeed(self._naming, self.inner.subscribe(after))

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session, or the task of a new sub-agent."""
        naming, provenance, spawn = self._naming, request.provenance, request.spawn
        if provenance is not None:
            provenance = replace(provenance, source_session_key=naming.bare(provenance.source_session_key))
        if spawn is not None:
            spawn = replace(spawn, requester=naming.bare(spawn.requester))
        bare = replace(
            request,
            target=naming.bare(request.target),
            run_id=naming.maybe_bare(request.run_id),
            provenance=provenance,
            spawn=spawn,
        )
        ticket = await self.inner.start_run(bare, naming.caller(caller))
        return replace(
            ticket,
            run_id=naming.ref(ticket.run_id),
            key=naming.ref(ticket.key),
            session_id=naming.ref(ticket.session_id),
        )

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        naming = self._naming
        outcome = await self.inner.wait_run(naming.bare(run_id), timeout)
        return replace(outcome, run_id=naming.ref(outcome.run_id), key=naming.ref(outcome.key))

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the runs of a session, or one of them; return the ids."""
        naming = self._naming
        stopped = await self.inner.abort(naming.bare(ref), naming.caller(caller), run_id=naming.maybe_bare(run_id))
        return [naming.ref(each) for each in stopped]

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        naming = self._naming
        return naming.session(await self.inner.patch(naming.bare(ref), patch, naming.caller(caller)))

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        naming = self._naming
        return naming.session(await self.inner.reset(naming.bare(ref), naming.caller(caller)))

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        naming = self._naming
        return naming.session(await self.inner.archive(naming.bare(ref), naming.caller(caller), archived=archived))

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message."""
        naming = self._naming
        bare = replace(new, key=naming.maybe_bare(new.key), parent=naming.maybe_bare(new.parent))
        return naming.session(await self.inner.create(bare, naming.caller(caller)))

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await self.inner.delete(self._naming.bare(ref), self._naming.caller(caller))

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run."""
        naming = self._naming
        if draft.provenance is not None:
            source = naming.bare(draft.provenance.source_session_key)
            draft = replace(draft, provenance=replace(draft.provenance, source_session_key=source))
        return naming.message(await self.inner.append(naming.bare(ref), draft, naming.caller(caller)))

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        naming = self._naming
        return naming.delivery(await self.inner.retry_delivery(naming.bare(delivery_id), naming.caller(caller)))

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        naming = self._naming
        return naming.delivery(await self.inner.drop_delivery(naming.bare(delivery_id), naming.caller(caller)))

    def _pair(self, exchange: Exchange, delivery: Delivery | None) -> tuple[Exchange, Delivery | None]:
        naming = self._naming
        return naming.exchange(exchange), naming.delivery(delivery) if delivery is not None else None


class NamedFeed:
    """One subscriber's stream of a named gateway; see `core.gateway.Feed`."""

    def __init__(self, naming: Naming, inner: Feed) -> None:
        self._naming = naming
        self._inner = inner

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which everything durable has been handed out."""
        return self._inner.cursor

    def watch(self, key: str | None) -> None:
        """Want what is said in a session, or in every one."""
        self._inner.watch(self._naming.maybe_bare(key))

    def unwatch(self, key: str | None) -> None:
        """Want it no longer."""
        self._inner.unwatch(self._naming.maybe_bare(key))

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over what happens, until the feed is closed."""
        async for event in self._inner:
            yield self._naming.event(event)

    def close(self) -> None:
        """End the stream."""
        self._inner.close()
