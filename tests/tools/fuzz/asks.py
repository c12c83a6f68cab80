"""What a client may ask of the server, right and wrong: every method, every route, and frames that are none."""

import random
import typing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from core.server.auth import READ
from core.server.conversation.handshake import ConnectParams
from core.server.methods import METHODS
from core.wire.port import CHANGES, READS
from tests.tools.fuzz.values import (
    BAD_FRAMES,
    JSON,
    SESSION_KEYS,
    fields_of,
    one_of_a_kind,
    port_fields,
    refs,
    spoiled,
    tool_fields,
)

CONNECT: Final = "connect"
FRAME: Final = "a bad frame"
ROUTES: Final = (
    "GET history",
    "GET history follow=1",
    "POST tools/invoke",
    "GET health",
    "GET healthz",
    "GET ready",
    "GET readyz",
    "GET metrics",
)
"""The routes of HTTP."""
TARGETS: Final = (*METHODS, *ROUTES, CONNECT)
SURE: Final = frozenset(
    name for name, method in METHODS.items() if method.scope == READ and not name.startswith("port.")
) - {"tools.invoke"}
"""Methods that only read: right requests of theirs succeed, however things stand."""
WITHOUT_SESSION: Final = frozenset({*ROUTES[3:], CONNECT, FRAME, "port.describe", "port.agents", "port.models"})


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request over HTTP, as it is written on the socket.

    Attributes:
        key: What stands in the path for `{}`.
        wants: The statuses that are right for it; any other one is a finding.
    """

    verb: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: Any = None
    key: Any = None
    wants: tuple[int, ...] = (200,)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        target: A method, a route, or a frame that is none.
        content: Its parameters; a `Fetch` for a route, text for a frame.
        good: It is meant to succeed.
        line: The connection it goes over, modulo how many there are.
    """

    target: str
    content: Any
    good: bool
    line: int


# HTTP

_HOST: Final = ("host", "{host}")
_TOKEN: Final = ("authorization", "Bearer {token}")
RIGHT_HEADERS: Final = (_HOST, _TOKEN)
_NO_TOKEN: Final = (401, 429)
_ODD_HEADERS: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("host", "elsewhere.example"): (403,),
    ("host", ""): (403,),
    ("origin", "https://elsewhere.example"): (403,),
    ("origin", "null"): (403,),
    ("authorization", ""): _NO_TOKEN,
    ("authorization", "Basic eDp5"): _NO_TOKEN,
    ("authorization", "Bearer {token} {token}"): _NO_TOKEN,
    ("authorization", "Bearer caf\xe9"): _NO_TOKEN,
    ("accept", "text/event-stream"): (200,),
    ("accept", "\xff\xfe"): (200,),
    ("last-event-id", "nothing"): (200,),
    ("last-event-id", ":" * 100): (200,),
    ("last-event-id", "x:999999999999999999"): (200,),
    ("x-openclaw-scopes", "operator.read,,nonsense"): (200,),
    ("x-openclaw-scopes", ""): (403,),
    ("content-length", "-1"): (400,),
    ("content-length", "99999999999999999999"): (200, 413),
    ("content-length", "x"): (400,),
    ("transfer-encoding", "chunked"): (200, 400),
    ("transfer-encoding", "gzip"): (400, 501),
    ("expect", "100-continue"): (100, 200),
    ("upgrade", "websocket"): (200,),
    ("upgrade", "h2c"): (200,),
    ("content-encoding", "br"): (200,),
    ("range", "bytes=0-1"): (200,),
    ("x-forwarded-for", "1.2.3.4"): (200,),
    ("cookie", "a" * 4_000): (200,),
    ("x-long", "b" * 70_000): (200, 400, 431),
}
"""Odd headers, and what is right for a request that has one."""
_OPEN: Final = frozenset({"GET health", "GET healthz", "GET ready", "GET readyz"})
"""The routes that need no token."""
VERBS: Final = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FETCH"]
)
ODD_PARTS: Final = st.sampled_from(
    [
        "%",
        "%zz",
        "%00",
        "%c3%28",
        "%2e%2e%2f",
        "//",
        "/../",
        "%F0%9F%99%82",
        "%ED%A0%80",
        "+",
        "%20",
        ";x=y",
        "agent%3Amain",
    ]
)
_ODD_QUERIES: Final[dict[str, int]] = {
    "limit=0": 400,
    "limit=-1": 400,
    "limit=99999999999999999999": 400,
    "limit=%D9%A3": 400,
    "limit=1&limit=2": 200,
    "cursor=seq:": 400,
    "cursor=seq:999999999999999": 200,
    "cursor=1e3": 400,
    "cursor=&limit=": 400,
    "includeTools=maybe": 400,
    "follow=0": 200,
    "follow=1&cursor=3": 400,
    "%00=%00": 200,
    "a" * 5_000: 200,
    "limit": 400,
    "=&=&=": 200,
}
"""Odd queries, and what is right for a history that is asked for with one; elsewhere a query means nothing."""
PAGES: Final = st.sampled_from(["", "?limit=5", "?limit=1000", "?cursor=4", "?cursor=seq:9&limit=2", "?includeTools=1"])
HISTORY_PATH: Final = "/sessions/{}/history"
PROBES: Final = {route: f"/{route.partition(' ')[2]}" for route in ROUTES[3:]}


def right_fetches(route: str) -> st.SearchStrategy[Fetch]:
    """Return right requests for a route."""
    if route == "POST tools/invoke":
        acting = st.fixed_dictionaries({"sessionKey": refs("key")})
        headers = (*RIGHT_HEADERS, ("content-type", "application/json"))
        return tool_fields("tool", "args", acting).map(
            lambda body: Fetch("POST", "/tools/invoke", headers, body, None, _wants_of_tool(body))
        )
    if route in PROBES:
        return st.just(Fetch("GET", PROBES[route], RIGHT_HEADERS))
    if "follow" in route:
        path = st.sampled_from([f"{HISTORY_PATH}?follow=1", f"{HISTORY_PATH}?follow=1&limit=3&includeTools=1"])
        return st.tuples(path, SESSION_KEYS).map(lambda both: Fetch("GET", both[0], RIGHT_HEADERS, key=both[1]))
    return st.tuples(PAGES, SESSION_KEYS).map(
        lambda both: Fetch("GET", HISTORY_PATH + both[0], RIGHT_HEADERS, key=both[1])
    )


def _wants_of_tool(body: dict[str, Any]) -> tuple[int, ...]:
    """A session cannot send to itself, and two names may be of the same one."""
    return (200, 400) if body["tool"] == "sessions_send" else (200,)


@st.composite
def spoiled_fetches(draw: st.DrawFn, route: str) -> Fetch:
    """Return requests for a route in which something is odd."""
    fetch = draw(right_fetches(route))
    verb, path, headers, body, wants = fetch.verb, fetch.path, list(fetch.headers), fetch.body, fetch.wants
    what = draw(st.sampled_from(["verb", "path", "query", "header", "header", "body"]))
    if what == "verb":
        verb = draw(VERBS)
        wants = wants if verb == fetch.verb or (verb, fetch.verb) == ("HEAD", "GET") else (405,)
    elif what == "path":
        place = draw(st.integers(1, len(path)))
        path, wants = path[:place] + draw(ODD_PARTS) + path[place:], (200, 400, 404)
    elif what == "query":
        query = draw(st.sampled_from(sorted(_ODD_QUERIES)))
        wants = _wants_of_query(route, query, wants)
        path += ("&" if "?" in path else "?") + query
    elif what == "header":
        odd = draw(st.sampled_from(sorted(_ODD_HEADERS)))
        wants = _wants_of_header(route, odd, path, wants)
        headers = [each for each in headers if each[0] != odd[0]] + [odd]
    elif isinstance(body, dict):
        body = draw(spoiled(st.just(typing.cast("dict[str, Any]", body))) | JSON | BAD_FRAMES)
        wants = (200, 400, 404)
    else:
        body = draw(JSON)
    return Fetch(verb, path, tuple(headers), body, fetch.key, wants)


def _wants_of_query(route: str, query: str, wants: tuple[int, ...]) -> tuple[int, ...]:
    if not route.startswith("GET history"):
        return wants
    pages_a_stream = "follow=1" in route and query.startswith("cursor")
    return (400,) if pages_a_stream else (_ODD_QUERIES[query],)


def _wants_of_header(route: str, odd: tuple[str, str], path: str, wants: tuple[int, ...]) -> tuple[int, ...]:
    name, value = odd
    right = _ODD_HEADERS[odd]
    if name in {"authorization", "x-openclaw-scopes"} and route in _OPEN:
        return wants
    if odd == ("accept", "text/event-stream") and route == "GET history" and "cursor" in path:
        return (400,)  # it asks for a stream and for a page
    if name in {"content-length", "transfer-encoding"} and value in {"99999999999999999999", "chunked"}:
        return right[1:] if route.startswith("POST") else right[:1]
    return wants if right == (200,) else right


def path_of(path: str, key: str) -> str:
    """Return the path with a key in it."""
    return path.replace("{}", quote(key, safe="", errors="surrogatepass"), 1)


# All of it


def plain() -> list[Ask]:
    """Return one request for each target, as simple as it can be: it must succeed."""
    return [Ask(target, drawn(contents(target, good=True), 1, 0)[0], True, 0) for target in TARGETS]


def contents(target: str, *, good: bool) -> st.SearchStrategy[Any]:
    """Return what is asked of a target."""
    if target == FRAME:
        return BAD_FRAMES
    if target in ROUTES:
        return right_fetches(target) if good else spoiled_fetches(target)
    special = one_of_a_kind(target)
    name = target.removeprefix("port.")
    if special is not None:
        right = special
    elif target == CONNECT:
        right = fields_of(ConnectParams).map(lambda hello: hello | {"client": hello["client"] | {"id": "cli"}})
    elif target.startswith("port.") and (name in READS or name in CHANGES):
        right = port_fields(name)
    else:
        right = fields_of(METHODS[target].params)
    return right if good else spoiled(right)


def drawn(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """Return that many examples; of a strategy that has fewer, some again."""
    found: list[Any] = []
    choices = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much),
    )

    @seed(number)
    @choices
    @given(strategy)
    def draw(example: Any) -> None:
        found.append(example)

    draw()
    return [found[place % len(found)] for place in range(count)]


def names_session(target: str) -> bool:
    """Return whether what is asked of a target can name a session, or what belongs to one."""
    if target in WITHOUT_SESSION:
        return False
    if target in ROUTES or target.startswith("port."):
        return True
    return bool(METHODS[target].params.model_fields.keys() & {"key", "keys", "session_key", "run_id", "id"})


def schedule() -> list[tuple[str, bool]]:
    """Return one round over all targets, right more often than wrong, and those with sessions more often."""
    round_: list[tuple[str, bool]] = [(FRAME, False)] * 4
    for target in TARGETS:
        names_one = names_session(target)
        round_ += [(target, True)] * (3 if names_one else 1) + [(target, False)] * names_one
    return round_ + [(target, False) for target in TARGETS if not names_session(target)][::2]


def rounds(count: int, number: int) -> list[Ask]:
    """Return that many requests, of all kinds and in any order.

    Args:
        number: The seed: the same one gives the same requests.
    """
    wanted = [schedule()[place % len(schedule())] for place in range(count)]
    kinds = sorted(set(wanted))
    made: dict[tuple[str, bool], list[Any]] = {
        kind: drawn(contents(kind[0], good=kind[1]), wanted.count(kind), number + place)
        for place, kind in enumerate(kinds)
    }
    asks = [Ask(target, made[target, good].pop(), good, place) for place, (target, good) in enumerate(wanted)]
    random.Random(number).shuffle(asks)
    return asks
