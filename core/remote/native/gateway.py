"""The port over a connection to one of our own gateways (dialect `port-v1`, `core.wire.port`): nothing is lost on it.

What is asked for is asked again when the connection is lost meanwhile, and done once; a wait goes on; a feed catches up
from its cursor. While there is no connection, everything is refused at once, with the time of the next attempt.
"""

import contextlib
from dataclasses import replace
from functools import partial

from core.gateway import Action, NativeTool
from core.model.connection import Connection
from core.model.events import ConnectionChanged, Cursor
from core.model.json_codec import mapping
from core.model.sessions import Session
from core.remote.hello import Hello
from core.remote.link import Link
from core.remote.native.feed import RemoteFeed
from core.remote.native.feeds import RemoteFeeds
from core.remote.native.requests import PortRequests
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet
from core.wire import port
from core.wire.scopes import ACTION_SCOPES, WRITE


class NativeGateway(PortRequests):
    """One of our own gateways, reached over a link; see `core.gateway.Gateway`.

    The link is its own from then on: it hears the link's events and closes it.
    """

    def __init__(self, link: Link) -> None:
        self._feeds = RemoteFeeds(link, lambda: ConnectionChanged(self.connection))
        super().__init__(link, self._feeds.opened)
        link.on_up = self.up
        link.on_event = self._take
        link.on_change = lambda _: self._feeds.tell_connection()  # our own connection says more
        link.on_gap = self._feeds.begin_again

    @classmethod
    async def open(cls, link: Link) -> "NativeGateway":
        """Make the connection, and return the gateway at its other end.

        Raises:
            SwitchboardError: It cannot be made; the link is closed then.
        """
        gateway = cls(link)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(gateway.close)
            await link.open()
            stack.pop_all()
        return gateway

    async def close(self) -> None:
        """End the connection and all feeds."""
        self._feeds.close()
        await self.link.close()
        await self._feeds.stop()

    async def up(self, hello: Hello) -> None:  # noqa: ARG002 - the gateway describes itself in our own words
        """Learn what the gateway says of itself, and begin all feeds; the link calls it after every introduction."""
        self.describe(await self.link.request(port.DESCRIBE, {}))
        await self._feeds.begin_each()

    # What the port asks for: standing facts

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; the defaults until they were told."""
        return self.described.rules if self.described is not None else RuleSet()

    @property
    def connection(self) -> Connection:
        connection, told = self.link.connection, self.described
        if connection.state != "live" or told is None:
            return connection
        return replace(connection, state=told.state, detail=told.detail)

    @property
    def store_id(self) -> str | None:
        """The uuid of its store; None until it was told."""
        return self.described.store_id if self.described is not None else None

    def now_ms(self) -> int:
        return self.link.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:  # noqa: ARG002 - one reason covers all
        connection, told = self.connection, self.described
        if not self.link.live or told is None:
            return self.not_connected()
        if connection.scopes and ACTION_SCOPES[action] not in connection.scopes:
            may = "only read" if WRITE not in connection.scopes else "not do what is the owner's alone"
            return f"this connection may {may}: the gateway did not grant {ACTION_SCOPES[action]}"
        return told.refusals.get(action)

    def unready(self) -> str | None:
        return None if self.link.live and self.described is not None else self.not_connected()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        return self.rules.send_decision(session)

    def native_tool(self, name: str) -> NativeTool | None:
        """Return the tool as the gateway runs it: there it goes on when this end is gone."""
        return partial(self.run_tool, name)

    def subscribe(self, after: Cursor | None = None) -> RemoteFeed:
        """Hear of every durable change from now on, or of everything since a cursor; reads that follow wait for it."""
        return self._feeds.add(after, self.store_id, begin=self.unready() is None)

    # Inside

    def _take(self, name: str, payload: object) -> None:
        if name != port.EVENTS:
            return
        batch = mapping(payload)
        if "described" in batch:
            self.describe(batch["described"])
        self._feeds.take(batch)
