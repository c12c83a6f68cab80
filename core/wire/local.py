"""Where the owner of a state directory answers other processes of the same user: a Unix socket in that directory."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "owner.sock"


@contextlib.contextmanager
def reaching(state: Path) -> Generator[str]:
    """Give a path to the socket that a socket call takes: those are cut at 108 bytes, a state directory may be longer.

    Raises `OSError` when there is no such directory.
    """
    if not sys.platform.startswith("linux"):
        yield str(state / SOCKET_NAME)
        return
    descriptor = os.open(state, os.O_DIRECTORY | os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
