"""A gateway that speaks OpenClaw's protocol as far as a test needs it, with what it holds at hand."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from core.model.clock import Clock
from core.remote.connect import RemoteGateway, connect
from core.remote.profile import Profile
from tests.remote.scripted import Conversation, Scripted, scripted

KEY = "agent:main:desk"
NEWER = ["sessions.list", "sessions.describe", "sessions.search", "tools.invoke"]


class Theirs:
    """What such a gateway holds.

    Attributes:
        rows: Its sessions.
        transcript: Messages of every session, in its own form; the place is in `__openclaw`.
        refuses: Errors by method, which come instead of an answer.
        asked: Every request but the introductions.
        newer: It is of the newer generation.
    """

    def __init__(self, *, newer: bool = True) -> None:
        self.rows: list[dict[str, Any]] = [row(KEY)]
        self.transcript: list[dict[str, Any]] = []
        self.refuses: dict[str, dict[str, Any]] = {}
        self.scopes = ["operator.admin", "operator.read", "operator.write"]
        self.config: dict[str, Any] = {"agents": {}}
        self.asked: list[dict[str, Any]] = []
        self.newer = newer
        self._talks: list[Conversation] = []

    async def script(self, conversation: Conversation) -> None:
        """Answer everything."""
        features = {"methods": NEWER if self.newer else ["sessions.list"], "events": []}
        await conversation.greet(features=features, auth={"role": "operator", "scopes": self.scopes})
        self._talks.append(conversation)
        while True:
            request = await conversation.next()
            self.asked.append(request)
            if (error := self.refuses.get(request["method"])) is not None:
                await conversation.refuse(request, **error)
            else:
                await conversation.answer(request, self._answer(request["method"], request["params"]))

    async def tell(self, event: str, payload: dict[str, Any]) -> None:
        """Tell everybody who is connected."""
        for talk in self._talks:
            await talk.tell(event, payload)

    async def hang_up(self) -> None:
        """Part with everybody."""
        talks, self._talks = self._talks, []
        for talk in talks:
            await talk.socket.close(1012, "restart")

    def methods(self) -> list[str]:
        """Return what was asked for, in order."""
        return [request["method"] for request in self.asked]

    def say(self, role: str, words: object, place: int | None = None, **more: Any) -> dict[str, Any]:
        """Append a message, and return it."""
        place = place or len(self.transcript) + 1
        message = {
            "role": role,
            "content": words,
            "timestamp": 1000 + place,
            "__openclaw": {"id": f"m{place}", "seq": place},
        }
        self.transcript.append(message | more)
        return self.transcript[-1]

    async def hint(self) -> None:
        """Tell of the newest message, as a session that was appended to."""
        message = self.transcript[-1]
        place = message["__openclaw"]["seq"]
        payload = {"sessionKey": KEY, "message": message, "messageId": message["__openclaw"]["id"], "messageSeq": place}
        await self.tell("session.message", payload | {"session": self.rows[0]})

    def _answer(self, method: str, params: dict[str, Any]) -> object:
        match method:
            case "sessions.list":
                offset = params.get("offset", 0)
                part = self.rows[offset : offset + params.get("limit", len(self.rows))]
                return {"sessions": part, "hasMore": offset + len(part) < len(self.rows)}
            case "agents.list":
                return {"defaultId": "main", "agents": [{"id": "main"}, {"id": "helper"}]}
            case "config.get":
                return {"config": self.config}
            case "chat.history":
                return self._history(params)
            case "chat.send" | "agent":
                return {"runId": params["idempotencyKey"], "status": "started"}
            case "agent.wait":
                return {"runId": params["runId"], "status": "timeout"}
            case _:
                return {"ok": True}

    def _history(self, params: dict[str, Any]) -> dict[str, Any]:
        total = max((message["__openclaw"]["seq"] for message in self.transcript), default=0)
        last = total - params.get("offset", 0)
        first = max(last - params["limit"] + 1, 1)
        rows = [message for message in self.transcript if first <= message["__openclaw"]["seq"] <= last]
        answer = {"sessionKey": params["sessionKey"], "sessionId": self.rows[0]["sessionId"], "messages": rows}
        if self.newer:
            more = {"hasMore": True, "nextOffset": total - first + 1} if first > 1 else {"hasMore": False}
            answer |= {"totalMessages": total, **more}
        return answer


def row(key: str, **more: Any) -> dict[str, Any]:
    """Return a session's row."""
    return {"key": key, "sessionId": "t-1", "updatedAt": 1000, "kind": "direct", **more}


@contextlib.asynccontextmanager
async def serving(theirs: Theirs, state: Path, clock: Clock) -> AsyncGenerator[tuple[RemoteGateway, Scripted]]:
    """Serve it, and connect to it as the console does."""
    async with scripted(theirs.script) as server:
        gateway = connect(Profile("prod", f"ws://127.0.0.1:{server.port}", lambda: "t"), state, clock)
        try:
            await gateway.opened()
            yield gateway, server
        finally:
            await gateway.close()
            await asyncio.sleep(0)
