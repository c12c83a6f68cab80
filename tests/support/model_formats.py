"""What a scripted reply is made of, and how both formats put it on the wire."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.model.messages import Usage

USAGE: Final = Usage(input=100, output=20, cache_read=30)


@dataclass(frozen=True, slots=True)
class Say:
    """One delta of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """One delta of thinking; with a signature (Anthropic only) it ends its block."""

    text: str
    signature: str = ""


@dataclass(frozen=True, slots=True)
class CallTool:
    """A tool call, its arguments in that many fragments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    call_id: str = "call_1"
    fragments: int = 2


@dataclass(frozen=True, slots=True)
class Data:
    """One event with this data, whatever it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the stream, not framed as an event."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing more until the event is set."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more until the client has gone."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is cut here."""


Step = Say | Think | CallTool | Data | Raw | Wait | Hang | Drop


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed reply.

    Attributes:
        stop: The format's own finish reason, empty for the usual one.
        ended: Whether finish reason, usage and end marker follow the steps.
    """

    steps: tuple[Step, ...]
    usage: Usage | None = USAGE
    stop: str = ""
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Whole:
    """A reply as one JSON document."""

    steps: tuple[Step, ...]
    usage: Usage | None = USAGE
    stop: str = ""


Piece = bytes | Wait | Hang | Drop


def openai_stream(answer: Stream) -> Iterator[Piece]:
    """Render a reply as the stream of a chat completion."""
    calls = 0
    yield _openai_chunk({"role": "assistant", "content": ""})
    for step in answer.steps:
        match step:
            case Say(text):
                yield _openai_chunk({"content": text})
            case Think(text):
                yield _openai_chunk({"reasoning_content": text})
            case CallTool(name, arguments, call_id, fragments):
                head = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
                yield _openai_chunk({"tool_calls": [{"index": calls, **head}]})
                for part in _cut(json.dumps(arguments), fragments):
                    yield _openai_chunk({"tool_calls": [{"index": calls, "function": {"arguments": part}}]})
                calls += 1
            case Data(text):
                yield _event(text)
            case Raw(content):
                yield content
            case _:
                yield step
    if answer.ended:
        yield _openai_chunk({}, answer.stop or ("tool_calls" if calls else "stop"))
        if answer.usage is not None:
            yield _event(json.dumps({"object": _CHUNK, "choices": [], "usage": _openai_usage(answer.usage)}))
        yield _event("[DONE]")


_CHUNK: Final = "chat.completion.chunk"


def _openai_chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(json.dumps({"id": "chatcmpl-1", "object": _CHUNK, "model": "test-model", "choices": [choice]}))


def openai_whole(answer: Whole) -> dict[str, Any]:
    calls = [
        {
            "id": step.call_id,
            "type": "function",
            "function": {"name": step.name, "arguments": json.dumps(step.arguments)},
        }
        for step in answer.steps
        if isinstance(step, CallTool)
    ]
    text = "".join(step.text for step in answer.steps if isinstance(step, Say))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    finish = answer.stop or ("tool_calls" if calls else "stop")
    completion: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    if answer.usage is not None:
        completion["usage"] = _openai_usage(answer.usage)
    return completion


def _openai_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input + usage.cache_read,
        "completion_tokens": usage.output,
        "total_tokens": usage.context,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def anthropic_stream(answer: Stream) -> Iterator[Piece]:
    """Render a reply as the stream of a message."""
    counts = _anthropic_usage(answer.usage)
    yield _typed({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "usage": counts}})
    yield _typed({"type": "ping"})
    index, kind = -1, ""
    for step in answer.steps:
        if isinstance(step, Wait | Hang | Drop):
            yield step
            continue
        if isinstance(step, Data | Raw):
            yield _event(step.text) if isinstance(step, Data) else step.content
            continue
        block, deltas = _anthropic_block(step)
        if block["type"] != kind or kind == "tool_use":
            if kind:
                yield _typed({"type": "content_block_stop", "index": index})
            index, kind = index + 1, block["type"]
            yield _typed({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            yield _typed({"type": "content_block_delta", "index": index, "delta": delta})
        if isinstance(step, Think) and step.signature:
            yield _typed({"type": "content_block_stop", "index": index})
            kind = ""
    if kind:
        yield _typed({"type": "content_block_stop", "index": index})
    if answer.ended:
        called = any(isinstance(step, CallTool) for step in answer.steps)
        stop = {"stop_reason": answer.stop or ("tool_use" if called else "end_turn"), "stop_sequence": None}
        output = {"output_tokens": answer.usage.output} if answer.usage else {}
        yield _typed({"type": "message_delta", "delta": stop, "usage": output})
        yield _typed({"type": "message_stop"})


def _anthropic_block(step: Say | Think | CallTool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how the block of a step begins and the deltas that fill it."""
    match step:
        case Say(text):
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]
        case Think(text, signature):
            deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": text}]
            if signature:
                deltas.append({"type": "signature_delta", "signature": signature})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case CallTool(name, arguments, call_id, fragments):
            parts = [
                {"type": "input_json_delta", "partial_json": part} for part in _cut(json.dumps(arguments), fragments)
            ]
            return {"type": "tool_use", "id": call_id, "name": name, "input": {}}, parts


def anthropic_whole(answer: Whole) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for step in answer.steps:
        match step:
            case Say(text):
                content.append({"type": "text", "text": text})
            case Think(text, signature):
                content.append({"type": "thinking", "thinking": text, "signature": signature})
            case CallTool(name, arguments, call_id):
                content.append({"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)})
            case _:
                pass
    called = any(block["type"] == "tool_use" for block in content)
    stop = answer.stop or ("tool_use" if called else "end_turn")
    usage = _anthropic_usage(answer.usage)
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage}


def _anthropic_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def _typed(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\n".encode() + _event(json.dumps(event))


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def _cut(text: str, parts: int) -> list[str]:
    size = max(1, -(-len(text) // parts))
    return [text[n : n + size] for n in range(0, len(text), size)]
