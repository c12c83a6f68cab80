"""The gateway's token when the configuration names none: made once, kept where only the owner of the state reads it."""

import secrets
from pathlib import Path
from typing import Final, NamedTuple

from core.files import make_secret, read_secret, write_secret
from core.model.errors import Unavailable

TOKEN_NAME: Final = "gateway.token"  # noqa: S105 - the name of a file
MIN_LENGTH: Final = 8
"""Of a token that somebody chose: a shorter one is guessed."""
HOW_TO_MAKE_ONE: Final = "`openssl rand -hex 32` prints a good one"
_BYTES: Final = 32


class GatewayToken(NamedTuple):
    """A gateway's token.

    `is_new`: made just now; `was_empty`: in the place of an empty file, which a full disk may have left.
    """

    value: str
    is_new: bool = False
    was_empty: bool = False


def kept_token(state: Path) -> GatewayToken:
    """Return the token of a state directory, made at the first call.

    `Unavailable` when its file cannot be read or written, or is no plain file of this user.
    """
    path = state / TOKEN_NAME
    made = secrets.token_urlsafe(_BYTES)
    text = read_secret(path)
    if text is None:
        found = make_secret(path, f"{made}\n").strip()
        return GatewayToken(found, is_new=found == made)
    found = text.strip()
    if not found:
        write_secret(path, f"{made}\n")
        return GatewayToken(made, is_new=True, was_empty=True)
    if path.stat().st_mode & 0o077:
        raise Unavailable(f"the token file {path} can be read by others: chmod 600 it, and change the token")
    return GatewayToken(found)


def weakness(token: str) -> str:
    """Return why a token is easily guessed, to be read after its name; empty when it is not."""
    if len(token) >= MIN_LENGTH:
        return ""
    return f"has {len(token)} of at least {MIN_LENGTH} characters: choose another, {HOW_TO_MAKE_ONE}"
