"""Entries of an OpenClaw transcript as messages of ours.

An entry is `{type, id, parentId, timestamp, …}`; the old and the new generation agree on it. Messages keep their id,
role, blocks and time. What the operator would miss becomes a system note; the rest is counted.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from core.imports.report import Notes
from core.model.json_codec import mapping
from core.model.messages import (
    INTER_SESSION,
    MAX_INT,
    Block,
    Message,
    Provenance,
    Role,
    Usage,
    read_content,
    text_block,
)
from core.model.wrappers import unwrapped

Entry = Mapping[str, Any]
_NAMESPACE: Final = uuid.UUID("6f0c3a5e-3a0a-5b0e-9d6c-6b1f0f2b7a51")
_SILENT: Final = frozenset({"model_change", "thinking_level_change", "label", "session_info", "leaf", "session"})
_ROLES: Final = frozenset({"user", "assistant", "toolResult", "system"})
INJECTED: Final = "gateway-injected"
"""The model of what a gateway wrote into a transcript by itself."""
PROMPT_ERROR: Final = "openclaw:prompt-error"


@dataclass(frozen=True, slots=True)
class Cut:
    """A reset: what follows the entry that says so is a new transcript, begun `at` ms since the Unix epoch."""

    entry_id: str
    at: int


def derived_id(*parts: str) -> str:
    """Return the id, always the same, of something that has none of its own."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(parts)))


def items(entries: Iterator[Entry], transcript_id: str, notes: Notes) -> Iterator[Message | Cut]:
    """Turn the entries of an active branch into messages (their `seq` is 0) and cuts, in order.

    Args:
        transcript_id: For ids of entries that have none, and for the report.
        notes: Gets what was left out.
    """
    latest = 0
    for number, entry in enumerate(entries):
        at = milliseconds(entry.get("timestamp")) or latest
        entry_id = _text(entry.get("id")) or derived_id(transcript_id, str(number))
        kind = str(entry.get("type", "message" if "message" in entry else ""))
        if kind == "reset":
            latest = at
            yield Cut(entry_id, at)
            continue
        message = _message(entry, entry_id, at) if kind == "message" else _note(kind, entry, entry_id, at)
        if message is None:
            if kind not in _SILENT:
                words = f"entries of type {kind}" if kind != "custom" else "entries that only a program reads"
                example = f"{entry.get('customType') or kind} in {transcript_id}"
                notes.add(f"{words}: they say nothing to an operator", example)
            continue
        latest = message.timestamp
        yield message


def milliseconds(value: object) -> int:
    """Read a time as ms since the Unix epoch: a number of ms, or ISO 8601; 0 for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if 0 < value <= MAX_INT else 0
    if isinstance(value, str):
        try:
            return int(datetime.fromisoformat(value).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            return 0
    return 0


def _message(entry: Entry, entry_id: str, at: int) -> Message | None:
    said = mapping(entry.get("message"))
    role = said.get("role")
    at = milliseconds(said.get("timestamp")) or at
    if role == "bashExecution":
        return _system(entry_id, at, f"$ {said.get('command', '')}\n{said.get('output', '')}")
    if role in {"custom", "hookMessage"}:
        return _shown(said, entry_id, at)
    if role not in _ROLES:
        return None
    found = Provenance.read(mapping(said.get("provenance")))
    provenance = found if found.kind == INTER_SESSION else None
    blocks = read_content(said.get("content") if said.get("content") is not None else said.get("text"))
    content = tuple(_block(block, strip=role == "user", inter_session=provenance is not None) for block in blocks)
    error = _text(said.get("errorMessage"))
    if role == "assistant" and error and not any(block.get("type") != "text" or block.get("text") for block in content):
        return _system(entry_id, at, f"the run failed: {error}", "error")
    injected = said.get("model") == INJECTED
    usage = said.get("usage")
    return Message(
        entry_id,
        0,
        at,
        cast("Role", role),
        content,
        provenance,
        Usage.read(cast("Mapping[str, Any]", usage)) if isinstance(usage, Mapping) and not injected else None,
        None if injected else model_ref(said.get("provider"), said.get("model")),
        "aborted" if mapping(said.get("openclawAbort")).get("aborted") else _text(said.get("stopReason")),
        _text(said.get("toolCallId")),
        _text(said.get("toolName")),
        bool(said.get("isError", False)),
    )


def model_ref(provider: object, model: object) -> str | None:
    """Return a model as `<provider>/<model>`, None when it is not known."""
    if not isinstance(model, str) or not model:
        return None
    return f"{provider}/{model}" if isinstance(provider, str) and provider else model


def _note(kind: str, entry: Entry, entry_id: str, at: int) -> Message | None:
    """Return what an entry that is no message says to the operator."""
    summary = _text(entry.get("summary")) or ""
    if kind == "compaction":
        return _system(entry_id, at, f"the transcript was compacted here; its summary:\n\n{summary}".rstrip(": \n"))
    if kind == "branch_summary":
        return _system(entry_id, at, f"another branch was left here; its summary:\n\n{summary}")
    if kind == "custom_message":
        return _shown(entry, entry_id, at)
    data = mapping(entry.get("data"))
    if kind == "custom" and entry.get("customType") == PROMPT_ERROR and data.get("error"):
        aborted = "abort" in str(data["error"]).lower()
        words = "the run was aborted" if aborted else f"the run failed: {data['error']}"
        return _system(entry_id, at, words, "aborted" if aborted else "error")
    return None


def _shown(said: Mapping[str, Any], entry_id: str, at: int) -> Message | None:
    """Return a message of a plugin, None when it is not meant to be shown."""
    content = read_content(said.get("content"))
    return Message(entry_id, 0, at, "system", content) if content and said.get("display") is not False else None


def _system(entry_id: str, at: int, words: str, stop_reason: str | None = None) -> Message:
    return Message(entry_id, 0, at, "system", (text_block(words),), stop_reason=stop_reason)


def _block(block: Block, *, strip: bool, inter_session: bool) -> Block:
    """Return a block in the form of H2: without signatures, with the older names of a tool call put right."""
    match block:
        case {"type": "text", "text": str() as text}:
            return text_block(unwrapped(text, inter_session=inter_session) if strip else text)
        case {"type": "thinking", "thinking": str() as thinking}:
            return {"type": "thinking", "thinking": thinking}
        case {"type": "toolCall" | "toolUse" | "tool_use", "name": str() as name}:
            arguments = mapping(block.get("arguments", block.get("input")))
            return {"type": "toolCall", "id": str(block.get("id", "")), "name": name, "arguments": dict(arguments)}
        case _:
            return block


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
