"""What is wanted of a runtime that is about to start waits for it, instead of being refused for a moment
(architecture#ownership)."""

import asyncio
from pathlib import Path

import pytest

from core.agents.choose import AgentBackends
from core.config.settings import Settings
from core.model.access import OPERATOR
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged
from core.model.sessions import SessionPatch
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, begin, running, send


async def test_what_is_wanted_waits_for_the_start(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hi")
    runtime = Runtime.open(state)
    runtime.expect_start()
    assert (runtime.connection.state, runtime.connection.detail) == ("starting", "")
    assert runtime.refusal("send") is None
    patched = asyncio.create_task(runtime.patch(MAIN, SessionPatch({"label": "early"}), OPERATOR))
    begun = asyncio.create_task(begin(runtime, MAIN, "say bird"))
    models = asyncio.create_task(runtime.models())
    await asyncio.sleep(0)
    assert not patched.done()
    assert not begun.done()
    await runtime.start(Settings(), AgentBackends(0.0), command="test")
    assert (await patched).label == "early"
    assert (await runtime.wait_run((await begun).run_id, 10)).reply == "bird"
    assert [model.ref for model in await models] == ["builtin"]
    await runtime.close()


async def test_without_a_start_it_is_refused(state: Path) -> None:
    runtime = Runtime.open(state)
    feed = runtime.subscribe()
    runtime.expect_start()
    wanted = asyncio.create_task(begin(runtime, MAIN, "say bird"))
    await asyncio.sleep(0)
    runtime.expect_no_start()
    runtime.expect_no_start()
    with pytest.raises(Unavailable, match="reading only"):
        await wanted
    assert runtime.refusal("send") == "reading only"
    async with asyncio.timeout(10):
        changed = await anext(aiter(feed))
    assert isinstance(changed, ConnectionChanged)
    assert changed.connection.state == "reading"
    await runtime.close()


async def test_closing_ends_the_wait(state: Path) -> None:
    runtime = Runtime.open(state)
    runtime.expect_start()
    wanted = asyncio.create_task(begin(runtime, MAIN, "say bird"))
    await asyncio.sleep(0)
    await runtime.close()
    with pytest.raises(Unavailable):
        await wanted
