"""The port's events as one client of OpenClaw hears them (protocol#watchers, protocol#events, protocol#our-events).

A reader takes what the feed has; whatever came together is told together, so that a message can be told with the row it
changed. While the client does not read, the reader waits, the feed falls behind, and catches up from the store.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from core.model.events import (
    Cursor,
    Delta,
    Event,
    Gap,
    MessageAppended,
    Reloaded,
    RunChanged,
    SessionChanged,
    SessionGone,
    ToolProgress,
)
from core.model.sessions import Session
from core.server.context import ServerContext
from core.server.conversation.sender import FrameSender
from core.server.openclaw.run_events import RunEvents
from core.server.openclaw.session_events import SessionEvents
from core.server.openclaw.subscription import Subscription

if TYPE_CHECKING:
    from core.gateway import Feed

BATCH: Final = 256
"""Events that are taken from the feed before they are told."""
SCOPED: Final = "session-scoped-events"
TOOL_EVENTS: Final = "tool-events"


class EventPump:
    """Tells one client what it wants to hear.

    Args:
        caps: What the client says it can do.
        answered: Waits until the client knows of every run that it began.

    Attributes:
        wanted: What it wants to hear; its feed has told it everything up to a cursor.
        runs: What it was told of runs.
    """

    def __init__(
        self, context: ServerContext, caps: Collection[str], out: FrameSender, answered: Callable[[], Awaitable[None]]
    ) -> None:
        self._answered = answered
        self.wanted = Subscription(context.gateway, scoped=SCOPED in caps, most_keys=context.limits.subscriptions)
        self._sessions = SessionEvents(context, out, self.wanted)
        self.runs = RunEvents(context, out, self.wanted, self._sessions, tools=TOOL_EVENTS in caps)
        self._batch: list[Event] = []
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()

    # What the client wants

    def subscribe(self, after: Cursor | None) -> bool:
        """Tell of all sessions from now on, or of everything since a cursor; False when that cursor is unknown."""
        known, older = self.wanted.list_sessions(after)
        if older:
            self._sessions.forget_all()
        return known

    def unsubscribe(self) -> None:
        """Tell of the list no longer."""
        self.wanted.unlist_sessions()
        self._sessions.forget_all()

    # The stream

    async def run(self) -> None:
        """Tell what happens, until the feed ends."""
        reader = asyncio.ensure_future(self._read())
        try:
            while not reader.done() or self._batch:
                await self._wait()
                await self._answered()
                batch, self._batch = self._batch, []
                self._taken.set()
                await self._tell(batch)
                await self.runs.tell_words()
            reader.result()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            feed: Feed | None = None
            while feed is not self.wanted.feed:
                feed = self.wanted.feed
                async for event in feed:
                    self._batch.append(event)
                    self._filled.set()
                    while len(self._batch) >= BATCH:
                        self._taken.clear()
                        await self._taken.wait()
        finally:
            self._filled.set()

    async def _wait(self) -> None:
        """Wait for events, or until words are to be told on."""
        due = self.runs.due()
        self._filled.clear()
        if self._batch:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._filled.wait()

    async def _tell(self, batch: Sequence[Event]) -> None:
        rows = {event.session.key: event.session for event in batch if isinstance(event, SessionChanged)}
        told = set[str]()
        for session in rows.values():
            await self._sessions.created(session)
        for event in batch:
            match event:
                case MessageAppended():
                    told.add(event.key)
                    await self._message(event, rows)
                case RunChanged(_, run):
                    told.add(run.key)
                    await self.runs.changed(run, rows)
                case Delta():
                    await self.runs.delta(event)
                case ToolProgress():
                    await self.runs.progress(event)
                case Gap():
                    self.runs.forget_live()
                case SessionGone(rev, key, session_id):
                    self._sessions.forget(key)
                    await self._sessions.changed(key, {"reason": "delete", "sessionId": session_id, "rev": rev}, None)
                case Reloaded():
                    await self._sessions.changed("", {"reason": "reload"}, None)
                case _:
                    pass
        self.runs.forget_notes()
        if self.wanted.lists:
            for key, session in rows.items():
                await self._sessions.patched(session, told=key in told)

    async def _message(self, event: MessageAppended, rows: Mapping[str, Session]) -> None:
        key, message = event.key, event.message
        if self.wanted.hears_messages(key):
            await self._sessions.message(event, await self._sessions.row(key, rows))
        if message.role != "user":
            await self.runs.message(key, message)
        if self.wanted.lists:
            what = {"phase": "message", "messageSeq": message.seq}
            await self._sessions.changed(key, what, await self._sessions.row(key, rows))
