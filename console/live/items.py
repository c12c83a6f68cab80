"""A message as the console shows it: cleaned, and cut into the parts that are drawn. The one place where text of a
transcript enters the console's model (architecture#threats)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from console.live.text.clean import clean, clean_line
from core.model.messages import Block, Message

PartKind = Literal["speech", "plain", "thinking", "call", "result", "note", "failure"]
FOLDED_LINES: Final = 12
SPAWN_TOOL: Final = "sessions_spawn"
SUMMARY_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class Part:
    """Something of a message that is drawn in its own way.

    Attributes:
        kind: `speech` is markdown, `plain` is words as they are, `call` a tool call, `result` what it answered,
            `note` a word of the system, `failure` one about a run that ended badly.
        text: The words; of a call a short form of its arguments.
        name: The tool's name, for call and result.
        call_id: Which call, for call and result.
        cut: Characters that were left out at the end.
    """

    kind: PartKind
    text: str
    name: str = ""
    call_id: str = ""
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One row of a transcript.

    Attributes:
        source: Key of the session the message came from, None for a person or the session's own agent.
        via: The tool that brought it, with `source`.
        model: Ref of the model that wrote it.
        stop_reason: How a cut short reply ended: `aborted`, `error`, `length`; empty when it ended by itself.
        last: The last message of a run.
        failed: A tool that answered with an error.
        weight: Bytes it takes in memory, about.
    """

    seq: int
    timestamp: int
    role: str
    parts: tuple[Part, ...]
    source: str | None
    via: str
    model: str
    stop_reason: str
    last: bool
    failed: bool
    weight: int

    @property
    def is_result(self) -> bool:
        """Whether it came with a spawn: the result of a sub-agent, or in its own transcript the announce step."""
        return self.via == SPAWN_TOOL

    @property
    def text(self) -> str:
        """The words for copying: what was said or answered, without anything around it."""
        return "\n\n".join(part.text for part in self.parts if part.kind not in {"call", "thinking"})


def read_item(message: Message) -> Item:
    """Return a message, in brief form, as the console shows it."""
    parts = tuple(_parts(message))
    provenance = message.provenance
    return Item(
        seq=message.seq,
        timestamp=message.timestamp,
        role=message.role,
        parts=parts,
        source=provenance.source_session_key or None if provenance else None,
        via=clean_line(provenance.source_tool, 60) if provenance else "",
        model=clean_line(message.model or "", 80),
        stop_reason="" if message.stop_reason in {None, "stop", "toolUse"} else clean_line(message.stop_reason or ""),
        last=message.stop_reason not in {None, "toolUse"},
        failed=message.is_error,
        weight=400 + sum(len(part.text) for part in parts),
    )


def call_summary(arguments: object) -> str:
    """Return the arguments of a tool call in a few words: the values, names only where there are several."""
    if not isinstance(arguments, dict):
        return clean_line(str(arguments), SUMMARY_CHARS)
    items = list(cast("dict[str, Any]", arguments).items())
    if len(items) == 1:
        return clean_line(_value(items[0][1]), SUMMARY_CHARS)
    return clean_line(" · ".join(f"{name} {_value(value)}" for name, value in items), SUMMARY_CHARS)


def _parts(message: Message) -> Iterator[Part]:
    if message.role == "toolResult":
        text = "\n".join(str(block.get("text", "")) for block in message.content if block.get("type") == "text")
        cut = sum(int(block.get("cut", 0)) for block in message.content)
        yield Part("result", clean(text), clean_line(message.tool_name or "tool", 80), message.tool_call_id or "", cut)
        return
    yield from filter(None, (_part(message, block) for block in message.content))


def _part(message: Message, block: Block) -> Part | None:
    kind, cut = block.get("type"), int(block.get("cut", 0))
    if kind == "text":
        text = clean(str(block.get("text", "")))
        if message.role == "system":
            return Part("failure" if message.stop_reason else "note", text)
        speech = message.role == "assistant" or message.provenance is not None
        return Part("speech" if speech else "plain", text, cut=cut) if text.strip() else None
    if kind == "thinking":
        return Part("thinking", clean(str(block.get("thinking", ""))), cut=cut)
    if kind == "toolCall":
        name = clean_line(str(block.get("name", "tool")), 80)
        return Part("call", call_summary(block.get("arguments", {})), name, str(block.get("id", "")))
    if kind == "image":
        return Part("note", f"[image {clean_line(str(block.get('mimeType', '')), 40)}]")
    return Part("note", f"[{clean_line(str(kind), 40)}]")


def _value(value: object) -> str:
    if isinstance(value, str):
        return value if " " not in value else f'"{value}"'
    return json.dumps(value, ensure_ascii=False)
