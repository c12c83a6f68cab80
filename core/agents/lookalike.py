"""Finding a line that a reader would take for one of ours, whatever letters it is written in.

Compared is the skeleton of a line: what is left of it without accents, case, invisible characters, spaces and
punctuation, each letter that looks like another one read as that.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_BRACKETS: Final = "[({<［（｛＜【〔〖〘〚「『｢⟦⟨⟪⟬⁅❲❨❪❬❮❰❴⦃⦅⦇⦉⦋⦍⦏⦑⧼⸢⸤⸦⸨⌈⌊⎡⎣⎢﹇﹝﹛﹙«‹〈《〈︗︻︹"
_OPENING: Final = re.compile(f"[{re.escape(_BRACKETS)}]")
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that show nothing."""
_LOOKS: Final = {
    "a": "аɑαᴀ⍺ꭺᎪꓮ@4∀",
    "e": "еεєҽ℮ᴇɛꓰᎬ3ҿэ",
    "g": "ɡցɢᶃԍꓖᏀ9ǥɠ",
    "i": "іιıɩɪӏǀ∣lᎥꓲ1|!¡ן׀ɨ⎮",
    "m": "мμᴍɱꓟᎷϻ",
    "n": "пոռɴηνꓠŋиɲ",
    "o": "оοσøօᴏ0০०୦၀〇○◯ꓳⵔסⲟ◦",
    "r": "гᴦʀɾɼᎡᏒꓣꭇꭈя",
    "s": "ѕꜱʂƽտᏚꓢ5$§",
    "t": "тτᴛƭꓔᎢ⊤7+†ŧ⟙",
}
_FRAMED: Final = (0x1F150, 0x1F170, 0x1F1E6)
"""Where letters in discs, in squares and as flags begin."""
_PLAIN: Final = {ord(look): letter for letter, looks in _LOOKS.items() for look in looks}
_LETTERS: Final = _PLAIN | {
    first + place: _PLAIN.get(ord(letter), letter)
    for first in _FRAMED
    for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
}


def bracket_of(line: str, words: str) -> int | None:
    """Return where the bracket stands that a line begins with, before words that look like these; None without.

    `words` are a skeleton: small letters only.
    """
    found = _OPENING.search(line)
    if found is not None and not any(map(_speaks, line[: found.start()])):
        is_escaped = (found.start() - len(line[: found.start()].rstrip("\\"))) % 2
        letters = "".join(itertools.islice(_skeleton(line[found.end() :]), 2 * len(words)))
        if not is_escaped and letters.replace("rn", "m").startswith(words):
            return found.start()
    return None


def _skeleton(text: str) -> Iterator[str]:
    """Yield the letters that a reader sees, as plain small ones."""
    for letter in text:
        plain = letter if letter.isascii() else unicodedata.normalize("NFKD", letter)
        for each in plain.casefold():
            if (looks := _LETTERS.get(ord(each))) is not None:
                yield looks
            elif each.isalnum() and each not in _BLANK:
                yield each


def _speaks(letter: str) -> bool:
    """Whether a letter before the bracket makes it one inside a sentence."""
    return letter.isalnum() and letter not in _BLANK
