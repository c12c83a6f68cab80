"""The one JSON of everything that is stored or sent: what is written here, every reader of JSON can read.

JSON has no NaN and no Infinity, keys of an object stand for one value each, and texts are UTF-8. Python's own module
takes and gives all of that; what comes in is refused here, and what an older version stored is healed when it is read.
"""

import json
import math
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NoReturn, cast

from core.model.errors import Invalid

MAX_DEPTH: Final = 100
"""How deep lists and objects may lie in each other. Python's own reader ends somewhere near a thousand, and how near
depends on who calls it: what could be stored could not always be read."""

_encode: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False
).encode
_encode_indented: Final = json.JSONEncoder(ensure_ascii=False, indent=1, check_circular=False, allow_nan=False).encode


def encode(value: object) -> str:
    """Return JSON text without spaces, which UTF-8 can carry: halves of surrogate pairs become U+FFFD.

    `Invalid` when it holds NaN or an infinite number, or is too deep.
    """
    return encodable(encode_halves(value))


def encode_indented(value: object) -> str:
    """Return what `encode` does for a file that people look into: a line for each value, and one at the end."""
    return encodable(_as_text(_encode_indented, value)) + "\n"


def encode_halves(value: object) -> str:
    """Return what `encode` does, with halves of surrogate pairs as they are."""
    return _as_text(_encode, value)


def decode(text: str | bytes) -> Any:  # noqa: ANN401 - JSON gives anything
    """Read JSON from somebody who is not to be trusted; whole numbers of any size are kept as they are.

    `Invalid`: it is no JSON, is too deep, names a key twice in an object, or holds NaN or a number that is too large.
    """
    value = _decode(_STRICT, text)
    check_depth(value, text)
    return value


def heal(text: str | bytes, without: Container[str] = ()) -> Any:  # noqa: ANN401 - JSON gives anything
    """Read JSON that was stored by us or asked for, also by a version that wrote NaN and Infinity: they become null.

    Args:
        without: Names that are left out of every object, with what they stand for.

    Raises:
        Invalid: It is no JSON, or too deep.
    """
    if not without:
        return _decode(_HEALING, text)

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in pairs if name not in without}

    decoder = json.JSONDecoder(object_pairs_hook=keep, parse_float=_finite_or_null, parse_constant=_null)
    return _decode(decoder, text)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object of somebody's JSON, empty when it is none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def check_depth(value: object, text: str | bytes) -> None:
    """Check that a value may be stored.

    Args:
        text: The value as JSON text; one with few brackets needs no closer look.

    Raises:
        Invalid: It is too deep.
    """
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if brackets <= MAX_DEPTH:
        return
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (
                cast("dict[str, object]", each).values() if isinstance(each, dict) else cast("list[object]", each)
            )
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise Invalid(_TOO_DEEP)


def encodable(text: str) -> str:
    """Return the text itself, or with U+FFFD for what UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _as_text(encoder: Callable[[object], str], value: object) -> str:
    try:
        return encoder(value)
    except RecursionError:
        raise Invalid(_TOO_DEEP) from None
    except ValueError as error:
        raise Invalid(_TOO_LONG if "digits" in str(error) else _NO_NUMBER) from None


def _decode(decoder: json.JSONDecoder, text: str | bytes) -> Any:  # noqa: ANN401 - JSON gives anything
    try:
        return decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise Invalid(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise Invalid(f"that is not JSON: {error.msg[:1].lower()}{error.msg[1:]} at character {error.pos}") from None
    except UnicodeDecodeError:
        raise Invalid("that is not JSON: it is not UTF-8 text") from None
    except ValueError:  # of `int`
        raise Invalid(_TOO_LONG) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = encodable(next(name for name in names if names.count(name) > 1))
        raise Invalid(f"the JSON names {json.dumps(twice[:60], ensure_ascii=False)} twice in one object: name it once")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Invalid(f"the number {text[:60]} is larger than any that JSON's readers know: give a smaller one")
    return number


def _no_constant(name: str) -> NoReturn:
    raise Invalid(f"that is not JSON: {name} is no number in it")


def _finite_or_null(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _null(name: str) -> None:
    """Stand in for a number that is none."""


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant)
_HEALING: Final = json.JSONDecoder(parse_float=_finite_or_null, parse_constant=_null)
_TOO_DEEP: Final = f"the JSON is too deep: lists and objects may lie in each other {MAX_DEPTH} times"
_TOO_LONG: Final = "the JSON holds a number of more than 4,300 digits: give it as text"
_NO_NUMBER: Final = "JSON has no NaN and no infinite numbers: leave them out, or give them as text"
