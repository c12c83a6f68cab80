"""Frames and errors as texts, both ways."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.errors import Conflict, Forbidden, Invalid, NotFound, SwitchboardError, Unauthorized, Unavailable
from core.wire import frames
from core.wire.errors import SEND_BLOCKED, from_wire, http_status, http_type, missing_scope, to_wire
from core.wire.frames import BadFrame, EventFrame, RawJson, Request, Response, parse
from tests.wire.values import JSON, WORDS

OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
ERRORS = [
    Invalid("the message is empty"),
    Unauthorized("the token is wrong"),
    Forbidden("only the owner can do that", ("owner",)),
    Forbidden("agent:main:x: send policy denies it", ("sendPolicy override",)),
    Forbidden("agent:main:x: send policy denies it", ("session.sendPolicy.rules[0]", "session.sendPolicy.rules[2]")),
    NotFound("no session has the key x"),
    Conflict("it was reset meanwhile"),
    Unavailable("the disk is full"),
]


@given(frame_id=WORDS.filter(bool), method=WORDS.filter(bool), params=OBJECTS)
def test_a_request_is_read_as_it_was_written(frame_id: str, method: str, params: dict[str, Any]) -> None:
    assert parse(frames.request(frame_id, method, params)) == Request(frame_id, method, params)


@given(frame_id=WORDS, payload=JSON, seq=st.none() | st.integers(1, 10**6))
def test_answers_and_events_are_read_as_they_were_written(frame_id: str, payload: Any, seq: int | None) -> None:
    assert parse(frames.response(frame_id, payload)) == Response(frame_id, ok=True, payload=payload)
    assert parse(frames.event("tick", payload, seq=seq)) == EventFrame("tick", payload, seq)
    error = to_wire(Invalid("no"))
    assert parse(frames.refused(frame_id, error)) == Response(frame_id, ok=False, error=error)


def test_json_that_is_ready_is_spliced_in_as_it_is() -> None:
    assert parse(frames.event("x", RawJson('{"a": [1, 2]}'), seq=7)) == EventFrame("x", {"a": [1, 2]}, 7)


@pytest.mark.parametrize("text", ["", "{", "hello", "[1,", "[" * 100_000, '{"a": NaN}', "1" * 5000])
def test_what_is_no_json_is_passed_over(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_request_with_a_number_that_json_has_not_is_refused_and_an_answer_with_one_is_read(number: str) -> None:
    with pytest.raises(BadFrame, match=r"number|larger") as refused:
        parse(f'{{"type":"req","id":"a","method":"x","params":{{"n":{number}}}}}')
    assert refused.value.frame_id == "a"
    answer = f'{{"type":"res","id":"a","ok":true,"payload":{{"n":{number}}}}}'
    assert parse(answer, asked=True) == Response("a", ok=True, payload={"n": None})


@pytest.mark.parametrize(
    ("text", "frame_id"),
    [
        ("3", None),
        ("[]", None),
        ('{"type": "req"}', None),
        ('{"type": "req", "id": 4, "method": "x"}', None),
        ('{"type": "req", "id": "a"}', "a"),
        ('{"type": "req", "id": "a", "method": "x", "params": []}', "a"),
        ('{"type": "res"}', None),
        ('{"type": "event"}', None),
        ('{"type": "other", "id": "b"}', "b"),
    ],
)
def test_json_that_is_no_frame_is_refused_with_its_id(text: str, frame_id: str | None) -> None:
    with pytest.raises(BadFrame) as error:
        parse(text)
    assert error.value.frame_id == frame_id


@given(st.text(max_size=60) | OBJECTS.map(frames.encode))
def test_whatever_comes_is_a_frame_or_refused_or_passed_over(text: str) -> None:
    try:
        found = parse(text)
    except BadFrame:
        return
    assert found is None or isinstance(found, Request | Response | EventFrame)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.code}-{error.message[:12]}")
def test_an_error_comes_back_as_it_was(error: SwitchboardError) -> None:
    back = from_wire(to_wire(error))
    assert type(back) is type(error)
    assert back.message == error.message
    assert getattr(back, "decided_by", ()) == getattr(error, "decided_by", ())


@pytest.mark.spec("P4")
def test_a_denied_send_says_what_decided_in_the_words_clients_know() -> None:
    wire = to_wire(Forbidden("agent:main:x: denied", ("session.sendPolicy.default",)))
    assert wire["code"] == "INVALID_REQUEST"
    assert wire["message"] == SEND_BLOCKED
    assert wire["details"]["code"] == "SEND_POLICY_DENIED"
    assert wire["details"]["decidedBy"] == ["session.sendPolicy.default"]


def test_each_error_has_its_row() -> None:
    found = [(http_status(error), http_type(error), to_wire(error)["code"]) for error in ERRORS]
    assert found == [
        (400, "invalid_request", "INVALID_REQUEST"),
        (401, "unauthorized", "INVALID_REQUEST"),
        (403, "forbidden", "FORBIDDEN"),
        (403, "forbidden", "INVALID_REQUEST"),
        (403, "forbidden", "INVALID_REQUEST"),
        (404, "not_found", "INVALID_REQUEST"),
        (409, "conflict", "INVALID_REQUEST"),
        (503, "unavailable", "UNAVAILABLE"),
    ]
    assert to_wire(ERRORS[-1])["retryable"] is True


def test_what_other_gateways_leave_out_is_known_by_their_sentences() -> None:
    said = {
        "missing scope: operator.write": Forbidden,
        "send blocked by session policy": Forbidden,
        "session not found: agent:main:nope": NotFound,
        "No session found: nope": NotFound,
        "label already in use: x": Conflict,
        "invalid chat.send params": Invalid,
    }
    for message, kind in said.items():
        assert type(from_wire({"code": "INVALID_REQUEST", "message": message})) is kind
    mismatch = {"code": "INVALID_REQUEST", "message": "no", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
    assert type(from_wire(mismatch)) is Unauthorized
    assert type(from_wire(missing_scope("operator.admin"))) is Forbidden


@given(JSON)
def test_whatever_stands_for_an_error_is_one(data: Any) -> None:
    assert from_wire(data).message
    assert from_wire({"code": data, "message": data, "details": {"code": data, "decidedBy": data}}).message
