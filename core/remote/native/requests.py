"""What is asked of one of our own gateways, and what it has said of itself (dialect `port-v1`, `core.wire.port`).

What is asked for again is done once; a wait for a run goes on when the connection is lost meanwhile.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.gateway import AgentInfo, ModelInfo, Overrides
from core.model.access import Caller, Scope
from core.model.errors import Invalid, Unavailable
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.ids import new_id
from core.model.json_codec import mapping
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import HistoryPage, NewSession, SearchHit, Session, SessionPage, SessionPatch, SessionQuery
from core.remote.link import Link
from core.remote.refusal import RequestNotTaken
from core.wire import port
from core.wire.codec import CALLER
from core.wire.port import DESCRIBED, Described, call

ANSWER_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 20.0
"""How long the gateway is asked to wait for a run at a time; a longer wait asks again."""
PAUSE_SECONDS: Final = 0.25
"""Before a wait that could not be made is tried again."""
UNKNOWN_METHOD: Final = "unknown method"
_MANY_FAILURES: Final = 8


class PortRequests:
    """The reads and writes of one gateway, each as a request; see `core.gateway.Reads` and `core.gateway.Writes`.

    Args:
        ready: Returns when a request may be sent; feeds that are being begun come first.

    Attributes:
        described: What the gateway says of itself; None until it was told.
    """

    def __init__(self, link: Link, ready: Callable[[], Awaitable[None]]) -> None:
        self.link: Final = link
        self.described: Described | None = None
        self._ready = ready

    def describe(self, payload: object) -> None:
        """Take what the gateway says of itself."""
        try:
            self.described = DESCRIBED.read(payload)
        except Invalid as error:
            raise Unavailable(f"the gateway says nothing of itself that can be read: {error.message}") from None

    def not_connected(self) -> str:
        """Return why nothing reaches the gateway, in one sentence."""
        connection = self.link.connection
        where = connection.name or connection.address
        if connection.state == "refused":
            return connection.detail
        if connection.retry_at is None:
            return f"not connected to {where} yet"
        seconds = max(0, round((connection.retry_at - self.link.clock.now_ms()) / 1000))
        return f"not connected to {where}: next try in {seconds} s"

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        return await self._call("list_sessions", query=query, scope=scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        return await self._call("get_session", ref=ref, scope=scope)

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
        return await self._call(
            "history", ref=ref, scope=scope, limit=limit, before=before, include_tools=include_tools, in_brief=in_brief
        )

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        return await self._call("search", text=text, scope=scope, key=key, limit=limit, redacted=redacted)

    async def agents(self) -> list[AgentInfo]:
        return await self._call("agents")

    async def models(self) -> list[ModelInfo]:
        return await self._call("models")

    async def overrides(self) -> Overrides:
        """Return the overrides of the send policy that wait for a session of their key; older gateways keep none."""
        try:
            return await self._call("overrides")
        except RequestNotTaken:
            return {}

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        return await self._call("runs", key=key, scope=scope, limit=limit)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds, also across lost connections."""
        clock = self.link.clock
        end = None if timeout is None else clock.monotonic() + timeout
        failures = 0
        while True:
            left = WAIT_SECONDS if end is None else max(0.0, end - clock.monotonic())
            try:
                outcome: RunOutcome = await self._call(
                    "wait_run", patience=left + ANSWER_SECONDS, run_id=run_id, timeout=min(left, WAIT_SECONDS)
                )
            except Unavailable:
                failures = 0 if not self.link.live else failures + 1
                is_over = end is not None and clock.monotonic() >= end
                if is_over or failures >= _MANY_FAILURES or self.link.connection.state == "refused":
                    raise
                await clock.sleep(PAUSE_SECONDS)
                continue
            if outcome.status != "timeout" or (end is not None and clock.monotonic() >= end):
                return outcome
            failures = 0

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        return await self._call("exchange", exchange_id=exchange_id)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        return await self._call("exchanges", key=key, limit=limit)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        return await self._call("deliveries", key=key, states=states, limit=limit)

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, when that is on this machine."""
        return await self._call("transcript_path", session=session)

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; the run's id is chosen here, so that asked twice it runs once."""
        if request.run_id is None:
            request = replace(request, run_id=new_id())
        return await self._call("start_run", request=request, caller=caller)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        return await self._call("abort", ref=ref, caller=caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        return await self._call("patch", ref=ref, patch=patch, caller=caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        return await self._call("reset", ref=ref, caller=caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        return await self._call("archive", ref=ref, caller=caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        return await self._call("create", new=new, caller=caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        await self._call("delete", ref=ref, caller=caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        return await self._call("append", ref=ref, draft=draft, caller=caller)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        return await self._call("retry_delivery", delivery_id=delivery_id, caller=caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        return await self._call("drop_delivery", delivery_id=delivery_id, caller=caller)

    # Requests

    async def run_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Have a session tool run at the gateway."""
        seconds = arguments.get("timeoutSeconds")
        patience = float(seconds) if isinstance(seconds, int | float) else ANSWER_SECONDS
        params = {"name": name, "arguments": dict(arguments), "caller": CALLER.write(caller), **self._once()}
        return dict(mapping(await self._asked(port.TOOL, params, patience + ANSWER_SECONDS)))

    async def _call(self, name: str, *, patience: float = ANSWER_SECONDS, **arguments: object) -> Any:  # noqa: ANN401 - as the port says
        """Call a method of the port; a change that is asked for again is done once."""
        called = call(name)
        once = self._once() if name in port.CHANGES else {}
        payload = await self._asked(called.method, {**called.write(arguments), **once}, patience)
        try:
            return called.result.read(payload)
        except Invalid as error:
            sentence = f"the gateway answers {called.method} in a way that cannot be read: {error.message}"
            raise Unavailable(sentence) from None

    def _once(self) -> dict[str, Any]:
        return {"once": new_id(), "boot": self.described.boot if self.described is not None else None}

    async def _asked(self, method: str, params: object, seconds: float) -> Any:  # noqa: ANN401 - any JSON
        await self._ready()
        if not self.link.live:
            raise Unavailable(self.not_connected())
        try:
            return await self.link.request(method, params, timeout=seconds, again=True)
        except Invalid as error:
            if not error.message.startswith(UNKNOWN_METHOD):
                raise
            there = self.link.connection.version or "older than this program"
            raise RequestNotTaken(f"this gateway is {there} and has no {method} yet: update it") from None
