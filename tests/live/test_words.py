"""Numbers, times and names as the console writes them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.text.words import age, ago, clock_span, cost_cell, key_name, seconds_span, session_name, size, tokens
from core.model.money import dollars
from tests.live.samples import any_text, make_session


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "now"),
        (1_999, "now"),
        (2_000, "2s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (3_600_000, "1h"),
        (172_800_000, "2d"),
    ],
)
def test_age(ms: int, words: str) -> None:
    assert age(ms) == words


def test_ago() -> None:
    assert [ago(ms) for ms in (0, 1_999, 14_000)] == ["just now", "just now", "14s ago"]


@pytest.mark.parametrize(("ms", "words"), [(-1, "0:00"), (42_900, "0:42"), (600_000, "10:00"), (3_723_000, "1:02:03")])
def test_clock_span(ms: int, words: str) -> None:
    assert clock_span(ms) == words


@pytest.mark.parametrize(
    ("ms", "words"), [(0, "0.0 s"), (9_949, "9.9 s"), (10_000, "10 s"), (59_999, "59 s"), (200_000, "3:20")]
)
def test_seconds_span(ms: int, words: str) -> None:
    assert seconds_span(ms) == words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0"), (999, "999"), (1_000, "1.0k"), (8_149, "8.1k"), (96_400, "96k"), (1_240_000, "1.2M")]
)
def test_tokens(count: int, words: str) -> None:
    assert tokens(count) == words


@given(st.integers(0, 99_000_000))
def test_tokens_take_at_most_five_cells(count: int) -> None:
    assert len(tokens(count)) <= 5


@pytest.mark.parametrize(
    ("usd", "words", "cell"),
    [
        (0, "$0.00", "$0.00"),
        (1e-9, "<$0.00001", "<$0.01"),
        (5e-05, "$0.00005", "<$0.01"),
        (0.00012, "$0.0001", "<$0.01"),
        (0.004, "$0.0040", "<$0.01"),
        (0.01, "$0.01", "$0.01"),
        (12.345, "$12.35", "$12.35"),
        (None, None, ""),
    ],
)
def test_money(usd: float | None, words: str | None, cell: str) -> None:
    assert usd is None or dollars(usd) == words
    assert cost_cell(usd) == cell


@given(st.floats(1e-300, 999, exclude_min=True))
def test_no_cost_looks_like_none(usd: float) -> None:
    for said in (dollars(usd), cost_cell(usd)):
        assert re.search("[1-9]", said)
    assert len(cost_cell(usd)) <= 7


@pytest.mark.parametrize(
    ("length", "words"), [(640, "640 chars"), (9_999, "9,999 chars"), (48_000, "48 KB"), (5_000_000, "5.0 MB")]
)
def test_size(length: int, words: str) -> None:
    assert size(length) == words


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("agent:main:main", "main"),
        ("main", "main"),
        ("agent:helper:main", "helper"),
        ("agent:main:discord:group:ops:eu", "ops:eu"),
        ("agent:main:subagent:0123456789ab", "sub-agent 01234567"),
        ("agent:main:telegram:direct:42", "telegram:direct:42"),
        ("cron:nightly", "cron:nightly"),
        ("agent::x", "agent::x"),
    ],
)
def test_key_name(key: str, name: str) -> None:
    assert key_name(key, "main") == name


@given(any_text())
def test_any_key_has_a_name(key: str) -> None:
    assert key_name(key, "main") or not key


def test_a_label_comes_before_a_display_name_before_the_key() -> None:
    session = make_session("cron:nightly", label="label", display_name="display")
    assert session_name(session, "main") == "label"
    assert session_name(session._replace(label=None), "main") == "display"
    assert session_name(session._replace(label=None, display_name=None), "main") == "cron:nightly"
