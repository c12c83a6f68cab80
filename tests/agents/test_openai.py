"""Chat completions: what is asked, and how every kind of answer is read."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agents.openai import OpenAIDecoder, headers, request_body
from core.agents.port import TextDelta, ThinkingDelta
from core.agents.wire import BAD_ARGUMENTS, Ask, BadReply
from core.config.settings import ModelSettings
from core.model.messages import Message, Provenance, Usage, text_block, thinking_block
from core.model.tools import Tool
from tests.support.messages import assistant, call, note, result, user
from tests.support.sse import cut, events, read, said, thought

MODEL = ModelSettings("p", "m", "openai-completions", "http://localhost:1/v1")
IMAGE = {"type": "image", "mimeType": "image/png", "data": "QUJD"}


def ask(*messages: Message, model: ModelSettings = MODEL, system: str = "", **fields: Any) -> dict[str, Any]:
    return request_body(Ask(model, system, messages, **fields))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def calls(*fragments: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


def fragment(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    given = {"index": index, "id": call_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {k: v for k, v in given.items() if v is not None}


def decode(*data: str | dict[str, Any]):
    decoder = OpenAIDecoder()
    deltas = [delta for item in data for delta in decoder.feed(item if isinstance(item, str) else json.dumps(item))]
    return deltas, decoder.finish()


class TestRequest:
    def test_asks_for_a_stream_with_usage(self):
        body = ask(user("hi"), system="be brief")
        assert body == {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        }

    def test_offers_tools(self):
        tool = Tool("look", "Looks.", {"type": "object", "properties": {}})
        function = {"name": "look", "description": "Looks.", "parameters": tool.parameters}
        assert ask(user("hi"), tools=(tool,))["tools"] == [{"type": "function", "function": function}]

    @pytest.mark.parametrize(
        ("level", "effort"), [(None, None), ("off", None), ("minimal", "minimal"), ("low", "low"), ("high", "high")]
    )
    def test_thinking_level_is_the_effort(self, level: str | None, effort: str | None):
        assert ask(user("hi"), thinking=level).get("reasoning_effort") == effort

    @pytest.mark.parametrize(
        ("url", "name"),
        [("https://api.openai.com/v1", "max_completion_tokens"), ("http://localhost:11434/v1", "max_tokens")],
    )
    def test_limit_has_the_name_the_endpoint_knows(self, url: str, name: str):
        body = ask(user("hi"), model=ModelSettings("p", "m", "openai-completions", url, max_tokens=99))
        assert {key: body.get(key) for key in ("max_tokens", "max_completion_tokens")} == {
            "max_tokens": None,
            "max_completion_tokens": None,
            name: 99,
        }

    def test_tools_and_results_are_mapped(self):
        asking = assistant("let me see", call("c1", "look", {"at": "ä"}))
        messages = ask(user("hi"), asking, result("c1", "it is red"), assistant("red"))["messages"]
        function = {"name": "look", "arguments": '{"at":"ä"}'}
        assert messages[1:] == [
            {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "it is red"},
            {"role": "assistant", "content": "red"},
        ]

    def test_notes_and_empty_replies_are_not_sent(self):
        sent = ask(note("for people"), user("hi"), assistant(), assistant(thinking_block("hm")))
        assert sent["messages"] == [{"role": "user", "content": "hi"}]

    def test_images_are_data_urls(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
        assert ask(user("see", IMAGE), user("", IMAGE))["messages"] == [
            {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
            {"role": "user", "content": [image]},
        ]

    @pytest.mark.spec("S8")
    def test_another_sessions_message_says_so(self):
        body = ask(user("do it", source=Provenance("agent:a:main", "webchat", "sessions_send")))
        assert body["messages"][0]["content"].startswith("[Inter-session message from agent:a:main via sessions_send")

    def test_thinking_goes_back_beside_calls_to_the_model_that_wrote_it(self):
        thinking = {**thinking_block("hm"), "field": "reasoning_content"}

        def sent(*content: Any, model: str) -> Any:
            return ask(user("hi"), assistant(*content, model=model))["messages"][1].get("reasoning_content")

        assert sent(thinking, call("c"), model="p/m") == "hm"
        assert sent(thinking, call("c"), model="other/m") is None
        assert sent(thinking, "done", model="p/m") is None
        assert sent(thinking_block("hm"), call("c"), model="p/m") is None

    def test_key_is_a_bearer_token(self):
        assert headers("k") == {"Authorization": "Bearer k"}
        assert headers("") == {}


class TestWords:
    def test_text_comes_in_deltas(self):
        deltas, reply = decode(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Hel"}),
            chunk({"content": "lo"}),
            chunk({}, "stop"),
            "[DONE]",
        )
        assert deltas == [TextDelta("Hel"), TextDelta("lo")]
        assert reply.content == (text_block("Hello"),)
        assert reply.stop_reason == "stop"
        assert reply.usage is None

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
    def test_thinking_comes_under_two_names(self, name: str):
        deltas, reply = decode(chunk({name: "h"}), chunk({name: "m"}), chunk({"content": "yes"}), chunk({}, "stop"))
        assert deltas == [ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("yes")]
        assert reply.content == ({"type": "thinking", "thinking": "hm", "field": name}, text_block("yes"))

    def test_thinking_under_both_names_counts_once(self):
        deltas, _ = decode(chunk({"reasoning_content": "hm", "reasoning": "hm"}), chunk({"content": "x"}, "stop"))
        assert thought(deltas) == "hm"

    def test_thinking_between_words_makes_blocks_in_order(self):
        _, reply = decode(
            chunk({"content": "a"}), chunk({"reasoning": "b"}), chunk({"content": "c"}), chunk({}, "stop")
        )
        assert [block["type"] for block in reply.content] == ["text", "thinking", "text"]

    def test_content_may_be_a_list_of_parts(self):
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "yes"},
            {"type": "reference", "reference_ids": [1]},
        ]
        deltas, reply = decode(chunk({"content": parts}, "stop"))
        assert deltas == [ThinkingDelta("hm"), TextDelta("yes")]
        assert reply.content == (thinking_block("hm"), text_block("yes"))

    def test_a_refusal_is_said(self):
        assert said(decode(chunk({"content": None, "refusal": "I will not."}, "stop"))[0]) == "I will not."

    def test_half_characters_are_mended_in_the_reply_and_harmless_before(self):
        deltas, reply = decode(chunk({"content": "\ud83d"}), chunk({"content": "\ude00"}), chunk({}, "stop"))
        assert reply.content == (text_block("😀"),)
        said(deltas).encode()

    @pytest.mark.parametrize(
        ("finish", "stop"), [("stop", "stop"), ("length", "length"), ("tool_calls", "stop"), ("eos", "stop")]
    )
    def test_finish_reasons(self, finish: str, stop: str):
        assert decode(chunk({"content": "x"}, finish))[1].stop_reason == stop


class TestTools:
    def test_arguments_come_in_fragments(self):
        deltas, reply = decode(
            calls(fragment(0, "c1", "look", "")),
            calls(fragment(0, arguments='{"a')),
            calls(fragment(0, arguments='t": "x"}')),
            chunk({}, "tool_calls"),
        )
        assert deltas == []
        assert reply.content == (call("c1", "look", {"at": "x"}),)
        assert reply.stop_reason == "toolUse"

    def test_two_calls_at_once_in_turns(self):
        _, reply = decode(
            calls(fragment(0, "c1", "look", '{"n"'), fragment(1, "c2", "find", '{"n"')),
            calls(fragment(1, arguments=":2}")),
            calls(fragment(0, arguments=":1}")),
            chunk({}, "tool_calls"),
        )
        assert reply.content == (call("c1", "look", {"n": 1}), call("c2", "find", {"n": 2}))

    def test_two_calls_under_one_index(self):
        _, reply = decode(
            calls(fragment(0, "c1", "look", '{"n":1}')),
            calls(fragment(0, "c2", "look", '{"n":2}')),
            chunk({}, "stop"),
        )
        assert reply.content == (call("c1", "look", {"n": 1}), call("c2", "look", {"n": 2}))
        assert reply.stop_reason == "toolUse"

    def test_a_repeated_id_and_name_is_the_same_call(self):
        _, reply = decode(
            calls(fragment(0, "c1", "look", '{"n"')), calls(fragment(0, "c1", "look", ":1}")), chunk({}, "tool_calls")
        )
        assert reply.content == (call("c1", "look", {"n": 1}),)

    def test_without_index_the_id_tells_calls_apart(self):
        _, reply = decode(
            calls(fragment(None, "c1", "look", '{"n"'), fragment(None, "c2", "look", '{"n"')),
            calls(fragment(None, "c1", arguments=":1}"), fragment(None, "c2", arguments=":2}")),
            chunk({}, "tool_calls"),
        )
        assert reply.content == (call("c1", "look", {"n": 1}), call("c2", "look", {"n": 2}))

    def test_without_index_and_id_a_name_begins_a_call(self):
        _, reply = decode(
            calls(fragment(None, None, "look", '{"n"')),
            calls(fragment(None, None, None, ":1}")),
            calls(fragment(None, None, "look", '{"n":2}')),
            calls(fragment(None, None, "find", "{}")),
            chunk({}, "tool_calls"),
        )
        assert [(block["name"], block["arguments"]) for block in reply.content] == [
            ("look", {"n": 1}),
            ("look", {"n": 2}),
            ("find", {}),
        ]
        assert len({block["id"] for block in reply.content}) == 3

    def test_a_name_repeated_in_each_fragment_is_one_call(self):
        _, reply = decode(
            calls(fragment(None, None, "look", '{"n"')), calls(fragment(None, None, "look", ":1}")), chunk({}, "stop")
        )
        assert [block["arguments"] for block in reply.content] == [{"n": 1}]

    def test_an_id_used_twice_is_replaced(self):
        _, reply = decode(calls(fragment(0, "c", "look", "{}"), fragment(1, "c", "look", "{}")), chunk({}, "stop"))
        first, second = (block["id"] for block in reply.content)
        assert first == "c"
        assert second not in {"", "c"}

    @pytest.mark.parametrize("arguments", ["", "  ", "null", "{}", {}])
    def test_no_arguments_are_an_empty_object(self, arguments: Any):
        _, reply = decode(calls(fragment(0, "c", "look", arguments)), chunk({}, "tool_calls"))
        assert reply.content == (call("c", "look"),)

    def test_arguments_may_come_as_an_object(self):
        _, reply = decode(calls(fragment(0, "c", "look", {"n": 1})), chunk({}, "tool_calls"))
        assert reply.content == (call("c", "look", {"n": 1}),)

    @pytest.mark.parametrize("arguments", ['{"n": ', "[1]", '"x"', "nonsense", "[" * 100_000])
    def test_bad_arguments_are_kept_beside_the_call(self, arguments: str):
        _, reply = decode(calls(fragment(0, "c", "look", arguments)), chunk({}, "length"))
        assert reply.content == ({**call("c", "look"), BAD_ARGUMENTS: arguments},)
        assert reply.stop_reason == "length"

    def test_a_call_without_a_name_is_an_error(self):
        with pytest.raises(BadReply, match="asked for a tool without naming it"):
            decode(calls(fragment(0, "c", None, "{}")), chunk({}, "tool_calls"))


class TestUsage:
    def test_cached_tokens_are_not_counted_twice(self):
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
        _, reply = decode(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage}, "[DONE]")
        assert reply.usage == Usage(input=40, output=7, cache_read=60)

    def test_other_places_and_names(self):
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 30}
        in_choice = chunk({"content": "x"}, "stop")
        in_choice["choices"][0]["usage"] = usage
        assert decode(in_choice)[1].usage == Usage(input=70, output=7, cache_read=30)

    def test_the_last_count_wins_and_null_does_not(self):
        first, last = ({"prompt_tokens": 9, "completion_tokens": n} for n in (1, 2))
        _, reply = decode(chunk({"content": "x"}, usage=first), chunk({}, "stop", usage=last), chunk({}, usage=None))
        assert reply.usage == Usage(input=9, output=2)

    @pytest.mark.parametrize("value", ["many", None, -5, 1e999, [], {"a": 1}])
    def test_counts_that_are_none_count_as_nothing(self, value: Any):
        usage = {"prompt_tokens": value, "completion_tokens": 3, "prompt_tokens_details": value}
        assert decode(chunk({"content": "x"}, "stop", usage=usage))[1].usage == Usage(output=3)

    def test_more_cached_than_read_is_limited(self):
        usage = {"prompt_tokens": 5, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 9}}
        assert decode(chunk({"content": "x"}, "stop", usage=usage))[1].usage == Usage(cache_read=5)


class TestTrouble:
    @pytest.mark.parametrize(
        ("error", "words", "passing"),
        [
            ({"error": {"message": "out of memory", "type": "server_error"}}, "failed: out of memory", False),
            ({"error": {"message": "busy", "code": 502}}, "failed: busy", True),
            ({"error": {"message": "slow down", "code": 429}}, "failed: slow down", True),
            ({"error": {"message": "bad", "code": "invalid"}}, "failed: bad", False),
            ({"error": "model not loaded"}, "failed: model not loaded", False),
            ({"object": "error", "message": "too long"}, "failed: too long", False),
            ([{"error": {"message": "quota", "code": 429}}], "failed: quota", True),
            ({"error": {"unknown": 1}}, "failed: the provider reported an error", False),
        ],
    )
    def test_an_error_in_the_stream(self, error: Any, words: str, passing: bool):
        decoder = OpenAIDecoder()
        decoder.feed(json.dumps(chunk({"content": "Hel"})))
        with pytest.raises(BadReply) as caught:
            decoder.feed(json.dumps(error))
        assert (caught.value.words, caught.value.passing) == (words, passing)

    @pytest.mark.parametrize("data", ["hello", "[1]", "12", '"x"', "{", "[" * 100_000, "null"])
    def test_nonsense_is_refused(self, data: str):
        with pytest.raises(BadReply, match=r"sent (something that is not JSON|JSON that is not an object)"):
            OpenAIDecoder().feed(data)

    @pytest.mark.parametrize(
        "data",
        [
            {},
            {"choices": None},
            {"choices": [None, 3, {"delta": 5}]},
            {"choices": [{"delta": {"content": 3, "tool_calls": "x"}}]},
            {"new": {"field": [1]}, "choices": [], "error": None},
            "",
            " ",
        ],
    )
    def test_unknown_fields_and_shapes_are_passed_over(self, data: Any):
        deltas, reply = decode(data, chunk({"content": "x"}), data, chunk({}, "stop"), data)
        assert deltas == [TextDelta("x")]
        assert reply.content == (text_block("x"),)

    @pytest.mark.parametrize("data", [[], ["[DONE]"], [{"hello": "world"}], [chunk({"role": "assistant"}), "[DONE]"]])
    def test_no_reply_at_all(self, data: list[Any]):
        with pytest.raises(BadReply, match="answered without any reply"):
            decode(*data)

    def test_a_stream_that_ends_early(self):
        with pytest.raises(BadReply, match="broke off in the middle of its reply"):
            decode(chunk({"content": "Hel"}))

    def test_end_mark_or_finish_reason_is_enough(self):
        assert decode(chunk({"content": "x"}), "[DONE]")[1].content == (text_block("x"),)
        assert decode(chunk({"content": "x"}, "stop"))[1].content == (text_block("x"),)

    def test_an_empty_reply_with_a_reason_is_one(self):
        assert decode(chunk({}, "stop"))[1].content == ()

    def test_a_content_filter_that_leaves_nothing(self):
        with pytest.raises(BadReply, match="content filter"):
            decode(chunk({}, "content_filter"))

    def test_an_error_as_finish_reason(self):
        with pytest.raises(BadReply, match="broke off its reply"):
            decode(chunk({"content": "x"}, "error"))

    def test_other_choices_are_not_mixed_in(self):
        other = {"choices": [{"index": 1, "delta": {"content": "B"}}]}
        assert said(decode(chunk({"content": "A"}), other, chunk({}, "stop"))[0]) == "A"


class TestWhole:
    def test_a_completion_that_was_not_streamed(self):
        message = {
            "role": "assistant",
            "content": "see",
            "reasoning_content": "hm",
            "tool_calls": [fragment(None, "c1", "look", '{"n":1}'), fragment(None, "c2", "look", '{"n":2}')],
        }
        usage = {"prompt_tokens": 3, "completion_tokens": 4}
        deltas, reply = decode({"choices": [{"index": 0, "message": message, "finish_reason": None}], "usage": usage})
        assert deltas == [ThinkingDelta("hm"), TextDelta("see")]
        assert [block["type"] for block in reply.content] == ["thinking", "text", "toolCall", "toolCall"]
        assert reply.usage == Usage(3, 4)


STREAM = events(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "hm ä"}),
    chunk({"content": "Grüße "}),
    chunk({"content": "😀"}),
    calls(fragment(0, "c1", "look", '{"at":')),
    calls(fragment(0, arguments=' "ü"}')),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    "[DONE]",
)
WITH_COMMENTS = b": hello\n\n" + STREAM.replace(b"data: ", b": keep alive\nid: 7\nretry: 10\ndata: ")


async def check(pieces: list[bytes]) -> None:
    deltas, reply = await read(OpenAIDecoder(), pieces)
    assert (thought(deltas), said(deltas)) == ("hm ä", "Grüße 😀")
    assert reply.content == (
        {"type": "thinking", "thinking": "hm ä", "field": "reasoning_content"},
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

    async def test_comments_and_other_fields(self):
        await check([WITH_COMMENTS])

    async def test_without_an_end_mark(self):
        await check([STREAM.removesuffix(b"data: [DONE]\n\n")])

    async def test_data_over_several_lines(self):
        content = b'data: {"choices": [{"delta":\ndata: {"content": "x"},\ndata: "finish_reason": "stop"}]}\n\n'
        assert (await read(OpenAIDecoder(), content))[1].content == (text_block("x"),)

    async def test_what_follows_the_end_mark_does_not_matter(self):
        await check([STREAM, b"data: nonsense\n\n"])

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 10_000)), st.booleans())
    async def test_any_chunks(self, places: list[int], crlf: bool):
        content = WITH_COMMENTS.replace(b"\n", b"\r\n") if crlf else WITH_COMMENTS
        await check(cut(content, places))


NAMES = [
    *("choices", "delta", "message", "index", "finish_reason", "content", "reasoning", "tool_calls", "function"),
    *("name", "arguments", "id", "usage", "prompt_tokens", "error", "code"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(st.lists(JSON.map(json.dumps) | st.text()))
def test_any_nonsense_is_a_reply_or_a_clear_failure(data: list[str]):
    decoder = OpenAIDecoder()
    with contextlib.suppress(BadReply):
        for item in data:
            decoder.feed(item)
        decoder.finish()
