"""Messages in the raw transcript format: the same flat object on every wire and in every tool result (H2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

from core.model import json_codec
from core.model.errors import Invalid, Unavailable

Role = Literal["user", "assistant", "toolResult", "system"]
Block = dict[str, Any]
"""One content block, as on the wire: `text {text}`, `thinking {thinking}`, `toolCall {id, name, arguments}` or
`image {mimeType, data}`, told apart by `type`."""

INTER_SESSION: Final = "inter_session"
BRIEF_TOOL_CHARS: Final = 8_000
BRIEF_SPEECH_CHARS: Final = 131_072
MAX_INT: Final = 2**53


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a message came from when it was not typed by a person (S8)."""

    source_session_key: str
    source_channel: str
    source_tool: str
    kind: str = INTER_SESSION

    def as_json(self) -> dict[str, str]:
        """Return the wire form."""
        return {
            "kind": self.kind,
            "sourceSessionKey": self.source_session_key,
            "sourceChannel": self.source_channel,
            "sourceTool": self.source_tool,
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Provenance":
        """Read the wire form; absent fields become empty, so that anything a gateway sends can be shown."""
        return cls(
            source_session_key=str(data.get("sourceSessionKey", "")),
            source_channel=str(data.get("sourceChannel", "")),
            source_tool=str(data.get("sourceTool", "")),
            kind=str(data.get("kind", "")),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What one reply cost: tokens, and US dollars where the model's prices are configured.

    Attributes:
        input: Tokens read that no cache served.
        output: Tokens written, thinking included.
        cache_read: Tokens read from the provider's cache.
        cache_write: Tokens written to the provider's cache.
        cost_usd: US dollars, None when no price is known.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None

    @property
    def context(self) -> int:
        """Tokens the conversation filled after this reply."""
        return self.input + self.cache_read + self.cache_write + self.output

    def plus(self, other: "Usage") -> "Usage":
        """Add two usages; an unknown cost beside a known one counts as nothing."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            sum(known) if known else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the wire form."""
        data: dict[str, Any] = {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "totalTokens": self.context,
        }
        if self.cost_usd is not None:
            data["cost"] = {"total": self.cost_usd}
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Usage":
        """Read the wire form; what is missing or no number counts as nothing."""
        cost = data.get("cost")
        total = cast("Mapping[str, Any]", cost).get("total") if isinstance(cost, Mapping) else cost
        return cls(
            _int(data.get("input")),
            _int(data.get("output")),
            _int(data.get("cacheRead")),
            _int(data.get("cacheWrite")),
            float(total) if isinstance(total, int | float) and abs(total) <= MAX_INT else None,
        )


class Draft(NamedTuple):
    """A message without id, place and time, which the store gives: what `Message` has between these and the run."""

    role: Role
    content: tuple[Block, ...]
    provenance: Provenance | None = None
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False


class Message(NamedTuple):
    """One row of a transcript.

    Attributes:
        id: uuid4.
        seq: Place in its session key's sequence, dense from 1 over all transcripts of the key.
        timestamp: ms since the Unix epoch.
        stop_reason: Why a reply ended: `stop`, `toolUse`, `length`, `aborted`, `error`.
        run_id: The run that it asked for or that wrote it, where that is known; no part of the wire form (H2).
    """

    id: str
    seq: int
    timestamp: int
    role: Role
    content: tuple[Block, ...]
    provenance: Provenance | None = None
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    run_id: str | None = None

    @property
    def text(self) -> str:
        """The words of the message: its text blocks, joined by an empty line."""
        return text_of(self.content)

    def as_json(self) -> dict[str, Any]:
        """Return the wire form (H2); absent values are left out."""
        data: dict[str, Any] = {
            "id": self.id,
            "seq": self.seq,
            "timestamp": self.timestamp,
            "role": self.role,
            "content": list(self.content),
        }
        if self.provenance is not None:
            data["provenance"] = self.provenance.as_json()
        if self.usage is not None:
            data["usage"] = self.usage.as_json()
        optional = (
            ("model", self.model),
            ("stopReason", self.stop_reason),
            ("toolCallId", self.tool_call_id),
            ("toolName", self.tool_name),
        )
        data.update((name, value) for name, value in optional if value is not None)
        if self.role == "toolResult":
            data["isError"] = self.is_error
        return data

    def marked(self) -> dict[str, Any]:
        """Return the wire form with the run, for ourselves at the other end."""
        return self.as_json() | ({"runId": self.run_id} if self.run_id is not None else {})

    def encode(self) -> str:
        """Return the wire form as JSON text; `Invalid` where it holds a number that JSON has not, or is too deep."""
        return json_codec.encode(self.as_json())

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Message":
        """Read the wire form, forgiving what other gateways leave out or spell otherwise."""
        provenance, usage = data.get("provenance"), data.get("usage")
        return cls(
            id=str(data.get("id", "")),
            seq=_int(data.get("seq")),
            timestamp=_int(data.get("timestamp")),
            role=_role(data.get("role")),
            content=read_content(data.get("content")),
            provenance=Provenance.read(cast("Mapping[str, Any]", provenance))
            if isinstance(provenance, Mapping)
            else None,
            usage=Usage.read(cast("Mapping[str, Any]", usage)) if isinstance(usage, Mapping) else None,
            model=_text(data.get("model")),
            stop_reason=_text(data.get("stopReason")),
            tool_call_id=_text(data.get("toolCallId")),
            tool_name=_text(data.get("toolName")),
            is_error=bool(data.get("isError", False)),
            run_id=_text(data.get("runId")),
        )

    def storable(self) -> tuple["Message", str]:
        """Return the message with its JSON text, both fit for UTF-8: halves of surrogate pairs become U+FFFD.

        `Invalid` when it holds a number that JSON has not, or is too deep.
        """
        body = json_codec.encode_halves(self.as_json())
        json_codec.check_depth(list(self.content), body)
        repaired = json_codec.encodable(body)
        return (self, body) if repaired is body else (Message.decode(repaired, self.run_id), repaired)

    @classmethod
    def decode(cls, text: str, run_id: str | None = None) -> "Message":
        """Read a stored row, `Unavailable` when damaged; numbers of older versions that JSON has not become null."""
        try:
            data = json_codec.heal(text)
        except Invalid:
            data = None
        if not isinstance(data, dict):
            raise Unavailable("a stored message is damaged: restore a backup, or export what can still be read")
        return cls.read(cast("dict[str, Any]", data))._replace(run_id=run_id)


def text_block(text: str) -> Block:
    """Return a block of plain words."""
    return {"type": "text", "text": text}


def thinking_block(text: str) -> Block:
    """Return a block of the model's thinking."""
    return {"type": "thinking", "thinking": text}


def image_block(mime_type: str, data: str) -> Block:
    """Return a block with a picture, its bytes in base64."""
    return {"type": "image", "mimeType": mime_type, "data": data}


def tool_call_block(call_id: str, name: str, arguments: Mapping[str, Any]) -> Block:
    """Return a block that asks for a tool."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": dict(arguments)}


def text_of(content: Iterable[Block]) -> str:
    """Return the words of these blocks: text only, joined by an empty line."""
    return "\n\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def user_draft(text: str, provenance: Provenance | None = None) -> Draft:
    """Return a user message made of plain words."""
    return Draft("user", (text_block(text),), provenance=provenance)


def note_draft(text: str, stop_reason: str | None = None) -> Draft:
    """Return a system note: shown to people, never sent to a model; with the way a run ended, where it tells of one."""
    return Draft("system", (text_block(text),), stop_reason=stop_reason)


def unanswered_calls(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Return id and name of the tool calls that no tool result answers, in order."""
    calls: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if block.get("type") == "toolCall":
                calls[str(block.get("id", ""))] = str(block.get("name", ""))
        if message.tool_call_id is not None:
            calls.pop(message.tool_call_id, None)
    return list(calls.items())


def brief(message: Message) -> Message:
    """Return the message as a screen needs it: long tool results, arguments and images cut, each marked `cut`.

    `cut` counts the characters left out; what people and agents said stays whole up to 131,072 characters.
    """
    limit = BRIEF_TOOL_CHARS if message.role == "toolResult" else BRIEF_SPEECH_CHARS
    content = tuple(_brief_block(block, limit) for block in message.content)
    same = all(new is old for new, old in zip(content, message.content, strict=True))
    return message if same else message._replace(content=content)


def _brief_block(block: Block, limit: int) -> Block:
    text, data, arguments = block.get("text"), block.get("data"), block.get("arguments")
    if isinstance(text, str) and len(text) > limit:
        return {**block, "text": text[:limit], "cut": len(text) - limit}
    if isinstance(data, str) and len(data) > BRIEF_TOOL_CHARS:
        return {**block, "data": "", "cut": len(data)}
    if isinstance(arguments, dict):
        items = cast("dict[str, Any]", arguments).items()
        long = sum(len(value) - BRIEF_TOOL_CHARS for _, value in items if _is_long(value))
        if long:
            cut = {name: value[:BRIEF_TOOL_CHARS] if _is_long(value) else value for name, value in items}
            return {**block, "arguments": cut, "cut": long}
    return block


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > BRIEF_TOOL_CHARS


def read_content(content: object) -> tuple[Block, ...]:
    """Read the content of a message: a plain string (as some gateways send) or a list of blocks."""
    if isinstance(content, str):
        return (text_block(content),)
    if isinstance(content, list):
        return tuple(cast("Block", block) for block in cast("list[object]", content) if isinstance(block, dict))
    return ()


def _role(value: object) -> Role:
    known = isinstance(value, str) and value in {"assistant", "toolResult", "system"}
    return cast("Role", value) if known else "user"


def _int(value: object) -> int:
    """Read a whole number that fits the store; a gateway or an endpoint may send anything."""
    if not isinstance(value, int | float) or not -MAX_INT <= value <= MAX_INT:
        return 0
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
