"""What the dialects of model endpoints have in common: one question, one decoder of the answer, and tolerant reading
of what came over the wire."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, cast
from uuid import uuid4

from core.agents.port import AgentFailure, Reply, TextDelta, ThinkingDelta
from core.config.settings import ModelSettings
from core.model import json_codec
from core.model.errors import Invalid
from core.model.json_codec import encodable, mapping
from core.model.messages import Block, Message, Usage, text_block, thinking_block, tool_call_block
from core.model.tools import Tool

WordsDelta = TextDelta | ThinkingDelta
MAX_WORDS: Final = 2_000_000
"""Characters of text and thinking in one reply."""
MAX_ARGUMENTS: Final = 2_000_000
"""Characters of tools' arguments in one reply, as JSON."""
MAX_PARTS: Final = 5_000
OFF_LOOP_CHARS: Final = 256 * 1024
"""JSON that is longer is parsed in a thread."""
_MAX_VALUES: Final = 100_000
"""Of JSON that is so long; even a thread that builds more of them holds up all others."""
_QUOTED: Final = 1_000
BAD_ARGUMENTS: Final = "argumentsText"
"""Field of a `toolCall` block that keeps arguments which are no JSON object, as the model wrote them."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a model.

    Attributes:
        model: With a model id.
        messages: Without system notes; every tool call is directly followed by its results (`window.paired`).
        thinking: Thinking level, None to leave it to the model.
    """

    model: ModelSettings
    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()
    thinking: str | None = None

    def wrote(self, message: Message) -> bool:
        """Whether this very model wrote the message: only then does it get its own thinking back."""
        return message.model == self.model.ref


class BadReply(AgentFailure):
    """The endpoint's answer cannot be used.

    Attributes:
        words: What it did, to follow the model's name in a sentence: `sent an empty reply`. May quote the endpoint.
        passing: It may go well the next time: the provider is overloaded.
    """

    def __init__(self, words: str, *, passing: bool = False) -> None:
        super().__init__(f"the model {words}")
        self.words = words
        self.passing = passing


@dataclass(slots=True)
class ReplyPart:
    """One part of a reply as it arrives.

    Attributes:
        kind: `redacted` is thinking that nobody may read, `other` what we do not know and leave out.
        words: Its text, its thinking, or the JSON of a tool's arguments.
        index: What the endpoint counts it by, None where it does not say.
        call_id: May be empty, or the same for two calls.
        given: Arguments of a tool that the part began with; they count when no others come.
        extra: What its block holds besides: fields that go back to the provider with the thinking.
    """

    kind: Literal["text", "thinking", "redacted", "call", "other"]
    words: list[str] = field(default_factory=list[str])
    index: int | None = None
    call_id: str = ""
    name: str = ""
    given: str = ""
    extra: dict[str, str] = field(default_factory=dict[str, str])

    def block(self) -> Block:
        """Return words or thinking as a block of a message."""
        text = encodable("".join(self.words))
        return text_block(text) if self.kind == "text" else {**thinking_block(text), **self.extra}


class ReplyDecoder(ABC):
    """Reads one answer, streamed or whole; it does no I/O. It counts what it keeps, so that no endpoint can fill the
    memory.

    Attributes:
        done: The endpoint has said that the answer is complete.
        size: Characters that are kept so far.
    """

    length_reasons: ClassVar[frozenset[str]]
    """What the endpoint says when a reply was cut off for its length."""

    def __init__(self) -> None:
        self.done = False
        self.size = 0
        self._reason = ""
        self._word_size = 0
        self._part_count = 0

    def feed(self, data: str) -> list[WordsDelta]:
        """Take the data of one event, or a whole answer that was not streamed, and return the new words in it.

        `BadReply` when it is an error of the provider, or no JSON object.
        """
        return self.take(load(data)) if data.strip() else []

    @abstractmethod
    def take(self, event: Mapping[str, Any]) -> list[WordsDelta]:
        """Take an event whose data was read as JSON already; see `feed`."""

    @abstractmethod
    def finish(self) -> Reply:
        """Return the whole reply once the stream has ended; `BadReply` when it ended before the reply, or held none."""

    def _finished(self, parts: Sequence[ReplyPart], usage: Usage | None) -> Reply:
        if not self._reason and not parts:
            raise BadReply("answered without any reply")
        if not self._reason and not self.done:
            raise BadReply("broke off in the middle of its reply")
        called = call_blocks(part for part in parts if part.kind == "call")
        calls = iter(called)
        blocks = [next(calls) if part.kind == "call" else part.block() for part in parts]
        stop = "length" if self._reason in self.length_reasons else "toolUse" if called else "stop"
        content = [block for block in blocks if block.get("type") != "text" or block.get("text")]
        return Reply(tuple(content), usage, stop_reason=stop)

    def _said(self, part: ReplyPart, text: str) -> list[WordsDelta]:
        """Keep more words of a part, and return them for who reads along; `BadReply` when they are too many."""
        if not text:
            return []
        self._word_size += len(text)
        self.size += len(text)
        if self._word_size > MAX_WORDS:
            raise BadReply(f"sent a reply of more than {MAX_WORDS:,} characters: give it a smaller task")
        part.words.append(text)
        return [TextDelta(encodable(text)) if part.kind == "text" else ThinkingDelta(encodable(text))]

    def _kept(self, text: str) -> str:
        """Count arguments of tools and what else is no words, and return them; `BadReply` when they are too many."""
        self.size += len(text)
        if self.size - self._word_size > MAX_ARGUMENTS:
            raise BadReply(
                f"called tools with more than {MAX_ARGUMENTS:,} characters of arguments: give it a smaller task"
            )
        return text

    def _counted(self, part: ReplyPart) -> ReplyPart:
        """Count a part of the reply, and return it; `BadReply` when there are too many."""
        self._part_count += 1
        if self._part_count > MAX_PARTS:
            raise BadReply(f"sent a reply of more than {MAX_PARTS:,} parts: give it a smaller task")
        return part


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of model endpoint.

    Attributes:
        reply_path: Where to ask for a reply, below the base URL; `models_path` lists the models.
        headers: Gives the headers that carry a key; the key may be empty.
        body: Gives the JSON body of a question.
        decoder: Makes a decoder for one answer.
    """

    reply_path: str
    models_path: str
    headers: Callable[[str], dict[str, str]]
    body: Callable[[Ask], dict[str, Any]]
    decoder: Callable[[], ReplyDecoder]


def load(data: str) -> Mapping[str, Any]:
    """Read one JSON object; of a list, its first; `BadReply` when it is something else."""
    if not _is_sparse(data):
        raise BadReply(f"sent JSON of more than {_MAX_VALUES:,} values in one piece, which no reply needs")
    try:
        value: object = json.loads(data)  # what is stored of it is checked where that is made
    except (ValueError, RecursionError):
        raise BadReply(f"sent something that is not JSON: {data[:_QUOTED]}") from None
    first = next(iter(items(value)), value)
    if not isinstance(first, Mapping):
        raise BadReply(f"sent JSON that is not an object: {data[:_QUOTED]}")
    return cast("Mapping[str, Any]", first)


def _is_sparse(data: str) -> bool:
    """Whether long JSON is long for its texts, and not for the number of its values; commas in texts count too."""
    return len(data) <= OFF_LOOP_CHARS or sum(map(data.count, ",[{")) <= _MAX_VALUES


def items(value: object) -> list[Any]:
    """Return a JSON list, empty when it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def words(value: object) -> str:
    """Return text, empty when it is none."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return a number of tokens, 0 when it is none."""
    return max(0, int(value)) if isinstance(value, int | float) and math.isfinite(value) else 0


def error_words(value: object, depth: int = 4) -> str:
    """Find what a provider says went wrong in any of the usual shapes of an error; empty when there is nothing."""
    if isinstance(value, str) or depth == 0:
        return words(value)
    data = mapping(next(iter(items(value)), value))
    found = (error_words(data.get(name), depth - 1) for name in ("error", "message", "detail", "msg", "type"))
    return next(filter(None, found), "")


def call_blocks(calls: Iterable[ReplyPart]) -> list[Block]:
    """Return finished tool calls, each with an id of its own: some servers send none, or one twice.

    `BadReply` when a call does not name its tool.
    """
    blocks: list[Block] = []
    seen: set[str] = set()
    for call in calls:
        if not call.name:
            raise BadReply("asked for a tool without naming it")
        call_id = call.call_id if call.call_id and call.call_id not in seen else f"call_{uuid4().hex}"
        seen.add(call_id)
        raw = "".join(call.words) or call.given
        arguments, why = read_arguments(raw)
        block = tool_call_block(call_id, call.name, arguments)
        blocks.append({**block, BAD_ARGUMENTS: encodable(raw)} if why else block)
    return blocks


def arguments_text(arguments: object) -> str:
    """Return the arguments of a call that came as an object, as the text they would have come as."""
    return json.dumps(arguments, ensure_ascii=False)


def read_arguments(raw: str) -> tuple[Mapping[str, Any], str]:
    """Return the arguments of a call, and why they cannot be used, to follow `the arguments`; empty when they can."""
    if not raw.strip():
        return {}, ""
    if not _is_sparse(raw):
        return {}, f"hold more than {_MAX_VALUES:,} values"
    try:
        value = json_codec.decode(raw)
    except Invalid as error:
        return {}, f"are not valid ({error.message})"
    return mapping(value), "" if value is None or isinstance(value, Mapping) else "are not a JSON object"


def called_tools(content: Iterable[Block]) -> list[Block]:
    """Return the tool calls among these blocks."""
    return [block for block in content if block.get("type") == "toolCall"]
