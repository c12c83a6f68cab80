"""What an agent backend is: it gets one turn and yields what happens in it (architecture#agents)."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.clock import Clock
from core.config.settings import ModelSettings
from core.model.messages import Block, Message, Usage
from core.model.runs import RunKind
from core.model.tools import Tool


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered: JSON or words, as the model reads it."""

    text: str
    is_error: bool = False


CallTool = Callable[[str, str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Runs a tool: call id, name and arguments. Errors come back as results."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One run as a backend sees it.

    Attributes:
        key: The session the agent acts in.
        system: The system prompt.
        transcript: Messages up to and including the input, oldest first, as far as they fit.
        model: The model to use, None for the builtin agent.
        thinking: Thinking level, None to leave it to the model.
        kind: What the run is for: a turn, a turn of a reply-back loop, an announce step.
    """

    run_id: str
    key: str
    system: str
    transcript: tuple[Message, ...]
    tools: tuple[Tool, ...]
    call_tool: CallTool
    clock: Clock
    model: ModelSettings | None = None
    thinking: str | None = None
    kind: RunKind = "turn"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More words of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished message of the model: with tool calls it asks for them, without it is the last word.

    `stop_reason` is `stop`, `toolUse` or `length`.
    """

    content: tuple[Block, ...]
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool begins to run."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool has answered."""

    call_id: str
    name: str
    result: ToolResult = field(repr=False)


AgentEvent = TextDelta | ThinkingDelta | Reply | ToolStarted | ToolEnded


class AgentFailure(Exception):
    """The turn cannot be finished; the message is one sentence for the transcript and never holds a secret."""


class Backend(Protocol):
    """An agent. A cancelled turn closes its connections; a failed one raises `AgentFailure`."""

    def run(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        """Run one turn; the last `Reply` without tool calls ends it."""
        ...

    async def close(self) -> None:
        """Give connections free."""
        ...
