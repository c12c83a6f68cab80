"""What one client of OpenClaw hears of runs: their course, their words and their tools (protocol#events)."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from core.model.access import ALL
from core.model.errors import SwitchboardError
from core.model.events import Delta, ToolProgress
from core.model.messages import Message, brief
from core.model.runs import Run
from core.model.sessions import Session
from core.server.context import ServerContext
from core.server.conversation.sender import FrameSender
from core.server.openclaw.reply import ToldReply, spoken
from core.server.openclaw.session_events import SessionEvents
from core.server.openclaw.subscription import Subscription

MAX_STARTED: Final = 1024


class RunEvents:
    """Tells one client of runs, with `tools` of the tools of its own too, and knows what it was told of each."""

    def __init__(
        self, context: ServerContext, out: FrameSender, wanted: Subscription, sessions: SessionEvents, *, tools: bool
    ) -> None:
        self._gateway = context.gateway
        self._out = out
        self._wanted = wanted
        self._sessions = sessions
        self._tools = tools
        self._started: dict[str, None] = {}
        self._replies: dict[str, ToldReply] = {}
        self._active: dict[str, str] = {}
        self._notes: dict[str, Message] = {}

    def started(self, run_id: str) -> None:
        """Note that this client began a run: it hears of its tools."""
        self._started[run_id] = None
        if len(self._started) > MAX_STARTED:
            del self._started[next(iter(self._started))]

    def under_way(self, key: str) -> ToldReply | None:
        """Return the reply of the run at work in a session, if it was heard of."""
        return self._replies.get(self._active.get(key, ""))

    def due(self) -> float | None:
        """Return the time of the loop at which words are to be told on; None when there are none."""
        times = [at for reply in self._replies.values() if (at := reply.due()) is not None]
        return min(times) if times else None

    def forget_live(self) -> None:
        """Forget the words that are not in a message yet: some were lost, and they come again."""
        for reply in self._replies.values():
            reply.forget_live()

    def forget_notes(self) -> None:
        """Forget the notes of commands: the runs that came with them were told."""
        self._notes.clear()

    async def delta(self, event: Delta) -> None:
        """Take in words of a run; they are told when they are due."""
        if self._wanted.hears_runs(event.key):
            (await self._reply(event.key, event.run_id)).add(event)

    async def message(self, key: str, message: Message) -> None:
        """Take in a message of a run, and tell of the tool whose result it is."""
        if message.role == "system":
            self._notes[key] = message
        reply = self.under_way(key)
        if reply is not None and message.role == "assistant":
            reply.commit(message)
        elif reply is not None and message.role == "toolResult":
            await self._tool_ended(reply, message)

    async def changed(self, run: Run, rows: Mapping[str, Session]) -> None:
        """Tell of a run that began or ended."""
        if run.state == "queued":
            return  # its message was told, with the row
        session = await self._sessions.row(run.key, rows) if self._wanted.lists else None
        if run.state == "running":
            reply = await self._reply(run.key, run.run_id, whole=True)
            await self._agent(reply, "lifecycle", {"phase": "start", "startedAt": run.started_at})
            await self._chat(reply, {"state": "status", "phase": "starting_model"})
            await self._sessions.changed(run.key, {"phase": "start", "runId": run.run_id}, session)
        else:
            await self._ended(run)
            phase = "end" if run.state == "done" else "error"
            await self._sessions.changed(run.key, {"phase": phase, "runId": run.run_id}, session)

    async def tell_words(self) -> None:
        """Tell the words that are due."""
        now = asyncio.get_running_loop().time()
        for reply in list(self._replies.values()):
            due = reply.due()
            told = reply.tell(now) if due is not None and due <= now else None
            if told is not None:
                text, new = told
                delta = {"text": text, "delta": new["deltaText"]}
                await self._agent(reply, "assistant", delta)
                await self._chat(reply, {"state": "delta", **new, **_said(text, self._gateway.now_ms())})

    async def progress(self, event: ToolProgress) -> None:
        """Tell how a tool gets on."""
        if not self._wanted.hears_runs(event.key) and not self._wanted.lists:
            return
        reply = await self._reply(event.key, event.run_id)
        if event.call_id not in reply.begun:
            await self._tool_began(reply, event.call_id, event.name)
        if event.note:
            data = {"phase": "update", "name": event.name, "toolCallId": event.call_id, "meta": event.note}
            await self._tool(reply, data)

    async def _reply(self, key: str, run_id: str, *, whole: bool = False) -> ToldReply:
        reply = self._replies.get(run_id)
        if reply is None:
            session = await self._sessions.row(key, {})
            agent_id = self._gateway.rules.owner_of(key, session.agent_id if session is not None else None)
            reply = self._replies[run_id] = ToldReply(key, run_id, agent_id, whole)
        self._active[key] = run_id
        return reply

    async def _ended(self, run: Run) -> None:
        reply = await self._reply(run.key, run.run_id)
        text = await self._last_words(run, reply) if self._wanted.hears_runs(run.key) else ""
        self._replies.pop(run.run_id, None)
        self._active.pop(run.key, None)
        ended: dict[str, Any] = {"startedAt": run.started_at, "endedAt": run.ended_at}
        said = _said(text, run.ended_at or self._gateway.now_ms()) if spoken(text) else {}
        if run.state == "done":
            ended |= {"phase": "end", "stopReason": "stop", "aborted": False}
            chat: dict[str, Any] = {"state": "final", "stopReason": "stop", **said}
        elif run.state == "aborted":
            ended |= {"phase": "end", "status": "cancelled", "aborted": True, "stopReason": "rpc"}
            chat = {"state": "aborted", "stopReason": "rpc", **said}
        else:
            words = run.error or f"the run ended as {run.state}"
            ended |= {"phase": "error", "error": words}
            late = {"errorKind": "timeout"} if run.state == "timed_out" else {}
            chat = {"state": "error", "errorMessage": words, **late}
        await self._agent(reply, "lifecycle", ended)
        await self._chat(reply, chat)

    async def _last_words(self, run: Run, reply: ToldReply) -> str:
        """Return what a run said in all; of one that was not heard from its beginning, as it is stored."""
        if run.kind == "command":
            note = self._notes.get(run.key)
            return note.text if note is not None else ""
        if reply.whole or run.reply_seq is None:
            return reply.text
        try:
            count = min(run.reply_seq - run.input_seq, 200)
            page = await self._gateway.history(
                run.session_id, ALL, limit=max(1, count), before=run.reply_seq + 1, in_brief=True
            )
        except SwitchboardError:  # it was deleted meanwhile
            return reply.text
        said = [message.text for message in page.messages if message.role == "assistant" and message.text]
        return "\n\n".join(said)

    async def _tool_began(self, reply: ToldReply, call_id: str, name: str) -> None:
        now = reply.begun[call_id] = self._gateway.now_ms()
        args = reply.calls.get(call_id) or dict[str, Any]()
        data = {"phase": "start", "name": name, "toolCallId": call_id, "args": args}
        item = {"phase": "start", "title": name, "status": "running", "startedAt": now}
        await self._agent(reply, "item", _item(call_id, name) | item)
        await self._tool(reply, data)

    async def _tool_ended(self, reply: ToldReply, message: Message) -> None:
        call_id, name = message.tool_call_id or "", message.tool_name or "tool"
        if call_id not in reply.begun:
            await self._tool_began(reply, call_id, name)
        began, now = reply.begun.pop(call_id), self._gateway.now_ms()
        reply.calls.pop(call_id, None)
        result = {"content": list(brief(message).content)}
        data = {"phase": "result", "name": name, "toolCallId": call_id, "isError": message.is_error, "result": result}
        await self._tool(reply, data)
        status = "blocked" if message.is_error else "completed"
        item = {"phase": "end", "title": name, "status": status, "startedAt": began, "endedAt": now}
        await self._agent(reply, "item", _item(call_id, name) | item)

    async def _tool(self, reply: ToldReply, data: Mapping[str, Any]) -> None:
        """Tell of a tool in full: whoever began the run, and who follows all sessions."""
        if self._tools and reply.run_id in self._started:
            await self._agent(reply, "tool", data)
        if self._wanted.lists:
            await self._out.event("session.tool", self._body(reply) | {"stream": "tool", "data": data})

    async def _agent(self, reply: ToldReply, stream: str, data: Mapping[str, Any]) -> None:
        if self._wanted.hears_runs(reply.key):
            await self._out.event("agent", self._body(reply) | {"stream": stream, "data": data})

    async def _chat(self, reply: ToldReply, more: Mapping[str, Any]) -> None:
        if self._wanted.hears_runs(reply.key):
            body = self._body(reply)
            del body["ts"]
            await self._out.event("chat", body | dict(more))

    def _body(self, reply: ToldReply) -> dict[str, Any]:
        reply.seq += 1
        return {
            "runId": reply.run_id,
            "sessionKey": reply.key,
            "agentId": reply.agent_id,
            "seq": reply.seq,
            "ts": self._gateway.now_ms(),
        }


def _item(call_id: str, name: str) -> dict[str, Any]:
    return {"itemId": f"tool:{call_id}", "toolCallId": call_id, "name": name, "kind": "tool"}


def _said(text: str, timestamp: int) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"message": {"role": "assistant", "content": content, "timestamp": timestamp}}
