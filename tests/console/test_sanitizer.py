"""The second wall alone: nothing that a terminal would obey leaves inside a line (architecture#threats)."""

import pytest
from hypothesis import given
from rich.control import Control
from rich.segment import ControlType, Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from console.sanitizer import OutputSanitizer
from tests.live.samples import any_text
from tests.terminal.grammar import is_shown
from tests.terminal.payloads import PAYLOADS

BLACK = Color(0, 0, 0)
RED = Style(color="red", bold=True)


def through(*segments: Segment) -> list[Segment]:
    """Return what the wall lets out of a line."""
    return OutputSanitizer().apply(list(segments), BLACK)


def assert_harmless(segments: list[Segment]) -> None:
    for segment in segments:
        bad = [letter for letter in segment.text if not is_shown(letter)]
        assert not bad, f"{bad} in {segment.text!r}"
        assert segment.style is None or segment.style.link is None


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
def test_no_payload_gets_out(payload: str) -> None:
    linked = Style(link=payload)
    hostile = [Segment(payload, RED), Segment(payload), Segment("x", linked), Segment(payload, linked)]
    out = through(Segment("before "), *hostile)
    assert_harmless(out)
    assert out[0].text == "before "
    assert out[1].style == RED


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
def test_no_payload_gets_out_of_a_strip_as_the_driver_writes_it(payload: str) -> None:
    written = Strip([Segment(payload, RED)]).apply_filter(OutputSanitizer(), BLACK).render(_console())
    assert written.startswith("\x1b[1;31m")
    assert written.endswith("\x1b[0m")
    assert all(map(is_shown, written.removeprefix("\x1b[1;31m").removesuffix("\x1b[0m")))


@given(any_text())
def test_no_text_gets_out(text: str) -> None:
    assert_harmless(through(Segment(text), Segment(text, RED)))


def test_what_is_harmless_is_not_touched() -> None:
    segments = [Segment("plain", RED), Segment("漢字 é 👩\u200d👧 שלום"), Segment("")]
    assert OutputSanitizer().apply(segments, BLACK) is segments


def test_what_textual_itself_says_to_the_terminal_passes() -> None:
    title = Control.title("ours").segment
    home = Control((ControlType.CURSOR_MOVE_TO, 3, 4)).segment
    assert through(title, Segment("\x1b"), home) == [title, Segment("␛"), home]


def test_a_line_stays_one_line() -> None:
    assert [segment.text for segment in through(Segment("a\nb\tc\r\nd\u2028e"))] == ["a b c␍ d e"]


def _console():
    from rich.console import Console

    return Console(force_terminal=True, color_system="standard", legacy_windows=False)
