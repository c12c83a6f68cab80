"""A gateway that speaks OpenClaw's protocol as far as a test needs it, with what it holds at hand."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from core.clock import Clock
from core.remote.connect import RemoteGateway, connect
from core.remote.profile import Profile
from tests.remote.generations import EARLIEST, NEWEST, PROTOCOL_3, methods, refusal
from tests.remote.scripted import Conversation, Scripted, scripted

KEY = "agent:main:view_model"


class Theirs:
    """What such a gateway holds.

    Attributes:
        rows: Its sessions.
        transcript: Messages of every session, in its own form; the place is in `__openclaw`.
        refuses: Errors by method, which come instead of an answer.
        asked: Every request but the introductions.
        version: Whose refusals it has.
        lacks: Properties by method that it refuses besides.
        boot: Id of this start of it, where it tells one; `uptime_ms` is told by all.
        selection: It has several agents and no default one.
    """

    def __init__(self, version: str = NEWEST) -> None:
        self.rows: list[dict[str, Any]] = [row(KEY)]
        self.transcript: list[dict[str, Any]] = []
        self.refuses: dict[str, dict[str, Any]] = {}
        self.scopes = ["operator.admin", "operator.read", "operator.write"]
        self.config: dict[str, Any] = {"agents": {}}
        self.asked: list[dict[str, Any]] = []
        self.version = version
        self.lacks: dict[str, set[str]] = {}
        self.selection = False
        self.boot = "boot-1" if version == NEWEST else ""
        self.uptime_ms = 100_000
        self._talks: list[Conversation] = []

    async def script(self, conversation: Conversation) -> None:
        """Answer everything."""
        features = {"methods": methods(self.version), "events": []}
        speaks = 3 if self.version in {EARLIEST, PROTOCOL_3} else 4
        server, snapshot = {"version": self.version, "connId": "c"}, {"uptimeMs": self.uptime_ms}
        if self.boot:
            server["bootId"] = self.boot
        await conversation.greet(
            protocol=speaks,
            server=server,
            snapshot=snapshot,
            features=features,
            auth={"role": "operator", "scopes": self.scopes},
        )
        self._talks.append(conversation)
        while True:
            request = await conversation.next()
            self.asked.append(request)
            if (error := self.refuses.get(request["method"])) is not None:
                await conversation.refuse(request, **error)
            elif (sentence := self._refusal(request["method"], request["params"])) is not None:
                await conversation.refuse(request, "INVALID_REQUEST", sentence)
            else:
                await conversation.answer(request, self.answer(request["method"], request["params"]))

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

    def taken(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the requests for a method that it did not refuse."""
        asked = [request["params"] for request in self.asked if request["method"] == method]
        return [params for params in asked if self._refusal(method, params) is None]

    def _refusal(self, method: str, params: dict[str, Any]) -> str | None:
        lacking = [name for name in params if name in self.lacks.get(method, ())]
        if lacking:
            return f"invalid {method} params: at root: unexpected property '{lacking[0]}'"
        return refusal(self.version, method, params, selection=self.selection)

    def answer(self, method: str, params: dict[str, Any]) -> object:
        match method:
            case "sessions.list":
                offset, archived = params.get("offset", 0), params.get("archived", False)
                rows = [each for each in self.rows if archived == "all" or each.get("archived", False) == archived]
                part = rows[offset : offset + params.get("limit", len(rows))]
                return {"sessions": part, "hasMore": offset + len(part) < len(rows)}
            case "agents.list":
                agents = {"defaultId": "main", "agents": [{"id": "main"}, {"id": "helper"}]}
                return agents | ({"ownership": "explicit", "selectionRequired": True} if self.selection else {})
            case "models.list":
                return {"models": [{"id": f"of-{params.get('agentId', 'all')}"}, {"id": "common"}]}
            case "sessions.search":
                return {"results": [_hit(each) for each in self._searched(params)]}
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

    def _searched(self, params: dict[str, Any]) -> list[str]:
        keys = [each["key"] for each in self.rows]
        if "scope" in params:
            return keys
        return [key for key in keys if key in params.get("sessionKeys", [key]) and ":helper:" not in key] + [
            key for key in params.get("sessionKeys", ()) if ":helper:" in key
        ]

    def _history(self, params: dict[str, Any]) -> dict[str, Any]:
        total = max((message["__openclaw"]["seq"] for message in self.transcript), default=0)
        last = total - params.get("offset", 0)
        first = max(last - params["limit"] + 1, 1)
        rows = [message for message in self.transcript if first <= message["__openclaw"]["seq"] <= last]
        answer = {"sessionKey": params["sessionKey"], "sessionId": self.rows[0]["sessionId"], "messages": rows}
        if "offset" in params:
            more = {"hasMore": True, "nextOffset": total - first + 1} if first > 1 else {"hasMore": False}
            answer |= {"totalMessages": total, **more}
        return answer


def _hit(key: str) -> dict[str, Any]:
    return {"sessionKey": key, "messageId": "m1", "role": "user", "timestamp": 5, "snippet": "zebra"}


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
