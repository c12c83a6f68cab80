"""Nothing stored or served is ever NaN or Infinity; rows of older versions that hold them are served as JSON."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from core.agents.port import AgentEvent, Reply, Turn
from core.agents.wire import BAD_ARGUMENTS, ReplyPart, call_blocks
from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid
from core.model.events import MessageAppended
from core.model.messages import Block, Draft, text_block, tool_call_block
from core.runtime.gateway import Runtime
from core.store import messages
from core.store.database import Tx
from core.store.jsonl import append_new, transcript_path
from tests.contract.ways import Way
from tests.support.runtimes import MAIN, Agent, Listener, running, send, session, transcript, until
from tests.support.servers import history_path, serving

OLD = '"arguments":{"limit":Infinity,"n":[NaN,-Infinity]}'
HEALED = {"limit": None, "n": [None, None]}


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} was served")


def strict(text: str) -> Any:
    """Read JSON as everybody else's programs do."""
    return json.loads(text, parse_constant=no_constant)


async def store_old_row(runtime: Runtime) -> None:
    """Store a message as an older version did: with numbers that JSON has not."""
    await send(runtime, MAIN, "say hello")

    def write(tx: Tx) -> None:
        message = messages.append(tx, MAIN, Draft("assistant", (tool_call_block("c", "look", {"old": 1}),)))
        tx.db.execute(
            'UPDATE messages SET body = replace(body, \'"arguments":{"old":1}\', ?) WHERE seq = ?', (OLD, message.seq)
        )

    await runtime.store.write(write)
    assert runtime.store.db.execute("SELECT count(*) FROM messages WHERE body LIKE '%Infinity%'").fetchone() == (1,)


def arguments_of(content: tuple[Block, ...]) -> Any:
    """Return the arguments of the only tool call."""
    return content[0]["arguments"]


async def test_an_endless_number_is_not_appended(port: Way) -> None:
    await send(port.runtime, MAIN, "say hello")
    before = await transcript(port.runtime, MAIN)
    draft = Draft("assistant", (tool_call_block("c", "look", {"limit": float("inf")}),))
    with pytest.raises(Invalid, match="no NaN and no infinite numbers"):
        await port.gateway.append(MAIN, draft, OPERATOR)
    assert await transcript(port.runtime, MAIN) == before
    await port.gateway.append(MAIN, Draft("system", (text_block("and on"),)), OPERATOR)


async def test_whole_numbers_of_any_size_stay_as_they_are(port: Way) -> None:
    await send(port.runtime, MAIN, "say hello")
    given = {"id": 2**53 + 1, "more": 10**30}
    await port.gateway.append(MAIN, Draft("assistant", (tool_call_block("c", "look", given),)), OPERATOR)
    page = await port.gateway.history(MAIN, ALL, limit=1)
    assert arguments_of(page.messages[-1].content) == given


async def test_history_and_events_over_rows_of_older_versions_work(port: Way) -> None:
    await store_old_row(port.runtime)
    page = await port.gateway.history(MAIN, ALL, limit=5)
    assert arguments_of(page.messages[-1].content) == HEALED
    feed = port.gateway.subscribe(0)
    feed.watch(MAIN)
    listener = Listener(feed)
    await until(lambda: len(listener.of(MessageAppended)) >= 3)
    await send(port.runtime, MAIN, "say on")
    await until(lambda: len(listener.of(MessageAppended)) >= 5)
    assert arguments_of(listener.of(MessageAppended)[2].message.content) == HEALED
    await listener.close()


@pytest.mark.parametrize(
    "raw", ['{"limit": 1e999}', '{"limit": NaN}', '{"a": 1, "a": 2}', '{"a":' * 200 + "1" + "}" * 200]
)
def test_arguments_that_json_has_not_are_kept_as_the_model_wrote_them(raw: str) -> None:
    [block] = call_blocks([ReplyPart("call", [raw], call_id="c", name="look")])
    assert block["arguments"] == {}
    assert block[BAD_ARGUMENTS] == raw


async def test_a_run_whose_agent_says_what_cannot_be_stored_ends_with_a_sentence(state: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        del turn
        yield Reply((tool_call_block("c", "look", {"limit": float("nan")}),), None, None, "toolUse")

    async with running(state, backends=Agent(play)) as runtime:
        answer = await send(runtime, MAIN, "go on")
        assert answer["status"] == "error"
        assert "no NaN and no infinite numbers" in answer["error"]
        assert (await session(runtime, MAIN)).status == "error"


async def test_pages_and_files_over_rows_of_older_versions_are_json(state: Path) -> None:
    async with serving(state) as server:
        await store_old_row(server.runtime)
        async with server.client() as client:
            page = strict((await client.get(history_path("main"))).text)
        assert arguments_of(page["items"][-1]["content"]) == HEALED
        row = await session(server.runtime, MAIN)
        append_new(server.runtime.store.db, state, MAIN, row.session_id)
        lines = transcript_path(state, row.session_id).read_text().splitlines()
        assert arguments_of(strict(lines[-1])["message"]["content"]) == HEALED


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_a_body_with_a_number_that_json_has_not_is_refused(state: Path, number: str) -> None:
    async with serving(state) as server, server.client() as client:
        body = f'{{"tool": "sessions_list", "args": {{"limit": {number}}}}}'
        answer = await client.post("/tools/invoke", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("the body of the request: "), "not only by that parameter"
