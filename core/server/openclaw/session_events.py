"""What one client of OpenClaw hears of sessions and their messages (protocol#events)."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from core.model.access import ALL
from core.model.errors import SwitchboardError
from core.model.events import MessageAppended
from core.model.sessions import Session
from core.server.context import ServerContext
from core.server.conversation.sender import FrameSender
from core.server.openclaw.subscription import Subscription
from core.wire.frames import RawJson, encode

MAX_KNOWN: Final = 4096


class SessionEvents:
    """Tells one client of rows and messages, and knows which rows it was told of."""

    def __init__(self, context: ServerContext, out: FrameSender, wanted: Subscription) -> None:
        self._gateway = context.gateway
        self._rows = context.rows
        self._out = out
        self._wanted = wanted
        self._known: dict[str, Session] = {}

    def forget(self, key: str) -> None:
        """Forget the row of a session."""
        self._known.pop(key, None)

    def forget_all(self) -> None:
        """Forget all rows."""
        self._known.clear()

    async def created(self, session: Session) -> None:
        """Tell of a session that was made since the client follows the list."""
        if self._wanted.lists and session.created_at >= self._wanted.since and session.key not in self._known:
            self._known[session.key] = session
            await self.changed(session.key, {"reason": "create"}, session)

    async def patched(self, session: Session, *, told: bool) -> None:
        """Tell of a row that changed without a message or a run, and remember it."""
        known = self._known.pop(session.key, None)
        self._known[session.key] = session
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        if told or (known is not None and known.rev == session.rev):
            return
        emptied = session.last_seq > 0 and session.first_seq > session.last_seq
        renewed = known.session_id != session.session_id if known is not None else emptied
        await self.changed(session.key, {"reason": "reset" if renewed else "patch"}, session)

    async def message(self, event: MessageAppended, session: Session | None) -> None:
        """Tell of a message, with the row it belongs to."""
        message = event.message
        fields: dict[str, Any] = {
            "sessionKey": event.key,
            "agentId": self._gateway.rules.owner_of(event.key, session.agent_id if session is not None else None),
            "sessionId": event.session_id,
            "messageId": message.id,
            "messageSeq": message.seq,
            "rev": event.rev,
        }
        if session is not None:
            fields |= {
                "updatedAt": session.updated_at,
                "totalTokens": session.total_tokens,
                "contextTokens": session.context_tokens,
                "estimatedCostUsd": session.cost_usd,
            }
        present = {name: value for name, value in fields.items() if value is not None}
        await self._out.event("session.message", _with(present, "message", self._rows.message(message)))

    async def changed(self, key: str, what: Mapping[str, Any], session: Session | None) -> None:
        """Tell those who follow the list that a session changed."""
        if not self._wanted.lists:
            return
        fields: dict[str, Any] = {"sessionKey": key, **what, "ts": self._gateway.now_ms()} if key else dict(what)
        if session is None:
            await self._out.event("sessions.changed", fields)
            return
        fields |= {
            "agentId": session.agent_id,
            "sessionId": session.session_id,
            "updatedAt": session.updated_at,
            "rev": session.rev,
        }
        await self._out.event("sessions.changed", _with(fields, "session", self._rows.text(session)))

    async def row(self, key: str, rows: Mapping[str, Session]) -> Session | None:
        """Return the row of a session, from those that came with an event if it is one of them."""
        found = rows.get(key) or self._known.get(key)
        if found is None:
            with contextlib.suppress(SwitchboardError):  # it was deleted meanwhile
                found = await self._gateway.get_session(key, ALL)
        return found


def _with(fields: Mapping[str, Any], name: str, text: str) -> RawJson:
    """Return a payload with one more field, which is JSON text already."""
    return RawJson(f"{encode(fields)[:-1]},{encode(name)}:{text}}}")
