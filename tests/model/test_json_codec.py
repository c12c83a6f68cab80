"""The JSON of everything stored or sent: what goes out every reader can read, what comes in is checked."""

import json
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.errors import Invalid
from core.model.json_codec import MAX_DEPTH, check_depth, decode, encode, encode_indented, heal
from core.model.messages import Message, text_block, tool_call_block

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
ENDLESS = [float("nan"), float("inf"), float("-inf")]


def no_constant(name: str) -> NoReturn:
    raise AssertionError(name)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@given(JSON)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    text = encode(value)
    assert decode(text) == heal(text) == decode(text.encode()) == decode(encode_indented(value)) == value
    assert json.loads(text, parse_constant=no_constant) == value


@pytest.mark.parametrize("value", [ENDLESS[0], ENDLESS[1], [ENDLESS[2]], {"a": {"b": ENDLESS[0]}}, {ENDLESS[1]: 1}])
def test_no_endless_number_goes_out(value: object) -> None:
    for written in (encode, encode_indented):
        with pytest.raises(Invalid, match="no NaN and no infinite numbers"):
            written(value)


def test_a_file_for_people_has_lines_and_an_end() -> None:
    assert encode_indented({"a": [1, "\ud800é"]}) == '{\n "a": [\n  1,\n  "\ufffdé"\n ]\n}\n'


def test_what_is_not_wanted_is_not_read() -> None:
    text = '{"big": [1], "b": {"big": 2, "c": 1e999, "d": NaN}}'
    assert heal(text, frozenset({"big"})) == {"b": {"c": None, "d": None}}
    with pytest.raises(Invalid, match="more than 4,300 digits"):
        heal(f'{{"b": {"1" * 5000}}}', frozenset({"big"}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not JSON: expecting value at character 0"),
        ("{", "not JSON"),
        ("[1,", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        ("NaN", "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ('{"limit": 1e999}', "1e999 is larger than any"),
        ('{"limit": -1e999}', "-1e999 is larger than any"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', 'names "c" twice'),
        ("1" * 5000, "more than 4,300 digits"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "too deep"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "too deep"),
        ("[" * 200_000, "too deep"),
    ],
    ids=lambda value: value[:16] if isinstance(value, str) else None,
)
def test_what_comes_in_is_refused_in_one_sentence(text: str | bytes, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        decode(text)
    assert sentence in refused.value.message
    assert len(refused.value.message) < 200


def test_whole_numbers_of_any_size_stay_as_they_are() -> None:
    text = '{"a":9007199254740993,"b":123456789012345678901234567890}'
    assert encode(decode(text)) == encode(heal(text)) == text


def test_what_an_older_version_wrote_is_healed() -> None:
    assert heal('{"a": NaN, "b": [Infinity, -Infinity, 1e999], "c": 1.5}') == {"a": None, "b": [None] * 3, "c": 1.5}


def test_halves_of_surrogate_pairs_become_one_that_utf8_can_carry() -> None:
    assert encode({"a": "\ud800", "b": "\ud83d\ude00", "c": "ä"}) == '{"a":"\ufffd","b":"😀","c":"ä"}'
    assert decode('"\\ud800"') == "\ud800"


def test_a_value_is_as_deep_as_it_is_however_many_brackets_its_words_have() -> None:
    assert decode(encode(deep(MAX_DEPTH))) == deep(MAX_DEPTH)
    assert decode(encode(["[" * 1000])) == ["[" * 1000]
    wide = [{"a": [1]}] * 1000
    assert decode(encode(wide)) == wide
    with pytest.raises(Invalid, match="too deep"):
        check_depth(deep(MAX_DEPTH + 1), encode(deep(MAX_DEPTH + 1)))
    with pytest.raises(Invalid, match="too deep"):
        encode(deep(100_000))


def test_a_message_is_stored_as_json_or_not_at_all() -> None:
    message = Message("m", 1, 0, "assistant", (tool_call_block("c", "t", {"n": float("inf")}),))
    with pytest.raises(Invalid):
        message.storable()
    with pytest.raises(Invalid, match="too deep"):
        message._replace(content=(tool_call_block("c", "t", {"n": deep(MAX_DEPTH)}),)).storable()
    said = message._replace(content=(text_block("half \ud83d\ude00 \udc00"),))
    stored, body = said.storable()
    assert stored.text == "half 😀 \ufffd"
    assert Message.decode(body) == stored


def test_a_row_that_an_older_version_stored_is_read_as_json() -> None:
    row = '{"id":"m","seq":1,"timestamp":0,"content":[{"type":"toolCall","arguments":{"n":Infinity}}]}'
    assert Message.decode(row).content == ({"type": "toolCall", "arguments": {"n": None}},)
