"""The agent backend on a language model: ask, run the tools it calls, ask again, until it has said its last word."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

from core.agents.endpoint import ModelClient
from core.agents.port import AgentEvent, AgentFailure, Reply, ToolEnded, ToolResult, ToolStarted, Turn
from core.agents.window import result_message, visible_part
from core.agents.wire import BAD_ARGUMENTS, Ask, called_tools, read_arguments
from core.config.settings import ModelSettings
from core.model import json_codec
from core.model.messages import Block, Message

MAX_ROUNDS: Final = 50


class ModelBackend:
    """Runs turns on any configured model.

    Args:
        connect_timeout: Seconds to reach an endpoint.
        silence_timeout: Seconds without a byte from it before the turn fails.
        max_rounds: Replies with tool calls in one turn before it fails.
    """

    def __init__(
        self, *, connect_timeout: float = 10.0, silence_timeout: float = 120.0, max_rounds: int = MAX_ROUNDS
    ) -> None:
        self._client = ModelClient(connect_timeout=connect_timeout, silence_timeout=silence_timeout)
        self._max_rounds = max_rounds
        self._choosing = asyncio.Lock()
        self._chosen: dict[ModelSettings, ModelSettings] = {}

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        model = await self._model(turn)
        messages = list(turn.transcript)
        for _ in range(self._max_rounds):
            reply: Reply | None = None
            shown = visible_part(messages, model=model, system=turn.system, tools=turn.tools)
            ask = Ask(model, turn.system, shown, turn.tools, turn.thinking)
            async with contextlib.aclosing(self._client.reply(ask, turn.clock)) as events:
                async for event in events:
                    reply = _completed(event, model) if isinstance(event, Reply) else None
                    yield reply or event
            calls = called_tools(reply.content) if reply else []
            if reply is None or not calls:
                return
            said = Message("", 0, 0, "assistant", reply.content, model=reply.model, stop_reason=reply.stop_reason)
            messages.append(said)  # only the store gives ids, places and times
            for call in calls:
                yield ToolStarted(call["id"], call["name"])
                result = await _run_tool(turn, call)
                yield ToolEnded(call["id"], call["name"], result)
                messages.append(result_message(call, result.text, is_error=result.is_error))
        raise AgentFailure(
            f"model {model.ref} called tools in {self._max_rounds} replies in a row: give it a smaller task"
        )

    async def close(self) -> None:
        await self._client.close()

    async def _model(self, turn: Turn) -> ModelSettings:
        """Return the model of a turn with its id, asking the endpoint once when none is configured."""
        if turn.model is None:
            raise AgentFailure("this turn has no model: configure one, or use the builtin agent")
        if turn.model.model_id:
            return turn.model
        async with self._choosing:
            if turn.model not in self._chosen:
                self._chosen[turn.model] = await self._client.first_model(turn.model, turn.clock)
        return self._chosen[turn.model]


def _completed(reply: Reply, model: ModelSettings) -> Reply:
    """Add what the endpoint does not know: the model's name here, and what the reply cost."""
    usage = reply.usage
    if usage is not None and model.price is not None:
        usage = replace(usage, cost_usd=model.price.of(usage))
    return replace(reply, usage=usage, model=model.ref)


async def _run_tool(turn: Turn, call: Block) -> ToolResult:
    """Run one tool call; one that cannot be run is answered, so that the model can do better."""
    name: str = call["name"]
    known = [tool.name for tool in turn.tools]
    if name not in known:
        return _refusal(f"there is no tool with this name: use {', '.join(known)}" if known else "there are no tools")
    if BAD_ARGUMENTS in call:
        _, why = await asyncio.to_thread(read_arguments, call[BAD_ARGUMENTS])
        return _refusal(f"the arguments {why}: call the tool again with a JSON object")
    return await turn.call_tool(call["id"], name, call["arguments"])


def _refusal(why: str) -> ToolResult:
    return ToolResult(json_codec.encode({"status": "error", "error": why}), is_error=True)
