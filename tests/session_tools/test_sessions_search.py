"""T1, K6, V5: `sessions_search` through the one door."""

import pytest

from core.model.errors import Invalid, NotFound
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, call, send, session, transcript

GROUP = "agent:main:discord:group:ops"


@pytest.mark.spec("T1")
async def test_the_answer_has_exactly_this_shape(runtime: Runtime) -> None:
    await send(runtime, "main", "say copper")
    await send(runtime, GROUP, "say silver")
    row, (asked, replied) = await session(runtime, MAIN), await transcript(runtime, MAIN)
    assert await call(runtime, "sessions_search", query="COPP") == {
        "count": 2,
        "results": [
            {
                "sessionKey": "main",
                "sessionId": row.session_id,
                "messageId": message.id,
                "seq": message.seq,
                "timestamp": message.timestamp,
                "role": message.role,
                "snippet": message.text,
            }
            for message in (replied, asked)
        ],
    }


async def test_one_session_and_a_limit(runtime: Runtime) -> None:
    for key in ("main", GROUP):
        await send(runtime, key, "say copper")
    row = await session(runtime, GROUP)
    for spelled in (GROUP, "discord:group:ops", row.session_id):
        found = await call(runtime, "sessions_search", query="copper", sessionKey=spelled)
        assert {hit["sessionKey"] for hit in found["results"]} == {GROUP}
    assert (await call(runtime, "sessions_search", query="copper", limit=1))["count"] == 1
    assert (await call(runtime, "sessions_search", query="copper", limit=10**30))["count"] == 4
    assert (await call(runtime, "sessions_search", query="!?"))["count"] == 0


@pytest.mark.spec("K6")
async def test_a_session_that_does_not_exist_is_named(runtime: Runtime) -> None:
    with pytest.raises(NotFound, match="agent:main:nobody"):
        await call(runtime, "sessions_search", query="x", sessionKey="agent:main:nobody")
    with pytest.raises(Invalid, match="sessions_search needs query"):
        await call(runtime, "sessions_search")
    with pytest.raises(Invalid, match='query cannot be ""'):
        await call(runtime, "sessions_search", query="")
