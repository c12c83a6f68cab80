"""One client's conversation over any transport: handshake, requests, events, limits (protocol#ours,
architecture#threats).

The reader takes frames one after the other; each request is a task of its own, so answers come in any order. Events are
numbered without holes, under the lock under which they are sent. Nobody waits for a slow client: whoever produces its
events waits, falls behind, and catches up from the store; a client that takes nothing for long is let go.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from core.gateway import Gateway
from core.model.access import Operator
from core.model.errors import Forbidden, Invalid, SwitchboardError, Unavailable
from core.model.ids import new_id
from core.model.keys import quoted
from core.server.auth import SCOPES, Access
from core.server.context import ServerContext
from core.server.handshake import Admitted, HandshakeRefused, Visitor, admit
from core.server.hello import LOCAL_TICK_SECONDS, TICK_SECONDS, health, hello, max_buffered, presence, state_version
from core.server.method import Later, Method, explain, unknown
from core.server.openclaw.events import EventPump
from core.wire.errors import missing_scope, to_wire
from core.wire.frames import (
    CLOSE_NORMAL,
    CLOSE_REFUSED,
    CLOSE_RESTART,
    CLOSE_TOO_LARGE,
    CLOSE_TRY_LATER,
    NATIVE,
    BadFrame,
    RawJson,
    Request,
    encode,
    event,
    parse,
    refused,
    response,
)
from core.wire.transport import FrameTooLong, Transport

HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKE_BYTES: Final = 64 * 1024
STALLED_SECONDS: Final = 30.0
"""A client that takes nothing of a frame for so long is let go."""
MAX_REQUESTS: Final = 128
"""Of one conversation, at work at once; the next one is refused."""
MAX_IGNORED: Final = 500
"""Parameters without a meaning that the log tells of."""
MAX_LONG: Final = 2
"""Long answers that are made for one conversation before it has taken those that came before."""
HEALTH_TICKS: Final = 2
_UNKNOWN_ID: Final = "invalid"
_log = logging.getLogger("switchboard.server")


class Conversation:
    """One client, from its first byte to its end.

    Args:
        may_pair: It comes from this machine or over TLS, so that a device may be given a token.
        on_admitted: Is called when the client has shown who it is; raises `Unavailable` when there are too many.

    Attributes:
        id: uuid4 of this connection.
        cursor: The `rev` up to which the client has been told what it subscribed to; None while it told us nothing.
    """

    def __init__(
        self,
        context: ServerContext,
        transport: Transport,
        *,
        may_pair: bool = True,
        on_admitted: Callable[[], None] | None = None,
    ) -> None:
        self.context: Final = context
        self.id: Final = new_id()
        self.events: EventPump | None = None
        self._transport = transport
        self._may_pair = may_pair
        self._on_admitted = on_admitted
        self._admitted: Admitted | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._requests = 0
        self._beginning: set[asyncio.Task[Any] | None] = set()
        self._told = asyncio.Event()
        self._since = 0
        self._seq = 0
        self._sending = asyncio.Lock()
        self._waiting_bytes = 0
        self._long = asyncio.Semaphore(MAX_LONG)
        self._drained = asyncio.Event()
        self._end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()

    @property
    def tick_seconds(self) -> float:
        """Seconds between two signs of life to this client."""
        return LOCAL_TICK_SECONDS if self._transport.trusted else TICK_SECONDS

    @property
    def gateway(self) -> Gateway:
        """The gateway that is served."""
        return self.context.gateway

    @property
    def admitted(self) -> Admitted:
        """What the handshake found; there is none before its end."""
        assert self._admitted is not None, "requests come after the handshake"
        return self._admitted

    @property
    def access(self) -> Access:
        """What the client may do."""
        return self.admitted.access

    @property
    def caller(self) -> Operator:
        """The client as the port sees it."""
        return self.access.caller()

    @property
    def caps(self) -> frozenset[str]:
        """What the client says it can do."""
        return frozenset(self.admitted.params.caps)

    @property
    def pump(self) -> EventPump:
        """What tells the client of sessions and runs; it begins when it is first needed."""
        if self.events is None:
            self.events = EventPump(self)
            self.spawn(self.events.run())
        return self.events

    def began(self, run_id: str) -> None:
        """Note that this client begins a run with the request at work: it hears of its tools.

        It is told of nothing before it has got the answer; clients take a run whose end they have heard for another's.
        """
        if self.events is not None:
            self.events.started(run_id)
            self._beginning.add(asyncio.current_task())

    async def answered(self) -> None:
        """Wait until the client knows of every run that it began."""
        while self._beginning:
            self._told.clear()
            await self._told.wait()

    async def run(self) -> None:
        """Carry the conversation through to its end; never raises but when it is cancelled."""
        self.context.metrics.add("conversations")
        self.context.farewells.add(self.say_farewell)
        reading = asyncio.ensure_future(self._converse())
        try:
            await asyncio.wait((reading, self._end), return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and (error := reading.exception()) is not None:
                _log.error("a conversation with %s failed", self._transport.peer, exc_info=error)
                self.context.metrics.add("errors")
        finally:
            self.context.farewells.discard(self.say_farewell)
            self.context.metrics.add("conversations", -1)
            self.context.clients.remove(self)
            await self._stop(reading)
            self._closed.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside the requests; it is cancelled when the conversation ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def send_event(self, name: str, payload: object, *, state_version: object = None) -> None:
        """Tell the client something, with the next number; waits while it does not read.

        Args:
            payload: JSON-able, or `RawJson`.
        """
        text = encode(payload)
        with self._room(len(text)):
            async with self._sending:
                self._seq += 1
                self.context.metrics.add("events")
                await self._put(event(name, RawJson(text), seq=self._seq, state_version=state_version))

    def end(self, code: int, reason: str) -> None:
        """End the conversation; the first reason counts."""
        if not self._end.done():
            self._end.set_result((code, reason))

    def end_answered(self, code: int, reason: str) -> None:
        """End the conversation; when a request of its own is what ends it, with the answer to that."""
        if asyncio.current_task() not in self._tasks:
            self.end(code, reason)
            return
        self._beginning.add(asyncio.current_task())
        self.spawn(self._end_answered(code, reason))

    async def _end_answered(self, code: int, reason: str) -> None:
        await self.answered()
        self.end(code, reason)

    async def say_farewell(self, reason: str) -> None:
        """Tell the client that the gateway goes away, and end; return when the connection is closed."""
        if self._admitted is not None:
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.send_event("shutdown", {"reason": reason})
        self.end(CLOSE_RESTART, "service restart")
        await self._closed.wait()  # else the listener closes the connection first, without the reason

    def presence(self) -> dict[str, Any]:
        """Return what others are told of this client."""
        client = self.admitted.params.client
        found: dict[str, Any] = {
            "clientId": client.id,
            "mode": client.mode,
            "version": client.version,
            "platform": client.platform,
            "deviceFamily": client.device_family,
            "displayName": client.display_name,
            "instanceId": client.instance_id,
            "deviceId": device.id if (device := self.admitted.params.device) else None,
            "roles": ["operator"],
            "scopes": sorted(self.access.scopes),
            "reason": "connect",
            "text": f"{client.display_name or client.id} · mode {client.mode}",
            "onlineSince": self._since,
            "ts": self._since,
        }
        return {name: value for name, value in found.items() if value is not None}

    async def tell_presence(self) -> None:
        """Tell the client who is there now."""
        payload = {"presence": presence(self.context)}
        await self.send_event("presence", payload, state_version=state_version(self.context))

    # The course of a conversation

    async def _converse(self) -> None:
        try:
            if await self._shake_hands():
                await self._take_requests()
        except FrameTooLong:
            self.end(CLOSE_TOO_LARGE, "frame too large")
        except Unavailable:  # the connection has ended
            self.end(CLOSE_NORMAL, "")

    async def _shake_hands(self) -> bool:
        nonce = new_id()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS) as deadline:
                await self._send(event("connect.challenge", {"nonce": nonce, "ts": self.gateway.now_ms()}))
                text = await self._transport.receive()
                if text is not None and len(text) > HANDSHAKE_BYTES:
                    raise FrameTooLong(f"the first frame is longer than {HANDSHAKE_BYTES} bytes")
                welcome = await self._introduce(text, nonce) if text is not None else None
                deadline.reschedule(None)
        except TimeoutError:
            self.end(CLOSE_REFUSED, "handshake timeout")
            return False
        if welcome is None:
            return False
        await self._send(welcome)
        if NATIVE not in self.caps:  # those that have it hear the port's own events instead
            assert self.pump is not None, "it begins now"
        self.spawn(self._tick())
        return True

    async def _introduce(self, text: str, nonce: str) -> str | None:
        """Return what the client is told when it is let in; None when it is not, which it has been told then."""
        frame_id: str | None = None
        try:
            frame = parse(text)
            if frame is None:
                self.end(CLOSE_NORMAL, "")
                return None
            frame_id = frame.id if isinstance(frame, Request) else None
            if not isinstance(frame, Request) or frame.method != "connect":
                words = Invalid("invalid handshake: first request must be connect")
                await self._refuse(frame_id, to_wire(words), CLOSE_REFUSED)
                return None
            visitor = Visitor(self._transport.peer, self._transport.trusted, self._may_pair, nonce)
            admitted = await admit(self.context, visitor, frame.params)
            if self._on_admitted is not None:
                self._on_admitted()
        except HandshakeRefused as error:
            await self._refuse(frame_id, error.error, error.code)
        except BadFrame as error:
            await self._refuse(error.frame_id, to_wire(error), CLOSE_REFUSED)
        except Unavailable as error:
            await self._refuse(frame_id, to_wire(error), CLOSE_TRY_LATER)
        else:
            self._admitted = admitted
            self._since = self.gateway.now_ms()
            self.context.clients.add(self)
            return response(frame.id, await hello(self))
        return None

    async def _refuse(self, frame_id: str | None, error: Mapping[str, Any], code: int) -> None:
        await self._send(refused(frame_id or _UNKNOWN_ID, error))
        self.end(code, str(error.get("message", ""))[:120])

    async def _take_requests(self) -> None:
        while (text := await self._next_frame()) is not None:
            try:
                frame = parse(text)
            except BadFrame as error:
                await self._send(refused(error.frame_id or _UNKNOWN_ID, to_wire(error)))
                continue
            if not isinstance(frame, Request):
                continue
            if self._requests >= MAX_REQUESTS:
                busy = Unavailable(f"{MAX_REQUESTS} requests of this connection are at work: wait for their answers")
                await self._send(refused(frame.id, to_wire(busy)))
                continue
            self._requests += 1
            self.spawn(self._answer(frame))

    async def _next_frame(self) -> str | None:
        """Wait for a frame, and before it until the client has taken most of what it was sent."""
        while self._waiting_bytes > self.context.limits.buffered:
            self._drained.clear()
            await self._drained.wait()
        return await self._transport.receive()

    async def _answer(self, frame: Request) -> None:
        method = _methods().get(frame.method)
        try:
            if method is not None and method.heavy:
                async with self._long:
                    async with self.context.making:
                        text = await self._outcome(frame)
                    await self._send(text)
            else:
                await self._send(await self._outcome(frame))
        finally:
            self._requests -= 1
            self._has_answered()

    def _has_answered(self) -> None:
        self._beginning.discard(asyncio.current_task())
        self._told.set()

    async def _outcome(self, frame: Request) -> str:
        """Return the answer to a request, whatever happens in it."""
        method = _methods().get(frame.method)
        self.context.metrics.add("requests", label=_known(frame))
        if method is None:
            return self._refusal(frame, to_wire(Invalid(f"unknown method: {frame.method[:80]}")))
        if method.scope is not None and method.scope not in self.access.scopes:
            return self._refusal(frame, missing_scope(method.scope))
        self._tell_of_unknown(method, frame)
        try:
            result = await method.run(self, method.params.model_validate(dict(frame.params)))
            if isinstance(result, Later):
                await self._send(response(frame.id, result.payload))
                self._has_answered()
                result = await result.second()
            return response(frame.id, result)
        except ValidationError as error:
            return self._refusal(frame, to_wire(explain(frame.method, error)))
        except SwitchboardError as error:
            return self._refusal(frame, _error(error))
        except Exception:  # noqa: BLE001 - whatever it was, the client gets one sentence and the log the rest
            _log.exception("the method %s failed", frame.method)
            self.context.metrics.add("errors")
            return refused(frame.id, to_wire(Unavailable("the gateway failed inside: its log says more")))

    def _tell_of_unknown(self, method: Method, frame: Request) -> None:
        """Count parameters that mean nothing here, and log each of them once."""
        for name in unknown(method, frame.params):
            self.context.metrics.add("parameters_ignored", label=method.name)
            told = (method.name, quoted(name))
            if told not in self.context.ignored and len(self.context.ignored) < MAX_IGNORED:
                self.context.ignored.add(told)
                _log.warning("the parameter %s of %s means nothing here: it is ignored", told[1], told[0])

    def _refusal(self, frame: Request, error: Mapping[str, Any]) -> str:
        _log.debug("%s was refused: %s", quoted(frame.method), error.get("message"))
        self.context.metrics.add("requests_refused", label=_known(frame))
        return refused(frame.id, error)

    async def _tick(self) -> None:
        ticks, health_ticks = 0, HEALTH_TICKS * round(TICK_SECONDS / self.tick_seconds)
        while True:
            await asyncio.sleep(self.tick_seconds)
            ticks += 1
            await self.send_event("tick", {"ts": self.gateway.now_ms()})
            if ticks % health_ticks == 0 and self.events is not None:
                await self.send_event("health", await health(self.context), state_version=state_version(self.context))

    # Sending

    async def _send(self, text: str) -> None:
        with self._room(len(text)):
            async with self._sending:
                await self._put(text)

    async def _put(self, text: str) -> None:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._transport.send(text)
        except TimeoutError:
            self._let_go()
            raise Unavailable("the client reads nothing") from None

    @contextlib.contextmanager
    def _room(self, size: int) -> Generator[None]:
        """Count what waits for the client; let it go when that is too much, however many answers it asked for."""
        if self._waiting_bytes + size > max_buffered(self.context) and self._waiting_bytes:
            self._let_go()
            raise Unavailable("the client reads too slowly")
        self._waiting_bytes += size
        self.context.held.hold(self, self._waiting_bytes)
        try:
            yield
        finally:
            self._waiting_bytes -= size
            self.context.held.hold(self, self._waiting_bytes)
            if self._waiting_bytes <= self.context.limits.buffered:
                self._drained.set()

    def drop(self) -> None:
        """End it: what waits for all clients together is too much, and most of it waits for this one."""
        self._let_go()

    def _let_go(self) -> None:
        if not self._end.done():
            self.context.metrics.add("conversations_dropped")
            told = f": told up to {self.events.cursor}" if self.events is not None else ""
            self.end(CLOSE_REFUSED, f"slow consumer{told}")

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, Unavailable):
            _log.error("a conversation with %s failed", self._transport.peer, exc_info=error)
            self.context.metrics.add("errors")
        self.end(CLOSE_NORMAL, "")

    async def _stop(self, reading: asyncio.Task[None]) -> None:
        tasks = [reading, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.events is not None:
            self.events.close()
        code, reason = self._end.result() if self._end.done() else (CLOSE_NORMAL, "")
        await self._transport.close(code, reason)


@cache
def _methods() -> dict[str, Method]:
    from core.server.methods import METHODS  # they know the conversation

    return METHODS


def _known(frame: Request) -> str:
    """Return the method for counting; clients must not make up labels."""
    return frame.method if frame.method in _methods() else "unknown"


def _error(error: SwitchboardError) -> dict[str, Any]:
    controls = error.decided_by if isinstance(error, Forbidden) else ()
    return missing_scope(controls[0]) if controls and controls[0] in SCOPES else to_wire(error)
