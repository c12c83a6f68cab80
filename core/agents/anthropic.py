"""Anthropic's messages API, and endpoints that speak it.

Requests are built and streams are read here; nothing does I/O. Thinking of the turn under way goes back to the model
with its signature, as the API wants it beside the results of tools; thinking of earlier turns does not.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

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
    count,
    error_words,
    items,
    words,
)
from core.config.settings import ModelSettings
from core.model.json_codec import mapping
from core.model.messages import Block, Message, Usage

VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 8192
"""Tokens of one reply beside its thinking, when the configuration does not say."""

_BUDGETS: Final[Mapping[str, int]] = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 20_480}
_EFFORTS: Final[Mapping[str, str]] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
_LEAST_BUDGET: Final = 1024
_ADAPTIVE_SINCE: Final = (4, 6)
_CLAUDE_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_PASSING_ERRORS: Final = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("input_tokens", "prompt_tokens"),
    "output": ("output_tokens", "completion_tokens"),
    "cache_read": ("cache_read_input_tokens",),
    "cache_write": ("cache_creation_input_tokens",),
}
"""Names of counts on the wire; the second of a line is of servers that translate from another dialect."""
_SIGNATURE: Final = "signature"
_REDACTED: Final = "redacted"


def headers(key: str) -> dict[str, str]:
    """Return the headers that carry the key and the version of the API."""
    version = {"anthropic-version": VERSION}
    return {**version, "x-api-key": key} if key else version


def request_body(ask: Ask) -> dict[str, Any]:
    """Return the JSON body that asks for a streamed reply."""
    body: dict[str, Any] = {"model": ask.model.model_id, "stream": True, **_limits(ask.model, ask.thinking)}
    if ask.system.strip():
        body["system"] = ask.system
    if ask.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in ask.tools
        ]
    body["messages"] = _messages(ask)
    return body


def _limits(model: ModelSettings, level: str | None) -> dict[str, Any]:
    """Return `max_tokens`, which counts the thinking too, and what asks for thinking."""
    budget = _BUDGETS.get(level or "")
    if budget is None:
        return {"max_tokens": model.max_tokens or DEFAULT_MAX_TOKENS}
    most = model.max_tokens or DEFAULT_MAX_TOKENS + budget
    if _is_adaptive(model.model_id):
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"max_tokens": most, "thinking": thinking, "output_config": {"effort": _EFFORTS[level or ""]}}
    budget = min(budget, most // 2) if model.max_tokens else budget
    if budget < _LEAST_BUDGET:
        return {"max_tokens": most}
    return {"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _is_adaptive(model_id: str) -> bool:
    """Whether the model wants an effort instead of a budget: Claude 4.6 and later; 4.7 refuses a budget."""
    found = _CLAUDE_VERSION.search(model_id)
    if found is None:
        return "claude" in model_id
    return (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE_SINCE


def _messages(ask: Ask) -> list[dict[str, Any]]:
    """Return the conversation: roles in turn, beginning with the user."""
    turn_start = max((n for n, message in enumerate(ask.messages) if message.role == "user"), default=-1)
    merged: list[dict[str, Any]] = []
    for n, message in enumerate(ask.messages):
        role = "assistant" if message.role == "assistant" else "user"
        content = _content(message, own_thinking=n > turn_start and ask.wrote(message))
        if not content:
            continue
        if not merged and role == "assistant":
            merged.append({"role": "user", "content": [{"type": "text", "text": "(conversation so far)"}]})
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"].extend(content)
        else:
            merged.append({"role": role, "content": content})
    return merged


def _content(message: Message, *, own_thinking: bool) -> list[dict[str, Any]]:
    match message.role:
        case "user":
            return [*_text(prompt_text(message)), *_images(message)]
        case "assistant":
            return _assistant(message.content, own_thinking=own_thinking)
        case "toolResult":
            result: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": _safe_id(message.tool_call_id or ""),
                "content": [*_text(message.text), *_images(message)],
            }
            return [{**result, "is_error": True} if message.is_error else result]
        case "system":
            return []


def _assistant(content: Sequence[Block], *, own_thinking: bool) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for block in content:
        match block.get("type"):
            case "text":
                out.extend(_text(words(block.get("text"))))
            case "toolCall":
                name, arguments = words(block.get("name")), dict(mapping(block.get("arguments")))
                call_id = _safe_id(words(block.get("id")))
                out.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
            case "thinking" if own_thinking and block.get(_SIGNATURE):
                thinking, signature = words(block.get("thinking")), words(block[_SIGNATURE])
                out.append({"type": "thinking", "thinking": thinking, "signature": signature})
            case "thinking" if own_thinking and block.get(_REDACTED):
                out.append({"type": "redacted_thinking", "data": words(block[_REDACTED])})
            case _:
                pass
    return out


def _text(text: str) -> list[dict[str, Any]]:
    """Return a text block, none for blank text, which the API refuses."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _images(message: Message) -> list[dict[str, Any]]:
    return [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": words(block.get("mimeType")), "data": words(block.get("data"))},
        }
        for block in message.content
        if block.get("type") == "image"
    ]


def _safe_id(call_id: str) -> str:
    """Return a call's id in the letters the API takes; ids of other providers may hold more."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", call_id)


_KINDS: Final[Mapping[str, Literal["text", "thinking", "redacted", "call"]]] = {
    "text": "text",
    "text_delta": "text",
    "thinking": "thinking",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "redacted_thinking": "redacted",
    "tool_use": "call",
    "input_json_delta": "call",
}


class AnthropicDecoder(ReplyDecoder):
    """Reads one message, streamed or whole."""

    length_reasons = frozenset({"max_tokens", "model_context_window_exceeded"})

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[int, ReplyPart] = {}
        self._usage: dict[str, int] = {}

    def take(self, event: Mapping[str, Any]) -> list[WordsDelta]:
        self._count(event)
        match event.get("type"):
            case "message":
                self.done = True
                self._reason = words(event.get("stop_reason"))
                blocks = enumerate(map(mapping, items(event.get("content"))))
                return [delta for n, block in blocks for delta in self._start(n, block)]
            case "message_start" | "ping":
                pass  # its usage is counted
            case "content_block_start":
                return self._start(self._index(event, new=True), mapping(event.get("content_block")))
            case "content_block_delta":
                return self._delta(self._index(event, new=False), mapping(event.get("delta")))
            case "message_delta":
                self._reason = words(mapping(event.get("delta")).get("stop_reason")) or self._reason
            case "message_stop":
                self.done = True
            case _:
                _raise_error(event)
        return []

    def _count(self, event: Mapping[str, Any]) -> None:
        """Take over counts, wherever an event has them: they are sums so far, and the largest is the last known.

        Some servers count at the beginning and say 0 at the end, others only count at the end, or in words of another
        dialect.
        """
        for holder in (event, mapping(event.get("message")), mapping(event.get("delta"))):
            usage = mapping(holder.get("usage"))
            for name, names in _COUNTS.items():
                told = max(count(usage.get(each)) for each in names)
                if told or any(each in usage for each in names):
                    self._usage[name] = max(self._usage.get(name, 0), told)

    def _index(self, event: Mapping[str, Any], *, new: bool) -> int:
        """Return the place of the block an event is about; without one it is the next or the newest."""
        index = event.get("index")
        return index if isinstance(index, int) else len(self._parts) - (not new)

    def _start(self, index: int, block: Mapping[str, Any]) -> list[WordsDelta]:
        part = self._begin(index, block)
        match part.kind:
            case "call":
                part.call_id = self._kept(words(block.get("id")))
                part.name = self._kept(words(block.get("name")))
                part.given = self._kept(arguments_text(block.get("input") or {}))
            case "redacted":
                part.extra[_REDACTED] = self._kept(words(block.get("data")))
            case _:
                return self._add(part, block)
        return []

    def _delta(self, index: int, delta: Mapping[str, Any]) -> list[WordsDelta]:
        if words(delta.get("type")) not in _KINDS:
            return []
        part = self._parts.get(index) or self._begin(index, delta)
        if part.kind == "call":
            part.words.append(self._kept(words(delta.get("partial_json"))))
            return []
        return self._add(part, delta)

    def _begin(self, index: int, named: Mapping[str, Any]) -> ReplyPart:
        """Begin the part that a block, or a delta of one that never began, belongs to."""
        part = self._parts[index] = self._counted(ReplyPart(_KINDS.get(words(named.get("type")), "other")))
        return part

    def _add(self, part: ReplyPart, more: Mapping[str, Any]) -> list[WordsDelta]:
        """Add what a block or a delta has of words, or of thinking and its signature."""
        if part.kind == "thinking" and (signature := words(more.get("signature"))):
            part.extra[_SIGNATURE] = part.extra.get(_SIGNATURE, "") + self._kept(signature)
        if part.kind not in {"text", "thinking"}:
            return []
        return self._said(part, words(more.get(part.kind)))

    def finish(self) -> Reply:
        """Return the whole reply, in the order of its blocks."""
        parts = [part for part in self._parts.values() if part.kind != "other"]
        if self._reason == "refusal" and not parts:
            raise BadReply("refused to reply")
        is_counted = any(self._usage.values())  # no reply takes no tokens
        return self._finished(parts, Usage(**self._usage) if is_counted else None)


def _raise_error(event: Mapping[str, Any]) -> None:
    error = event.get("error")
    if not error and event.get("type") != "error":
        return
    passing = words(mapping(error).get("type")) in _PASSING_ERRORS
    raise BadReply(f"failed: {error_words(error) or 'the provider reported an error'}", passing=passing)


ANTHROPIC: Final = Dialect("/v1/messages", "/v1/models", headers, request_body, AnthropicDecoder)
