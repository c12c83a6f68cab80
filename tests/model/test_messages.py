"""H2: messages in the raw transcript format."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.messages import (
    BRIEF_SPEECH_CHARS,
    BRIEF_TOOL_CHARS,
    Message,
    Provenance,
    Usage,
    brief,
    text_block,
    thinking_block,
    tool_call_block,
    unanswered_calls,
)

TOKENS = st.integers(0, 10_000)
USAGES = st.builds(
    Usage, TOKENS, TOKENS, TOKENS, TOKENS, st.none() | st.floats(0, 100).map(lambda cost: round(cost, 6))
)
BLOCKS = st.one_of(
    st.text(max_size=40).map(text_block),
    st.text(max_size=40).map(thinking_block),
    st.builds(tool_call_block, st.text(min_size=1, max_size=8), st.just("sessions_list"), st.just({"limit": 1})),
)
MESSAGES = st.builds(
    Message,
    id=st.uuids().map(str),
    seq=st.integers(1, 10**6),
    timestamp=st.integers(0, 2**45),
    role=st.sampled_from(["user", "assistant", "system"]),
    content=st.lists(BLOCKS, max_size=4).map(tuple),
    provenance=st.none() | st.builds(Provenance, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)),
    usage=st.none() | USAGES,
    model=st.none() | st.text(max_size=9),
    stop_reason=st.none() | st.sampled_from(["stop", "toolUse", "aborted"]),
    tool_call_id=st.none() | st.text(max_size=9),
    tool_name=st.none() | st.text(max_size=9),
    is_error=st.just(value=False),  # of a tool's result only
    run_id=st.none() | st.uuids().map(str),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("id", "seq", "timestamp", "role", "content", "provenance", "usage", "model", "stopReason", "toolCallId")


@pytest.mark.spec("H2")
@given(MESSAGES)
def test_a_stored_message_is_read_back_as_it_was(message: Message) -> None:
    assert Message.decode(message.encode(), message.run_id) == message


@pytest.mark.spec("H2")
def test_the_wire_form_has_these_names_and_no_nulls() -> None:
    full = Message(
        "m1",
        3,
        1_700_000_000_000,
        "toolResult",
        (text_block("hi"),),
        provenance=Provenance("agent:a:main", "discord", "sessions_send"),
        usage=Usage(1, 2, 3, 4, 0.5),
        model="p/m",
        stop_reason="stop",
        tool_call_id="c1",
        tool_name="sessions_list",
        is_error=True,
    )
    assert full.as_json() == {
        "id": "m1",
        "seq": 3,
        "timestamp": 1_700_000_000_000,
        "role": "toolResult",
        "content": [{"type": "text", "text": "hi"}],
        "provenance": {
            "kind": "inter_session",
            "sourceSessionKey": "agent:a:main",
            "sourceChannel": "discord",
            "sourceTool": "sessions_send",
        },
        "usage": {
            "input": 1,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "totalTokens": 10,
            "cost": {"total": 0.5},
        },
        "model": "p/m",
        "stopReason": "stop",
        "toolCallId": "c1",
        "toolName": "sessions_list",
        "isError": True,
    }
    bare = Message("m2", 1, 2, "user", ())
    assert bare.as_json() == {"id": "m2", "seq": 1, "timestamp": 2, "role": "user", "content": []}


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_anything_a_gateway_sends_can_be_read(data: dict[str, Any]) -> None:
    message = Message.read(data)
    Message.decode(message.encode())
    assert 0 <= abs(message.seq) <= 2**53


@given(st.text(max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_halves_of_surrogate_pairs_are_repaired_before_storing(text: str, places: list[int]) -> None:
    for place in places:
        text = text[:place] + "\ud83d" + text[place:]
    kept, body = Message("m", 1, 2, "user", (text_block(text),)).storable()
    body.encode()
    assert kept.text == json.loads(body)["content"][0]["text"]
    assert kept.text.replace("\ufffd", "") == text.replace("\ud83d", "").replace("\ufffd", "")


@given(st.lists(USAGES, max_size=6))
def test_usages_add_up(usages: list[Usage]) -> None:
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    assert total.input == sum(usage.input for usage in usages)
    assert total.context == sum(usage.context for usage in usages)
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    assert (total.cost_usd is None) == (not costs)
    assert math.isclose(total.cost_usd or 0.0, sum(costs), rel_tol=1e-6, abs_tol=1e-12)


def test_a_brief_message_cuts_what_is_long_and_says_how_much() -> None:
    result = Message("m", 1, 2, "toolResult", (text_block("x" * (BRIEF_TOOL_CHARS + 7)), text_block("short")))
    cut, short = brief(result).content
    assert (len(cut["text"]), cut["cut"]) == (BRIEF_TOOL_CHARS, 7)
    assert short == text_block("short")
    speech = Message("m", 1, 2, "assistant", (text_block("x" * (BRIEF_TOOL_CHARS + 7)),))
    assert brief(speech) is speech
    long = Message("m", 1, 2, "assistant", (text_block("x" * (BRIEF_SPEECH_CHARS + 1)),))
    assert brief(long).content[0]["cut"] == 1
    call = Message("m", 1, 2, "assistant", (tool_call_block("c", "t", {"a": "y" * 9000, "b": 1}),))
    arguments = brief(call).content[0]["arguments"]
    assert (len(arguments["a"]), arguments["b"], brief(call).content[0]["cut"]) == (BRIEF_TOOL_CHARS, 1, 1000)
    image = Message("m", 1, 2, "user", ({"type": "image", "mimeType": "image/png", "data": "z" * 9000},))
    assert brief(image).content[0] == {"type": "image", "mimeType": "image/png", "data": "", "cut": 9000}


def test_calls_without_an_answer_are_found() -> None:
    asked = Message(
        "a", 1, 1, "assistant", (tool_call_block("c1", "one", {}), tool_call_block("c2", "two", {}), text_block("so"))
    )
    answered = Message("b", 2, 1, "toolResult", (text_block("ok"),), tool_call_id="c1", tool_name="one")
    assert unanswered_calls([asked, answered]) == [("c2", "two")]
