"""Anthropic's messages: what is asked, and how every kind of answer is read."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agents.anthropic import DEFAULT_MAX_TOKENS, AnthropicDecoder, headers, request_body
from core.agents.port import TextDelta, ThinkingDelta
from core.agents.wire import BAD_ARGUMENTS, Ask, BadReply
from core.config.settings import ModelSettings
from core.model.messages import Message, Provenance, Usage, text_block, thinking_block
from core.model.tools import Tool
from tests.support.messages import assistant, call, note, result, user
from tests.support.sse import cut, events, read, said, thought

IMAGE = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s1"}
REDACTED = {"type": "thinking", "thinking": "", "redacted": "d1"}


def model(model_id: str = "claude-sonnet-4-5", max_tokens: int | None = None) -> ModelSettings:
    return ModelSettings("p", model_id, "anthropic-messages", "http://localhost:1", max_tokens=max_tokens)


def ask(*messages: Message, system: str = "", **fields: Any) -> dict[str, Any]:
    return request_body(Ask(model(), system, messages, **fields))


def thinking(level: str | None, model_id: str = "claude-sonnet-4-5", max_tokens: int | None = None) -> dict[str, Any]:
    body = request_body(Ask(model(model_id, max_tokens), "", [user("hi")], thinking=level))
    return {name: body[name] for name in ("max_tokens", "thinking", "output_config") if name in body}


def start(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return placed({"type": "content_block_start", "content_block": {"type": kind, **fields}}, index)


def delta(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return placed({"type": "content_block_delta", "delta": {"type": kind, **fields}}, index)


def placed(event: dict[str, Any], index: int | None) -> dict[str, Any]:
    return event if index is None else {**event, "index": index}


def end(reason: str = "end_turn", **usage: int) -> tuple[dict[str, Any], ...]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}


def text(words: str, index: int = 0) -> tuple[dict[str, Any], ...]:
    return start(index, "text", text=""), delta(index, "text_delta", text=words)


def decode(*data: str | dict[str, Any]):
    decoder = AnthropicDecoder()
    deltas = [delta for item in data for delta in decoder.feed(item if isinstance(item, str) else json.dumps(item))]
    return deltas, decoder.finish()


def block_of(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


class TestRequest:
    def test_asks_for_a_stream_with_a_limit(self):
        assert ask(user("hi"), system="be brief") == {
            "model": "claude-sonnet-4-5",
            "stream": True,
            "max_tokens": DEFAULT_MAX_TOKENS,
            "system": "be brief",
            "messages": [{"role": "user", "content": [text_block("hi")]}],
        }
        assert "system" not in ask(user("hi"), system=" ")

    def test_offers_tools(self):
        tool = Tool("look", "Looks.", {"type": "object"})
        assert ask(user("hi"), tools=(tool,))["tools"] == [
            {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
        ]

    @pytest.mark.parametrize("level", [None, "off", "nonsense"])
    def test_no_thinking(self, level: str | None):
        assert thinking(level) == {"max_tokens": DEFAULT_MAX_TOKENS}
        assert thinking(level, max_tokens=50) == {"max_tokens": 50}

    @pytest.mark.parametrize(
        ("level", "budget"), [("minimal", 1024), ("low", 4096), ("medium", 10_240), ("high", 20_480)]
    )
    def test_thinking_by_budget(self, level: str, budget: int):
        assert thinking(level) == {
            "max_tokens": DEFAULT_MAX_TOKENS + budget,
            "thinking": {"type": "enabled", "budget_tokens": budget},
        }

    def test_a_budget_leaves_room_for_words(self):
        assert thinking("high", max_tokens=16_000) == {
            "max_tokens": 16_000,
            "thinking": {"type": "enabled", "budget_tokens": 8000},
        }
        assert thinking("high", max_tokens=2000) == {"max_tokens": 2000}

    @pytest.mark.parametrize(
        ("model_id", "adaptive"),
        [
            ("claude-3-7-sonnet-20250219", False),
            ("claude-sonnet-4-20250514", False),
            ("claude-opus-4-1", False),
            ("claude-opus-4-5-20251101", False),
            ("deepseek-v4", False),
            ("claude-opus-4-6", True),
            ("anthropic/claude-opus-4.7", True),
            ("claude-sonnet-5", True),
            ("claude-mythos-preview", True),
        ],
    )
    def test_newer_models_take_an_effort(self, model_id: str, adaptive: bool):
        sent = thinking("minimal", model_id, max_tokens=4000)
        if adaptive:
            assert sent["thinking"]["type"] == "adaptive"
            assert sent["output_config"] == {"effort": "low"}
        else:
            assert sent["thinking"] == {"type": "enabled", "budget_tokens": 1024}
            assert "output_config" not in sent

    def test_tools_and_results_are_mapped_and_roles_take_turns(self):
        asking = assistant("let me see", call("c1", "look", {"n": 1}), call("c2"))
        sent = ask(user("hi"), user("there"), asking, result("c1", "red"), result("c2", "", is_error=True), user("so?"))
        assert sent["messages"] == [
            {"role": "user", "content": [text_block("hi"), text_block("there")]},
            {
                "role": "assistant",
                "content": [
                    text_block("let me see"),
                    block_of("tool_use", id="c1", name="look", input={"n": 1}),
                    block_of("tool_use", id="c2", name="look", input={}),
                ],
            },
            {
                "role": "user",
                "content": [
                    block_of("tool_result", tool_use_id="c1", content=[text_block("red")]),
                    block_of("tool_result", tool_use_id="c2", content=[], is_error=True),
                    text_block("so?"),
                ],
            },
        ]

    def test_what_the_api_refuses_is_not_sent(self):
        sent = ask(note("for people"), assistant("hello"), user("hi"), user(" \n"), assistant(" "), assistant("yes"))
        assert [(message["role"], message["content"][-1]["text"]) for message in sent["messages"]] == [
            ("user", "(conversation so far)"),
            ("assistant", "hello"),
            ("user", "hi"),
            ("assistant", "yes"),
        ]

    def test_ids_of_other_providers_are_made_fit(self):
        sent = ask(user("hi"), assistant(call("functions.look:0")), result("functions.look:0"))["messages"]
        assert sent[1]["content"][0]["id"] == sent[2]["content"][0]["tool_use_id"] == "functions_look_0"

    def test_images(self):
        source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
        shown = Message("", 0, 0, "toolResult", (text_block("see"), IMAGE), tool_call_id="c")
        sent = ask(user("look", IMAGE), assistant(call("c")), shown)["messages"]
        assert sent[0]["content"] == [text_block("look"), block_of("image", source=source)]
        assert sent[2]["content"][0]["content"] == [text_block("see"), block_of("image", source=source)]

    @pytest.mark.spec("S8")
    def test_another_sessions_message_says_so(self):
        sent = ask(user("do it", source=Provenance("agent:a:main", "webchat", "sessions_send")))["messages"]
        assert sent[0]["content"][0]["text"].startswith("[Inter-session message from agent:a:main via sessions_send")

    def test_thinking_of_this_turn_goes_back_signed(self):
        asking = assistant(SIGNED, REDACTED, "see", call("c"), model="p/claude-sonnet-4-5")
        sent = ask(user("hi"), asking, result("c"))["messages"][1]["content"]
        assert sent[:2] == [
            {"type": "thinking", "thinking": "hm", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d1"},
        ]

    @pytest.mark.parametrize(
        "messages",
        [
            (user("hi"), assistant(SIGNED, call("c"), model="other/model"), result("c")),
            (user("hi"), assistant(SIGNED, call("c"), model="p/claude-sonnet-4-5"), result("c"), user("next")),
            (user("hi"), assistant(thinking_block("unsigned"), call("c"), model="p/claude-sonnet-4-5"), result("c")),
        ],
        ids=["of another model", "of an earlier turn", "unsigned"],
    )
    def test_other_thinking_does_not_go_back(self, messages: tuple[Message, ...]):
        assert [block["type"] for block in ask(*messages)["messages"][1]["content"]] == ["tool_use"]

    def test_key_and_version_are_headers(self):
        assert headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
        assert headers("") == {"anthropic-version": "2023-06-01"}


class TestWords:
    def test_text_comes_in_deltas(self):
        deltas, reply = decode(
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "ping"},
            start(0, "text", text="H"),
            delta(0, "text_delta", text="el"),
            delta(0, "text_delta", text="lo"),
            {"type": "content_block_stop", "index": 0},
            *end(output_tokens=2),
        )
        assert deltas == [TextDelta("H"), TextDelta("el"), TextDelta("lo")]
        assert reply.content == (text_block("Hello"),)
        assert (reply.stop_reason, reply.usage) == ("stop", Usage(5, 2))

    def test_thinking_keeps_its_signature(self):
        deltas, reply = decode(
            start(0, "thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="h"),
            delta(0, "thinking_delta", thinking="m"),
            delta(0, "signature_delta", signature="s1"),
            start(1, "redacted_thinking", data="d1"),
            *text("yes", 2),
            *end(),
        )
        assert deltas == [ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("yes")]
        assert reply.content == (SIGNED, REDACTED, text_block("yes"))

    def test_thinking_that_is_only_signed_is_kept(self):
        _, reply = decode(start(0, "thinking"), delta(0, "signature_delta", signature="s"), *text("x", 1), *end())
        assert reply.content[0] == {"type": "thinking", "thinking": "", "signature": "s"}

    def test_empty_text_is_left_out(self):
        assert decode(start(0, "text", text=""), *text("x", 1), *end())[1].content == (text_block("x"),)

    @pytest.mark.parametrize(
        ("reason", "stop"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("something_new", "stop"),
        ],
    )
    def test_stop_reasons(self, reason: str, stop: str):
        assert decode(*text("x"), *end(reason))[1].stop_reason == stop


class TestTools:
    def test_arguments_come_in_fragments(self):
        deltas, reply = decode(
            start(0, "tool_use", id="c1", name="look", input={}),
            delta(0, "input_json_delta", partial_json=""),
            delta(0, "input_json_delta", partial_json='{"n'),
            delta(0, "input_json_delta", partial_json='": 1}'),
            start(1, "tool_use", id="c2", name="find", input={}),
            *end("tool_use"),
        )
        assert deltas == []
        assert reply.content == (call("c1", "look", {"n": 1}), call("c2", "find"))
        assert reply.stop_reason == "toolUse"

    def test_arguments_may_come_at_the_start(self):
        _, reply = decode(start(0, "tool_use", id="c1", name="look", input={"n": 1}), *end("tool_use"))
        assert reply.content == (call("c1", "look", {"n": 1}),)

    def test_bad_arguments_are_kept_beside_the_call(self):
        part = delta(0, "input_json_delta", partial_json='{"n":')
        _, reply = decode(start(0, "tool_use", id="c1", name="look"), part, *end("max_tokens"))
        assert reply.content == ({**call("c1", "look"), BAD_ARGUMENTS: '{"n":'},)
        assert reply.stop_reason == "length"

    def test_a_call_without_a_name_is_an_error(self):
        with pytest.raises(BadReply, match="asked for a tool without naming it"):
            decode(start(0, "tool_use", id="c1"), *end("tool_use"))


class TestUsage:
    def test_caches_are_counted_apart(self):
        usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9, "output_tokens": 1}
        _, reply = decode(
            {"type": "message_start", "message": {"usage": usage}}, *text("x"), *end(output_tokens=4, input_tokens=0)
        )
        assert reply.usage == Usage(input=5, output=4, cache_read=7, cache_write=9)

    @pytest.mark.parametrize(
        ("start", "delta", "stop"),
        [
            ({"message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}, {"usage": {"output_tokens": 4}}, {}),
            ({}, {"usage": {"input_tokens": 5, "output_tokens": 4}}, {}),
            ({"message": {"usage": {"input_tokens": 0}}}, {"usage": {"input_tokens": 5, "output_tokens": 4}}, {}),
            ({"message": {"usage": {"input_tokens": 5}}}, {"usage": {"output_tokens": 4, "input_tokens": 0}}, {}),
            ({"usage": {"input_tokens": 5}}, {"delta": {"usage": {"output_tokens": 4}}}, {}),
            ({}, {}, {"usage": {"input_tokens": 5, "output_tokens": 4}}),
            ({}, {}, {"message": {"usage": {"input_tokens": 5, "output_tokens": 4}}}),
            ({}, {"usage": {"prompt_tokens": 5, "completion_tokens": 4}}, {}),
            ({"message": {"usage": None}}, {"usage": {"input_tokens": 5.0, "output_tokens": 4}}, {"usage": "many"}),
        ],
    )
    def test_it_is_taken_wherever_it_is_told(self, start: Any, delta: Any, stop: Any):
        delta = {"type": "message_delta", **delta, "delta": {**delta.get("delta", {}), "stop_reason": "end_turn"}}
        data = ({"type": "message_start", **start}, *text("x"), delta, {"type": "message_stop", **stop})
        assert decode(*data)[1].usage == Usage(5, 4)

    def test_nothing_but_zeros_is_not_known(self):
        counts = {"input_tokens": 0, "output_tokens": 0}
        data = ({"type": "message_start", "message": {"usage": counts}}, *text("x"), *end("end_turn", **counts))
        assert decode(*data)[1].usage is None

    def test_no_counts_no_usage(self):
        assert decode(*text("x"), *end())[1].usage is None


class TestTrouble:
    @pytest.mark.parametrize(
        ("error", "words", "passing"),
        [
            ({"type": "overloaded_error", "message": "Overloaded"}, "failed: Overloaded", True),
            ({"type": "rate_limit_error", "message": "slow down"}, "failed: slow down", True),
            ({"type": "invalid_request_error", "message": "too long"}, "failed: too long", False),
            ({"type": "invalid_request_error"}, "failed: invalid_request_error", False),
            (None, "failed: the provider reported an error", False),
        ],
    )
    def test_an_error_in_the_stream(self, error: Any, words: str, passing: bool):
        with pytest.raises(BadReply) as caught:
            decode(*text("Hel"), {"type": "error", "error": error})
        assert (caught.value.words, caught.value.passing) == (words, passing)

    def test_an_error_in_another_shape(self):
        with pytest.raises(BadReply, match="failed: no such model"):
            AnthropicDecoder().feed('{"error": {"message": "no such model"}}')

    @pytest.mark.parametrize("data", ["hello", "[1]", "12", "{"])
    def test_nonsense_is_refused(self, data: str):
        with pytest.raises(BadReply, match=r"sent (something that is not JSON|JSON that is not an object)"):
            AnthropicDecoder().feed(data)

    @pytest.mark.parametrize(
        "data",
        [
            {},
            {"type": "something_new", "x": [1]},
            {"type": "content_block_delta", "index": 9, "delta": {"type": "citations_delta", "citation": {}}},
            {"type": "content_block_delta", "delta": None},
            {"type": "message_start", "message": 3},
            start(9, "server_tool_use", id="x", name="web_search", input={}),
            "",
        ],
    )
    def test_unknown_events_and_shapes_are_passed_over(self, data: Any):
        deltas, reply = decode(data, *text("x"), data, *end(), data)
        assert deltas == [TextDelta("x")]
        assert reply.content == (text_block("x"),)

    def test_deltas_without_a_start_and_without_an_index(self):
        deltas, reply = decode(start(None, "text"), delta(None, "text_delta", text="a"), *end())
        assert said(deltas) == "a"
        deltas, reply = decode(delta(3, "thinking_delta", thinking="hm"), delta(4, "text_delta", text="a"), *end())
        assert reply.content == (thinking_block("hm"), text_block("a"))

    @pytest.mark.parametrize("data", [[], [{"type": "ping"}], [{"type": "message_stop"}]])
    def test_no_reply_at_all(self, data: list[Any]):
        with pytest.raises(BadReply, match="answered without any reply"):
            decode(*data)

    def test_a_stream_that_ends_early(self):
        with pytest.raises(BadReply, match="broke off in the middle of its reply"):
            decode(*text("Hel"))

    def test_an_empty_reply_with_a_reason_is_one(self):
        assert decode(*end())[1].content == ()

    def test_a_refusal_without_words(self):
        with pytest.raises(BadReply, match="refused to reply"):
            decode(*end("refusal"))


class TestWhole:
    def test_a_message_that_was_not_streamed(self):
        content = [SIGNED, text_block("see"), block_of("tool_use", id="c", name="look", input={"n": 1})]
        usage = {"input_tokens": 3, "output_tokens": 4}
        deltas, reply = decode({"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage})
        assert deltas == [ThinkingDelta("hm"), TextDelta("see")]
        assert reply.content == (SIGNED, text_block("see"), call("c", "look", {"n": 1}))
        assert (reply.stop_reason, reply.usage) == ("toolUse", Usage(3, 4))


STREAM = b"".join(
    b"event: %b\n%b" % (str(event["type"]).encode(), events(event))
    for event in (
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        start(0, "thinking"),
        delta(0, "thinking_delta", thinking="hm ä"),
        delta(0, "signature_delta", signature="s"),
        *text("Grüße 😀", 1),
        start(2, "tool_use", id="c1", name="look", input={}),
        delta(2, "input_json_delta", partial_json='{"at":'),
        delta(2, "input_json_delta", partial_json=' "ü"}'),
        *end("tool_use", output_tokens=4),
    )
)
WITH_COMMENTS = b": hello\n\n" + STREAM.replace(b"data: ", b": keep alive\nid: 7\ndata: ")


async def check(pieces: list[bytes]) -> None:
    deltas, reply = await read(AnthropicDecoder(), pieces)
    assert (thought(deltas), said(deltas)) == ("hm ä", "Grüße 😀")
    assert reply.content == (
        {"type": "thinking", "thinking": "hm ä", "signature": "s"},
        text_block("Grüße 😀"),
        call("c1", "look", {"at": "ü"}),
    )
    assert reply.usage == Usage(3, 4)


class TestBytes:
    @pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
    async def test_split_at_every_byte(self, line_end: bytes):
        content = STREAM.replace(b"\n", line_end)
        for place in range(len(content)):
            await check([content[:place], content[place:]])
        await check([content[n : n + 1] for n in range(len(content))])

    async def test_without_its_last_event(self):
        await check([STREAM[: STREAM.index(b"event: message_stop")]])

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 10_000)), st.booleans())
    async def test_any_chunks(self, places: list[int], crlf: bool):
        content = WITH_COMMENTS.replace(b"\n", b"\r\n") if crlf else WITH_COMMENTS
        await check(cut(content, places))


NAMES = st.sampled_from(["type", "index", "delta", "content_block", "message", "usage", "error", "text", "thinking"])
WORDS = st.sampled_from(
    ["content_block_start", "content_block_delta", "message_start", "message_delta", "message", "text", "tool_use"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(st.lists(JSON.map(json.dumps) | st.text()))
def test_any_nonsense_is_a_reply_or_a_clear_failure(data: list[str]):
    decoder = AnthropicDecoder()
    with contextlib.suppress(BadReply):
        for item in data:
            decoder.feed(item)
        decoder.finish()
