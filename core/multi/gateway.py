"""A gateway made of several, so that whoever uses it shows them in one list without knowing
(architecture#several-gateways).

The gateway without a name keeps its keys; keys and ids of gateway `prod` are shown as `@prod:<key>`. Reads over all of
them ask those that are reached and wait for none that is slow; writes go to the one that their key names.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from heapq import merge
from itertools import chain
from typing import Any

from core.delegating import DelegatingGateway
from core.gateway import Action, Gateway, NativeTool
from core.model.access import Agents, Caller, One, Operator, Scope, Tree
from core.model.connection import REACHED, Connection, unreached
from core.model.errors import Forbidden, Unavailable
from core.model.events import ConnectionChanged, Cursor, Event, Reloaded
from core.model.exchanges import Delivery, DeliveryState
from core.model.keys import split
from core.model.runs import RunRequest, RunTicket
from core.model.sessions import Override, SearchHit, SearchHits, Session, SessionPage, SessionQuery, unsearched
from core.multi.asking import ask_reached, search_in
from core.multi.feed import MergedFeed
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet


class MultiGateway(DelegatingGateway):
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

    @property
    def _home(self) -> Gateway:
        return self._members[self.home]

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
        """Return the gateway that a key or id belongs to; the keys in its rules carry no name."""
        return self._members[self.owner(ref)]

    def connections(self) -> tuple[Connection, ...]:
        """Return how each of its gateways is reached."""
        return tuple(gateway.connection for gateway in self._members.values())

    def reached(self) -> set[str]:
        """Return the names of the gateways that answer."""
        return {name for name, gateway in self._members.items() if gateway.connection.state in REACHED}

    # Standing facts, of home where they are not about a session

    @property
    def rules(self) -> RuleSet:
        return self._home.rules

    @property
    def connection(self) -> Connection:
        return self._home.connection

    def now_ms(self) -> int:
        return self._home.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible for a session, or without one nowhere; None when it is."""
        if key is not None:
            return _refusal(self.of(key), action, key)
        reasons = [_refusal(gateway, action, None) for gateway in self._members.values()]
        return None if None in reasons else reasons[0]

    def unready(self) -> str | None:
        return self._home.unready()

    def policy_of(self, session: Session) -> PolicyDecision | None:
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
        pages = await ask_reached(self._members, lambda gateway: gateway.list_sessions(whole, scope), self._read_later)
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
                *(
                    search_in(name, gateway, text, scope, limit=limit, redacted=redacted)
                    for name, gateway in self._members.items()
                )
            )
            hits = list(merge(*answers, key=lambda hit: -hit.timestamp))[:limit]
            return SearchHits(hits, chain.from_iterable(unsearched(answer) for answer in answers))
        gateway = self._home if root is None else self.of(root)
        if root is None and (reason := unreached(gateway.connection)) is not None:
            raise Unavailable(reason)
        return await gateway.search(text, scope, key=key, limit=limit, redacted=redacted)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        if key is not None:
            return await super().deliveries(key, states=states, limit=limit)
        found = await ask_reached(self._members, lambda gateway: gateway.deliveries(states=states, limit=limit))
        return list(merge(*found, key=lambda delivery: -delivery.created_at))[:limit]

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides that wait for a session of their key, of all gateways that are reached."""
        found = await ask_reached(self._members, lambda gateway: gateway.overrides())
        return {key: override for part in found for key, override in part.items()}

    def subscribe(self, after: Cursor | None = None) -> MergedFeed:
        """Hear of every durable change from now on; of home, of everything since its cursor."""
        feed = MergedFeed(self.home, self.owner, self._follow, self._feeds.remove)
        for name, gateway in self._members.items():
            feed.add(name, gateway.subscribe(after if name == self.home else None))
        self._feeds.append(feed)
        return feed

    # Reads and writes of one

    async def _reads(self, ref: str | None) -> Gateway:
        return self.of(ref) if ref is not None else self._home

    _writes = _reads

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; raises `Forbidden` when it comes from a session of another gateway."""
        source = request.provenance.source_session_key if request.provenance is not None else None
        target = request.spawn.requester if request.spawn is not None else request.target
        return await self._members[self._one_of(_key_of(caller), source, target)].start_run(request, caller)

    # Inside

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
        """Return the gateway that all of these belong to; raises `Forbidden` when they belong to several."""
        given = [ref for ref in refs if ref is not None]
        named = [self.owner(ref) for ref in given if split(ref)[0] in self._members]
        bare = len(named) < len(given) and "" in self._members
        owners = {*named, ""} if bare else set(named)
        if len(owners) > 1:
            one, other = (name or "this machine" for name in sorted(owners)[:2])
            raise Forbidden(f"sends stay within one gateway: one side is at {one}, the other at {other}", ("gateway",))
        return next(iter(owners), self.home)


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
