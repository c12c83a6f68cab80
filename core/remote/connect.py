"""Reaching a gateway by its profile: one object from the first moment on, whatever it turns out to speak."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.clock import Clock
from core.delegating import DelegatingGateway
from core.event_stream import EventStream
from core.gateway import Action, Feed, Gateway, NativeTool
from core.model.connection import Connection
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged, Cursor, Event, Reloaded
from core.model.sessions import Session
from core.remote.credentials import ProfilePassport
from core.remote.hello import Hello, HelloRequest
from core.remote.link import Link
from core.remote.profile import Profile, check_open
from core.remote.websocket import dialer
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet
from core.wire.frames import NATIVE

if TYPE_CHECKING:
    from core.remote.native.gateway import NativeGateway
    from core.remote.openclaw.gateway import OpenClawGateway

CAPS: Final = ("tool-events", NATIVE)
"""What we understand: a gateway of ours then tells its events in the port's own words."""


def connect(profile: Profile, state: Path, clock: Clock) -> "RemoteGateway":
    """Begin to connect to a gateway; nobody waits for it, and it says itself how far it has come.

    Args:
        state: Directory of this machine, with the device's key and the tokens that gateways gave it.

    Raises `Invalid` when the address cannot be meant, or would send what is secret in the open.
    """
    check_open(profile)
    passport = ProfilePassport(profile, state)
    address = str(profile.origin)
    link = Link(dialer(profile), HelloRequest(passport, caps=CAPS), clock=clock, name=profile.name, address=address)
    gateway = RemoteGateway(link, profile)
    link.start()
    return gateway


class RemoteGateway(DelegatingGateway):
    """A gateway elsewhere; see `core.gateway.Gateway`. What it speaks is known with its first hello."""

    def __init__(self, link: Link, profile: Profile) -> None:
        self._link = link
        self._profile = profile
        self._inner: NativeGateway | OpenClawGateway | None = None
        self._native: bool | None = None
        self._catch_up: Callable[[Hello], Awaitable[None]] = link.on_up
        self._feeds: list[_LateFeed] = []
        self._turn = asyncio.Event()
        link.on_up, link.on_change = self._up, self._changed

    async def opened(self) -> None:
        """Wait for the first connection, or for the reason why there is none.

        Raises:
            SwitchboardError: That reason.
        """
        await self._link.open()

    def retry(self) -> None:
        """Try to connect now instead of later."""
        self._link.retry()

    async def close(self) -> None:
        """End the connection and all feeds."""
        for feed in list(self._feeds):
            feed.close()
        await (self._inner or self._link).close()

    # The port

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; the usual ones until they are known."""
        return self._inner.rules if self._inner is not None else RuleSet()

    @property
    def connection(self) -> Connection:
        return self._inner.connection if self._inner is not None else self._link.connection

    def now_ms(self) -> int:
        return self._link.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        if self._inner is not None:
            return self._inner.refusal(action, key)
        return self._link.connection.detail or "this gateway is still being connected to"

    def unready(self) -> str | None:
        return self._inner.unready() if self._inner is not None else self.refusal("send")

    def policy_of(self, session: Session) -> PolicyDecision | None:
        return self._inner.policy_of(session) if self._inner is not None else None

    def native_tool(self, name: str) -> NativeTool | None:
        return self._inner.native_tool(name) if self._inner is not None else None

    def subscribe(self, after: Cursor | None = None) -> Feed:
        """Hear of what happens; before the first connection only of the way to it."""
        feed = _LateFeed(self._feeds.remove)
        self._feeds.append(feed)
        if self._inner is not None:
            feed.attach(self._inner.subscribe(after))
        return feed

    # The way there

    async def _reads(self, ref: str | None) -> Gateway:  # noqa: ARG002 - one gateway has them all
        while self._inner is None:
            if self._link.connection.detail:
                raise Unavailable(self._link.connection.detail)
            self._turn.clear()
            await self._turn.wait()
        return self._inner

    _writes = _reads

    async def _up(self, hello: Hello) -> None:
        """Choose how to speak to it, once and whenever another kind of gateway answers there; then catch up."""
        if hello.native != self._native:
            from core.remote.native.gateway import NativeGateway
            from core.remote.openclaw.gateway import OpenClawGateway

            inner = NativeGateway(self._link) if hello.native else OpenClawGateway(self._link, self._profile)
            self._catch_up, self._link.on_up = self._link.on_up, self._up
            await self._catch_up(hello)
            self._native, self._inner = hello.native, inner
            for feed in self._feeds:
                feed.attach(inner.subscribe())
                feed.tell(Reloaded())
            self._turn.set()
        else:
            await self._catch_up(hello)

    def _changed(self, connection: Connection) -> None:
        self._turn.set()
        for feed in self._feeds:
            feed.tell(ConnectionChanged(connection))


class _LateFeed(EventStream[Event]):
    """A subscriber's stream that begins before it is known what it is a stream of."""

    def __init__(self, leave: Callable[["_LateFeed"], None]) -> None:
        super().__init__(0, leave)
        self._inner: Feed | None = None

    @property
    def cursor(self) -> Cursor:
        return self._inner.cursor if self._inner is not None else 0

    def watch(self, key: str | None) -> None:
        self.watched.add(key)
        if self._inner is not None:
            self._inner.watch(key)

    def unwatch(self, key: str | None) -> None:
        self.watched.discard(key)
        if self._inner is not None:
            self._inner.unwatch(key)

    def attach(self, inner: Feed) -> None:
        """Go on with this stream."""
        old, self._inner = self._inner, inner
        for key in self.watched:
            inner.watch(key)
        if old is not None:
            old.close()
        self._filled.set()

    def close(self) -> None:
        super().close()
        if self._inner is not None:
            self._inner.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over what this end knows, then over what the gateway tells, until the feed is closed."""
        while not self.closed:
            event, inner = self.take_next(), self._inner
            if event is not None:
                yield event
                continue
            if inner is not None:
                async for event in inner:
                    yield event
            if not self.closed and not self._queue and inner is self._inner:
                await self._refill()

    def take_next(self) -> Event | None:
        return self._queue.popleft() if self._queue else None
