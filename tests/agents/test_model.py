"""Turns on a real HTTP endpoint: the loop of replies and tools, and leaving in the middle."""

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.agents.model import ModelBackend
from core.agents.port import Reply, TextDelta, ThinkingDelta, ToolEnded, ToolResult, ToolStarted
from core.config.settings import Price
from core.model.messages import text_block
from tests.agents.turns import MakeModel, Tools, failure, run, turn
from tests.support.clock import FakeClock
from tests.support.messages import assistant, user
from tests.support.model_formats import USAGE, CallTool, Data, Hang, Think, Wait
from tests.support.model_server import ModelServer, Silence, closed_url, refuse, stream, whole


class TestTurn:
    async def test_words_come_as_they_are_said(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        go_on = asyncio.Event()
        server.script(stream(Think("hm"), "Hel", Wait(go_on), "lo"))
        async with aclosing(backend.run(turn(model()))) as events:
            assert [await anext(events), await anext(events)] == [ThinkingDelta("hm"), TextDelta("Hel")]
            go_on.set()
            assert await anext(events) == TextDelta("lo")
            reply = await anext(events)
            assert isinstance(reply, Reply)
            assert reply.content[-1] == text_block("Hello")
            assert (reply.stop_reason, reply.usage, reply.model) == ("stop", USAGE, model().ref)
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    async def test_tools_are_run_one_after_the_other(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        server.script(
            stream("Let me see.", CallTool("look", {"at": "a"}, "c1"), CallTool("look", {"at": "b"}, "c2")),
            stream("Both red."),
        )
        tools = Tools(ToolResult("red"), ToolResult("redder", is_error=True))
        events = await run(backend, turn(model(), tools=tools))
        assert tools.calls == [("c1", "look", {"at": "a"}), ("c2", "look", {"at": "b"})]
        assert [type(event) for event in events] == [
            *(TextDelta, Reply),
            *(ToolStarted, ToolEnded),
            *(ToolStarted, ToolEnded),
            *(TextDelta, Reply),
        ]
        assert events[3] == ToolEnded("c1", "look", ToolResult("red"))
        first, last = events[1], events[-1]
        assert isinstance(first, Reply)
        assert first.stop_reason == "toolUse"
        assert isinstance(last, Reply)
        assert last.content == (text_block("Both red."),)

    async def test_results_go_back_in_order(self, server: ModelServer, backend: ModelBackend):
        server.script(stream(CallTool("look", {}, "c1"), CallTool("look", {}, "c2")), stream("done"))
        await run(backend, turn(server.openai_model(), tools=Tools(ToolResult("one"), ToolResult("two"))))
        assert [
            (sent["role"], sent.get("tool_call_id"), sent["content"])
            for sent in server.requests[1].json["messages"][2:]
        ] == [("assistant", None, None), ("tool", "c1", "one"), ("tool", "c2", "two")]

    async def test_signed_thinking_goes_back_with_results(self, server: ModelServer, backend: ModelBackend):
        server.script(stream(Think("hm", "sig"), CallTool("look")), stream("done"))
        await run(backend, turn(server.anthropic_model(), thinking="low"))
        sent = server.requests[1].json["messages"]
        assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
        assert sent[2]["content"][0] == {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": [{"type": "text", "text": "red"}],
        }
        assert server.requests[0].json["thinking"]["type"] == "enabled"

    async def test_a_tool_that_is_not_offered_is_not_run(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        server.script(stream(CallTool("rm", {"path": "/"})), stream("sorry"))
        tools = Tools()
        events = await run(backend, turn(model(), tools=tools))
        assert tools.calls == []
        ended = next(event for event in events if isinstance(event, ToolEnded))
        assert ended.result.is_error
        assert json.loads(ended.result.text)["error"] == "there is no tool with this name: use look"

    async def test_bad_arguments_are_told_to_the_model(self, server: ModelServer, backend: ModelBackend):
        bad = {"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"at":'}}
        chunk = {"choices": [{"delta": {"tool_calls": [bad]}, "finish_reason": "tool_calls"}]}
        server.script(stream(Data(json.dumps(chunk)), ended=False), stream("sorry"))
        tools = Tools()
        await run(backend, turn(server.openai_model(), tools=tools))
        assert tools.calls == []
        asking, answer = server.requests[1].json["messages"][2:]
        assert asking["tool_calls"][0]["function"]["arguments"] == "{}"
        assert json.loads(answer["content"])["error"] == (
            "the arguments are not valid (that is not JSON: expecting value at character 6): call the tool again with a"
            " JSON object"
        )

    async def test_rounds_are_limited(self, server: ModelServer):
        backend = ModelBackend(max_rounds=3)
        server.handler = lambda _: stream(CallTool("look"))
        tools = Tools()
        sentence = await failure(backend, turn(server.openai_model(), tools=tools))
        await backend.close()
        assert sentence.startswith("model openai/test-model called tools in 3 replies in a row")
        assert len(server.requests) == len(tools.calls) == 3

    async def test_a_whole_reply_is_taken_too(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.script(whole("Let me see.", CallTool("look", {"at": "a"})), whole("Red."))
        tools = Tools()
        last = (await run(backend, turn(model(), tools=tools)))[-1]
        assert tools.calls == [("call_1", "look", {"at": "a"})]
        assert last == Reply((text_block("Red."),), USAGE, model().ref)

    async def test_cost_comes_from_the_price(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.script(stream("x"))
        reply = (await run(backend, turn(model(price=Price(1.0, 10.0, 0.1, 2.0)))))[-1]
        assert isinstance(reply, Reply)
        assert reply.usage is not None
        assert reply.usage.cost_usd is not None
        assert round(reply.usage.cost_usd, 9) == 0.000303
        assert replace(reply.usage, cost_usd=None) == USAGE

    async def test_no_usage_no_cost(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x", usage=None))
        reply = (await run(backend, turn(server.openai_model(price=Price(1.0)))))[-1]
        assert isinstance(reply, Reply)
        assert reply.usage is None

    async def test_only_what_fits_the_window_is_sent(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x"))
        long = (user("old " * 2000), assistant("reply"), user("now"))
        await run(backend, turn(server.openai_model(context_window=2000, max_tokens=500), transcript=long))
        assert [sent["content"] for sent in server.requests[0].json["messages"]] == ["be brief", "now"]

    async def test_connections_are_used_again(self, server: ModelServer, backend: ModelBackend, model: MakeModel):
        server.script(*[stream("x")] * 3)
        for _ in range(3):
            await run(backend, turn(model()))
        assert server.connections == 1

    async def test_turns_at_once(self, server: ModelServer, backend: ModelBackend):
        go_on = asyncio.Event()
        server.script(*[stream("a", Wait(go_on), "b")] * 20)
        turns = [asyncio.create_task(run(backend, turn(server.openai_model()))) for _ in range(20)]
        await server.request(20)
        go_on.set()
        assert all(len(events) == 3 for events in await asyncio.gather(*turns))


class TestFirstModel:
    async def test_the_first_that_is_listed_is_used_and_remembered(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        server.models = ["one", "two"]
        server.script(stream("x"), stream("y"))
        reply = (await run(backend, turn(model(""))))[-1]
        await run(backend, turn(model("")))
        assert isinstance(reply, Reply)
        assert reply.model == f"{model('').provider}/one"
        assert [(request.method, request.path.rpartition("/")[2]) for request in server.requests] == [
            ("GET", "models"),
            ("POST", server.requests[1].path.rpartition("/")[2]),
            ("POST", server.requests[1].path.rpartition("/")[2]),
        ]
        assert server.requests[1].json["model"] == "one"
        key_headers = {"authorization", "x-api-key"}
        assert (
            key_headers & server.requests[0].headers.keys() == key_headers & server.requests[1].headers.keys() != set()
        )

    async def test_two_turns_ask_once(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x"), stream("y"))
        wanted = turn(server.openai_model(""))
        await asyncio.gather(run(backend, wanted), run(backend, wanted))
        assert [request.method for request in server.requests].count("GET") == 1

    async def test_none_is_listed(self, server: ModelServer, backend: ModelBackend):
        server.models = []
        assert await failure(backend, turn(server.openai_model(""))) == (
            "model openai cannot be chosen: the endpoint lists no models (load one, or name one)"
        )

    async def test_nobody_lists(self, server: ModelServer, backend: ModelBackend):
        sentence = await failure(backend, turn(server.openai_model("", base_url=closed_url())))
        assert sentence.startswith("model openai cannot be reached at ")


class TestLeaving:
    async def test_closing_the_turn_closes_the_connection(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        server.script(stream("Hel", Hang()), stream("x"))
        events = backend.run(turn(model()))
        assert await anext(events) == TextDelta("Hel")
        await events.aclose()
        await asyncio.wait_for(server.requests[0].gone.wait(), 5)
        assert isinstance((await run(backend, turn(model())))[-1], Reply)

    @pytest.mark.parametrize("answer", [Silence(), stream(Hang()), stream("Hel", Hang())])
    async def test_cancelling_the_task_closes_the_connection(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel, answer: Any
    ):
        server.script(answer)
        task = asyncio.create_task(run(backend, turn(model())))
        request = await server.request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(request.gone.wait(), 5)

    async def test_cancelling_while_waiting_for_a_retry(self, server: ModelServer, backend: ModelBackend):
        clock = FakeClock()
        server.script(refuse(429, "slow down"), stream("x"))
        task = asyncio.create_task(run(backend, turn(server.openai_model(), clock=clock)))
        await clock.until_sleeping()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (clock.sleeping, len(server.requests)) == (0, 1)

    async def test_cancelling_while_a_tool_runs(self, server: ModelServer, backend: ModelBackend):
        began = asyncio.Event()

        async def never(*_: Any) -> ToolResult:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

        server.script(stream(CallTool("look")))
        task = asyncio.create_task(run(backend, turn(server.openai_model(), call_tool=never)))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_stream_that_does_not_end_by_itself_is_left(
        self, server: ModelServer, backend: ModelBackend, model: MakeModel
    ):
        end = Data("[DONE]") if model().api == "openai-completions" else Data('{"type": "message_stop"}')
        server.script(stream("x", end, Hang()))
        reply = (await run(backend, turn(model())))[-1]
        assert isinstance(reply, Reply)
        await asyncio.wait_for(server.requests[0].gone.wait(), 5)

    async def test_a_closed_backend_can_be_used_again(self, server: ModelServer, backend: ModelBackend):
        server.script(stream("x"), stream("y"))
        await run(backend, turn(server.openai_model()))
        await backend.close()
        await run(backend, turn(server.openai_model()))
        assert server.connections == 2


ROOT = Path(__file__).parents[2]
HEAVY_IMPORTS = """
import asyncio, sys, threading
from core.agents.model import ModelBackend
from core.agents.port import Turn
from tests.support.clock import FakeClock
from tests.support.messages import user
from tests.support.model_server import ModelServer, stream

heavy = {"httpx", "httpcore", "httpx_sse", "anyio", "h11", "certifi"}
assert not heavy & set(sys.modules), "imported before the first turn"

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in heavy:
            print(name, threading.current_thread() is threading.main_thread())

async def main():
    async with ModelServer() as server:
        server.script(stream("x"))
        backend = ModelBackend()
        sys.meta_path.insert(0, Finder())
        turn = Turn("r", "k", "", (user("hi"),), (), None, FakeClock(), server.openai_model())
        async for event in backend.run(turn):
            pass
        await backend.close()

asyncio.run(main())
"""


def test_heavy_imports_happen_in_a_thread_when_they_are_needed():
    done = subprocess.run([sys.executable, "-c", HEAVY_IMPORTS], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == ""
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found.keys() == {"httpx", "httpcore", "httpx_sse", "anyio", "h11", "certifi"}
    assert set(found.values()) == {"False"}
