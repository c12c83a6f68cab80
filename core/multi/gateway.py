"""A gateway made of several, so that whoever uses it shows them in one list without knowing
(architecture#several-gateways).

The gateway without a name keeps its keys; keys and ids of gateway `prod` are shown as `@prod:<key>`. Reads over all of
them ask those that are reached and wait for none that is slow; writes go to the one that their key names.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from core.gateway import Action, AgentInfo, Gateway, ModelInfo, NativeTool
from core.model.access import Agents, Caller, One, Operator, Scope, Tree
from core.model.connection import REACHED, Connection, unreached
from core.model.errors import Forbidden, SwitchboardError, Unavailable
from core.model.events import ConnectionChanged, Cursor, Event, Reloaded
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.keys import split
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
from core.multi.feed import MergedFeed
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet

T = TypeVar("T")
ANSWER_SECONDS: Final = 1.0
"""How long a read over all gateways waits for one of them; a list that comes later follows by itself."""
SEARCH_SECONDS: Final = 3.0
"""How long a search does: what comes later does not follow."""


class MultiGateway:
    """Several gateways as one; see `core.gateway.Gateway`.

    Args:
        members: Gateways by name. The one with the empty name, else the first, is home: what names no gateway is meant
            for it.
    """

    def __init__(self, members: Mapping[str, Gateway]) -> None:
        self._members: dict[str, Gateway] = {}
        self._feeds: list[MergedFeed] = []
        self._left_out: set[str] = set()
        for name, gateway in members.items():
            self.add(name, gateway)

    # Its gateways

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its gateways, in the order in which they came."""
        return tuple(self._members)

    @property
    def home(self) -> str:
        """The gateway that is meant where none is named."""
        return "" if "" in self._members else next(iter(self._members))

    def add(self, name: str, gateway: Gateway) -> None:
        """Add a gateway; whoever listens is told to read it."""
        if name:
            from core.multi.prefixed import PrefixedGateway

            gateway = PrefixedGateway(name, gateway)
        self.remove(name)
        self._members[name] = gateway
        for feed in self._feeds:
            feed.add(name, gateway.subscribe())
            feed.tell((name, Reloaded(name)))

    def remove(self, name: str) -> None:
        """Give a gateway up, which stays open; whoever listens is told that nothing is known of it any more."""
        if self._members.pop(name, None) is not None:
            self._left_out.discard(name)
            for feed in self._feeds:
                feed.remove(name)
                feed.tell((name, Reloaded(name)))

    def member(self, name: str) -> Gateway | None:
        """Return one of its gateways, with the name before its keys."""
        return self._members.get(name)

    def owner(self, ref: str) -> str:
        """Return the name of the gateway that a key or id belongs to."""
        name, _ = split(ref)
        return name if name in self._members else self.home

    def of(self, ref: str) -> Gateway:
        """Return the gateway that a key or id belongs to."""
        return self._members[self.owner(ref)]

    def connections(self) -> tuple[Connection, ...]:
        """Return how each of its gateways is reached."""
        return tuple(gateway.connection for gateway in self._members.values())

    def reached(self) -> set[str]:
        """Return the names of the gateways that answer."""
        return {name for name, gateway in self._members.items() if gateway.connection.state in REACHED}

    def reach(self, ref: str) -> Connection:
        """Return how the gateway of a key or id is reached."""
        return self.of(ref).connection

    # Standing facts

    @property
    def rules(self) -> RuleSet:
        """The rules in force at home."""
        return self._members[self.home].rules

    def rules_of(self, ref: str) -> RuleSet:
        """Return the rules in force where a key or id belongs; the keys in them carry no name."""
        return self.of(ref).rules

    @property
    def connection(self) -> Connection:
        """How current the answers of home are."""
        return self._members[self.home].connection

    def now_ms(self) -> int:
        """Return the time at home in ms since the Unix epoch."""
        return self._members[self.home].now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible for a session, or without one nowhere; None when it is."""
        if key is not None:
            return _refusal(self.of(key), action, key)
        reasons = [_refusal(gateway, action, None) for gateway in self._members.values()]
        return None if None in reasons else reasons[0]

    def unready(self) -> str | None:
        """Return why nothing can be accepted at home now; None when all is well."""
        return self._members[self.home].unready()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session, None where its gateway does not tell its rules."""
        return self.of(session.key).policy_of(session)

    def native_tool(self, name: str) -> NativeTool | None:
        """Return a session tool that runs at the gateway which its arguments or its caller name."""
        if self.names == ("",):
            return self._members[""].native_tool(name)

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            from core.tools.dispatch import dispatch

            try:
                gateway = self._members[self._one_of(*_named_in(arguments, caller))]
            except Forbidden as error:
                return {"status": "forbidden", "error": error.message, "decidedBy": list(error.decided_by)}
            tool = gateway.native_tool(name)
            return await (tool(arguments, caller) if tool is not None else dispatch(gateway, caller, name, arguments))

        return run

    # Reads over all

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return the sessions of all gateways that are reached and answer in time, newest first.

        The others are told of with `Reloaded` once they can be read.
        """
        root = _root(scope) or query.spawned_by
        if root is not None:
            return await self.of(root).list_sessions(query, scope)
        several = len(self._members) > 1  # then each of them may have the rows of the page
        whole = replace(query, offset=0, limit=_upto(query)) if several and query.offset else query
        pages = await self._asked(lambda gateway: gateway.list_sessions(whole, scope), self._read_later)
        if len(pages) == 1 and whole is query:
            return pages[0]
        rows = sorted(chain.from_iterable(page.sessions for page in pages), key=lambda row: -row.updated_at)
        end = _upto(query)
        shown = tuple(rows[query.offset : end])
        children = {key: below for page in pages for key, below in page.children.items()}
        more = any(page.has_more for page in pages) or (end is not None and len(rows) > end)
        return SessionPage(shown, {row.key: children[row.key] for row in shown if row.key in children}, more)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first, and which gateways were not looked into, and why.

        Raises:
            SwitchboardError: Why the only gateway was not.
        """
        root = key or _root(scope)
        if root is None and len(self._members) > 1:
            answers = await asyncio.gather(
                *(self._search_in(name, text, scope, limit=limit, redacted=redacted) for name in self._members)
            )
            hits = list(merge(*answers, key=lambda hit: -hit.timestamp))[:limit]
            return SearchHits(hits, chain.from_iterable(unsearched(answer) for answer in answers))
        gateway = self._members[self.home] if root is None else self.of(root)
        if root is None and (reason := unreached(gateway.connection)) is not None:
            raise Unavailable(reason)
        return await gateway.search(text, scope, key=key, limit=limit, redacted=redacted)

    async def _search_in(self, name: str, text: str, scope: Scope, *, limit: int, redacted: bool) -> list[SearchHit]:
        gateway = self._members[name]
        reason = unreached(gateway.connection)
        if reason is None:
            try:
                async with asyncio.timeout(SEARCH_SECONDS):
                    return await gateway.search(text, scope, limit=limit, redacted=redacted)
            except TimeoutError:
                reason = f"it did not answer within {SEARCH_SECONDS:g} s"
            except SwitchboardError as error:
                reason = error.message
        return SearchHits(unsearched=(Unsearched(name or "this machine", reason),))

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        if key is not None:
            return await self.of(key).deliveries(key, states=states, limit=limit)
        found = await self._asked(lambda gateway: gateway.deliveries(states=states, limit=limit))
        return list(merge(*found, key=lambda delivery: -delivery.created_at))[:limit]

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides that wait for a session of their key, of all gateways that are reached."""
        found = await self._asked(lambda gateway: gateway.overrides())
        return {key: override for part in found for key, override in part.items()}

    async def agents(self) -> list[AgentInfo]:
        """Return the agents that are configured at home."""
        return await self._members[self.home].agents()

    async def models(self) -> list[ModelInfo]:
        """Return the models that may be named at home."""
        return await self._members[self.home].models()

    def subscribe(self, after: Cursor | None = None) -> MergedFeed:
        """Hear of every durable change from now on; of home, of everything since its cursor."""
        feed = MergedFeed(self.home, self.owner, self._follow, self._feeds.remove)
        for name, gateway in self._members.items():
            feed.add(name, gateway.subscribe(after if name == self.home else None))
        self._feeds.append(feed)
        return feed

    # Reads and writes of one

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by key or id."""
        return await self.of(ref).get_session(ref, scope)

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
        """Return the newest messages of a session, or those before a `seq`, in order."""
        return await self.of(ref).history(
            ref, scope, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
        )

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        return await self.of(key).runs(key, scope, limit=limit)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""
        return await self.of(exchange_id).exchange(exchange_id)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first."""
        return await self.of(key).exchanges(key, limit=limit)

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's file is, None where there is none to reach."""
        return await self.of(session.key).transcript_path(session)

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session.

        Raises:
            Forbidden: It comes from a session of another gateway.
        """
        source = request.provenance.source_session_key if request.provenance is not None else None
        target = request.spawn.requester if request.spawn is not None else request.target
        return await self._members[self._one_of(_key_of(caller), source, target)].start_run(request, caller)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds."""
        return await self.of(run_id).wait_run(run_id, timeout)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the runs of a session, or one of them; return the ids."""
        return await self.of(ref).abort(ref, caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await self.of(ref).patch(ref, patch, caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await self.of(ref).reset(ref, caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await self.of(ref).archive(ref, caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message."""
        return await self.of(new.key or new.parent or "").create(new, caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await self.of(ref).delete(ref, caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run."""
        return await self.of(ref).append(ref, draft, caller)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await self.of(delivery_id).retry_delivery(delivery_id, caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        return await self.of(delivery_id).drop_delivery(delivery_id, caller)

    # Inside

    async def _asked(
        self, read: Callable[[Gateway], Awaitable[T]], late: Callable[[str, bool], None] | None = None
    ) -> list[T]:
        """Ask all gateways that are reached; those that do not answer in time are left out.

        Args:
            late: Told of each that is left out, and whether it is reached.
        """
        reached = [name for name, gateway in self._members.items() if gateway.connection.state in REACHED]
        if len(self._members) == 1 and reached:  # nobody else waits
            return [await read(self._members[reached[0]])]
        answers = await asyncio.gather(*(_in_time(read(self._members[name])) for name in reached))
        for name in self._members:
            answered = name in reached and answers[reached.index(name)]
            if late is not None and not answered:
                late(name, name in reached)
        return [answer[0] for answer in answers if answer]

    def _read_later(self, name: str, reached: bool) -> None:  # noqa: FBT001 - it is a fact about the name
        if reached:
            for feed in self._feeds:
                feed.tell((name, Reloaded(name)))
        else:
            self._left_out.add(name)

    def _follow(self, name: str, event: Event) -> Iterator[Event]:
        """Have a gateway read that was left out of a list, once it is reached."""
        if isinstance(event, ConnectionChanged) and event.connection.state in REACHED and name in self._left_out:
            self._left_out.discard(name)
            yield Reloaded(name)

    def _one_of(self, *refs: str | None) -> str:
        """Return the gateway that all of these belong to.

        Raises:
            Forbidden: They belong to several.
        """
        given = [ref for ref in refs if ref is not None]
        named = [self.owner(ref) for ref in given if split(ref)[0] in self._members]
        bare = len(named) < len(given) and "" in self._members
        owners = {*named, ""} if bare else set(named)
        if len(owners) > 1:
            one, other = (name or "this machine" for name in sorted(owners)[:2])
            raise Forbidden(f"sends stay within one gateway: one side is at {one}, the other at {other}", ("gateway",))
        return next(iter(owners), self.home)


async def _in_time(answer: Awaitable[T]) -> tuple[T] | tuple[()]:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return (await answer,)
    except (TimeoutError, SwitchboardError):
        return ()


def _refusal(gateway: Gateway, action: Action, key: str | None) -> str | None:
    return unreached(gateway.connection) or gateway.refusal(action, key)


def _root(scope: Scope) -> str | None:
    match scope:
        case Tree(root):
            return root
        case One(key):
            return key
        case Agents(_, root):
            return root
        case _:
            return None


def _key_of(caller: Caller) -> str | None:
    return caller.acting_for if isinstance(caller, Operator) else caller.key


def _named_in(arguments: Mapping[str, Any], caller: Caller) -> Iterator[str | None]:
    """Yield the sessions that a tool call names."""
    yield _key_of(caller)
    for name in ("sessionKey", "spawnedBy"):
        value = arguments.get(name)
        yield value if isinstance(value, str) else None


def _upto(query: SessionQuery) -> int | None:
    return None if query.limit is None else query.offset + query.limit
