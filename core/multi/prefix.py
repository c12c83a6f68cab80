"""Putting a gateway's name before every key and id of what it tells (`core.model.keys.split` takes it off again)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from core.model.access import Agents, Caller, One, Operator, Scope, SessionCaller, Tree
from core.model.connection import Connection
from core.model.events import (
    Activity,
    Configured,
    ConnectionChanged,
    DeliveryChanged,
    Delta,
    Event,
    ExchangeChanged,
    Gap,
    MessageAppended,
    Reloaded,
    RunChanged,
    SessionChanged,
    SessionGone,
    ToolProgress,
)
from core.model.exchanges import Delivery, Exchange
from core.model.keys import joined
from core.model.messages import Message
from core.model.runs import Run
from core.model.sessions import Session

REFS: Final = frozenset(
    {
        "key",
        "sessionKey",
        "sessionId",
        "childSessionKey",
        "childSessions",
        "spawnedBy",
        "parentSessionKey",
        "sourceSessionKey",
        "runId",
        "requesterSessionKey",
        "targetSessionKey",
    }
)
"""Fields of tool arguments and results that hold keys or ids."""
_IDS: Final = frozenset({"exchange", "delivery"})
"""Fields of tool results that hold something with an `id` of its own."""


class KeyPrefix:
    """The translation for one gateway, in both directions.

    Args:
        name: Never empty: without a name there is nothing to translate.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._prefix = joined(name, "")
        self._events: dict[type[Any], Callable[[Any], Event]] = {
            SessionChanged: lambda event: event._replace(session=self.session(event.session)),
            MessageAppended: self._appended,
            RunChanged: lambda event: event._replace(run=self.run(event.run)),
            ExchangeChanged: lambda event: event._replace(exchange=self.exchange(event.exchange)),
            DeliveryChanged: lambda event: event._replace(delivery=self.delivery(event.delivery)),
            SessionGone: lambda event: event._replace(key=self.ref(event.key), session_id=self.ref(event.session_id)),
            Delta: self._of_run,
            ToolProgress: self._of_run,
            Activity: self._of_run,
            Gap: lambda _: Gap(self.name),
            Configured: lambda event: event._replace(gateway=self.name),
            Reloaded: lambda _: Reloaded(self.name),
            ConnectionChanged: lambda event: ConnectionChanged(self.connection(event.connection)),
        }

    # What the gateway tells

    def ref(self, ref: str) -> str:
        """Return a key or id with the name."""
        return self._prefix + ref

    def maybe(self, ref: str | None) -> str | None:
        """Return a key or id with the name, None for none."""
        return self._prefix + ref if ref is not None else None

    def session(self, session: Session) -> Session:
        """Return a session with its refs named."""
        return session._replace(
            key=self.ref(session.key),
            session_id=self.ref(session.session_id),
            spawned_by=self.maybe(session.spawned_by),
        )

    def message(self, message: Message) -> Message:
        """Return a message with the session it came from named."""
        provenance = message.provenance
        if provenance is None or not provenance.source_session_key:
            return message
        named = replace(provenance, source_session_key=self.ref(provenance.source_session_key))
        return message._replace(provenance=named)

    def run(self, run: Run) -> Run:
        """Return a run with its refs named."""
        return run._replace(
            run_id=self.ref(run.run_id),
            key=self.ref(run.key),
            session_id=self.ref(run.session_id),
            requester=self.maybe(run.requester),
            exchange=self.maybe(run.exchange),
            root=self.maybe(run.root),
        )

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return an exchange with its refs named."""
        return exchange._replace(
            exchange_id=self.ref(exchange.exchange_id),
            requester=self.ref(exchange.requester),
            target=self.ref(exchange.target),
            root=self.ref(exchange.root),
        )

    def delivery(self, delivery: Delivery) -> Delivery:
        """Return a delivery with its refs named."""
        return delivery._replace(
            delivery_id=self.ref(delivery.delivery_id),
            exchange_id=self.ref(delivery.exchange_id),
            key=self.ref(delivery.key),
        )

    def announced(self, found: tuple[Exchange, Delivery | None]) -> tuple[Exchange, Delivery | None]:
        """Return an exchange and the delivery of its announce with their refs named."""
        exchange, delivery = found
        return self.exchange(exchange), self.delivery(delivery) if delivery is not None else None

    def connection(self, connection: Connection) -> Connection:
        """Return the connection under this name."""
        return connection if connection.name == self.name else replace(connection, name=self.name)

    def event(self, event: Event) -> Event:
        """Return an event with its refs named."""
        return self._events[type(event)](event)

    def result(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool with its refs named; the words of messages stay as they are."""
        return {name: each if name == "content" else self._named(name, each) for name, each in fields.items()}

    def _named(self, field: str, value: object) -> object:
        if isinstance(value, str):
            return self.ref(value) if field in REFS else value
        if isinstance(value, list):
            return [self._named(field, each) for each in cast("list[object]", value)]
        if not isinstance(value, dict):
            return value
        named = self.result(cast("dict[str, Any]", value))
        if field in _IDS and "id" in named:
            named["id"] = self.ref(str(named["id"]))
        return named

    def _appended(self, event: MessageAppended) -> Event:
        return MessageAppended(event.rev, self.ref(event.key), self.ref(event.session_id), self.message(event.message))

    def _of_run(self, event: Delta | ToolProgress | Activity) -> Event:
        return event._replace(key=self.ref(event.key), run_id=self.ref(event.run_id))

    # What the gateway is told

    def bare(self, ref: str) -> str:
        """Return a key or id as the gateway knows it."""
        return ref.removeprefix(self._prefix)

    def maybe_bare(self, ref: str | None) -> str | None:
        """Return a key or id as the gateway knows it, None for none."""
        return ref.removeprefix(self._prefix) if ref is not None else None

    def bare_session(self, session: Session) -> Session:
        """Return a session as the gateway knows it."""
        return session._replace(
            key=self.bare(session.key),
            session_id=self.bare(session.session_id),
            spawned_by=self.maybe_bare(session.spawned_by),
        )

    def caller(self, caller: Caller) -> Caller:
        """Return a caller as the gateway knows it."""
        if isinstance(caller, Operator):
            return replace(caller, acting_for=self.maybe_bare(caller.acting_for))
        return SessionCaller(self.bare(caller.key), self.maybe_bare(caller.run_id), caller.agent_id)

    def scope(self, scope: Scope) -> Scope:
        """Return a scope as the gateway knows it."""
        match scope:
            case Tree(root):
                return Tree(self.bare(root))
            case One(key):
                return One(self.bare(key))
            case Agents(ids, root):
                return Agents(ids, self.maybe_bare(root))
            case _:
                return scope

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a tool as the gateway knows them."""
        return {
            name: self.bare(value) if name in REFS and isinstance(value, str) else value
            for name, value in arguments.items()
        }
