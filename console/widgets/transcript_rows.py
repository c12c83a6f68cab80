"""The rows of a transcript as they are drawn: the lines of those that were looked at, and a height for each.

Heights of rows that nobody has seen are guesses.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from console.live.heights import Heights
from console.live.transcript import Transcript
from console.widgets.message_lines import Chunk

GUESS: Final = 4
"""Lines of a row that nobody has seen."""
KEPT_ROWS: Final = 600


class TranscriptRows:
    """Lines and heights of rows; after the messages comes one more row, for the reply under way.

    Args:
        draw: Returns the chunks of a row by its `seq`, None while its message is not in memory.
    """

    def __init__(self, draw: Callable[[Transcript, int], list[Chunk] | None]) -> None:
        self.heights = Heights()
        self._draw = draw
        self._drawn: OrderedDict[int, list[Chunk]] = OrderedDict()

    def begin(self, count: int) -> None:
        """Know nothing but how many messages there are."""
        self._drawn.clear()
        self.heights.replace([GUESS] * count + [0])

    def grow(self, transcript: Transcript) -> None:
        """Have a height for each message, and a last one for the reply under way."""
        heights = self.heights
        while len(heights) <= len(transcript):
            heights.append(0)
            heights.set(len(heights) - 2, GUESS)
        if len(heights) > len(transcript) + 1:
            heights.replace([GUESS] * len(transcript) + [0])

    def forget(self, seq: int) -> None:
        """Draw a row anew."""
        self._drawn.pop(seq, None)

    def forget_all(self) -> None:
        """Draw all rows anew; their heights stay until then."""
        self._drawn.clear()

    def chunks(self, transcript: Transcript, seq: int) -> list[Chunk] | None:
        """Return a row's chunks, None while its message is not in memory."""
        known = self._drawn.get(seq)
        if known is not None:
            self._drawn.move_to_end(seq)
            return known
        chunks = self._draw(transcript, seq)
        if chunks is None:
            return None
        self._drawn[seq] = chunks
        while len(self._drawn) > KEPT_ROWS:
            self._drawn.popitem(last=False)
        return chunks

    def measure(self, transcript: Transcript, low: int, high: int) -> bool:
        """Make the heights of what stands between two lines exact; whether any of them changed."""
        changed = False
        heights = self.heights
        index = heights.at(max(0, low))
        start = heights.start(index)
        while index < len(heights) and start < high:
            chunks = self.chunks(transcript, transcript.first + index)
            end = start + heights[index]
            if chunks is not None:
                _draw_between(chunks, low - start, high - start)
                exact = sum(chunk.height for chunk in chunks)
                changed |= exact != heights[index]
                heights.set(index, exact)
            start = end
            index += 1
        return changed

    def anchor(self, transcript: Transcript, view: int) -> tuple[int, int, int]:
        """Return what stands at a line: the row, its chunk, the line in that."""
        index = self.heights.at(view)
        into = view - self.heights.start(index)
        chunks = self._drawn.get(index + transcript.first, [])
        for number, chunk in enumerate(chunks):
            if into < chunk.height:
                return index, number, into
            into -= chunk.height
        return index, len(chunks), into

    def line_of(self, transcript: Transcript, anchor: tuple[int, int, int]) -> int:
        """Return the line where an anchor stands now."""
        index, number, into = anchor
        chunks = self._drawn.get(index + transcript.first, [])
        line = sum(chunk.height for chunk in chunks[:number])
        limit = chunks[number].height if number < len(chunks) else self.heights[index] - line
        return self.heights.start(index) + line + max(0, min(into, limit - 1))


def _draw_between(chunks: list[Chunk], low: int, high: int) -> None:
    """Draw the chunks of a row that stand between two of its lines."""
    start = 0
    for chunk in chunks:
        end = start + chunk.height
        if end > low and start < high:
            chunk.get()
        start = end
