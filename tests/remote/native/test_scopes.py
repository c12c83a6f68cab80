"""A connection does no more than it was granted, whatever its client claims (G8, P3, protocol#roles)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR, SessionCaller
from core.model.errors import Forbidden, Unauthorized
from core.model.messages import user_draft
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch, SessionQuery
from core.remote.native.gateway import NativeGateway
from core.runtime.gateway import Runtime
from tests.contract.ways import door, own_context, reached, reading
from tests.support.runtimes import MAIN, Agent, Listener, running, send, until

WRITER = ("operator.read", "operator.write")


@dataclass
class Open:
    """A gateway that is served, and where."""

    runtime: Runtime
    url: str


@pytest.fixture
async def served(state: Path) -> AsyncIterator[Open]:
    """Serve a gateway with a main session."""
    async with running(state, backends=Agent()) as runtime, door(own_context(runtime, state)) as url:
        await send(runtime, MAIN, "hello")
        yield Open(runtime, url)


async def test_who_may_only_read_reads_and_is_told_why_nothing_else(served: Open) -> None:
    gateway = await reading(served.url)
    assert len((await gateway.list_sessions(SessionQuery(), ALL)).sessions) == 1
    listener = Listener(gateway.subscribe())
    await gateway.models()
    await send(served.runtime, MAIN, "hello")
    await until(lambda: listener.events)
    for action in ("send", "abort", "delete"):
        assert "may only read" in (gateway.refusal(action) or "")
    for change in (
        gateway.start_run(RunRequest(MAIN, "hi"), OPERATOR),
        gateway.start_run(RunRequest(MAIN, "hi"), SessionCaller(MAIN)),
        gateway.patch(MAIN, SessionPatch({"label": "x"}), OPERATOR),
        gateway.delete(MAIN, OPERATOR),
    ):
        with pytest.raises(Forbidden, match="missing scope"):
            await change
    for caller in (OPERATOR, SessionCaller(MAIN)):
        with pytest.raises(Forbidden, match=r"missing scope: operator\.write"):
            await _tool(gateway, "sessions_send", {"sessionKey": MAIN, "message": "hi"}, caller)
    assert (await _tool(gateway, "sessions_list", {}, OPERATOR))["count"] == 1
    await listener.close()
    await gateway.close()


async def test_who_may_write_is_not_the_owner_even_when_claiming_it(served: Open) -> None:
    gateway = await reached(served.url, scopes=WRITER)
    ticket = await gateway.start_run(RunRequest(MAIN, "hi"), OPERATOR)
    assert (await gateway.wait_run(ticket.run_id, 10)).reply == "echo hi"
    assert (await gateway.patch(MAIN, SessionPatch({"label": "x"}), OPERATOR)).label == "x"
    assert gateway.refusal("send") is None
    assert "not do what is the owner's alone" in (gateway.refusal("policy") or "")
    with pytest.raises(Forbidden, match="only the owner can change the send policy"):
        await gateway.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
    with pytest.raises(Forbidden, match="only the owner can use /send"):
        await gateway.start_run(RunRequest(MAIN, "/send off"), OPERATOR)
    with pytest.raises(Forbidden, match=r"missing scope: operator\.admin"):
        await gateway.append(MAIN, user_draft("x"), OPERATOR)
    with pytest.raises(Forbidden, match=r"missing scope: operator\.admin"):
        await gateway.reset(MAIN, OPERATOR)
    await gateway.close()


async def test_a_client_says_nothing_of_the_run_it_acts_in(served: Open) -> None:
    """A run that waits gives its place back; nobody outside may give the place of another's run away."""
    gateway = await reached(served.url)
    seen: list[object] = []
    start = served.runtime.start_run

    async def look(request: RunRequest, caller: object) -> object:
        seen.append(caller)
        return await start(request, OPERATOR)

    served.runtime.start_run = look  # pyright: ignore[reportAttributeAccessIssue]
    await gateway.start_run(RunRequest(MAIN, "hi"), SessionCaller(MAIN, "somebody's run"))
    assert seen == [SessionCaller(MAIN)]
    await gateway.close()


async def test_a_wrong_token_is_said_so(served: Open) -> None:
    with pytest.raises(Unauthorized):
        async with asyncio.timeout(20):
            await reached(served.url, "a wrong token")


async def _tool(gateway: NativeGateway, name: str, arguments: dict[str, object], caller: object) -> dict[str, object]:
    run = gateway.native_tool(name)
    assert run is not None
    return await run(arguments, caller)  # pyright: ignore[reportArgumentType]
