"""Cutting markdown into blocks: nothing is lost, and how it arrived makes no difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.text.clean import clean
from console.live.text.markdown_blocks import LONG_BLOCK, BlockedText, split_blocks
from tests.live.samples import any_text

SHORT = ["words ", "\n", "\n\n", "# heading\n", "    code\n", "> quote\n", "---\n", "<b>", "[a]: b\n", "\t", " "]
LISTS = ["- item\n", "  - nested\n", "1. one\n", "10) ten\n\n", "|a|b|\n", "|-|-|\n"]
FENCES = ["```\n", "```python\n", "~~~~\n", "````\n", "  ```\n"]
LONG = ["x" * 300, "words " * 60, ("y" * 70 + "\n") * 20, "|cell|cell|\n" * 90, "z" * (LONG_BLOCK + 3)]
PIECES = st.sampled_from([*SHORT, *LISTS, *FENCES, *LONG])
MARKDOWN = st.one_of(st.lists(PIECES, max_size=40).map("".join), any_text().map(clean))


@given(MARKDOWN)
def test_blocks_joined_are_the_text(text: str) -> None:
    blocks = split_blocks(text)
    assert "".join(block.raw for block in blocks) == text
    assert all(block.raw for block in blocks)


@given(any_text())
def test_any_text_can_be_cut(text: str) -> None:
    assert "".join(block.raw for block in split_blocks(text)) == text


@given(st.lists(PIECES, max_size=60).map("".join))
def test_blocks_are_of_bounded_size_but_for_tables_and_what_is_indented(text: str) -> None:
    for block in split_blocks(text):
        if "|" not in block.raw and "\n    " not in block.raw and "\n " not in block.raw and "\n\t" not in block.raw:
            assert len(block.raw) <= 2 * LONG_BLOCK


@given(MARKDOWN, st.data())
def test_what_streams_in_pieces_is_cut_as_what_came_at_once(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    blocked = BlockedText()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        blocked.append(text[start:end])
    assert blocked.text == text
    assert blocked.blocks == split_blocks(text)


@given(MARKDOWN)
def test_what_streams_letter_by_letter_is_cut_as_what_came_at_once(text: str) -> None:
    text = text[:400]
    blocked = BlockedText()
    for letter in text:
        blocked.append(letter)
    assert blocked.blocks == split_blocks(text)


@given(MARKDOWN, MARKDOWN)
def test_a_replaced_text_leaves_nothing_behind(old: str, new: str) -> None:
    blocked = BlockedText(old)
    blocked.replace(new)
    assert (blocked.text, blocked.blocks) == (new, split_blocks(new))


def test_a_fence_that_is_cut_is_opened_and_closed_again() -> None:
    body = "".join(f"line {number}\n" for number in range(1_000))
    blocks = split_blocks(f"```python\n{body}```\n")
    assert len(blocks) > 1
    assert all(block.source.startswith("```python\n") for block in blocks)
    assert all(block.source.rstrip().endswith("```") for block in blocks)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n\nb", ["a\n\n", "b"]),
        ("a\nb", ["a\nb"]),
        ("- a\n\n- b\n\nc", ["- a\n\n- b\n\n", "c"]),
        ("1. a\n\n   more\n\n2. b", ["1. a\n\n   more\n\n2. b"]),
        ("```\na\n\nb\n```\n\nc", ["```\na\n\nb\n```\n\n", "c"]),
        ("```\nnever closed\n\nat all", ["```\nnever closed\n\nat all"]),
        ("", []),
        ("\n\n", ["\n\n"]),
    ],
)
def test_where_blocks_end(text: str, blocks: list[str]) -> None:
    assert [block.raw for block in split_blocks(text)] == blocks
