"""The JSON of the port: lossless, forgiving in time, and strict with what it is given."""

import contextlib
import json
import typing
from typing import Any, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.gateway import Gateway, Reads, Writes
from core.model.access import One, Operator, SessionCaller
from core.model.errors import Invalid
from core.model.events import Event, Gap, SessionGone
from core.model.json_codec import decode
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import Session, SessionQuery
from core.rules.ruleset import RuleSet
from core.wire.codec import CALLER, EVENT, SCOPE, codec_of, read_events
from core.wire.frames import encode
from core.wire.port import CHANGES, READS, Described, call
from tests.wire.values import JSON, values_of

CALLS = [*READS, *CHANGES]
FEW = settings(max_examples=20)
KINDS = [Described, *get_args(Event)]


def _there_and_back(kind: Any, value: object) -> object:
    codec = codec_of(kind)
    return codec.read(decode(encode(codec.write(value))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_what_is_told_comes_back_as_it_was(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(kind))
    assert _there_and_back(kind, value) == value


@pytest.mark.parametrize("name", CALLS)
@FEW
@given(data=st.data())
def test_what_is_asked_and_answered_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    hints = typing.get_type_hints(getattr(Gateway, name))
    result = hints.pop("return")
    arguments = {each: data.draw(values_of(hint)) for each, hint in hints.items()}
    if "limit" in arguments:
        arguments["limit"] = data.draw(st.integers(1, 10_000))
    sent = decode(encode(call(name).write(arguments)))
    assert isinstance(sent, dict)
    read = call(name).read(cast("dict[str, Any]", sent))
    assert {each: _plain(value) for each, value in read.items()} == {
        each: _plain(value) for each, value in arguments.items()
    }
    answer = data.draw(values_of(result))
    assert _there_and_back(result, answer) == answer


def public(part: type) -> set[str]:
    """Return the names of what a part of the port has."""
    return {name for name in dir(part) if not name.startswith("_")}


def test_every_method_of_the_port_has_its_call() -> None:
    plain = {"rules", "connection", "now_ms", "refusal", "unready", "policy_of", "native_tool", "subscribe"}
    assert public(Gateway) == plain | set(READS) | set(CHANGES)
    assert (public(Reads), public(Writes)) == (set(READS), set(CHANGES))


@given(value=values_of(Operator | SessionCaller), scope=values_of(One))
def test_unions_tell_their_members_apart(value: object, scope: One) -> None:
    caller: Any = value
    assert CALLER.read(CALLER.write(caller)) == value
    assert SCOPE.read(SCOPE.write(scope)) == scope
    assert CALLER.write(caller)["type"] == type(value).__name__


def test_the_names_on_the_wire_are_those_that_other_versions_know() -> None:
    """They are a protocol: a class or a field that is renamed needs the old name on the wire."""
    assert sorted(each.__name__ for each in get_args(Event)) == [
        "Activity",
        "Configured",
        "ConnectionChanged",
        "DeliveryChanged",
        "Delta",
        "ExchangeChanged",
        "Gap",
        "MessageAppended",
        "Reloaded",
        "RunChanged",
        "SessionChanged",
        "SessionGone",
        "ToolProgress",
    ]
    assert EVENT.write(SessionGone(3, "agent:main:x", "id")) == {
        "type": "SessionGone",
        "rev": 3,
        "key": "agent:main:x",
        "session_id": "id",
    }
    assert EVENT.read({"type": "Gap"}) == Gap()


def test_a_field_that_may_be_none_and_is_says_nothing_unless_that_would_mean_something_else() -> None:
    assert codec_of(SessionQuery).write(SessionQuery()) == {"kinds": [], "offset": 0, "archived": False}
    assert codec_of(SessionQuery).write(SessionQuery(archived=None))["archived"] is None
    assert codec_of(SessionQuery).read({"archived": None}) == SessionQuery(archived=None)


def test_unknown_fields_are_passed_over_and_missing_ones_take_their_default() -> None:
    assert codec_of(RunRequest).read({"target": "main", "message": "hi", "mood": "good"}) == RunRequest("main", "hi")
    spawn = codec_of(SpawnSpec).read({"requester": "r", "agent_id": "a"})
    assert spawn == SpawnSpec("r", "a")
    assert codec_of(RuleSet).read({}) == RuleSet()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "a RunRequest is expected"),
        ({"target": "main"}, "RunRequest lacks message: text is expected"),
        ({"target": "main", "message": 3}, 'RunRequest.message is "3", and text is expected'),
        ({"target": "main", "message": "x", "create": 1}, "RunRequest.create"),
        ({"target": "main", "message": "x", "timeout_ms": True}, "RunRequest.timeout_ms"),
        ({"target": "main", "message": "x", "timeout_ms": 2**60}, "RunRequest.timeout_ms"),
        ({"target": "main", "message": "x", "timeout_ms": 1.5}, "a whole number or null is expected"),
        ({"target": "main", "message": "x", "spawn": {"requester": "r"}}, "RunRequest.spawn: SpawnSpec lacks agent_id"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_field(data: object, says: str) -> None:
    with pytest.raises(Invalid) as error:
        codec_of(RunRequest).read(data)
    assert says in error.value.message
    assert "\n" not in error.value.message


def test_a_word_outside_its_list_is_refused() -> None:
    with pytest.raises(Invalid, match=r"SessionQuery.kinds: \"pet\" is none of main, group"):
        codec_of(SessionQuery).read({"kinds": ["pet"]})
    with pytest.raises(Invalid, match="type is"):
        SCOPE.read({"type": "Everything"})


@given(data=JSON, kind=st.sampled_from([Session, RunRequest, RuleSet, SessionQuery, Event, Described]))
def test_whatever_comes_is_read_or_refused(data: Any, kind: Any) -> None:
    with contextlib.suppress(Invalid):
        codec_of(kind).read(data)


@given(data=st.data(), kind=st.sampled_from([Described, *get_args(Event)]))
def test_one_wrong_part_anywhere_is_read_or_refused(data: st.DataObject, kind: Any) -> None:
    """The value of one place is replaced by anything."""
    written: Any = decode(encode(codec_of(kind).write(data.draw(values_of(kind)))))
    holders: list[Any] = [written, *(part for part in _parts(written) if isinstance(part, dict | list) and part)]
    holder: Any = data.draw(st.sampled_from(holders))
    if holder:
        places = sorted(cast("dict[str, Any]", holder)) if isinstance(holder, dict) else list(range(len(holder)))
        place = data.draw(st.sampled_from(places))
        holder[place] = data.draw(JSON)
    with contextlib.suppress(Invalid):
        codec_of(kind).read(written)


def _plain(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _parts(value: Any) -> list[Any]:
    if not isinstance(value, dict | list):
        return []
    inner = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
    return [part for each in inner for part in (each, *_parts(each))]


def test_events_of_a_kind_that_is_not_known_are_passed_over() -> None:
    gone = {"type": "SessionGone", "rev": 1, "key": "k", "session_id": "s"}
    assert read_events([{"type": "Earthquake", "rev": 0}, gone]) == [SessionGone(1, "k", "s")]
    with pytest.raises(Invalid):
        read_events({"events": []})


def test_a_limit_must_be_one_that_can_be_answered() -> None:
    for limit in (0, -1, 10_001):
        with pytest.raises(Invalid, match="at /limit"):
            call("deliveries").read({"limit": limit})


def test_json_of_half_characters_can_be_sent() -> None:
    assert json.loads(encode({"text": "\ud800"}))["text"] == "\ufffd"
