"""Right and wrong values for whatever a client may say, made from the types of its parameters.

What a field is named tells what it means. Things that only exist while the server runs are named by `Ref` and filled in
when they are asked for.
"""

import json
import types
import typing
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from hypothesis import strategies as st
from pydantic import BaseModel

from core.server.openclaw.rows import THINKING_LEVELS
from core.tools.dispatch import TOOL_NAMES
from core.wire.port import CHANGES, call

Thing = Literal["key", "id", "spare", "session", "run", "exchange", "delivery", "doomed", "cursor", "fresh", "device"]


@dataclass(frozen=True, slots=True)
class Ref:
    """Something that the server has when it is asked for.

    Attributes:
        thing: `key`, `id` and `session` are those of a session, `spare` the key of one where nothing happens; `doomed`
            is a delivery that nobody else is given; `fresh` is a word never used before.
        place: Which of them, modulo how many there are.
        pattern: What it stands in.
    """

    thing: Thing
    place: int
    pattern: str = "{}"


KEPT_FEED: Final = "kept"
"""A feed that nobody ends."""
PLACES: Final = st.integers(0, 10_000)


def refs(thing: Thing, pattern: str = "{}") -> st.SearchStrategy[Any]:
    """Return things of one kind."""
    return PLACES.map(lambda place: Ref(thing, place, pattern))


# What is right

SESSION_KEYS: Final = st.one_of(refs("key"), refs("key"), refs("key"), refs("id"))
WORDS: Final = st.text(max_size=20) | st.sampled_from(["hello", "agent", "main", "ü漢🙂", "a b c", "%", "'", '"'])
MESSAGES: Final = st.sampled_from(
    [
        "hello",
        "say these words",
        "list sessions",
        "show markdown",
        "/status",
        "fail on purpose",
        "be slow 0.2",
        "漢字 🙂",
    ]
) | st.text(min_size=1, max_size=40).map(lambda text: f"say {text}")
SCOPES: Final = st.one_of(
    *[st.just({"type": "All"})] * 5,
    st.just({"type": "Agents", "ids": ["main"]}),
    SESSION_KEYS.map(lambda key: {"type": "Tree", "root": key}),
    refs("key").map(lambda key: {"type": "One", "key": key}),
)
CALLERS: Final = st.one_of(st.just({"type": "Operator"}), st.just({"type": "Operator", "owner": True}))
QUERIES: Final = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(1, 50),
        "offset": st.integers(0, 3),
        "kinds": st.lists(st.sampled_from(["main", "group", "cron", "other"]), max_size=2),
        "search": WORDS,
        "label": WORDS,
        "agent_id": st.just("main"),
        "archived": st.none() | st.booleans(),
        "updated_after": st.integers(0, 2**40),
    },
)
LABELS: Final = st.none() | refs("fresh", "label {}")
KEYS_TO_BE: Final = refs("fresh", "agent:main:made-{}") | refs("fresh", "agent:main:discord:group:made-{}")
PATCHES: Final = st.fixed_dictionaries(
    {},
    optional={
        "label": LABELS,
        "thinkingLevel": st.sampled_from([None, *THINKING_LEVELS]),
        "sendPolicy": st.sampled_from([None, "allow", "deny", None]),
    },
)
SPAWNS: Final = st.fixed_dictionaries(
    {"requester": refs("key"), "agent_id": st.just("main")},
    optional={"label": LABELS, "cleanup": st.booleans()},
)
REQUESTS: Final = st.fixed_dictionaries(
    {"target": SESSION_KEYS, "message": MESSAGES, "run_id": refs("fresh", "run-{}")},
    optional={"create": st.booleans(), "timeout_ms": st.integers(0, 60_000)},
)
DRAFTS: Final = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["assistant", "user"]),
        "content": st.lists(WORDS.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=2),
    },
    optional={"stop_reason": st.just("stop"), "model": st.just("builtin")},
)
TOOL_ARGUMENTS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "sessions_list": st.fixed_dictionaries(
        {}, optional={"limit": st.integers(1, 50), "messageLimit": st.integers(0, 3)}
    ),
    "sessions_history": st.fixed_dictionaries({"sessionKey": SESSION_KEYS}, optional={"limit": st.integers(1, 50)}),
    "sessions_send": st.fixed_dictionaries(
        {"sessionKey": st.just(Ref("key", 1)) | SESSION_KEYS, "message": MESSAGES, "timeoutSeconds": st.integers(0, 1)}
    ),
    "sessions_spawn": st.fixed_dictionaries(
        {"task": MESSAGES},
        optional={"cleanup": st.sampled_from(["keep", "delete"]), "label": refs("fresh", "child {}")},
    ),
    "sessions_search": st.fixed_dictionaries({"query": st.sampled_from(["hello", "words", "漢字"])}),
    "agents_list": st.just({}),
}
MEANINGS: Final[dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(("key", "sessionKey", "ref", "spawnedBy", "parentSessionKey"), SESSION_KEYS),
    "sessionId": refs("id"),
    "keys": st.lists(SESSION_KEYS, min_size=1, max_size=5),
    "watch": st.lists(refs("key"), max_size=5),
    "agentId": st.just("main"),
    "message": MESSAGES,
    "task": MESSAGES,
    "query": st.sampled_from(["hello", "words", "echo", "漢字", "a b"]),
    "text": st.sampled_from(["hello", "words", "echo", "漢字", "a b"]),
    "idempotencyKey": refs("fresh", "key-{}"),
    "once": refs("fresh", "once-{}"),
    "boot": st.none(),
    "runId": refs("run"),
    "run_id": refs("run"),
    "exchange_id": refs("exchange") | refs("run"),
    "delivery_id": refs("delivery"),
    "id": refs("delivery"),
    "label": LABELS,
    "model": st.none(),
    "thinking": st.none(),
    "thinkingLevel": st.sampled_from([None, *THINKING_LEVELS]),
    "verboseLevel": st.sampled_from([None, "off", "on"]),
    "timeoutMs": st.integers(0, 60_000),
    "timeout": st.integers(0, 3),
    "storeId": st.just("store"),
    "after": refs("cursor"),
    "feed": st.sampled_from(["1", "2"]),
    "attachments": st.just([]),
    "minProtocol": st.integers(1, 4),
    "maxProtocol": st.integers(4, 9),
    "role": st.just("operator"),
    "auth": st.just({"token": "{token}"}),
    "caller": CALLERS,
    "request": REQUESTS,
    "patch": PATCHES.map(lambda fields: {"fields": fields}),
    "new": st.fixed_dictionaries({}, optional={"key": KEYS_TO_BE, "label": LABELS, "parent": refs("key")}),
    "draft": DRAFTS,
    "session": refs("session"),
}
"""What a value is by the name of its field, wherever that tells more than its type."""
FOREIGN: Final = frozenset(
    {"fastMode", "reasoningLevel", "elevatedLevel", "responseUsage", "groupActivation", "device", "deleteTranscript"}
)
"""Fields that a right request leaves out."""


def value_of(name: str, kind: Any, metadata: Sequence[object] = ()) -> st.SearchStrategy[Any]:
    """Return right values for a field of that name and type."""
    if name in MEANINGS:
        return MEANINGS[name]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in {Union, types.UnionType}:
        return st.one_of(*(value_of("", arg, metadata) for arg in args))
    if origin in {list, tuple, Collection}:
        return st.lists(value_of("", args[0]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return fields_of(kind)
    if kind is int or kind is float:
        low = max([int(typing.cast("Any", each.ge)) for each in metadata if isinstance(each, Ge)], default=0)
        high = min([int(typing.cast("Any", each.le)) for each in metadata if isinstance(each, Le)], default=low + 40)
        return st.integers(low, min(high, low + 40))
    if kind is str:
        least = max([each.min_length for each in metadata if isinstance(each, MinLen)], default=0)
        most = min([each.max_length for each in metadata if isinstance(each, MaxLen)], default=20)
        return st.text(min_size=least, max_size=min(most, 20))
    return st.booleans() if kind is bool else st.none() if kind is type(None) else JSON


def fields_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Return right parameters of a model."""
    required, optional = dict[str, st.SearchStrategy[Any]](), dict[str, st.SearchStrategy[Any]]()
    for name, field in model.model_fields.items():
        alias = field.alias or name
        if alias not in FOREIGN:
            chosen = required if field.is_required() or alias == "auth" else optional
            chosen[alias] = value_of(alias, field.annotation, field.metadata)
    return st.fixed_dictionaries(required, optional=optional)


def port_fields(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return right parameters of a method of the port."""
    from core.gateway import Gateway

    hints = typing.get_type_hints(getattr(Gateway, name))
    del hints["return"]
    values = {each: value_of(each, hint) for each, hint in hints.items()}
    values |= {"scope": SCOPES} if "scope" in values else {}
    if name == "list_sessions":
        values["query"] = QUERIES
    if "limit" in values:
        values["limit"] = st.integers(1, 50)
    if name == "wait_run":
        values["timeout"] = st.sampled_from([None, 0, 0.05, 1])
    if name in CHANGES:
        values["once"] = MEANINGS["once"]
    required = call(name).required | ({"once"} & values.keys())
    return st.fixed_dictionaries(
        {each: values[each] for each in sorted(required)},
        optional={each: values[each] for each in values if each not in required},
    )


def tool_fields(name_field: str, args_field: str, more: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Any]:
    """Return right calls of any tool."""

    def with_arguments(tool: str) -> st.SearchStrategy[Any]:
        call_of = {name_field: st.just(tool), args_field: TOOL_ARGUMENTS[tool]}
        return st.tuples(st.fixed_dictionaries(call_of), more).map(lambda both: both[0] | both[1])

    return st.sampled_from(TOOL_NAMES).flatmap(with_arguments)


def one_of_a_kind(target: str) -> st.SearchStrategy[Any] | None:
    """Return the parameters of a method whose fields hang together; None for the others."""
    acting = st.fixed_dictionaries({"sessionKey": refs("key")})
    spare = refs("spare")
    if target == "tools.invoke":
        return tool_fields("name", "args", acting)
    if target == "port.tool":
        caller = refs("key").map(lambda key: {"type": "Operator", "acting_for": key})
        return tool_fields("name", "arguments", st.fixed_dictionaries({"once": MEANINGS["once"], "caller": caller}))
    if target in {"sessions.reset", "sessions.delete"}:
        return st.fixed_dictionaries({"key": spare})
    if target in {"port.reset", "port.delete"}:
        return st.fixed_dictionaries({"ref": spare, "caller": CALLERS, "once": MEANINGS["once"]})
    if target == "port.watch":
        fields = {"watch": MEANINGS["watch"], "all": st.booleans()}
        return st.fixed_dictionaries({"feed": st.just(KEPT_FEED)}, optional=fields)
    if target in {"device.pair.remove", "device.token.revoke"}:
        return st.fixed_dictionaries({"deviceId": refs("device")})
    if target == "deliveries.drop":
        return st.fixed_dictionaries({"id": refs("doomed")})
    if target == "port.drop_delivery":
        return st.fixed_dictionaries({"delivery_id": refs("doomed"), "caller": CALLERS, "once": MEANINGS["once"]})
    if target == "sessions.resolve":
        return st.fixed_dictionaries({"key": SESSION_KEYS}, optional={"allowMissing": st.booleans()})
    if target == "sessions.create":
        optional = {"key": KEYS_TO_BE, "label": LABELS, "message": MESSAGES, "parentSessionKey": refs("key")}
        return st.fixed_dictionaries({}, optional=optional)
    return None


# What is wrong

ODD_TEXTS: Final = st.sampled_from(
    [
        "",
        " ",
        "\0",
        "\ud800",
        "\udfff\ud800",
        "\u202eevil",
        "\x1b[2J",
        "x" * 100_000,
        "é" * 300,
        "agent:",
        "agent:main:",
        ":::",
        "global",
        "unknown",
        "agent:nobody:main",
        "@elsewhere:main",
        "../../etc/passwd",
        "' OR 1=1 --",
        "%00",
        "{}",
        "null",
        "NaN",
        '"*" OR NEAR(',
        "\r\nx: y",
    ]
)
HUGE: Final = st.sampled_from([-1, 0, 2**31, 2**53, 2**63, -(2**63) - 1, 10**30, 1e308, -0.5, 1.5])
JSON: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | ODD_TEXTS
    | HUGE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spoiled(draw: st.DrawFn, right: st.SearchStrategy[Any]) -> Any:
    """Return right parameters in which something was replaced, left out or added."""
    params = dict(draw(right))
    for _ in range(draw(st.integers(1, 2))):
        what = draw(st.sampled_from(["replace", "replace", "replace", "drop", "add", "inside"]))
        names = sorted(params)
        if what == "add" or not names:
            params[draw(WORDS | ODD_TEXTS)] = draw(JSON)
            continue
        name = draw(st.sampled_from(names))
        if what == "drop":
            del params[name]
        elif what == "inside" and isinstance(params[name], dict) and params[name]:
            params[name] = draw(spoiled(st.just(params[name])))
        else:
            params[name] = draw(JSON | ODD_TEXTS | HUGE)
    return params


_SOME_JSON: Final = JSON.map(json.dumps)
BAD_FRAMES: Final = st.one_of(
    st.text(max_size=60),
    _SOME_JSON,
    _SOME_JSON.map(lambda text: text[: len(text) // 2]),
    st.sampled_from(
        ["[" * 50_000, '{"a":' * 5_000, "NaN", '{"type":"req","id":"x","method":"health","params":Infinity}']
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["req", "res", "event", "hello"]) | JSON},
        optional={"id": JSON, "method": st.sampled_from(["health", "connect", "nothing"]) | JSON, "params": JSON},
    ).map(json.dumps),
    st.binary(max_size=40),
)
