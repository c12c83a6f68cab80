"""Turns as the runtime would ask for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from core.agents.model import ModelBackend
from core.agents.port import AgentEvent, AgentFailure, ToolResult, Turn
from core.config.settings import ModelSettings
from core.model.tools import Tool
from tests.support.clock import FakeClock
from tests.support.messages import user
from tests.support.model_server import KEY

TOOLS = (Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}),)
MakeModel = Callable[..., ModelSettings]
"""Makes the settings of a model at the test's endpoint."""


class Tools:
    """Answers tool calls and remembers them."""

    def __init__(self, *results: ToolResult) -> None:
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self._results = list(results)

    async def __call__(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.calls.append((call_id, name, arguments))
        return self._results.pop(0) if self._results else ToolResult("red")


def turn(
    model: ModelSettings | None, *, tools: Tools | None = None, clock: FakeClock | None = None, **fields: Any
) -> Turn:
    made = Turn(
        run_id="run",
        key="agent:main:main",
        system="be brief",
        transcript=(user("hi"),),
        tools=TOOLS,
        call_tool=tools or Tools(),
        clock=clock or FakeClock(instant=True),
        model=model,
    )
    return replace(made, **fields)


async def run(backend: ModelBackend, wanted: Turn) -> list[AgentEvent]:
    return [event async for event in backend.run(wanted)]


async def failure(backend: ModelBackend, wanted: Turn) -> str:
    with pytest.raises(AgentFailure) as caught:
        await run(backend, wanted)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert KEY not in sentence
    return sentence
