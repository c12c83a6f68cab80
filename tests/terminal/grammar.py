"""A strict recogniser of what the console writes to a terminal: nothing but what Textual itself draws with.

    output := ( start | pointer | frame )*  end?
    frame  := begin ( styled | move | move-to-next-line )* end
    styled := SGR  characters that can be shown  reset

So a sequence from data is found also where Textual could have written the same: it stands between a style and its
reset, where only characters may stand, or outside a frame.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from tests.terminal.payloads import name_of

_MODES: Final = rb"\x1b\[\?(?:1049|1000|1003|1015|1006|25|1004|2004|7|2048)[hl]"
_OUTSIDE: Final = re.compile(
    _MODES + rb"|\x1b\[>25u|\x1b\[<u|\x1b\[\?(?:2026|2048)\$p|\x1b\]22;(?:default|text|pointer)\x07"
)
_BEGIN, _END = b"\x1b[?2026h", b"\x1b[?2026l"
_MOVE: Final = re.compile(rb"(?:\r\n)?\x1b\[(\d{1,3});(\d{1,3})H")
_COLOUR: Final = rb"[34]8;2;\d{1,3};\d{1,3};\d{1,3}"
_SGR: Final = re.compile(rb"\x1b\[(?:[123479]|[34]9|%b)(?:;(?:[123479]|[34]9|%b))*m" % (_COLOUR, _COLOUR))
_RESET: Final = b"\x1b[0m"
_CHARACTERS: Final = re.compile(rb"[^\x00-\x1f\x7f]*")
_MARKER: Final = re.compile(rb"p\d\d\d")
_JOINERS: Final = frozenset("\u200c\u200d")
_SHOWN_FORMATS: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
_VARIATIONS: Final = range(0xE0100, 0xE01F0)


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that the console must not write.

    Attributes:
        payload: The name of the payload whose marker stands before it, empty when there is none.
        around: The bytes from there on.
    """

    payload: str
    around: bytes


def violations(output: bytes, columns: int, rows: int) -> list[Violation]:
    """Return everything in the output that is not in the grammar."""
    return _Recogniser(output, columns, rows).read()


class _Recogniser:
    def __init__(self, output: bytes, columns: int, rows: int) -> None:
        self._output = output
        self._columns, self._rows = columns, rows
        self._at = 0
        self._found: list[Violation] = []

    def read(self) -> list[Violation]:
        in_frame = False
        while self._at < len(self._output):
            if in_frame:
                if self._take(_END):
                    in_frame = False
                elif not (self._styled() or self._moved()):
                    self._complain()
            elif self._take(_BEGIN):
                in_frame = True
            elif (found := _OUTSIDE.match(self._output, self._at)) is not None:
                self._at = found.end()
            else:
                self._complain()
        return self._found

    def _take(self, piece: bytes) -> bool:
        if not self._output.startswith(piece, self._at):
            return False
        self._at += len(piece)
        return True

    def _moved(self) -> bool:
        found = _MOVE.match(self._output, self._at)
        if found is None or int(found.group(1)) > self._rows or int(found.group(2)) > self._columns:
            return False
        self._at = found.end()
        return True

    def _styled(self) -> bool:
        sgr = _SGR.match(self._output, self._at)
        if sgr is None:
            return False
        characters = _CHARACTERS.match(self._output, sgr.end())
        assert characters is not None, "nothing at all matches too"
        self._at = characters.end()
        if _unshown(characters.group()):
            self._complain(skip=False)
        if not self._take(_RESET):
            self._complain(skip=False)
            self._skip()
        return True

    def _complain(self, *, skip: bool = True) -> None:
        markers = _MARKER.findall(self._output, max(0, self._at - 3_000), self._at)
        name = name_of(markers[-1].decode()) if markers else ""
        self._found.append(Violation(name, self._output[max(0, self._at - 60) : self._at + 40]))
        if skip:
            self._skip()

    def _skip(self) -> None:
        """Go on where a line or a frame begins."""
        places = [self._output.find(piece, self._at + 1) for piece in (b"\r\n\x1b[", _END, _BEGIN)]
        self._at = min((place for place in places if place >= 0), default=len(self._output))


def _unshown(characters: bytes) -> bool:
    """Whether there is something among the characters that cannot be seen, or that is no character."""
    try:
        text = characters.decode()
    except UnicodeDecodeError:
        return True
    return any(not letter.isascii() and not is_shown(letter) for letter in text)


def is_shown(letter: str) -> bool:
    """Whether a terminal shows a character, and does nothing else with it."""
    if letter in _JOINERS or letter in _SHOWN_FORMATS:
        return True
    return unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} and ord(letter) not in _VARIATIONS
