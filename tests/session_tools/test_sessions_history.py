"""H1-H4, K6: `sessions_history` through the one door."""

import json

import pytest

from core.model.errors import Invalid, NotFound
from core.model.messages import user_draft
from core.runtime.gateway import Runtime
from core.store import messages
from core.store.database import Tx
from tests.support.runtimes import MAIN, call, send, session
from tests.support.stores import create, tool_draft


async def seqs(runtime: Runtime, **arguments: object) -> list[int]:
    """Return the places of the messages that a history shows."""
    history = await call(runtime, "sessions_history", sessionKey="main", **arguments)
    return [message["seq"] for message in history["messages"]]


async def fill(runtime: Runtime, count: int) -> None:
    """Make a transcript in which every second message is a tool's."""

    def write(tx: Tx) -> None:
        create(tx, MAIN)
        for number in range(count):
            messages.append(tx, MAIN, tool_draft(f"{number}") if number % 2 else user_draft(f"{number}"))

    await runtime.store.write(write)


@pytest.mark.spec("H2")
async def test_the_answer_has_exactly_this_shape(runtime: Runtime) -> None:
    await send(runtime, "main", "say hi")
    row = await session(runtime, MAIN)
    stored = [json.loads(body) for (body,) in runtime.store.db.execute("SELECT body FROM messages ORDER BY seq")]
    answer = await call(runtime, "sessions_history", sessionKey="main")
    assert answer == {"sessionKey": "main", "sessionId": row.session_id, "messages": stored}
    user, reply = answer["messages"]
    assert set(user) == {"id", "seq", "timestamp", "role", "content"}
    assert user["content"] == [{"type": "text", "text": "say hi"}]
    assert set(reply) == {"id", "seq", "timestamp", "role", "content", "usage", "model", "stopReason"}


@pytest.mark.spec("H1")
async def test_the_newest_in_order_fifty_unless_said_otherwise(runtime: Runtime) -> None:
    await fill(runtime, 500)
    assert await seqs(runtime) == list(range(401, 501, 2))
    assert await seqs(runtime, limit=3) == [495, 497, 499]
    assert await seqs(runtime, limit=3, includeTools=True) == [498, 499, 500]
    assert len(await seqs(runtime, limit=100_000, includeTools=True)) == 200


@pytest.mark.spec("H1")
async def test_tool_results_are_left_out_before_the_limit_counts(runtime: Runtime) -> None:
    await send(runtime, "main", "list sessions")
    roles = [m["role"] for m in (await call(runtime, "sessions_history", sessionKey="main"))["messages"]]
    assert roles == ["user", "assistant", "assistant"]
    with_tools = await call(runtime, "sessions_history", sessionKey="main", includeTools=True)
    (result,) = [message for message in with_tools["messages"] if message["role"] == "toolResult"]
    (asked,) = [b for m in with_tools["messages"] for b in m["content"] if b["type"] == "toolCall"]
    assert (result["toolName"], result["toolCallId"], result["isError"]) == ("sessions_list", asked["id"], False)


@pytest.mark.spec("K6")
async def test_a_key_a_short_form_or_an_id(runtime: Runtime) -> None:
    await send(runtime, "agent:main:discord:group:Ops", "say hi")
    row = await session(runtime, "agent:main:discord:group:Ops")
    for spelled in (row.key, "Discord:group:Ops", "AGENT:main:DISCORD:group:Ops", row.session_id, f" {row.key} "):
        answer = await call(runtime, "sessions_history", sessionKey=spelled)
        assert (answer["sessionKey"], answer["sessionId"], len(answer["messages"])) == (row.key, row.session_id, 2)


@pytest.mark.spec("K6")
async def test_the_id_of_an_ended_transcript_gives_that_one(runtime: Runtime) -> None:
    await send(runtime, "main", "say old")
    old = (await session(runtime, MAIN)).session_id
    await send(runtime, "main", "/reset")
    await send(runtime, "main", "say new")
    ended = await call(runtime, "sessions_history", sessionKey=old)
    assert (ended["sessionKey"], ended["sessionId"]) == ("main", old)
    assert [m["content"][0]["text"] for m in ended["messages"]] == ["say old", "old"]
    current = await call(runtime, "sessions_history", sessionKey="main")
    assert [m["role"] for m in current["messages"]] == ["system", "user", "assistant"]


@pytest.mark.spec("H3", "K6")
@pytest.mark.parametrize(
    "asked", ["agent:main:nobody", "0b9cf1f0-5b1e-4c53-8f0a-3c6f8b2d7a11", "discord:group:none", "cron:none", "main"]
)
async def test_a_missing_session_is_an_error_that_names_it(runtime: Runtime, asked: str) -> None:
    with pytest.raises(NotFound) as caught:
        await call(runtime, "sessions_history", sessionKey=asked)
    assert asked in caught.value.message
    assert (await call(runtime, "sessions_list"))["count"] == 0, "reading creates nothing"


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "sessions_history needs sessionKey"),
        ({"sessionKey": 5}, "sessionKey cannot be 5: it must be text"),
        ({"sessionKey": "main", "limit": "many"}, 'limit cannot be "many"'),
        ({"sessionKey": "main", "limit": 2.5}, "limit cannot be"),
        ({"sessionKey": "main", "includeTools": "perhaps"}, 'includeTools cannot be "perhaps"'),
        ({"sessionKey": "main", "include_tools": True}, 'no parameter "include_tools"'),
        ({"sessionKey": "main", "\x1b[2J": 1}, "sessions_history has no parameter"),
    ],
)
async def test_bad_arguments_give_one_sentence(runtime: Runtime, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(Invalid) as caught:
        await call(runtime, "sessions_history", **arguments)
    assert error in caught.value.message
    assert caught.value.message.isprintable()
