"""How a gateway is reached, in words: short enough for where they stand, and counting down."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.text.connections import broken, data_age, state_words, where
from console.themes import ASCII_SIGNS, UNICODE_SIGNS
from core.model.connection import Connection

NOW = 1_000_000_000_000
LOCAL = Connection("live")
LOST = Connection("lost", name="prod", heard_at=NOW - 14_000, retry_at=NOW + 2_400)


def said(*connections: Connection, room: int = 200) -> str:
    return "".join(word.text for word in where(connections, NOW, UNICODE_SIGNS.connections, room)).rstrip()


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (LOCAL, "local"),
        (Connection("live", "the disk is full"), "local ! the disk is full"),
        (Connection("reading", "owned by another"), "local reading only"),
        (Connection("live", name="prod", latency_ms=12.4, heard_at=NOW), "prod live 12 ms"),
        (Connection("live", name="prod", heard_at=NOW - 50_000), "prod live, silent for 50s"),
        (Connection("connecting", name="prod"), "prod connecting"),
        (Connection("refused", name="prod"), "prod refused"),
        (LOST, "prod lost 14s ago, next try 3s"),
        (Connection("lost", name="prod", heard_at=NOW - 500, retry_at=NOW - 10), "prod lost just now, next try 0s"),
        (Connection("lost", name="prod"), "prod lost"),
    ],
)
def test_one_gateway_is_said_in_words(connection: Connection, words: str) -> None:
    assert said(connection) == words


def test_with_less_room_there_are_fewer_words() -> None:
    assert said(LOST, room=20) == "prod lost 14s"
    assert said(LOST, room=8) == "prod"
    assert said(Connection("live", "the disk is full"), room=20) == "local ! see @"
    assert said(LOCAL, LOST) == "local ●  prod ◌ lost 14s ago, next try 3s"
    assert said(LOCAL, LOST, room=20) == "local ● prod ◌"


@given(st.integers(0, 120), st.lists(st.sampled_from([LOCAL, LOST, Connection("refused", name="lab")]), min_size=1))
def test_every_gateway_is_named_whatever_the_room(room: int, connections: list[Connection]) -> None:
    text = said(*connections, room=room)
    assert all((connection.name or "local") in text for connection in connections)


def test_the_time_until_the_next_try_counts_down_and_data_grow_old() -> None:
    counted = [state_words(LOST, NOW + ms).rpartition(" ")[2] for ms in (0, 500, 1500, 2500)]
    assert counted == ["3s", "2s", "1s", "0s"]
    assert data_age(LOST, NOW) == "data of 14s ago"
    assert data_age(LOCAL, NOW) == ""


def test_what_is_broken_says_why_and_what_comes_next() -> None:
    assert broken(LOCAL, NOW) is None
    assert broken(LOST, NOW) == ("prod is not connected.", "prod: last heard 14s ago, next try 3s.")
    refused = Connection("refused", "prod does not know this device yet", name="prod", retry_at=NOW + 30_000)
    assert broken(refused, NOW) == ("prod does not know this device yet", "Tried again by itself: next try 30s.")
    hostile = Connection("refused", "say \x1b]0;x\x07 \u202e", name="prod")
    assert "\x1b" not in "".join(broken(hostile, NOW) or ())


def test_signs_take_one_cell_and_differ_where_states_do() -> None:
    for signs in (UNICODE_SIGNS.connections, ASCII_SIGNS.connections):
        assert {len(sign) for sign in signs.values()} == {1}
        pairs = {(one, other) for one, other in product(signs, signs) if signs[one] == signs[other] and one != other}
        assert pairs == {("lost", "connecting"), ("connecting", "lost")}
