"""How gateways elsewhere are named, and how their addresses are written."""

import contextlib
import re
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = "local"
"""The name of the bundled runtime where gateways are named; no other gateway has it."""
SCHEMES: Final = frozenset({"ws", "wss", "http", "https"})


def is_name(text: str) -> bool:
    """Whether a text may name a gateway: letters, digits, `.`, `_` and `-`, at most 40, and not `local`."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", text) is not None and text != LOCAL


def url_problem(text: str) -> str | None:
    """Return what keeps a text from being a gateway's address, to be read after it; None when it is one."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        if parts.scheme in SCHEMES and parts.hostname and parts.port != 0:
            is_alone = parts.username is None and parts.password is None and not parts.query and not parts.fragment
            return None if is_alone else "expected an address alone: user, password and token do not belong into it"
    return "expected an address such as wss://host:18789 or ws://127.0.0.1:18789"


def fingerprint_of(text: str) -> str | None:
    """Return the SHA-256 of a certificate as 64 small hexadecimal digits, however it was written; None for all else."""
    plain = text.lower().removeprefix("sha256:").replace(":", "")
    return plain if re.fullmatch("[0-9a-f]{64}", plain) else None


def shown_url(url: str) -> str:
    """Return a URL for the screen, without what may be secret in it."""
    return re.sub(r"//[^/\s]*@", "//…@", url).partition("?")[0].partition("#")[0]
