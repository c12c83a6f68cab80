"""Neither end trusts the other: whatever is sent, a person sees one sentence (architecture#threats)."""

import asyncio
import socket
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clock import SystemClock
from core.gateway import Gateway
from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.model.ids import new_id
from core.model.runs import RunRequest
from core.model.sessions import SessionQuery
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.native.gateway import NativeGateway
from core.remote.native.local import attach
from core.rules.ruleset import RuleSet
from core.server.local import listen
from core.tools.dispatch import TOOL_NAMES
from core.wire import frames
from core.wire.errors import to_wire
from core.wire.frames import NATIVE, Request, parse
from core.wire.port import CHANGES, DESCRIBED, READS, Described, call
from core.wire.transport import LineTransport, Transport
from tests.contract.ways import own_context
from tests.support.runtimes import MAIN, Listener, running, send, until
from tests.wire.values import JSON, WORDS, values_of

CALLS = [*READS, *CHANGES]


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return any request: most are well formed and mean nothing, in some a part was replaced."""
    name = draw(st.sampled_from([*CALLS, "subscribe", "watch", "tool"]))
    params: dict[str, Any] = {"once": new_id()}
    if name in CALLS:
        hints = typing.get_type_hints(getattr(Gateway, name))
        del hints["return"]
        params |= call(name).write({each: draw(values_of(hint)) for each, hint in hints.items()})
        for ref in {"ref", "key"} & params.keys():
            params[ref] = draw(st.just(MAIN) | WORDS)
        if "limit" in params:
            params["limit"] = draw(st.integers(-1, 20))
    elif name == "tool":
        tool = draw(st.sampled_from([*TOOL_NAMES, "nothing"]))
        params |= {"name": tool, "arguments": draw(st.dictionaries(WORDS, JSON, max_size=2))}
        params["caller"] = draw(JSON | st.just({"type": "Operator"}))
    else:
        params |= {"feed": "1", "turn": draw(JSON | st.just(1)), "after": draw(JSON), "watch": draw(JSON | st.just([]))}
    if draw(st.integers(0, 4)) == 0:
        params[draw(st.sampled_from(sorted(params)))] = draw(JSON)
    if name == "wait_run":
        params["timeout"] = 0
    return f"port.{name}", params


async def test_whatever_a_client_asks_is_answered_with_a_sentence(state: Path) -> None:
    examples: list[tuple[str, dict[str, Any]]] = []

    @settings(max_examples=300, database=None)
    @given(asked())
    def collect(example: tuple[str, dict[str, Any]]) -> None:
        examples.append(example)

    collect()
    async with running(state) as runtime:
        await send(runtime, MAIN, "hello")
        listener = await listen(own_context(runtime, state), state)
        gateway = await attach(state)
        for method, params in examples:
            if method == "port.wait_run":
                params["timeout"] = 0
            try:
                await gateway.link.request(method, params)
            except SwitchboardError as error:
                assert "failed inside" not in error.message, (method, params)  # noqa: PT017 - not every one is refused
        assert (await gateway.get_session(MAIN, ALL)).key == MAIN, "it is still there"
        await gateway.close()
        await listener.close()


class Scripted:
    """A gateway that introduces itself well and then answers what a test wants.

    Attributes:
        answers: Payloads by method; everything else is answered with `None`.
        lacks: Methods that it does not know.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "connect": {"type": "hello-ok", "protocol": 4, "features": {"capabilities": [NATIVE]}},
            "port.describe": DESCRIBED.write(Described("store", "boot", 1, RuleSet())),
            "port.subscribe": {"storeId": "store", "cursor": 1, "reset": False},
        }
        self.lacks: set[str] = set()
        self.lines: LineTransport | None = None
        self._serving: asyncio.Task[None] | None = None

    async def dial(self) -> Transport:
        """Return the client's end of a new connection."""
        here, there = socket.socketpair()
        self.lines = LineTransport(*await asyncio.open_unix_connection(sock=there), peer="test", trusted=True)
        self._serving = asyncio.create_task(self._serve(self.lines))
        return LineTransport(*await asyncio.open_unix_connection(sock=here), peer="test", trusted=True)

    async def _serve(self, lines: LineTransport) -> None:
        await lines.send(frames.event("connect.challenge", {"nonce": "n", "ts": 1}))
        while (text := await lines.receive()) is not None:
            frame = parse(text)
            assert isinstance(frame, Request)
            if frame.method in self.lacks:
                error = to_wire(Invalid(f"unknown method: {frame.method}"))
                await lines.send(frames.refused(frame.id, error))
                continue
            await lines.send(frames.response(frame.id, self.answers.get(frame.method)))

    async def close(self) -> None:
        """Be gone."""
        assert self.lines is not None
        assert self._serving is not None
        await self.lines.close(1000, "")
        await self._serving


async def scripted() -> tuple[Scripted, NativeGateway]:
    """Return a scripted gateway and the port over a connection to it."""
    server = Scripted()
    gateway = NativeGateway(Link(server.dial, HelloRequest(), clock=SystemClock()))
    return server, gateway


@given(payload=JSON | st.dictionaries(WORDS | st.sampled_from(["sessions", "key", "messages", "run_id"]), JSON))
@settings(max_examples=40)
async def test_whatever_a_gateway_answers_is_a_result_or_a_sentence(payload: Any) -> None:
    server, gateway = await scripted()
    await gateway.link.open()
    for method in ("list_sessions", "history", "start_run", "wait_run", "deliveries"):
        server.answers[f"port.{method}"] = payload
    for asked in (
        gateway.list_sessions(SessionQuery(), ALL),
        gateway.history(MAIN, ALL, limit=5),
        gateway.start_run(RunRequest(MAIN, "hi"), OPERATOR),
        gateway.wait_run("x", 0),
        gateway.deliveries(limit=5),
    ):
        try:
            await asked
        except Unavailable as error:
            assert "cannot be read" in error.message  # noqa: PT017 - some payloads can be read
    await gateway.close()
    await server.close()


@pytest.mark.parametrize("told", [None, 3, {}, {"store_id": "s"}, {"store_id": 1, "boot": 2, "cursor": [], "rules": 0}])
async def test_a_gateway_that_cannot_describe_itself_is_not_connected_to(told: Any) -> None:
    server, gateway = await scripted()
    server.answers["port.describe"] = told
    with pytest.raises(Unavailable, match="says nothing of itself that can be read"):
        await gateway.link.open()
    assert gateway.connection.state != "live"
    await gateway.close()
    await server.close()


async def test_events_that_cannot_be_read_do_no_harm() -> None:
    server, gateway = await scripted()
    await gateway.link.open()
    listener = Listener(gateway.subscribe())
    server.answers["port.deliveries"] = []
    assert server.lines is not None
    await gateway.deliveries(limit=1)
    good = {"type": "SessionGone", "rev": 5, "key": "k", "session_id": "s"}
    payloads: tuple[Any, ...] = (
        None,
        [],
        {"feed": "1", "turn": "x"},
        {"feed": "1", "turn": 1, "events": {}},
        {"feed": "1", "turn": 1, "events": [{"type": "SessionGone", "rev": "5"}]},
        {"feed": "9", "turn": 1, "events": [good]},
        {"feed": "1", "turn": 1, "events": [], "described": {"rules": 1}},
        {"feed": "1", "turn": 1, "events": [{"type": "Later"}, good]},
    )
    for payload in payloads:
        await server.lines.send(frames.event("port.events", payload))
    await until(lambda: listener.events)
    assert [event.rev for event in listener.events] == [5]
    assert gateway.connection.state == "live"
    await listener.close()
    await gateway.close()
    await server.close()
