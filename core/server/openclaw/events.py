"""The port's events as one client of OpenClaw hears them (protocol#watchers, protocol#events, protocol#our-events).

A reader takes what the feed has; whatever came together is told together, so that a message can be told with the row it
changed. While the client does not read, the reader waits, the feed falls behind, and catches up from the store.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from core.model.access import ALL
from core.model.errors import Invalid, SwitchboardError
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
from core.model.messages import Message, brief
from core.model.runs import Run
from core.model.sessions import Session
from core.server.openclaw.reply import ToldReply, spoken
from core.wire.frames import CLOSE_RESTART, RawJson, encode

if TYPE_CHECKING:
    from core.gateway import Feed
    from core.server.conversation import Conversation

BATCH: Final = 256
"""Events that are taken from the feed before they are told."""
MAX_KNOWN: Final = 4096
MAX_STARTED: Final = 1024
SCOPED: Final = "session-scoped-events"
TOOL_EVENTS: Final = "tool-events"


class EventPump:
    """Tells one client what it wants to hear."""

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation
        self._gateway = conversation.gateway
        self._rows = conversation.context.rows
        self._scoped = SCOPED in conversation.caps
        self._tools = TOOL_EVENTS in conversation.caps
        self._lists = False
        self._keys: set[str] = set()
        self._started: dict[str, None] = {}
        self._replies: dict[str, ToldReply] = {}
        self._active: dict[str, str] = {}
        self._known: dict[str, Session] = {}
        self._notes: dict[str, Message] = {}
        self._batch: list[Event] = []
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._since = 0
        self._feed: Feed = self._gateway.subscribe()
        self._watch()

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which the client has been told everything it wants to hear."""
        return self._feed.cursor

    # What the client wants

    def subscribe(self, after: Cursor | None) -> bool:
        """Tell of all sessions from now on, or of everything since a cursor; False when that cursor is unknown."""
        self._lists = True
        self._since = self._gateway.now_ms()
        fresh = self._gateway.subscribe()
        known = after is None or after <= fresh.cursor
        if after is not None and after < fresh.cursor:
            fresh.close()
            fresh = self._gateway.subscribe(after)
            self._known.clear()
            old, self._feed = self._feed, fresh
            self._watch()
            old.close()
        else:
            fresh.close()
            self._watch()
        return known

    def unsubscribe(self) -> None:
        """Tell of the list no longer."""
        self._lists = False
        self._known.clear()
        if self._scoped:
            self._feed.unwatch(None)

    def follow(self, key: str) -> None:
        """Tell of the messages of a session.

        Raises:
            Invalid: The client follows too many.
        """
        limit = self._conversation.context.limits.subscriptions
        if key not in self._keys and len(self._keys) >= limit:
            raise Invalid(f"this connection follows {limit} sessions, which is the limit: use sessions.subscribe")
        self._keys.add(key)
        self._feed.watch(key)

    def unfollow(self, key: str) -> None:
        """Tell of them no longer."""
        self._keys.discard(key)
        self._feed.unwatch(key)

    def started(self, run_id: str) -> None:
        """Note that this client began a run: it hears of its tools."""
        self._started[run_id] = None
        if len(self._started) > MAX_STARTED:
            del self._started[next(iter(self._started))]

    def under_way(self, key: str) -> tuple[str, str] | None:
        """Return id and text so far of the run at work in a session, if it was heard of."""
        reply = self._replies.get(self._active.get(key, ""))
        return (reply.run_id, reply.text) if reply is not None else None

    def close(self) -> None:
        """Hear no more."""
        self._feed.close()

    def _watch(self) -> None:
        if self._lists or not self._scoped:
            self._feed.watch(None)
        for key in self._keys:
            self._feed.watch(key)

    def _hears(self, key: str) -> bool:
        """Whether the client is told of the runs of a session."""
        return not self._scoped or key in self._keys

    # The stream

    async def run(self) -> None:
        """Tell what happens, until the feed ends or the conversation does."""
        reader = asyncio.ensure_future(self._read())
        try:
            while not reader.done() or self._batch:
                await self._wait()
                await self._conversation.answered()
                batch, self._batch = self._batch, []
                self._taken.set()
                await self._tell(batch)
                await self._tell_words()
            reader.result()
            self._conversation.end(CLOSE_RESTART, "service restart")
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            feed: Feed | None = None
            while feed is not self._feed:
                feed = self._feed
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
        due = [at for reply in self._replies.values() if (at := reply.due()) is not None]
        self._filled.clear()
        if self._batch:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(due) if due else None):
                await self._filled.wait()

    async def _tell(self, batch: Sequence[Event]) -> None:
        rows = {event.session.key: event.session for event in batch if isinstance(event, SessionChanged)}
        told = set[str]()
        for session in rows.values():
            await self._created(session)
        for event in batch:
            match event:
                case MessageAppended(_, key, _, message):
                    told.add(key)
                    await self._message(event, message, rows)
                case RunChanged(_, run):
                    told.add(run.key)
                    await self._run(run, rows)
                case Delta() | ToolProgress() | Gap():
                    await self._passing(event)
                case SessionGone(rev, key, session_id):
                    self._known.pop(key, None)
                    await self._say_changed(key, {"reason": "delete", "sessionId": session_id, "rev": rev}, None)
                case Reloaded():
                    await self._say_changed("", {"reason": "reload"}, None)
                case _:
                    pass
        self._notes.clear()
        if self._lists:
            for key, session in rows.items():
                await self._patched(session, told=key in told)

    async def _passing(self, event: Delta | ToolProgress | Gap) -> None:
        if isinstance(event, Gap):
            for reply in self._replies.values():
                reply.forget_live()
        elif isinstance(event, Delta):
            if self._hears(event.key):
                (await self._reply(event.key, event.run_id)).add(event)
        elif self._hears(event.key) or self._lists:
            await self._progress(event)

    async def _created(self, session: Session) -> None:
        if self._lists and session.created_at >= self._since and session.key not in self._known:
            self._known[session.key] = session
            await self._say_changed(session.key, {"reason": "create"}, session)

    async def _patched(self, session: Session, *, told: bool) -> None:
        """Tell of a row that changed without a message or a run, and remember it."""
        known = self._known.pop(session.key, None)
        self._known[session.key] = session
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        if told or (known is not None and known.rev == session.rev):
            return
        emptied = session.last_seq > 0 and session.first_seq > session.last_seq
        renewed = known.session_id != session.session_id if known is not None else emptied
        await self._say_changed(session.key, {"reason": "reset" if renewed else "patch"}, session)

    async def _message(self, event: MessageAppended, message: Message, rows: Mapping[str, Session]) -> None:
        key = event.key
        if message.role == "system":
            self._notes[key] = message
        reply = self._replies.get(self._active.get(key, ""))
        if self._lists or key in self._keys:
            await self._say_message(event, message, await self._row(key, rows))
        if reply is not None and message.role == "assistant":
            reply.commit(message)
        elif reply is not None and message.role == "toolResult":
            await self._tool_ended(reply, message)
        if self._lists:
            await self._say_changed(key, {"phase": "message", "messageSeq": message.seq}, await self._row(key, rows))

    async def _say_message(self, event: MessageAppended, message: Message, session: Session | None) -> None:
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
        await self._send("session.message", present, message=self._rows.message(message))

    async def _say_changed(self, key: str, what: Mapping[str, Any], session: Session | None) -> None:
        """Tell those who follow the list that a session changed."""
        if not self._lists:
            return
        fields: dict[str, Any] = {"sessionKey": key, **what, "ts": self._gateway.now_ms()} if key else dict(what)
        if session is None:
            await self._send("sessions.changed", fields)
            return
        fields |= {
            "agentId": session.agent_id,
            "sessionId": session.session_id,
            "updatedAt": session.updated_at,
            "rev": session.rev,
        }
        await self._send("sessions.changed", fields, session=self._rows.text(session))

    async def _row(self, key: str, rows: Mapping[str, Session]) -> Session | None:
        found = rows.get(key) or self._known.get(key)
        if found is None:
            with contextlib.suppress(SwitchboardError):  # it was deleted meanwhile
                found = await self._gateway.get_session(key, ALL)
        return found

    # Runs

    async def _reply(self, key: str, run_id: str, *, whole: bool = False) -> ToldReply:
        reply = self._replies.get(run_id)
        if reply is None:
            session = await self._row(key, {})
            agent_id = self._gateway.rules.owner_of(key, session.agent_id if session is not None else None)
            reply = self._replies[run_id] = ToldReply(key, run_id, agent_id, whole)
        self._active[key] = run_id
        return reply

    async def _run(self, run: Run, rows: Mapping[str, Session]) -> None:
        if run.state == "queued":
            return  # its message was told, with the row
        session = await self._row(run.key, rows) if self._lists else None
        if run.state == "running":
            reply = await self._reply(run.key, run.run_id, whole=True)
            await self._agent(reply, "lifecycle", {"phase": "start", "startedAt": run.started_at})
            await self._chat(reply, {"state": "status", "phase": "starting_model"})
            await self._say_changed(run.key, {"phase": "start", "runId": run.run_id}, session)
        else:
            await self._ended(run)
            phase = "end" if run.state == "done" else "error"
            await self._say_changed(run.key, {"phase": phase, "runId": run.run_id}, session)

    async def _ended(self, run: Run) -> None:
        reply = await self._reply(run.key, run.run_id)
        text = await self._last_words(run, reply) if self._hears(run.key) else ""
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

    async def _tell_words(self) -> None:
        now = asyncio.get_running_loop().time()
        for reply in list(self._replies.values()):
            due = reply.due()
            told = reply.tell(now) if due is not None and due <= now else None
            if told is not None:
                text, new = told
                delta = {"text": text, "delta": new["deltaText"]}
                await self._agent(reply, "assistant", delta)
                await self._chat(reply, {"state": "delta", **new, **_said(text, self._gateway.now_ms())})

    async def _progress(self, event: ToolProgress) -> None:
        reply = await self._reply(event.key, event.run_id)
        if event.call_id not in reply.begun:
            await self._tool_began(reply, event.call_id, event.name)
        if event.note:
            data = {"phase": "update", "name": event.name, "toolCallId": event.call_id, "meta": event.note}
            await self._tool(reply, data)

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
        if self._lists:
            await self._send("session.tool", self._body(reply) | {"stream": "tool", "data": data})

    async def _agent(self, reply: ToldReply, stream: str, data: Mapping[str, Any]) -> None:
        if self._hears(reply.key):
            await self._send("agent", self._body(reply) | {"stream": stream, "data": data})

    async def _chat(self, reply: ToldReply, more: Mapping[str, Any]) -> None:
        if self._hears(reply.key):
            body = self._body(reply)
            del body["ts"]
            await self._send("chat", body | dict(more))

    def _body(self, reply: ToldReply) -> dict[str, Any]:
        return {
            "runId": reply.run_id,
            "sessionKey": reply.key,
            "agentId": reply.agent_id,
            "seq": reply.next_seq(),
            "ts": self._gateway.now_ms(),
        }

    async def _send(self, name: str, fields: Mapping[str, Any], **ready: str) -> None:
        """Send an event; what is ready is JSON text already."""
        text = encode(dict(fields))
        if ready:
            text = f"{text[:-1]},{','.join(f'{encode(key)}:{value}' for key, value in ready.items())}}}"
        await self._conversation.send_event(name, RawJson(text))


def _item(call_id: str, name: str) -> dict[str, Any]:
    return {"itemId": f"tool:{call_id}", "toolCallId": call_id, "name": name, "kind": "tool"}


def _said(text: str, timestamp: int) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"message": {"role": "assistant", "content": content, "timestamp": timestamp}}
