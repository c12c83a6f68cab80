"""The methods `port.*`: the port as it is, for our own client (`core.wire.port`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.gateway import Action, Gateway
from core.model.access import Caller, Operator, SessionCaller
from core.model.errors import Conflict, SwitchboardError
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.params import MethodParams
from core.server.run_tool import scope_of
from core.wire import port
from core.wire.codec import CALLER
from core.wire.frames import MAX_FRAME, RawJson, encode
from core.wire.port import DESCRIBED, Call, Described
from core.wire.scopes import READ

_Change = Callable[[], Awaitable[RawJson]]
_MANY_ROWS: Final = 500
"""From so many on, their JSON is made beside the loop."""
_ROOM: Final = 64 * 1024
"""Bytes of a frame around its payload, more than enough."""


class PortParams(BaseModel):
    """Parameters that the codec of the port reads; here they only pass through."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def raw(self) -> Mapping[str, Any]:
        """All of them, as JSON gave them."""
        return self.model_extra or {}


class ChangeParams(PortParams):
    """Parameters of what changes something."""

    once: str = Field(min_length=1, max_length=200)
    boot: str | None = None


class _ToolCallParams(MethodParams):
    name: str
    arguments: dict[str, Any]
    caller: dict[str, Any]
    once: str = Field(min_length=1, max_length=200)
    boot: str | None = None


class _FeedParams(BaseModel):
    """Open, so that a newer client may say more."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)

    feed: str = Field(min_length=1, max_length=64)


class _WatchParams(_FeedParams):
    watch: list[str] = Field(default_factory=list[str])
    all: bool = False


class _SubscribeParams(_WatchParams):
    turn: int = Field(ge=0)
    store_id: str | None = None
    after: int | None = Field(default=None, ge=0)


async def _describe(client: Client, params: PortParams) -> RawJson:  # noqa: ARG001 - it takes none
    return RawJson(encode(DESCRIBED.write(await _described(client))))


async def _described(client: Client) -> Described:
    gateway, facts = client.gateway, client.context.facts
    actions: tuple[Action, ...] = get_args(Action)
    refusals = {action: reason for action in actions if (reason := gateway.refusal(action)) is not None}
    try:
        agents = tuple(await gateway.agents())
    except SwitchboardError:  # before the configuration has been read
        agents = ()
    return Described(
        facts.store_id,
        facts.boot_id,
        _newest(gateway),
        gateway.rules,
        gateway.connection.state,
        gateway.connection.detail,
        refusals,
        agents,
    )


async def _subscribe(client: Client, params: _SubscribeParams) -> dict[str, Any]:
    """Begin a feed after a cursor of this store, or now when the cursor means nothing here."""
    store_id, now = client.context.facts.store_id, _newest(client.gateway)
    known = params.after is None or (params.after <= now and params.store_id in {None, store_id})
    after = params.after if known else None
    feed = client.gateway.subscribe(after)
    client.feeds.begin(params.feed, params.turn, feed, lambda: _described(client))
    client.feeds.watch(params.feed, params.watch, every=params.all)
    return {"storeId": store_id, "cursor": feed.cursor, "reset": not known}


async def _watch(client: Client, params: _WatchParams) -> None:
    client.feeds.watch(params.feed, params.watch, every=params.all)


async def _unsubscribe(client: Client, params: _FeedParams) -> None:
    client.feeds.end(params.feed)


async def _tool(client: Client, params: _ToolCallParams) -> RawJson:
    """Run a session tool; what a rule refuses is its result."""
    scope = scope_of(params.name)
    client.access.require(scope)
    caller = _caller(client, CALLER.read(params.caller))

    async def run() -> RawJson:
        from core.tools.dispatch import dispatch

        return _fit(encode(await dispatch(client.gateway, caller, params.name, params.arguments)))

    if scope == READ:  # it may run twice, and its answers are not worth keeping
        return await run()
    what = encode([port.TOOL, params.name, params.arguments, params.caller])
    return await _once(client, params.once, params.boot, what, run)


def _read_method(name: str) -> Method:
    call = port.call(name)

    async def run(client: Client, params: PortParams) -> RawJson | None:
        arguments = call.read(params.raw)
        if name == "transcript_path" and client.admitted.method != "local":
            return None  # a path of this machine means nothing elsewhere
        return await _written(call, await getattr(client.gateway, name)(**arguments))

    return Method(call.method, READ, PortParams, run, heavy=name == "history")


def _change_method(name: str, scope: str) -> Method:
    call = port.call(name)

    async def run(client: Client, params: ChangeParams) -> RawJson:
        arguments = call.read(params.raw)
        arguments["caller"] = _caller(client, arguments["caller"])

        async def change() -> RawJson:
            return await _written(call, await getattr(client.gateway, name)(**arguments))

        boot = None if name == "start_run" else params.boot  # a run is stored under its id
        return await _once(client, params.once, boot, encode([name, params.raw]), change)

    return Method(call.method, scope, ChangeParams, run)


async def _once(client: Client, once: str, boot: str | None, what: str, change: _Change) -> RawJson:
    """Make a change that may be asked for again (`core.server.native.repeats`)."""
    context = client.context
    if boot is not None and boot != context.facts.boot_id:
        words = "the gateway was started anew before it answered: look whether it was done, and if not, do it again"
        raise Conflict(words)
    return await context.repeats.once(once, what, change)


def _caller(client: Client, caller: Caller) -> Caller:
    """Return the caller that a client may be: no more than its connection; of a run and an agent it says nothing."""
    if isinstance(caller, SessionCaller):
        return SessionCaller(caller.key)
    return Operator(caller.acting_for, owner=caller.owner and client.access.owner)


async def _written(call: Call, result: Any) -> RawJson:  # noqa: ANN401 - of whatever type the method returns
    def write() -> RawJson:
        return _fit(encode(call.result.write(result)))

    rows = getattr(result, "sessions", None) or getattr(result, "messages", None) or ()
    return await asyncio.to_thread(write) if len(rows) > _MANY_ROWS else write()


def _fit(text: str) -> RawJson:
    """Return an answer; raise `Conflict` when it fits no frame."""
    if len(text) > (MAX_FRAME - _ROOM) // 4 and len(text.encode()) > MAX_FRAME - _ROOM:
        raise Conflict("the answer is longer than a frame may be: ask for fewer")
    return RawJson(text)


def _newest(gateway: Gateway) -> int:
    """Return the newest cursor: where a feed begins that asks for nothing before it."""
    feed = gateway.subscribe()
    feed.close()
    return feed.cursor


METHODS: Final = (
    Method(port.DESCRIBE, READ, PortParams, _describe),
    Method(port.SUBSCRIBE, READ, _SubscribeParams, _subscribe),
    Method(port.WATCH, READ, _WatchParams, _watch),
    Method(port.UNSUBSCRIBE, READ, _FeedParams, _unsubscribe),
    Method(port.TOOL, READ, _ToolCallParams, _tool),
    *(_read_method(name) for name in port.READS),
    *(_change_method(name, scope) for name, scope in port.CHANGES.items()),
)
