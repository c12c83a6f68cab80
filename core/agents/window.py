"""Which part of a transcript a model gets to read."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from core.agents.wire import called_tools
from core.config.settings import ModelSettings
from core.model.messages import Block, Message, text_block
from core.model.tools import Tool

NO_RESULT: Final = "No result: the run ended before this tool answered."
_CHARS_PER_TOKEN: Final = 4
_IMAGE_TOKENS: Final = 1500
_MESSAGE_TOKENS: Final = 8  # role and punctuation around the words
_REPLY_TOKENS: Final = 8192

Unit = tuple[Message, ...]
"""Messages that only make sense together: one alone, or a reply that calls tools and their results."""


def visible_part(
    messages: Sequence[Message], *, model: ModelSettings, system: str, tools: Sequence[Tool]
) -> list[Message]:
    """Return the messages to send to a model: paired, and as many of the newest as its context window holds."""
    units = paired(messages)
    if model.context_window:
        around = text_tokens(system) + sum(
            text_tokens(tool.name + tool.description + json.dumps(dict(tool.parameters))) for tool in tools
        )
        reply = min(model.max_tokens or _REPLY_TOKENS, model.context_window // 2)
        units = fitting(units, model.context_window - around - reply)
    return [message for unit in units for message in unit]


def paired(messages: Iterable[Message]) -> list[Unit]:
    """Group messages so that each tool call is directly followed by its results, in the order of the calls.

    System notes and results that nobody asked for are left out; a call that was never answered gets `NO_RESULT`.
    A message that came in between a call and its result follows after them.
    """
    units: list[list[Message]] = []
    waiting: dict[str, list[Message]] = {}  # by call id: the results of the unit that called last
    for message in messages:
        if message.role == "toolResult":
            found = waiting.pop(message.tool_call_id or "", None)
            if found is not None:
                found.append(message)
        elif message.role != "system":
            units.append([message])
            if message.role == "assistant":
                waiting = {_id(call): units[-1] for call in called_tools(message.content)}
    return [_complete(unit) for unit in units]


def _complete(unit: list[Message]) -> Unit:
    """Put the results in the order of the calls and fill in what is missing."""
    first, results = unit[0], {message.tool_call_id: message for message in unit[1:]}
    calls = called_tools(first.content) if first.role == "assistant" else []
    return (first, *(results.get(_id(call)) or result_message(call, NO_RESULT, is_error=True) for call in calls))


def _id(call: Block) -> str:
    return str(call.get("id", ""))


def result_message(call: Block, text: str, *, is_error: bool) -> Message:
    """Return what a tool answered as a message of the transcript; only the store gives ids, places and times."""
    name = str(call.get("name", ""))
    content = (text_block(text),)
    return Message("", 0, 0, "toolResult", content, tool_call_id=_id(call), tool_name=name, is_error=is_error)


def fitting(units: Sequence[Unit], room: int) -> list[Unit]:
    """Drop the oldest units until the rest fits into that many tokens, by a rough estimate.

    The newest user message and the last unit always stay, even when they do not fit. What stays begins with a user
    message, where there is one.
    """
    sizes = [sum(map(message_tokens, unit)) for unit in units]
    newest_input = max((n for n, unit in enumerate(units) if unit[0].role == "user"), default=-1)
    total = sum(sizes)
    kept: list[Unit] = []
    for n, unit in enumerate(units):
        must_stay = n in {newest_input, len(units) - 1}
        leads_badly = 0 < n < newest_input and not kept and unit[0].role != "user"
        if must_stay or (total <= room and not leads_badly):
            kept.append(unit)
        else:
            total -= sizes[n]
    return kept


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    return _MESSAGE_TOKENS + sum(map(_block_tokens, message.content))


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each."""
    return -(-len(text) // _CHARS_PER_TOKEN)


def _block_tokens(block: Block) -> int:
    match block.get("type"):
        case "text":
            return text_tokens(str(block.get("text", "")))
        case "toolCall":
            return text_tokens(str(block.get("name", "")) + json.dumps(block.get("arguments")))
        case "image":
            return _IMAGE_TOKENS
        case "thinking":
            return text_tokens(str(block.get("thinking", "")))
        case _:
            return 0
