"""The first wall alone: whatever an event brings, what is made of it for the screen can be shown
(architecture#threats)."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.live.book import Book
from console.live.exchanges import Exchanges
from console.live.items import read_item
from console.live.text.clean import HARMLESS, clean, clean_line
from console.live.transcript import Transcript
from console.themes import DEFAULT_THEME, THEMES
from console.widgets.markdown_lines import MarkdownLines
from console.widgets.message_lines import MessageLines
from core.model.events import Activity, Delta, SessionChanged, ToolProgress
from core.model.messages import Message, Provenance, text_block, thinking_block, tool_call_block
from tests.live.samples import any_text, make_session
from tests.terminal.grammar import is_shown
from tests.terminal.payloads import PAYLOADS

KEY = "agent:main:main"
INKS = THEMES[DEFAULT_THEME]

every_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))


def assert_shown(text: str, *, lines: bool = False) -> None:
    """Check that every character can be shown; line ends and tabs only in what has several lines."""
    bad = [letter for letter in text if not is_shown(letter) and not (lines and letter in "\n\t")]
    assert not bad, f"{bad} in {text!r}"


def test_every_character_is_shown_or_replaced() -> None:
    everything = "".join(map(chr, range(0x110000)))
    assert_shown(clean(everything), lines=True)
    assert len(HARMLESS) < 3_000


@given(any_text())
def test_cleaning_is_stable_and_keeps_what_can_be_shown(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert len(cleaned) <= len(text)
    assert_shown(cleaned, lines=True)


TAGS = [chr(code) for code in range(0xE0000, 0xE0080)]
"""Invisible, also where Unicode has assigned nothing yet."""


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Mn"], exclude_characters=TAGS)))
@example("ä\U0001f642\U000e0080")
def test_what_can_be_shown_stays(text: str) -> None:
    assert clean(text) == text


@given(any_text(), st.integers(1, 300))
def test_a_line_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    line = clean_line(text, limit)
    assert_shown(line)
    assert len(line) <= limit
    assert "  " not in line


def test_line_ends_and_tabs() -> None:
    assert clean("a\r\nb\tc\rd") == "a\nb\tc␍d"
    assert clean_line(" a\r\n\tb\u2028c ") == "a b c"
    assert clean("\x1b[2J\x9b\x7f\u202e\ufeff") == "␛[2J\ufffd␡\ufffd"


@every_payload
def test_a_row_holds_nothing_harmful(payload: str) -> None:
    book = Book()
    session = make_session(
        payload,
        agent_id=payload,
        channel=payload,
        display_name=payload,
        model=payload,
        used_model=payload,
        thinking_level=payload,
        status="error",
        preview=payload,
        error=payload,
    )
    for label in (payload, None):
        for status in ("error", "running"):
            book.apply(SessionChanged(1, session._replace(rev=book_rev(book) + 1, label=label, status=status)))
            row = book.rows[payload]
            drawn = (row.session.model, row.session.used_model, row.session.thinking_level, row.session.agent_id)
            for text in (row.name, row.key, row.channel, row.words, *drawn):
                assert_shown(text or "")
            assert_shown(row.haystack, lines=True)
    book.apply(Activity(payload, "run", payload))
    assert_shown(book.rows[payload].words)


def book_rev(book: Book) -> int:
    """Return the newest `rev` that a book has seen."""
    return max((row.session.rev for row in book.rows.values()), default=0)


def hostile_messages(payload: str) -> Iterator[Message]:
    """Yield messages with the payload in every field that is drawn."""
    source = Provenance(payload, payload, payload, payload)
    call = tool_call_block("call", payload, {payload: payload, "b": [payload], "c": {payload: 1}})
    odd = ({"type": payload}, {"type": "image", "mimeType": payload})
    content = (text_block(payload), thinking_block(payload), call, *odd)
    yield Message("1", 1, 0, "user", content, source)
    yield Message("2", 2, 0, "user", content)
    yield Message("3", 3, 0, "assistant", content, model=payload, stop_reason=payload)
    yield Message("4", 4, 0, "toolResult", content, tool_call_id="call", tool_name=payload)
    yield Message("5", 5, 0, "toolResult", content, tool_call_id="none", tool_name=payload, is_error=True)
    yield Message("6", 6, 0, "system", content, stop_reason=payload)
    yield Message("7", 7, 0, "system", content)


@every_payload
def test_an_item_holds_nothing_harmful(payload: str) -> None:
    for message in hostile_messages(payload):
        item = read_item(message)
        for text in (item.via, item.model, item.stop_reason):
            assert_shown(text)
        for part in item.parts:
            assert_shown(part.name)
            assert_shown(part.text, lines=True)


@every_payload
def test_what_is_drawn_of_a_transcript_is_harmless(payload: str) -> None:
    transcript = Transcript(KEY, "id", 1, 0)
    for message in hostile_messages(payload):
        assert transcript.append(message)
    transcript.toggle(4)
    transcript.apply_tool(ToolProgress(KEY, "run", "call", payload, payload), 0)
    transcript.apply_delta(Delta(KEY, "run", 0, "text", 0, payload))
    transcript.apply_delta(Delta(KEY, "run", 1, "thinking", 0, payload))
    assert_drawn_harmless(transcript)


@every_payload
def test_a_payload_cut_anywhere_while_it_streams_is_harmless(payload: str) -> None:
    for at in range(1, len(payload)):
        transcript = Transcript(KEY, "id", 1, 0)
        transcript.apply_delta(Delta(KEY, "run", 0, "text", 0, payload[:at]))
        assert_shown(transcript.live.blocks[0].words.text if transcript.live else "", lines=True)
        transcript.apply_delta(Delta(KEY, "run", 0, "text", at, payload[at:]))
        assert transcript.live is not None
        assert transcript.live.blocks[0].words.text == clean(payload)
        assert_drawn_harmless(transcript)


def assert_drawn_harmless(transcript: Transcript) -> None:
    """Draw everything and look at every character, and for links."""
    lines = MessageLines(INKS, MarkdownLines(INKS), 60, "agent", lambda key: clean_line(key, 60), Exchanges())
    lines.thinking = True
    chunks = lines.live(transcript, transcript.live, 0, 0)
    for seq in range(1, len(transcript) + 1):
        item = transcript.peek(seq)
        assert item is not None
        chunks += lines.chunks(transcript, item, 0)
    for segment in (segment for chunk in chunks for line in chunk.get() for segment in line):
        assert_shown(segment.text)
        assert segment.control is None
        assert segment.style is None or (segment.style.link is None and not segment.style.meta)
