"""What an agent reads of transcripts is bounded, and secrets are taken out of it (H5); the operator reads everything.

The patterns know secrets by their well-known shapes. Each begins with fixed letters and none goes back over what it has
read, so that the time grows with the text and no more.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.model.messages import Block, Message

REDACTED: Final = "[redacted]"
MAX_BYTES: Final = 80 * 1024
"""Of all messages of one answer together, as JSON."""
MAX_BLOCK_CHARS: Final = 4_000
_LOOK_AHEAD: Final = 4_096
"""Characters after the cut in which a secret that begins before it is still known by its end."""

_BEFORE: Final = r"(?<![A-Za-z0-9_\]-])"
_PEM: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SCHEME: Final = r"(?:(?:bearer|basic|token|bot)[ \t]{1,3})?"
_NAME: Final = r"(?:password|passwd|pwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|token)"
_SECRETS: Final = re.compile(
    "|".join(
        (
            rf"-----BEGIN {_PEM}.*?(?:-----END {_PEM}|\Z)",
            rf"{_BEFORE}(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16,}}+",  # AWS
            rf"{_BEFORE}AIza[A-Za-z0-9_-]{{30,}}+",  # Google
            rf"{_BEFORE}sk-(?=[a-z_-]{{0,64}}[A-Z0-9])[A-Za-z0-9_-]{{16,}}+",  # OpenAI, Anthropic and their like
            rf"{_BEFORE}[sr]k_(?:live|test)_[A-Za-z0-9]{{16,}}+",  # Stripe
            rf"{_BEFORE}(?:gh[opsur]_[A-Za-z0-9]{{20,}}+|github_pat_[A-Za-z0-9_]{{20,}}+)",
            rf"{_BEFORE}glpat-[A-Za-z0-9_-]{{16,}}+",  # GitLab
            rf"{_BEFORE}xox[a-z]-[A-Za-z0-9-]{{10,}}+",  # Slack
            rf"{_BEFORE}(?:hf_|gsk_|npm_|xai-|pplx-)[A-Za-z0-9]{{20,}}+",
            rf"{_BEFORE}eyJ[A-Za-z0-9_-]{{16,}}+(?:\.[A-Za-z0-9_-]*+){{0,2}}",  # JSON web tokens
            rf"(?P<header>(?i:\bauthorization[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}[\"']?{_SCHEME}))[^\s\"',;]{{4,}}+",
            r"(?P<scheme>(?i:\bbearer[ \t]{1,3}))(?=[A-Za-z._~+/-]{0,64}[0-9])[A-Za-z0-9._~+/=-]{12,}+",
            rf"(?P<field>(?i:{_NAME}\"[ \t]{{0,3}}:[ \t]{{0,3}}\"))(?:[^\"\\]|\\.)++",
            rf"(?P<setting>(?i:{_NAME}[\"']?[ \t]{{0,3}}=(?!=)[ \t]{{0,3}}[\"']?))[^\s\"'&;,\\=][^\s\"'&;,\\]{{3,}}+",
            r"(?P<login>://[^\s/:@]{1,64}+:)[^\s/@]{1,256}+(?=@)",
        )
    ),
    re.DOTALL,
)
_KEPT: Final = ("header", "scheme", "field", "setting", "login")


@dataclass(frozen=True, slots=True)
class Bounded:
    """Messages as an agent may read them: their wire forms, in order, and how many older ones did not fit."""

    messages: tuple[dict[str, Any], ...]
    left_out: int


class Allowance:
    """What one answer to an agent may still hold; several histories can share it."""

    def __init__(self) -> None:
        self._bytes = MAX_BYTES

    def take(self, messages: Sequence[Message]) -> Bounded:
        """Return the newest of these messages that fit, redacted and with long blocks cut.

        Of a message that does not fit alone, its first blocks are kept.
        """
        kept: list[dict[str, Any]] = []
        for message in reversed(messages):
            shown = message._replace(content=tuple(bounded_block(block) for block in message.content)).as_json()
            whole = _size(shown) <= self._bytes
            if whole or (not kept and self._cut_to_fit(shown)):
                self._bytes -= _size(shown)
                kept.append(shown)
            if not whole:
                self._bytes = 0  # nothing older than what was left out
                break
        return Bounded(tuple(reversed(kept)), len(messages) - len(kept))

    def _cut_to_fit(self, shown: dict[str, Any]) -> bool:
        content: list[Block] = shown["content"]
        shown |= {"cut": len(content), "content": []}
        left = self._bytes - _size(shown)
        if left < 0:
            return False
        kept: list[Block] = []
        for block in content:
            left -= _size(block)
            if left < 0:
                break
            kept.append(block)
        shown |= {"cut": len(content) - len(kept), "content": kept}
        return True


def redact(text: str) -> str:
    """Return the text with every secret of a known shape replaced by `[redacted]`."""
    return _SECRETS.sub(_mark, text)


def bounded_text(text: str) -> tuple[str, int]:
    """Return a text without secrets and of at most 4,000 characters, and how many were left out."""
    return _shortened(text, keep=MAX_BLOCK_CHARS)


def bounded_block(block: Block) -> Block:
    """Return a block without secrets and of at most 4,000 characters; `cut` counts those that were left out."""
    shown = dict(block)
    left, cut = MAX_BLOCK_CHARS, 0
    for name, value in block.items():
        if name in {"type", "cut"} or isinstance(value, int | float | None):
            continue
        if isinstance(value, str):
            short, lost = _shortened(value, keep=0 if _is_data(block, name, value) else left)
            left -= len(short)
            shown[name] = short
        else:
            shown[name], used, lost = _short_value(value, keep=left)
            left -= used
        cut += lost
    return {**shown, "cut": cut} if cut else shown


def _is_data(block: Block, name: str, value: str) -> bool:
    """Whether it is a picture's bytes, of which a part is of no use."""
    return name == "data" and block.get("type") == "image" and len(value) > MAX_BLOCK_CHARS


def _short_value(value: object, *, keep: int) -> tuple[object, int, int]:
    """Return arguments of a tool call without secrets, their length and how much is missing.

    Where they are too long, or no JSON any more, they come as the beginning of their text.
    """
    text = json.dumps(value, ensure_ascii=False)
    short, lost = _shortened(text, keep=keep)
    if short == text:
        return value, len(text), 0
    with contextlib.suppress(ValueError):
        if not lost:
            return json.loads(short), len(short), 0
    return {"partly": short}, len(short), lost


def _shortened(text: str, *, keep: int) -> tuple[str, int]:
    """Return the redacted beginning of a text, and how many characters are missing after it."""
    if not keep:
        return "", len(text)
    seen = text[: keep + _LOOK_AHEAD]
    clean = redact(seen)
    return clean[:keep], len(text) - len(seen) + max(0, len(clean) - keep)


def _mark(found: re.Match[str]) -> str:
    kept: Iterable[str | None] = (found.group(name) for name in _KEPT)
    return next(filter(None, kept), "") + REDACTED


def _size(value: object) -> int:
    """Bytes of a value as JSON, and of what separates it from the next."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 2
