"""One gateway of a fleet under its name: the port, with the name before every key and id."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.delegating import DelegatingGateway
from core.gateway import Action, Feed, Gateway, NativeTool
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
from core.multi.prefix import KeyPrefix
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet


class PrefixedGateway(DelegatingGateway):
    """A `Gateway` whose refs carry a name; see `core.gateway.Gateway`.

    Attributes:
        inner: The gateway itself.
    """

    def __init__(self, name: str, inner: Gateway) -> None:
        self.inner = inner
        self._prefix = KeyPrefix(name)

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; their keys have no name."""
        return self.inner.rules

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        return self._prefix.connection(self.inner.connection)

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        return self.inner.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible, None when it is."""
        return self.inner.refusal(action, self._prefix.maybe_bare(key))

    def unready(self) -> str | None:
        """Return why nothing can be accepted there now; None when all is well."""
        return self.inner.unready()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session, None where the rules are not told."""
        return self.inner.policy_of(self._prefix.bare_session(session))

    def native_tool(self, name: str) -> NativeTool:
        """Return a session tool: it runs where the gateway says, with keys as the gateway knows them."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            from core.tools.dispatch import dispatch

            prefix = self._prefix
            return prefix.result(await dispatch(self.inner, prefix.caller(caller), name, prefix.arguments(arguments)))

        return run

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        prefix = self._prefix
        query = replace(query, spawned_by=prefix.maybe_bare(query.spawned_by))
        page = await self.inner.list_sessions(query, prefix.scope(scope))
        children = {prefix.ref(key): tuple(map(prefix.ref, below)) for key, below in page.children.items()}
        return SessionPage(tuple(map(prefix.session, page.sessions)), children, page.has_more)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by key, in any spelling, or id."""
        prefix = self._prefix
        key = self.inner.rules.resolve(prefix.bare(ref))
        return prefix.session(await self.inner.get_session(key, prefix.scope(scope)))

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
        prefix = self._prefix
        page = await self.inner.history(
            prefix.bare(ref),
            prefix.scope(scope),
            limit=limit,
            before=before,
            include_tools=include_tools,
            in_brief=in_brief,
        )
        messages = tuple(map(prefix.message, page.messages))
        return HistoryPage(prefix.ref(page.key), prefix.ref(page.session_id), messages, page.before)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        prefix = self._prefix
        hits = await self.inner.search(
            text, prefix.scope(scope), key=prefix.maybe_bare(key), limit=limit, redacted=redacted
        )
        named = [replace(hit, key=prefix.ref(hit.key), session_id=prefix.ref(hit.session_id)) for hit in hits]
        places = (Unsearched(f"{each.place} of {prefix.name}", each.reason) for each in unsearched(hits))
        return SearchHits(named, places)

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        prefix = self._prefix
        return [prefix.run(run) for run in await self.inner.runs(prefix.bare(key), prefix.scope(scope), limit=limit)]

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""
        found = await self.inner.exchange(self._prefix.bare(exchange_id))
        return self._prefix.announced(found) if found is not None else None

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first."""
        return [
            self._prefix.announced(found) for found in await self.inner.exchanges(self._prefix.bare(key), limit=limit)
        ]

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides that wait for a session of their key."""
        return {self._prefix.ref(key): override for key, override in (await self.inner.overrides()).items()}

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        prefix = self._prefix
        found = await self.inner.deliveries(prefix.maybe_bare(key), states=states, limit=limit)
        return [prefix.delivery(delivery) for delivery in found]

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's file is, None where there is none to reach."""
        return await self.inner.transcript_path(self._prefix.bare_session(session))

    def subscribe(self, after: Cursor | None = None) -> "PrefixedFeed":
        """Hear of every durable change from now on, or of everything since a cursor."""
        return PrefixedFeed(self._prefix, self.inner.subscribe(after))

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session, or the task of a new sub-agent."""
        prefix, provenance, spawn = self._prefix, request.provenance, request.spawn
        if provenance is not None:
            provenance = replace(provenance, source_session_key=prefix.bare(provenance.source_session_key))
        if spawn is not None:
            spawn = replace(spawn, requester=prefix.bare(spawn.requester))
        bare = replace(
            request,
            target=prefix.bare(request.target),
            run_id=prefix.maybe_bare(request.run_id),
            provenance=provenance,
            spawn=spawn,
        )
        ticket = await self.inner.start_run(bare, prefix.caller(caller))
        return replace(
            ticket,
            run_id=prefix.ref(ticket.run_id),
            key=prefix.ref(ticket.key),
            session_id=prefix.ref(ticket.session_id),
        )

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        prefix = self._prefix
        outcome = await self.inner.wait_run(prefix.bare(run_id), timeout)
        return replace(outcome, run_id=prefix.ref(outcome.run_id), key=prefix.ref(outcome.key))

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the runs of a session, or one of them; return the ids."""
        prefix = self._prefix
        stopped = await self.inner.abort(prefix.bare(ref), prefix.caller(caller), run_id=prefix.maybe_bare(run_id))
        return [prefix.ref(each) for each in stopped]

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        prefix = self._prefix
        return prefix.session(await self.inner.patch(prefix.bare(ref), patch, prefix.caller(caller)))

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        prefix = self._prefix
        return prefix.session(await self.inner.reset(prefix.bare(ref), prefix.caller(caller)))

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        prefix = self._prefix
        return prefix.session(await self.inner.archive(prefix.bare(ref), prefix.caller(caller), archived=archived))

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message."""
        prefix = self._prefix
        bare = replace(new, key=prefix.maybe_bare(new.key), parent=prefix.maybe_bare(new.parent))
        return prefix.session(await self.inner.create(bare, prefix.caller(caller)))

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await self.inner.delete(self._prefix.bare(ref), self._prefix.caller(caller))

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run."""
        prefix = self._prefix
        if draft.provenance is not None:
            source = prefix.bare(draft.provenance.source_session_key)
            draft = replace(draft, provenance=replace(draft.provenance, source_session_key=source))
        return prefix.message(await self.inner.append(prefix.bare(ref), draft, prefix.caller(caller)))

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        prefix = self._prefix
        return prefix.delivery(await self.inner.retry_delivery(prefix.bare(delivery_id), prefix.caller(caller)))

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        prefix = self._prefix
        return prefix.delivery(await self.inner.drop_delivery(prefix.bare(delivery_id), prefix.caller(caller)))

    async def _reads(self, ref: str | None) -> Gateway:  # noqa: ARG002 - it has them all
        return self.inner

    _writes = _reads


class PrefixedFeed:
    """One subscriber's stream of a named gateway; see `core.gateway.Feed`."""

    def __init__(self, prefix: KeyPrefix, inner: Feed) -> None:
        self._prefix = prefix
        self._inner = inner

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which everything durable has been handed out."""
        return self._inner.cursor

    def watch(self, key: str | None) -> None:
        """Want what is said in a session, or in every one."""
        self._inner.watch(self._prefix.maybe_bare(key))

    def unwatch(self, key: str | None) -> None:
        """Want it no longer."""
        self._inner.unwatch(self._prefix.maybe_bare(key))

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over what happens, until the feed is closed."""
        async for event in self._inner:
            yield self._prefix.event(event)

    def close(self) -> None:
        """End the stream."""
        self._inner.close()
