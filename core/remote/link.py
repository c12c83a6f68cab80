"""One kept connection to a gateway: dialled, introduced, watched, dialled again when it is lost (protocol#handshake,
protocol#frames).

    connecting ─→ live ─→ lost ─→ live …        tried again by itself, sooner first, then every 30 s
         └──────────┴──────┴────→ refused       the gateway answered and does not let us in; tried seldom or not at all

A request that is made while there is no connection fails at once, or, when it may be repeated, is sent as soon as
there is one.
"""

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from core.clock import Clock
from core.model.connection import Connection, ConnectionState
from core.model.errors import Forbidden, Invalid, SwitchboardError, Unauthorized, Unavailable
from core.model.json_codec import mapping
from core.remote.hello import DEFAULT_TICK, Hello, HelloRequest
from core.remote.refusal import SLOW_SECONDS, GatewayRefused, RequestNotTaken, not_understood, refused_by, unreachable
from core.tasks import Tasks, racing
from core.wire.errors import from_wire
from core.wire.frames import CLOSE_NORMAL, BadFrame, EventFrame, Request, Response, parse, request
from core.wire.transport import FrameTooLong, Transport

FIRST_WAIT: Final = 0.25
LAST_WAIT: Final = 30.0
STEADY_SECONDS: Final = 10.0
"""A connection that lived that long was a good one: after it, waiting begins anew."""
HANDSHAKE_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 30.0
_log: Final = logging.getLogger("switchboard.remote")
_random: Final = random.SystemRandom()


class _Broken(Exception):
    """The connection ended under a request."""


class Link:
    """A connection that is kept.

    Args:
        dial: Makes a connection; raises `GatewayRefused` when it says why not, `OSError` when nobody is there.
        hello: What we say of ourselves.
        name: Of the profile, for sentences.
        address: URL without secrets.
        handshake: Seconds that the other end may take to greet.

    Attributes:
        on_event: Told of every event in the order it came, by name and payload.
        on_change: Told of every change of `connection` but `heard_at`.
        on_up: Awaited after every introduction, before the connection counts as live; requests work inside.
        on_gap: Told when frames are missing: what was told meanwhile must be read again.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Transport]],
        hello: HelloRequest,
        *,
        clock: Clock,
        name: str = "",
        address: str = "local",
        handshake: float = HANDSHAKE_SECONDS,
    ) -> None:
        self.on_event: Callable[[str, Any], None] = lambda _name, _payload: None
        self.on_change: Callable[[Connection], None] = lambda _connection: None
        self.on_up: Callable[[Hello], Awaitable[None]] = _ignore_up
        self.on_gap: Callable[[], None] = lambda: None
        self.clock: Final = clock
        self.hello: Hello | None = None
        self.offset_ms = 0
        self._handshake = handshake
        self._dial = dial
        self._hello = hello
        self._connection = Connection("connecting", name=name, address=address)
        self._transport: Transport | None = None
        self._challenge: asyncio.Future[Mapping[str, Any]] | None = None
        self._pending: dict[str, asyncio.Future[Response]] = {}
        self._numbers = itertools.count(1)
        self._heard = 0.0
        self._heard_at: int | None = None
        self._seq: int | None = None
        self._tick = DEFAULT_TICK
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._why: SwitchboardError | None = None
        self._tried = False
        self._was_live = False
        self._closing = Tasks(lambda error: _log.error("a connection was not closed well", exc_info=error))

    @property
    def connection(self) -> Connection:
        """The state of the connection now."""
        return replace(self._connection, heard_at=self._heard_at)

    @property
    def live(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self.hello is not None

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch, as far as it has told."""
        return self.clock.now_ms() + self.offset_ms

    def start(self) -> None:
        """Begin to keep the connection; nobody waits for it."""
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def open(self) -> Hello:
        """Begin, and wait for the first connection or for the reason why there is none; it is tried again all the same.

        Raises:
            Unauthorized: The gateway does not know us.
            Forbidden: It knows us and does not want us.
            Unavailable: It cannot be reached, or does not understand us.
        """
        self.start()
        while not self._tried and self._connection.state != "live":
            await self._change()
        if self._connection.state == "live" and self.hello is not None:
            return self.hello
        raise self._error()

    def retry(self) -> None:
        """Try again now instead of later."""
        self._hurry.set()

    async def request(
        self,
        method: str,
        params: object,
        *,
        timeout: float = ANSWER_SECONDS,  # noqa: ASYNC109 - it goes by the clock that tests move
        again: bool = False,
    ) -> Any:  # noqa: ANN401 - whatever JSON it is
        """Ask the gateway something and return its answer.

        Args:
            timeout: Seconds after which it counts as unanswered.
            again: It may be asked twice: wait for a connection, and ask again when that is lost.

        Raises:
            SwitchboardError: What the gateway refuses it for; `Unavailable` when there is no connection or no answer.
        """
        if not again and not self.live:
            raise self._error()
        asked = self._ask_again(method, params) if again else self._ask(method, params)
        async with racing(asked, self.clock.sleep(timeout)) as (asking, _):
            if not asking.done():
                silent = Unavailable(f"{self._where} did not answer {method} within {timeout:g} s")
                raise silent if self.live else self._error()
            try:
                answer: Response = asking.result()
            except _Broken:
                raise Unavailable(f"the connection to {self._where} was lost before {method} was answered") from None
        if answer.ok:
            return answer.payload
        raise from_wire(answer.error)

    async def close(self) -> None:
        """End the connection for good; what waits for an answer fails."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait((keeper,))
        self._drop()
        self._set("lost", "closed")
        await self._closing.wait()

    # The connection's life.

    async def _keep(self) -> None:
        failures = 0
        while True:
            began = self.clock.monotonic()
            if self._connection.retry_at is not None:  # the moment has come
                self._set(self._connection.state, self._connection.detail)
            try:
                await self._live_once()
                refused = unreachable(self._where, "the connection ended")
            except GatewayRefused as error:
                refused = error
            except (Forbidden, Unauthorized) as error:
                refused = GatewayRefused(error, retry=SLOW_SECONDS)
            except (Invalid, RequestNotTaken) as error:
                refused = not_understood(self._where, error)
            except SwitchboardError as error:
                refused = GatewayRefused(error, retry=0, final=False)
            except OSError as error:
                refused = unreachable(self._where, error.strerror or "nobody answers")
            except Exception as error:  # noqa: BLE001 - whatever a library does, whoever waits must hear of it
                _log.exception("an attempt to connect to %s failed", self._where)
                refused = unreachable(self._where, f"the attempt failed ({type(error).__name__}), the log says where")
            lived = self.hello is not None and self.clock.monotonic() - began >= STEADY_SECONDS
            failures = 0 if lived else failures
            self._drop()
            passport = self._hello.passport
            if not (refused.code and passport is not None and await passport.refused(refused.code)):
                await self._wait(refused, failures)
                failures += 1

    async def _wait(self, refused: GatewayRefused, failures: int) -> None:
        self._why = refused.error
        seconds = refused.retry
        if seconds == 0:
            seconds = min(LAST_WAIT, FIRST_WAIT * 2.0 ** min(failures, 16)) * _random.uniform(0.5, 1)
            self._tried = True
        elif seconds is not None:
            seconds *= _random.uniform(1, 1.2)
        self._tried = self._tried or refused.final  # one that only asks for a moment has not decided yet
        retry_at = None if seconds is None else self.clock.now_ms() + round(seconds * 1000)
        state: ConnectionState = "refused" if refused.final else "lost" if self._was_live else "connecting"
        self._hurry.clear()
        self._set(state, refused.error.message, retry_at=retry_at)
        async with racing(self._hurry.wait(), *([self.clock.sleep(seconds)] if seconds is not None else [])):
            pass

    async def _live_once(self) -> None:
        """Dial, introduce ourselves, and return when the connection has ended."""
        self._transport = transport = await self._dial()
        self._seq, self._tick = None, self._handshake / 2
        self._heard = self.clock.monotonic()
        self._challenge = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(transport))
        watching = asyncio.ensure_future(self._watch())
        rising = asyncio.ensure_future(self._rise())
        tasks: tuple[asyncio.Future[None], ...] = (reading, watching, rising)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and self.hello is None:  # a refusal may have come with the end
                self._fail_pending()
                await asyncio.wait((rising,))
            if rising.done():
                rising.result()
                self._come_up()
                await asyncio.wait((reading, watching), return_when=asyncio.FIRST_COMPLETED)
            for task in (watching, reading):
                if task.done():
                    task.result()
        except _Broken:
            raise unreachable(self._where, "the connection ended") from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _come_up(self) -> None:
        self._tried, self._was_live, self._why = True, True, None
        hello = self.hello
        assert hello is not None, "there is a hello once the introduction is over"
        self._connection = replace(self._connection, version=hello.title, scopes=hello.scopes or ())
        self._set("live", "")
        self._note_current()

    def _note_current(self) -> None:
        """Note that all is known that has happened until now; while it is caught up with, that is not so."""
        if self._connection.state == "live":
            self._heard_at = self.clock.now_ms()

    async def _rise(self) -> None:
        """Introduce ourselves, then let whoever uses the link catch up."""
        assert self._challenge is not None, "a challenge is waited for from the first moment"
        facts = await self._challenge
        nonce, stamp = facts.get("nonce"), facts.get("ts")
        if isinstance(stamp, int):
            self.offset_ms = stamp - self.clock.now_ms()
        params = await self._hello.params(nonce if isinstance(nonce, str) else "", self.now_ms())
        began = self.clock.monotonic()
        answer = await self._ask("connect", params)
        if not answer.ok:
            raise refused_by(mapping(answer.error), self._where)
        self._connection = replace(self._connection, latency_ms=(self.clock.monotonic() - began) * 1000)
        hello = Hello.read(answer.payload)
        self.hello, self._tick = hello, hello.tick
        if self._hello.passport is not None:
            await self._hello.passport.accepted(hello.device_token)
        await self.on_up(hello)

    async def _read(self, transport: Transport) -> None:
        try:
            while (text := await transport.receive()) is not None:
                self._heard = self.clock.monotonic()
                self._note_current()
                self._take(text)
            self._note_current()  # an end is heard, too: until now nothing else has happened there
        except FrameTooLong:
            raise unreachable(self._where, "it sent more than one frame may hold") from None

    async def _watch(self) -> None:
        """End a connection on which nothing was heard for two ticks, as when a cable was cut."""
        while True:
            left = self._heard + 2 * self._tick - self.clock.monotonic()
            if left <= 0:
                raise unreachable(self._where, f"nothing was heard from it for {2 * self._tick:g} s")
            await self.clock.sleep(left)

    def _drop(self) -> None:
        """Part with the connection and whoever waits for an answer on it."""
        transport, self._transport = self._transport, None
        self.hello = None
        self._fail_pending()
        if transport is not None:  # a peer that is gone must not hold us up
            self._closing.spawn(transport.close(CLOSE_NORMAL, ""))

    def _fail_pending(self) -> None:
        waiting: list[asyncio.Future[Any]] = [*self._pending.values()]
        if self._challenge is not None:
            waiting.append(self._challenge)
        for future in waiting:
            if not future.done():
                future.set_exception(_Broken())
        self._pending.clear()

    # Frames.

    def _take(self, text: str) -> None:
        try:
            frame = parse(text, asked=True)
        except BadFrame as error:
            _log.warning("%s sent a frame that is none: %s", self._where, error.message)
            return
        match frame:
            case Response(id=frame_id):
                future = self._pending.pop(frame_id, None)
                if future is not None and not future.done():
                    future.set_result(frame)
            case EventFrame():
                self._take_event(frame)
            case Request() | None:
                return

    def _take_event(self, frame: EventFrame) -> None:
        if frame.event == "connect.challenge":
            if self._challenge is not None and not self._challenge.done():
                self._challenge.set_result(mapping(frame.payload))
            return
        if frame.seq is not None:
            missing = self._seq is not None and frame.seq > self._seq + 1
            self._seq = max(frame.seq, self._seq or 0)
            if missing:
                self.on_gap()
        try:
            self.on_event(frame.event, frame.payload)
        except (TypeError, ValueError, LookupError, AttributeError, SwitchboardError):
            _log.exception("%s sent an event that could not be read: %s", self._where, frame.event[:80])

    async def _ask(self, method: str, params: object) -> Response:
        transport = self._transport
        if transport is None:
            raise self._error()
        frame_id = str(next(self._numbers))
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._pending[frame_id] = future
        try:
            await transport.send(request(frame_id, method, params))
            return await future
        except Unavailable:
            raise _Broken from None
        finally:
            self._pending.pop(frame_id, None)

    async def _ask_again(self, method: str, params: object) -> Response:
        while True:
            while not self.live:
                if self._connection.state == "refused" or self._keeper is None:
                    raise self._error()
                await self._change()
            transport = self._transport
            with contextlib.suppress(_Broken):
                return await self._ask(method, params)
            while self._transport is transport:  # asking again at once would let nobody part with it
                if self._keeper is None:
                    raise self._error()
                await self._change()

    # What others see.

    @property
    def _where(self) -> str:
        return self._connection.name or self._connection.address

    def _error(self) -> SwitchboardError:
        if self._why is not None:
            return type(self._why)(self._why.message)
        if self._connection.state == "connecting":
            return Unavailable(f"{self._where} is still being connected to")
        return Unavailable(f"there is no connection to {self._where}")

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _set(self, state: ConnectionState, detail: str, retry_at: int | None = None) -> None:
        self._connection = replace(self._connection, state=state, detail=detail, retry_at=retry_at)
        self._changed.set()
        self.on_change(self.connection)


async def _ignore_up(_hello: Hello) -> None:
    pass
