"""Chat completions: the dialect of OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and many others.

Requests are built and streams are read here; nothing does I/O. The decoder takes what servers really send: tool calls
without index or id, two calls under one index, thinking under two names, usage inside a choice, no `[DONE]`, or a
whole completion though a stream was asked for.
"""

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from core.agents.port import Reply
from core.agents.prompt import prompt_text
from core.agents.wire import (
    Ask,
    BadReply,
    Dialect,
    ReplyDecoder,
    ReplyPart,
    WordsDelta,
    arguments_text,
    called_tools,
    count,
    error_words,
    items,
    read_arguments,
    words,
)
from core.model import json_codec
from core.model.json_codec import mapping
from core.model.messages import Message, Usage

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
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
            }
            for tool in ask.tools
        ]
    if ask.thinking in _EFFORTS:
        body["reasoning_effort"] = ask.thinking
    if ask.model.max_tokens:
        host = urlsplit(ask.model.base_url).hostname or ""
        is_newer = host.endswith("openai.com")  # its newer models refuse the old name, others ignore the new one
        body["max_completion_tokens" if is_newer else "max_tokens"] = ask.model.max_tokens
    return body


def _messages(message: Message, ask: Ask) -> list[dict[str, Any]]:
    match message.role:
        case "user":
            text = prompt_text(message)
            images = [
                {"type": "image_url", "image_url": {"url": f"data:{block.get('mimeType')};base64,{block.get('data')}"}}
                for block in message.content
                if block.get("type") == "image"
            ]
            words_block = [{"type": "text", "text": text}] if text.strip() else []
            return [{"role": "user", "content": [*words_block, *images] if images else text}]
        case "assistant":
            return _assistant(message, ask)
        case "toolResult":
            text = message.text
            if any(block.get("type") == "image" for block in message.content):
                text = f"{text}\n\n[an image, which this model's tools cannot return]".lstrip()
            return [{"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}]
        case "system":
            return []


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


class OpenAIDecoder(ReplyDecoder):
    """Reads one chat completion, streamed or whole."""

    length_reasons = frozenset({"length"})

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[ReplyPart] = []
        self._calls: list[ReplyPart] = []
        self._usage: Usage | None = None

    def feed(self, data: str) -> list[WordsDelta]:
        """Take the data of one event; the last one is no JSON."""
        if data.strip() == "[DONE]":
            self.done = True
            return []
        return super().feed(data)

    def take(self, event: Mapping[str, Any]) -> list[WordsDelta]:
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
            found += self._add(ReplyPart("thinking", extra={_FIELD: name}), words(delta.get(name)))
        content = delta.get("content")
        for part in map(mapping, items(content)):  # as a list of parts, which may be thinking
            if part.get("type") == "thinking":
                thought = "".join(words(mapping(inner).get("text")) for inner in items(part.get("thinking")))
                found += self._add(ReplyPart("thinking"), thought)
            else:
                found += self._add(ReplyPart("text"), words(part.get("text")))
        for text in (words(content), words(delta.get("refusal"))):
            found += self._add(ReplyPart("text"), text)
        return found

    def _add(self, piece: ReplyPart, text: str) -> list[WordsDelta]:
        """Add words to the newest piece, or begin another one of another kind with them."""
        if text and (not self._pieces or self._pieces[-1].kind != piece.kind):
            self._pieces.append(self._counted(piece))
        return self._said(self._pieces[-1], text) if text else []

    def _fragment(self, fragment: Mapping[str, Any], *, whole: int | None) -> None:
        """Add a fragment to the call it belongs to; in a completion that was not streamed each is a call, `whole`."""
        function = mapping(fragment.get("function"))
        index = fragment.get("index") if whole is None else whole
        call_id, name = words(fragment.get("id")), words(function.get("name"))
        call = self._call_of(index if isinstance(index, int) else None, call_id, name)
        call.call_id = call.call_id or self._kept(call_id)
        call.name = call.name or self._kept(name)
        arguments = function.get("arguments")
        text = arguments_text(cast("object", arguments)) if isinstance(arguments, dict) else words(arguments)
        call.words.append(self._kept(text))

    def _call_of(self, index: int | None, call_id: str, name: str) -> ReplyPart:
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
        elif last is not None and name and (name != last.name or _is_complete(last)):
            found = None
        if found is None:
            found = self._counted(ReplyPart("call", index=index))
            self._calls.append(found)
        return found

    def finish(self) -> Reply:
        """Return the whole reply: what was said, then the calls."""
        if self._reason == "error":
            raise BadReply("broke off its reply with an error")
        if self._reason == "content_filter" and not self._pieces and not self._calls:
            raise BadReply("gave no reply: its content filter stopped it")
        return self._finished([*self._pieces, *self._calls], self._usage)


def _is_complete(call: ReplyPart) -> bool:
    """Whether the arguments so far are one whole JSON object; of very long ones nobody looks."""
    if not call.words or not call.words[-1].rstrip().endswith("}"):
        return False
    raw = "".join(call.words)
    return len(raw) <= _MOST_LOOKED_AT and not read_arguments(raw)[1]


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
