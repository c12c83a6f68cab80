"""Keeps what is logged off the screen, as long as no log is open to take it."""

import logging
from typing import Final

_NOWHERE: Final = logging.NullHandler()


def keep_quiet() -> None:
    """Let what is logged go nowhere, where it would otherwise go to the terminal."""
    for name in ("switchboard", "asyncio"):
        logging.getLogger(name).addHandler(_NOWHERE)
