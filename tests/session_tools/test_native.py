"""A tool that the gateway runs itself is called there, with what was checked here (architecture#tools)."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import Settings
from core.gateway import NativeTool
from core.model.access import Caller, Operator, SessionCaller
from core.model.errors import Invalid, NotFound
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, call, running, send

CHILD = "agent:main:subagent:1"


class Elsewhere(Runtime):
    """A gateway that sends messages itself, and nothing else."""

    asked: list[tuple[dict[str, Any], Caller]]

    def native_tool(self, name: str) -> NativeTool | None:
        """Return what notes the call, for one tool."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            self.asked.append((dict(arguments), caller))
            return {"status": "forbidden", "error": "not there", "decidedBy": ["a rule"]}

        return run if name == "sessions_send" else None


@contextlib.asynccontextmanager
async def elsewhere(state: Path) -> AsyncGenerator[Elsewhere]:
    """Open such a gateway on a state directory that has a main session."""
    async with running(state, Settings()) as runtime:
        await send(runtime, MAIN, "hello")
    gateway = Elsewhere.open(state)
    gateway.asked = []
    yield gateway
    await gateway.close()


async def test_the_gateway_runs_its_own_tools_and_its_refusal_is_the_result(state: Path) -> None:
    async with elsewhere(state) as gateway:
        for caller, there in (
            (Operator("main", owner=False), Operator(MAIN, owner=False)),
            (SessionCaller(CHILD), SessionCaller(CHILD)),  # the rules here would withhold it from a sub-agent
        ):
            answer = await call(gateway, "sessions_send", caller, sessionKey="x", message="hi")
            assert answer == {"status": "forbidden", "error": "not there", "decidedBy": ["a rule"]}
            assert gateway.asked.pop() == ({"sessionKey": "x", "message": "hi"}, there)
        assert (await call(gateway, "sessions_list"))["count"] == 1
        assert not gateway.asked


async def test_what_is_wrong_is_refused_before_the_gateway_is_asked(state: Path) -> None:
    async with elsewhere(state) as gateway:
        with pytest.raises(Invalid, match="message"):
            await call(gateway, "sessions_send", sessionKey="x")
        with pytest.raises(NotFound):
            await call(gateway, "sessions_send", Operator("agent:main:nobody"), sessionKey="x", message="hi")
        assert not gateway.asked
