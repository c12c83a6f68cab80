"""One turn: asks the agent, commits what it says as it says it, runs its tools (architecture#runs)."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from core.agents.port import (
    AgentEvent,
    AgentFailure,
    Backend,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolResult,
    ToolStarted,
    Turn,
)
from core.config.settings import ModelSettings, Settings
from core.gateway import Gateway
from core.model import json_codec
from core.model.access import SessionCaller
from core.model.errors import SwitchboardError
from core.model.messages import Draft, Message, Usage, text_block
from core.model.runs import BUILTIN_MODEL, Run
from core.model.sessions import Session
from core.model.tools import Tool
from core.runtime.feed import EventHub
from core.runtime.runs.live_reply import RunningReply
from core.runtime.runs.prompts import system_prompt
from core.store import exchanges, messages, runs, sessions
from core.store.database import Db, Store
from core.store.runs import End

TRANSCRIPT_MESSAGES: Final = 500
"""Messages of a transcript that a turn starts from; the backend cuts further to the model's window."""

Backends = Callable[[ModelSettings | None], Backend]
Waiting = Callable[[Run], AbstractAsyncContextManager[None]]
"""Gives a run's place to others while it only waits for another session."""

_log = logging.getLogger("switchboard.turn")


@dataclass(slots=True)
class _Spent:
    """What the calls of one turn have used so far."""

    total: Usage = field(default_factory=Usage)
    last: Usage | None = None
    model: str | None = None

    def add(self, reply: Reply) -> None:
        self.model = reply.model or self.model
        if reply.usage is not None:
            self.total = self.total.plus(reply.usage)
            self.last = reply.usage


class Turns:
    """Runs the turns of all sessions; `live` has the reply under way, by session key."""

    def __init__(self, store: Store, hub: EventHub, gateway: Gateway, backends: Backends) -> None:
        self.live: dict[str, RunningReply] = {}
        self._store = store
        self._hub = hub
        self._gateway = gateway
        self._backends = backends

    async def run(self, run: Run, settings: Settings, stopped: Callable[[], End], waiting: Waiting) -> End:
        """Run a turn to its end; never raises, whatever the agent does.

        `stopped` says how the run ends when its task is cancelled; `waiting` gives its place to others while it only
        waits for another session.
        """
        live = self.live[run.key] = RunningReply(run.key, run.run_id, self._hub)
        spent = _Spent()
        model: ModelSettings | None = None
        try:
            session = self._store.read(lambda db: sessions.by_key(db, run.key))
            assert session is not None, "a session with a live run is not deleted"
            turn = await self._turn(run, session, settings, waiting)
            model = turn.model
            return await self._drive(run, turn, live, spent)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None, "a turn runs in a task"
            task.uncancel()
            return self._cut_short(stopped(), live, spent, model)
        except (AgentFailure, SwitchboardError) as error:
            return self._cut_short(End("error", error=_sentence(error)), live, spent, model)
        except Exception as error:  # noqa: BLE001 - the engine goes on, whatever an agent did
            _log.exception("run %s failed", run.run_id)
            failed = End("error", error=f"the agent failed inside switchboard: {type(error).__name__} (see the log)")
            return self._cut_short(failed, live, spent, model)
        finally:
            live.clear()
            self.live.pop(run.key, None)

    async def _drive(self, run: Run, turn: Turn, live: RunningReply, spent: _Spent) -> End:
        """Take the agent's events until its last word."""
        async with contextlib.aclosing(self._backends(turn.model).run(turn)) as events:
            final = await self._take(run, events, live, spent)
        if final is None:
            raise AgentFailure("the agent ended its turn without a reply")
        return End(
            "done",
            (_draft(final),),
            usage=spent.total,
            model=spent.model or (turn.model.ref if turn.model else BUILTIN_MODEL),
            last_call=spent.last,
            context_window=turn.model.context_window if turn.model else None,
        )

    async def _take(
        self, run: Run, events: AsyncGenerator[AgentEvent, None], live: RunningReply, spent: _Spent
    ) -> Reply | None:
        async for event in events:
            match event:
                case TextDelta(text):
                    live.add("text", text)
                case ThinkingDelta(text):
                    live.add("thinking", text)
                case ToolStarted(call_id, name):
                    live.tool(call_id, name)
                case ToolEnded(call_id, name, result):
                    await self._append(run, _result_draft(call_id, name, result))
                case Reply():
                    spent.add(event)
                    if not any(block.get("type") == "toolCall" for block in event.content):
                        return event
                    live.clear()  # first: an abort that comes now must not keep these words a second time
                    await self._append(run, _draft(event))
        return None

    async def _append(self, run: Run, draft: Draft) -> None:
        await self._store.write(lambda tx: messages.append(tx, run.key, draft, run.run_id))

    def _cut_short(self, end: End, live: RunningReply, spent: _Spent, model: ModelSettings | None) -> End:
        """Keep what was said before the turn failed or was stopped."""
        content = live.content()
        reason = "aborted" if end.state in {"aborted", "timed_out"} else "error"
        said = Draft("assistant", content, model=model.ref if model else None, stop_reason=reason)
        words = (said,) if content else ()
        return End(end.state, words, end.error, usage=spent.total, model=spent.model, last_call=spent.last)

    async def _turn(self, run: Run, session: Session, settings: Settings, waiting: Waiting) -> Turn:
        agent = settings.agent(session.agent_id)
        acting = SessionCaller(run.key, run.run_id, session.agent_id)
        model = settings.model(run.model or session.model or agent.model)
        requester, exchange = self._store.read(
            lambda db: (
                sessions.by_key(db, run.requester) if run.requester else None,
                exchanges.by_id(db, run.exchange) if run.exchange else None,
            )
        )

        async def call_tool(_call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolResult:
            async with waiting(run) if name == "sessions_send" else contextlib.nullcontext():
                return await self._call_tool(acting, name, arguments)

        return Turn(
            run_id=run.run_id,
            key=run.key,
            system=system_prompt(agent, session, run, requester, exchange),
            transcript=await self._store.scan(lambda db: prompt_transcript(db, run, session)),
            tools=await self._tools(acting, settings) if model is not None else (),
            call_tool=call_tool,
            clock=self._store.clock,
            kind=run.kind,
            model=model,
            thinking=run.thinking or session.thinking_level or agent.thinking,
        )

    async def _tools(self, acting: SessionCaller, settings: Settings) -> tuple[Tool, ...]:
        from core.tools.dispatch import schemas

        found = await asyncio.to_thread(schemas)  # pydantic and the schemas take 60 ms, once
        return tuple(tool for tool in found if settings.rules.withheld(tool.name, acting) is None)

    async def _call_tool(self, acting: SessionCaller, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        from core.tools.dispatch import FAILED, dispatch

        try:
            result = await dispatch(self._gateway, acting, name, arguments)
        except SwitchboardError as error:
            result = {"status": "error", "code": error.code, "error": error.message}
        return ToolResult(json_codec.encode(result), result.get("status") in FAILED)


def prompt_transcript(db: Db, run: Run, session: Session) -> tuple[Message, ...]:
    """Return what a run may know: the transcript without inputs that are queued behind its own, which stands last."""
    latest = sessions.by_key(db, session.key) or session
    found = messages.newest(db, latest, TRANSCRIPT_MESSAGES)
    waiting = {other.input_seq for other in runs.live(db, run.key)}
    own = messages.at(db, run.key, run.input_seq)
    rest = [message for message in found if message.seq not in waiting and message.seq != run.input_seq]
    return tuple(map(_as_read, (*rest, *([own] if own else []))))


def _as_read(message: Message) -> Message:
    """Return a message as an agent reads it: what came from another session without secrets (H5)."""
    if message.provenance is None:
        return message
    from core.rules.redact import redact  # the patterns take a few ms, once

    content = tuple(
        {**block, "text": redact(block["text"])} if isinstance(block.get("text"), str) else block
        for block in message.content
    )
    return message._replace(content=content)


def _draft(reply: Reply) -> Draft:
    return Draft("assistant", reply.content, usage=reply.usage, model=reply.model, stop_reason=reply.stop_reason)


def _result_draft(call_id: str, name: str, result: ToolResult) -> Draft:
    content = (text_block(result.text),)
    return Draft("toolResult", content, tool_call_id=call_id, tool_name=name, is_error=result.is_error)


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__
