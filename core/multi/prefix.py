"""Putting a gateway's name before every key and id of what it tells (`core.model.keys.split` takes it off again)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from core.model.access import Agents, One, Operator, SessionCaller, Tree
from core.model.connection import Connection
from core.model.events import (
    Activity,
    Configured,
    ConnectionChanged,
    DeliveryChanged,
    Delta,
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
from core.model.messages import Draft, Message, Provenance
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket, SpawnSpec
from core.model.sessions import (
    HistoryPage,
    NewSession,
    SearchHit,
    SearchHits,
    Session,
    SessionPage,
    SessionQuery,
    Unsearched,
)

T = TypeVar("T")
REFS: Final[dict[type, tuple[str, ...]]] = {
    Session: ("key", "session_id", "spawned_by"),
    SessionPage: ("sessions", "children"),
    SessionQuery: ("spawned_by",),
    NewSession: ("key", "parent"),
    HistoryPage: ("key", "session_id", "messages"),
    SearchHit: ("key", "session_id"),
    Message: ("provenance",),
    Draft: ("provenance",),
    Provenance: ("source_session_key",),
    Run: ("run_id", "key", "session_id", "requester", "exchange", "root"),
    RunRequest: ("target", "run_id", "provenance", "spawn"),
    SpawnSpec: ("requester",),
    RunTicket: ("run_id", "key", "session_id"),
    RunOutcome: ("run_id", "key"),
    Exchange: ("exchange_id", "requester", "target", "root"),
    Delivery: ("delivery_id", "exchange_id", "key"),
    Operator: ("acting_for",),
    SessionCaller: ("key", "run_id"),
    Agents: ("root",),
    Tree: ("root",),
    One: ("key",),
    SessionChanged: ("session",),
    MessageAppended: ("key", "session_id", "message"),
    RunChanged: ("run",),
    ExchangeChanged: ("exchange",),
    DeliveryChanged: ("delivery",),
    SessionGone: ("key", "session_id"),
    Delta: ("key", "run_id"),
    ToolProgress: ("key", "run_id"),
    Activity: ("key", "run_id"),
    ConnectionChanged: ("connection",),
}
"""The fields of what passes the port that hold keys and ids, or something that does."""
NAMED: Final[dict[type, str]] = {Gap: "gateway", Reloaded: "gateway", Configured: "gateway", Connection: "name"}
"""The field that tells which gateway something is of."""
_JSON_REFS: Final = frozenset(
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
_JSON_IDS: Final = frozenset({"exchange", "delivery"})
"""Fields of tool results that hold something with an `id` of its own."""


class KeyPrefix:
    """The translation for one gateway, in both directions; its name is never empty."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._prefix = joined(name, "")

    def told(self, value: T) -> T:
        """Return what the gateway tells, a ref or what holds some, with the name before each of them."""
        return cast("T", self._translated(value, self._prefix.__add__))

    def given(self, value: T) -> T:
        """Return what the gateway is told, a ref or what holds some, with each of them as the gateway knows it."""
        return cast("T", self._translated(value, lambda ref: ref.removeprefix(self._prefix)))

    def result(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool with its refs named; the words of messages stay as they are."""
        return {name: each if name == "content" else self._named(name, each) for name, each in fields.items()}

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a tool as the gateway knows them."""
        return {
            name: self.given(value) if name in _JSON_REFS and isinstance(value, str) else value
            for name, value in arguments.items()
        }

    def _named(self, field: str, value: object) -> object:
        if isinstance(value, str):
            return self.told(value) if field in _JSON_REFS else value
        if isinstance(value, list):
            return [self._named(field, each) for each in cast("list[object]", value)]
        if not isinstance(value, dict):
            return value
        named = self.result(cast("dict[str, Any]", value))
        if field in _JSON_IDS and "id" in named:
            named["id"] = self.told(str(named["id"]))
        return named

    def _translated(self, value: Any, ref: Callable[[str], str]) -> Any:  # noqa: ANN401 - anything that passes the port
        kind = cast("type[Any]", value.__class__)
        if kind is str:
            return ref(value)
        if kind in REFS:
            changed: dict[str, Any] = {}
            for name in REFS[kind]:
                each = getattr(value, name)
                if each is not None:
                    changed[name] = ref(each) if each.__class__ is str else self._translated(each, ref)
            if not changed or (kind is Provenance and not value.source_session_key):
                return value
            return _replaced(value, changed)
        if kind in NAMED:
            return _replaced(value, {NAMED[kind]: self.name})
        if kind is SearchHits:
            return SearchHits([self._translated(each, ref) for each in value], map(self._place, value.unsearched))
        if kind is list:
            return [self._translated(each, ref) for each in value]
        if kind is tuple:
            return tuple([self._translated(each, ref) for each in value])
        if kind is dict:
            return {ref(key): self._translated(each, ref) for key, each in value.items()}
        return value

    def _place(self, unsearched: Unsearched) -> Unsearched:
        return Unsearched(f"{unsearched.place} of {self.name}", unsearched.reason)


def _replaced(value: Any, changed: dict[str, Any]) -> Any:  # noqa: ANN401 - a named tuple or a dataclass
    return value._replace(**changed) if hasattr(value, "_replace") else replace(value, **changed)
