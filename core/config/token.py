"""The gateway's token when the configuration names none: made once, kept where only the owner of the state reads it."""

import os
import secrets
from pathlib import Path
from typing import Final

from core.model.errors import Unavailable

TOKEN_NAME: Final = "gateway.token"  # noqa: S105 - the name of a file
_BYTES: Final = 32


def kept_token(state: Path) -> tuple[str, bool]:
    """Return the token of a state directory that exists, and whether it was made just now.

    Raises:
        Unavailable: Its file is not readable, is empty or is no plain file of this user.
    """
    path = state / TOKEN_NAME
    made = secrets.token_urlsafe(_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path), False
    except OSError as error:
        raise Unavailable(f"the token file {path} cannot be made: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(made + "\n")
        file.flush()
        os.fsync(file.fileno())
    return made, True


def _read(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Unavailable(f"the token file {path} can be read by others: chmod 600 it, and change the token")
            found = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Unavailable(f"the token file {path} cannot be read: {reason}") from None
    if not found:
        raise Unavailable(f"the token file {path} is empty: remove it, and the next start makes a new one")
    return found
