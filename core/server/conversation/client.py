"""A client that was let in, as the methods know it: who it is, what it may do, and what it is told."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from core.server.context import ServerContext
from core.server.conversation.handshake import Admitted
from core.server.conversation.sender import FrameSender
from core.server.native.feeds import Feeds
from core.server.openclaw.events import EventPump
from core.server.status import presence, state_version
from core.tasks import Tasks
from core.wire.frames import CLOSE_RESTART


class Unanswered:
    """Requests at work whose answers the client has to have before it is told what they led to."""

    def __init__(self) -> None:
        self._requests: set[asyncio.Task[Any] | None] = set()
        self._answered = asyncio.Event()

    def add(self) -> None:
        """Add the request at work."""
        self._requests.add(asyncio.current_task())

    def discard(self) -> None:
        """Take the request at work away: its answer was sent."""
        self._requests.discard(asyncio.current_task())
        self._answered.set()

    async def none(self) -> None:
        """Wait until there is none."""
        while self._requests:
            self._answered.clear()
            await self._answered.wait()


class Client:
    """One client, from its handshake to the end of the conversation.

    Args:
        client_id: uuid4 of its connection.
        tasks: Those of the conversation.
        end: Ends the conversation, with a code and a reason.

    Attributes:
        admitted: What the handshake found.
        gateway: The gateway that is served.
        access: What the client may do.
        caller: The client as the port sees it.
        caps: What it says it can do.
        device_id: The device that it is on, None for a client without one.
        out: What is sent to it.
        events: What tells it of sessions and runs; None until `begin_events`.
        feeds: Its feeds of the port's own events.
        unanswered: Its requests that began a run and are not answered yet.
    """

    def __init__(
        self,
        client_id: str,
        context: ServerContext,
        admitted: Admitted,
        out: FrameSender,
        tasks: Tasks,
        end: Callable[[int, str], None],
    ) -> None:
        self.id: Final = client_id
        self.context: Final = context
        self.admitted: Final = admitted
        self.gateway: Final = context.gateway
        self.access: Final = admitted.access
        self.caller: Final = admitted.access.caller()
        self.caps: Final = frozenset(admitted.params.caps)
        device = admitted.params.device
        self.device_id: Final = device.id if device is not None else None
        self.out: Final = out
        self.events: EventPump | None = None
        self.feeds: Final = Feeds(out, tasks, context.limits.subscriptions)
        self.unanswered: Final = Unanswered()
        self._tasks = tasks
        self._end = end
        self._since = context.gateway.now_ms()

    def begin_events(self) -> EventPump:
        """Return what tells the client of sessions and runs; it begins when it is first needed."""
        if self.events is None:
            self.events = EventPump(self.context, self.caps, self.out, self.unanswered.none)
            self._tasks.spawn(self._tell_events(self.events))
        return self.events

    def began(self, run_id: str) -> None:
        """Note that this client begins a run with the request at work: it hears of its tools.

        It is told of nothing before it has got the answer; clients take a run whose end they have heard for another's.
        """
        if self.events is not None:
            self.events.runs.started(run_id)
            self.unanswered.add()

    def end_answered(self, code: int, reason: str) -> None:
        """End the conversation; when a request of its own is what ends it, with the answer to that."""
        if asyncio.current_task() not in self._tasks:
            self._end(code, reason)
            return
        self.unanswered.add()
        self._tasks.spawn(self._end_answered(code, reason))

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
            "deviceId": self.device_id,
            "roles": ["operator"],
            "scopes": sorted(self.access.scopes),
            "reason": "connect",
            "text": f"{client.display_name or client.id} · mode {client.mode}",
            "onlineSince": self._since,
            "ts": self._since,
        }
        return {name: value for name, value in found.items() if value is not None}

    def tell_presence(self) -> None:
        """Tell the client who is there now, as soon as it reads."""
        payload = {"presence": presence(self.context)}
        self._tasks.spawn(self.out.event("presence", payload, state_version=state_version(self.context)))

    async def _tell_events(self, events: EventPump) -> None:
        await events.run()
        self._end(CLOSE_RESTART, "service restart")

    async def _end_answered(self, code: int, reason: str) -> None:
        await self.unanswered.none()
        self._end(code, reason)
