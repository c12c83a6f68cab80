"""The input filter: text from sessions is made harmless where it enters the console's model (architecture#threats).

Control, C1 and escape characters become symbols, direction overrides a replacement character, what is invisible goes.
`console.sanitizer` looks once more at what leaves; each holds alone.
"""

from typing import Final

_SHOWN_CONTROLS: Final = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_KEPT: Final = {ord("\n"): "\n", ord("\t"): "\t"}
_C1: Final = dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}")
_OVERRIDES: Final = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")
_LINE_ENDS: Final = {0x2028: "\n", 0x2029: "\n"}
_INVISIBLE: Final = dict.fromkeys(
    (
        0x00AD,
        0x061C,
        0x180E,
        0x200B,
        0x200E,
        0x200F,
        *range(0x2060, 0x2066),
        *range(0x206A, 0x2070),
        0xFEFF,
        *range(0xFFF9, 0xFFFC),
        *range(0x13430, 0x13440),
        *range(0x1BCA0, 0x1BCA4),
        *range(0x1D173, 0x1D17B),
        *range(0xE0000, 0xE0080),
        *range(0xE0100, 0xE01F0),
    )
)
_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")

HARMLESS: Final[dict[int, int | str | None]] = (
    _SHOWN_CONTROLS | _KEPT | _C1 | _OVERRIDES | _LINE_ENDS | _INVISIBLE | _SURROGATES
)
"""For `str.translate`: every character that must not reach a terminal, and what stands in for it."""


def harmful_ranges() -> str:
    """Return the same characters as ranges for a regular expression's brackets."""
    ranges: list[list[int]] = []
    for code in sorted(HARMLESS):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


def clean(text: str) -> str:
    """Return text of several lines with nothing in it but what can be shown."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(HARMLESS)


def clean_line(text: str, limit: int = 200) -> str:
    """Return the text as one line of at most `limit` characters, white space folded."""
    return " ".join(clean(text[: limit * 4]).split())[:limit]
