"""Chat completions: the dialect of OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and many others.

Requests are built and streams are read here; nothing does I/O. The decoder takes what servers really send: tool calls
without index or id, two calls under one index, thinking under two names, usage inside a choice, no `[DONE]`, or a
whole completion though a stream was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from core.agents.port import Reply, TextDelta, ThinkingDelta
from core.agents.prompt import prompt_text
from core.agents.wire import (
    Ask,
    BadReply,
    Dialect,
    KeptBlock,
    RawCall,
    WordsDelta,
    arguments_text,
    call_blocks,
    called_tools,
    count,
    error_words,
    items,
    load,
    mapping,
    read_arguments,
    words,
)
from core.config.settings import ModelSettings
from core.model import json_codec
from core.model.json_codec import encodable
from core.model.messages import Block, Message, Usage, text_block, thinking_block

_EFFORTS: Final = frozenset({"minimal", "low", "medium", "high"})
_THINKING_FIELDS: Final = ("reasoning_content", "reasoning")
_MOST_LOOKED_AT: Final = 64 * 1024
_FIELD: Final = "field"
"""Of a `thinking` block: under which name it came, and goes back to the model that wrote it."""


def headers(key: str) -> dict[str, str]:
    """Return the headers that carry the key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def request_body(ask: Ask) -> dict[str, Any]:
    """Return the JSON body that asks for a streamed reply."""
    messages: list[dict[str, Any]] = []
    if ask.system.strip():
        messages.append({"role": "system", "content": ask.system})
    for message in ask.messages:
        messages.extend(_messages(message, ask))
    body: dict[str, Any] = {
        "model": ask.model.model_id,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if ask.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in ask.tools
        ]
    if ask.thinking in _EFFORTS:
        body["reasoning_effort"] = ask.thinking
    if ask.model.max_tokens:
        body[_limit_name(ask.model)] = ask.model.max_tokens
    return body


def _limit_name(model: ModelSettings) -> str:
    """Return the name of the token limit: OpenAI's newer models refuse the old one, others ignore the new one."""
    host = urlsplit(model.base_url).hostname or ""
    return "max_completion_tokens" if host.endswith("openai.com") else "max_tokens"


def _messages(message: Message, ask: Ask) -> list[dict[str, Any]]:
    match message.role:
        case "user":
            return [{"role": "user", "content": _user_content(message)}]
        case "assistant":
            return _assistant(message, ask)
        case "toolResult":
            text = message.text
            if any(block.get("type") == "image" for block in message.content):
                text = f"{text}\n\n[an image, which this model's tools cannot return]".lstrip()
            return [{"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}]
        case "system":
            return []


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    text = prompt_text(message)
    images: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:{block.get('mimeType')};base64,{block.get('data')}"}}
        for block in message.content
        if block.get("type") == "image"
    ]
    if not images:
        return text
    return [{"type": "text", "text": text}, *images] if text.strip() else images


def _assistant(message: Message, ask: Ask) -> list[dict[str, Any]]:
    calls = called_tools(message.content)
    if not calls:
        return [{"role": "assistant", "content": message.text}] if message.text.strip() else []
    out: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    out["tool_calls"] = [
        {
            "id": str(call.get("id", "")),
            "type": "function",
            "function": {
                "name": str(call.get("name", "")),
                "arguments": json_codec.encode(call.get("arguments") or {}),
            },
        }
        for call in calls
    ]
    if ask.wrote(message):  # some providers refuse a call that comes back without the thinking that led to it
        for block in message.content:
            name = words(block.get(_FIELD))
            if block.get("type") == "thinking" and name in _THINKING_FIELDS:
                out[name] = words(out.get(name)) + words(block.get("thinking"))
    return [out]


@dataclass(slots=True)
class _Piece:
    """Words of one kind in a row; `source` is the field that thinking came in."""

    kind: Literal["text", "thinking"]
    source: str = ""
    parts: list[str] = field(default_factory=list[str])

    def block(self) -> Block:
        text = encodable("".join(self.parts))
        if self.kind == "text":
            return text_block(text)
        return {**thinking_block(text), _FIELD: self.source} if self.source else thinking_block(text)


@dataclass(slots=True)
class _Call:
    """A tool call as it arrives."""

    index: int | None
    call_id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list[str])

    def raw(self) -> RawCall:
        return RawCall(self.call_id, self.name, "".join(self.fragments))

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are one whole JSON object; of very long ones nobody looks."""
        if not self.fragments or not self.fragments[-1].rstrip().endswith("}"):
            return False
        raw = "".join(self.fragments)
        return len(raw) <= _MOST_LOOKED_AT and not read_arguments(raw)[1]


class OpenAIDecoder:
    """Reads one chat completion, streamed or whole."""

    def __init__(self) -> None:
        self.done = False
        self._pieces: list[_Piece] = []
        self._calls: list[_Call] = []
        self._usage: Usage | None = None
        self._reason = ""
        self._kept = KeptBlock()

    @property
    def size(self) -> int:
        """Characters that are kept so far."""
        return self._kept.size

    def feed(self, data: str) -> list[WordsDelta]:
        """Take the data of one event, or a whole completion, and return the new words in it.

        Raises:
            BadReply: It is an error of the provider, or no JSON object.
        """
        if not data.strip():
            return []
        if data.strip() == "[DONE]":
            self.done = True
            return []
        return self.take(load(data))

    def take(self, event: Mapping[str, Any]) -> list[WordsDelta]:
        """Take an event whose data was read as JSON already; see `feed`."""
        _raise_error(event)
        self._usage = _read_usage(event.get("usage")) or self._usage
        deltas: list[WordsDelta] = []
        for choice in map(mapping, items(event.get("choices"))):
            if count(choice.get("index")) == 0:
                deltas.extend(self._choice(choice))
        return deltas

    def _choice(self, choice: Mapping[str, Any]) -> list[WordsDelta]:
        if "message" in choice:
            self.done = True
        self._usage = _read_usage(choice.get("usage")) or self._usage
        self._reason = words(choice.get("finish_reason")) or self._reason
        delta = mapping(choice.get("delta") or choice.get("message"))
        for n, fragment in enumerate(map(mapping, items(delta.get("tool_calls")))):
            self._fragment(fragment, whole=n if "message" in choice else None)
        return self._words(delta)

    def _words(self, delta: Mapping[str, Any]) -> list[WordsDelta]:
        found: list[WordsDelta] = []
        name = next((name for name in _THINKING_FIELDS if words(delta.get(name))), "")
        if name:
            found.append(self._add(_Piece("thinking", name), words(delta.get(name))))
        content = delta.get("content")
        for part in map(mapping, items(content)):  # as a list of parts, which may be thinking
            if part.get("type") == "thinking":
                thought = "".join(words(mapping(inner).get("text")) for inner in items(part.get("thinking")))
                found.append(self._add(_Piece("thinking"), thought))
            else:
                found.append(self._add(_Piece("text"), words(part.get("text"))))
        found.extend(self._add(_Piece("text"), text) for text in (words(content), words(delta.get("refusal"))))
        return [delta for delta in found if delta.text]

    def _add(self, piece: _Piece, text: str) -> WordsDelta:
        if text:
            if not self._pieces or self._pieces[-1].kind != piece.kind:
                self._kept.part()
                self._pieces.append(piece)
            self._pieces[-1].parts.append(self._kept.words(text))
        return TextDelta(encodable(text)) if piece.kind == "text" else ThinkingDelta(encodable(text))

    def _fragment(self, fragment: Mapping[str, Any], *, whole: int | None) -> None:
        """Add a fragment to the call it belongs to; in a completion that was not streamed each is a call, `whole`."""
        function = mapping(fragment.get("function"))
        index = fragment.get("index") if whole is None else whole
        call_id, name = words(fragment.get("id")), words(function.get("name"))
        call = self._call_of(index if isinstance(index, int) else None, call_id, name)
        call.call_id = call.call_id or self._kept.arguments(call_id)
        call.name = call.name or self._kept.arguments(name)
        arguments = function.get("arguments")
        text = arguments_text(cast("object", arguments)) if isinstance(arguments, dict) else words(arguments)
        call.fragments.append(self._kept.arguments(text))

    def _call_of(self, index: int | None, call_id: str, name: str) -> _Call:
        """Find the call that a fragment continues, or begin a new one.

        The index decides, unless a fragment with another id and a name shows that it is used for two calls; without an
        index the id does; without either a name begins a call, unless the one before is still incomplete.
        """
        last = self._calls[-1] if self._calls else None
        found = last
        if index is not None:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
            if found and found.call_id and name and call_id not in {"", found.call_id}:
                found = None
        elif call_id:
            found = next((call for call in self._calls if call.call_id == call_id), None)
        elif last is not None and name and (name != last.name or last.complete):
            found = None
        if found is None:
            found = _Call(index)
            self._kept.part()
            self._calls.append(found)
        return found

    def finish(self) -> Reply:
        """Return the whole reply once the stream has ended.

        Raises:
            BadReply: The stream ended before the reply did, or held none.
        """
        if not self._reason and not self._pieces and not self._calls:
            raise BadReply("answered without any reply")
        if not self._reason and not self.done:
            raise BadReply("broke off in the middle of its reply")
        if self._reason == "error":
            raise BadReply("broke off its reply with an error")
        if self._reason == "content_filter" and not self._pieces and not self._calls:
            raise BadReply("gave no reply: its content filter stopped it")
        blocks = [piece.block() for piece in self._pieces] + call_blocks(call.raw() for call in self._calls)
        stop = "length" if self._reason == "length" else "toolUse" if self._calls else "stop"
        return Reply(tuple(blocks), self._usage, stop_reason=stop)


def _raise_error(chunk: Mapping[str, Any]) -> None:
    error = chunk.get("error")
    if not error and chunk.get("object") != "error":
        return
    code = mapping(error).get("code")
    passing = isinstance(code, int) and (code == 429 or code >= 500)
    raise BadReply(f"failed: {error_words(chunk) or 'the provider reported an error'}", passing=passing)


def _read_usage(value: object) -> Usage | None:
    """Read the usage of a completion: cached tokens are part of its prompt tokens, but not of our `input`."""
    data = mapping(value)
    if not data:
        return None
    details = mapping(data.get("prompt_tokens_details"))
    prompt = count(data.get("prompt_tokens"))
    cached = min(prompt, count(details.get("cached_tokens")) or count(data.get("prompt_cache_hit_tokens")))
    written = min(prompt - cached, count(details.get("cache_write_tokens")))
    return Usage(prompt - cached - written, count(data.get("completion_tokens")), cached, written)


OPENAI: Final = Dialect("/chat/completions", "/models", headers, request_body, OpenAIDecoder)
