"""Whatever is said can be drawn at any width, and takes the lines it was said to take."""

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from console.live.exchanges import Exchanges
from console.live.text.clean import clean, clean_line
from console.live.transcript import Transcript
from console.themes import DEFAULT_THEME, THEMES
from console.widgets.drawing import fit
from console.widgets.markdown_lines import Line, MarkdownLines
from console.widgets.message_lines import Chunk, MessageLines
from core.model.events import Delta, ToolProgress
from core.model.messages import Message, Provenance, text_block, thinking_block, tool_call_block
from tests.live.samples import any_text
from tests.live.test_markdown_blocks import MARKDOWN

INKS = THEMES[DEFAULT_THEME]
WIDTHS = st.integers(1, 250)
LEAST = 8
"""Cells that words are laid out in at least; a narrower view cuts them."""
LEAST_ROW = 40
"""Cells below which the console says that there is no room; lines of rows are cut there."""


def assert_fits(line: Line, width: int) -> None:
    assert sum(cell_len(segment.text) for segment in line) <= width, line
    assert all("\n" not in segment.text for segment in line)


@settings(max_examples=150)
@given(st.one_of(MARKDOWN, any_text().map(clean)), WIDTHS, st.booleans())
def test_any_text_is_drawn_within_its_width(text: str, width: int, plain: bool) -> None:
    for line in MarkdownLines(INKS).draw(text, width, plain=plain):
        assert_fits(line, max(LEAST, width))


@given(any_text().map(clean_line), st.integers(-5, 100), st.booleans())
def test_words_fit_exactly(text: str, width: int, right: bool) -> None:
    assert cell_len(fit(text, width, right=right)) == max(0, width)


@settings(max_examples=100)
@given(st.lists(any_text(80), min_size=4, max_size=4), WIDTHS, st.integers(-(2**53), 2**53))
def test_any_message_is_drawn_and_has_its_height(texts: list[str], width: int, at: int) -> None:
    one, two, three, four = texts
    call = tool_call_block("call", one, {two: three})
    transcript = Transcript("key", "id", 1, 0)
    source = Provenance(one, two, three)
    transcript.append(Message("1", 1, at, "user", (text_block(one),), source))
    transcript.append(
        Message("2", 2, at, "assistant", (text_block(two), thinking_block(three), call), stop_reason="toolUse")
    )
    transcript.append(Message("3", 3, at, "toolResult", (text_block(four),), tool_call_id="call", tool_name=two))
    transcript.append(Message("4", 4, at, "system", (text_block(four),), stop_reason="error"))
    transcript.append(Message("5", 5, at, "user", (text_block(three),)))
    transcript.toggle(3)
    transcript.apply_delta(Delta("key", "run", 0, "text", 0, one))
    transcript.apply_delta(Delta("key", "run", 1, "thinking", 0, two))
    transcript.apply_tool(ToolProgress("key", "run", "c", three, four), at)
    lines = MessageLines(INKS, MarkdownLines(INKS), width, "agent", lambda key: clean_line(key, 60), Exchanges())
    lines.thinking = True
    chunks: list[Chunk] = lines.live(transcript, transcript.live, at, at)
    for seq in range(1, 6):
        item = transcript.peek(seq)
        assert item is not None
        chunks += lines.chunks(transcript, item, at)
    for chunk in chunks:
        drawn = chunk.get()
        assert chunk.height == len(drawn)
        for line in drawn:
            assert_fits(line, max(LEAST_ROW, width))
