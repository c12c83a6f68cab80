"""Gateways of ours that are newer or older than this program: what they say is read, and claims no more than is so."""

import typing
from typing import Any, Literal, cast, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.gateway import Gateway
from core.model.errors import Invalid
from core.model.events import Event, RunChanged, SessionChanged
from core.model.keys import ChatType
from core.model.runs import RunRequest
from core.model.sessions import Session, SessionQuery
from core.rules.policy import Match
from core.wire.codec import EVENT, codec_of, read_events
from core.wire.port import CHANGES, READS, Described, call
from tests.live.samples import make_run, make_session
from tests.wire.values import values_of

TOLD: dict[str, Any] = {each.__name__: each for each in (Described, *get_args(Event))} | {
    name: typing.get_type_hints(getattr(Gateway, name))["return"] for name in (*READS, *CHANGES)
}
LATELY = {
    "AgentRules": {"sandbox"},
    "Exchange": {"task_state", "task_ms"},
    "RuleSet": {"untold"},
    "Run": {"agent_id"},
    "RunOutcome": {"stop_reason"},
}
"""Fields that gateways of before did not tell."""


def rewritten(kind: Any, data: Any, *, newer: bool) -> Any:
    """Return what a gateway tells as a newer one does, with words and fields of its own, or an older one, without."""
    origin, args = get_origin(kind), get_args(kind)
    if data is None:
        return None
    if origin is Literal:
        return "new-word" if newer else data
    if isinstance(data, list):
        data = cast("list[Any]", data)
        members = args if origin is tuple and args[-1] is not ... else [args[0]] * len(data)
        return [rewritten(member, each, newer=newer) for member, each in zip(members, data, strict=True)]
    if origin is dict:
        return {name: rewritten(args[1], each, newer=newer) for name, each in data.items()}
    for member in args:
        if get_origin(member) is not None or hasattr(member, "__annotations__"):
            return rewritten(member, data, newer=newer)
    if not isinstance(data, dict) or not hasattr(kind, "__annotations__") or kind.__name__ == "Message":
        return cast("Any", data)
    hints = typing.get_type_hints(kind)
    data = cast("dict[str, Any]", data)
    changed: dict[str, Any] = {name: rewritten(hints.get(name, str), each, newer=newer) for name, each in data.items()}
    if newer:
        return changed | {"new_field": {"of": ["any", "shape"]}}
    return {name: each for name, each in changed.items() if name not in LATELY.get(kind.__name__, ())}


@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
@pytest.mark.parametrize("name", TOLD)
@settings(max_examples=20)
@given(data=st.data())
def test_what_a_gateway_of_another_version_tells_is_read(name: str, newer: bool, data: st.DataObject) -> None:
    codec = codec_of(TOLD[name], told=True)
    value = data.draw(values_of(TOLD[name]))
    read = codec.read(rewritten(TOLD[name], codec.write(value), newer=newer))
    assert codec.read(codec.write(read)) == read, "what was made of it is of ours"
    codec_of(TOLD[name]).read(codec.write(read))  # also to whoever allows no word that is not ours


def test_a_session_in_a_state_that_is_not_known_is_shown_and_claims_nothing() -> None:
    written = codec_of(Session).write(make_session("k"))
    read = codec_of(Session, told=True).read(written | {"status": "paused", "kind": "pet", "send_policy": "ask"})
    assert (read.status, read.kind, read.send_policy) == (None, "other", None)
    with pytest.raises(Invalid, match="none of queued"):
        codec_of(Session).read(written | {"status": "paused"})


def test_a_rule_for_a_chat_that_is_not_known_does_not_become_one_for_all_chats() -> None:
    read = codec_of(Match, told=True).read({"chat_type": "thread"})
    assert read.chat_type in get_args(ChatType)


def test_what_is_asked_of_us_is_taken_by_its_word() -> None:
    """A client that asks for what we do not have must hear of it."""
    with pytest.raises(Invalid, match=r"none of main, group"):
        call("list_sessions").read({"query": {"kinds": ["pet"]}, "scope": {"type": "All"}})
    assert codec_of(SessionQuery, told=False).read({"new_field": 1}) == SessionQuery()
    assert codec_of(RunRequest).read({"target": "main", "message": "x", "new_field": 1}) == RunRequest("main", "x")


def test_one_event_that_cannot_be_read_does_not_take_the_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    changed = EVENT.write(SessionChanged(2, make_session("k")))
    told = [{"type": "SessionGone", "rev": "1"}, {"type": "Later"}, 7, changed | {"rev": 3}]
    assert read_events(told) == [SessionChanged(3, make_session("k"))]
    assert "SessionGone" in caplog.text


def test_a_run_in_a_state_that_is_not_known_is_not_over() -> None:
    written = EVENT.write(RunChanged(1, make_run("k", turn=0, attempts=1)))
    written["run"] |= {"state": "waiting-for-approval", "kind": "check"}
    (changed,) = read_events([written])
    assert isinstance(changed, RunChanged)
    assert (changed.run.live, changed.run.kind) == (True, "turn")
