"""Cuts markdown into blocks that can be drawn one by one, also while it is still being written.

A cut stands at an empty line outside a code fence, where the next line starts at the margin and does not go on with a
list. What grows beyond 4,000 characters without such a place is cut at a line, a very long line at a space. Joined
again, the blocks are the text. Only the last two blocks of an unfinished text can still change.
"""

import re
from dataclasses import dataclass
from typing import Final

LONG_BLOCK: Final = 4_000
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_TABLE: Final = re.compile(r" {0,3}\|")


@dataclass(frozen=True, slots=True)
class Block:
    """One block.

    Attributes:
        raw: Its part of the text.
        opening: What must stand before it to be read right: the line that opened the code fence it goes on with.
        closing: What must stand behind it likewise.
    """

    raw: str
    opening: str = ""
    closing: str = ""

    @property
    def source(self) -> str:
        """The block as markdown of its own."""
        return f"{self.opening}{self.raw}{self.closing}"


class BlockedText:
    """A text that grows, with its blocks in order."""

    def __init__(self, text: str = "") -> None:
        self.replace(text)

    def append(self, text: str) -> None:
        """Add to the end; only the last blocks are looked at again."""
        if not text:
            return
        self.text += text
        keep = max(0, len(self.blocks) - 2)
        while keep and self.blocks[keep].opening:  # a cut inside a fence has no beginning of its own
            keep -= 1
        start = self._starts[keep] if keep < len(self._starts) else len(self.text) - len(text)
        if not self.blocks:
            keep = start = 0
        del self.blocks[keep:], self._starts[keep:]
        for block in split_blocks(self.text[start:]):
            self.blocks.append(block)
            self._starts.append(start)
            start += len(block.raw)

    def replace(self, text: str) -> None:
        """Start anew with another text."""
        self.text, self.blocks = "", list[Block]()
        self._starts = list[int]()
        self.append(text)


def split_blocks(text: str) -> list[Block]:
    """Return the blocks of a text."""
    return _Splitter().split(text)


class _Splitter:
    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._parts: list[str] = []
        self._length = 0
        self._fence: str | None = None
        self._fence_line = ""
        self._opening = ""

    def split(self, text: str) -> list[Block]:
        after_empty = False
        for line in text.splitlines(keepends=True):
            empty = not line.strip()
            if self._parts and ((after_empty and not empty and self._starts_block(line)) or self._too_long(line)):
                self._cut()
            for piece in _pieces(line):
                if len(piece) < len(line) and self._length + len(piece) > LONG_BLOCK and self._parts:
                    self._cut()
                self._parts.append(piece)
                self._length += len(piece)
            self._follow_fence(line)
            after_empty = empty and self._fence is None
        if self._parts:
            self._cut()
        return self._blocks

    def _starts_block(self, line: str) -> bool:
        """Whether a line that follows an empty one begins something new."""
        if self._fence is not None or line[0].isspace():
            return False
        goes_on = _LIST_ITEM.match(line) and _LIST_ITEM.match(self._parts[0])
        return not goes_on or self._length > LONG_BLOCK

    def _too_long(self, line: str) -> bool:
        """Whether the block must end before this line, however it goes on."""
        if self._length + len(line) <= LONG_BLOCK:
            return False
        return self._fence is not None or not (_TABLE.match(line) or line[0].isspace())

    def _cut(self) -> None:
        inside = self._fence is not None
        self._blocks.append(Block("".join(self._parts), self._opening, f"\n{self._fence}" if inside else ""))
        self._opening = self._fence_line if inside else ""
        self._parts, self._length = [], 0

    def _follow_fence(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        mark = found.group(1)
        if self._fence is None:
            self._fence, self._fence_line = mark, line if line.endswith("\n") else line + "\n"
        elif mark[0] == self._fence[0] and len(mark) >= len(self._fence) and not line[found.end() :].strip():
            self._fence = None


def _pieces(line: str) -> list[str]:
    """Cut a line of more than 4,000 characters at spaces."""
    pieces: list[str] = []
    while len(line) > LONG_BLOCK:
        at = line.rfind(" ", LONG_BLOCK // 2, LONG_BLOCK) + 1 or LONG_BLOCK
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line]
