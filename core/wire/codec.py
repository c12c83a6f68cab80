"""JSON for every type of the port, made from its type hints: objects by field name, unions of classes by `type`.

Lossless, and forgiving in time: unknown fields are passed over, missing ones take the type's default, or None where
that may stand, and a word that only a newer gateway knows is read as the one of ours that claims least. Everything else
is checked, because whoever is at the other end is not to be trusted; a wrong value raises `Invalid` with a sentence
that names the field. Texts come as they are: the console makes them fit to be shown.

A list of 5,000 sessions is read at once, so a record is read by two passes in C: pick the fields, compare their types.
"""

import dataclasses
import logging
import types
import typing
from collections.abc import Callable, Collection, Mapping
from functools import cache
from operator import contains
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

from core.model.access import Caller, Scope
from core.model.connection import ConnectionState
from core.model.errors import Invalid
from core.model.events import BlockKind, Event
from core.model.exchanges import DeliveryState, ExchangeKind, ExchangeOutcome, ExchangeState
from core.model.keys import ChatType, Kind, quoted
from core.model.messages import MAX_INT, Message
from core.model.runs import RunKind, RunState, WaitStatus
from core.model.sessions import Override
from core.rules.visibility import SandboxVisibility, Visibility

T = TypeVar("T")
_NONE: Final = type(None)


class _Missing:
    """The type of what is not there; no field takes it."""


_MISSING: Final = _Missing()
_log: Final = logging.getLogger("switchboard.wire")


@dataclasses.dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How one type is written and read.

    Attributes:
        types: What JSON gives for it.
        words: What is expected, for a sentence.
        convert: Makes the value of what JSON gave; None when that is the value.
        unmake: Makes what JSON takes of the value; None when that is the value.
        numeric: It may be a number, whose size is to be checked.
    """

    types: frozenset[type]
    words: str
    convert: Callable[[Any], T] | None = None
    unmake: Callable[[T], Any] | None = None
    numeric: bool = False

    def read(self, data: object) -> T:
        """Return the value of what JSON gave; raises `Invalid` when it is of another type, or holds a wrong value."""
        if type(data) not in self.types:
            raise _wrong("the value", data, self)
        if self.numeric and data is not None and not -MAX_INT <= cast("float", data) <= MAX_INT:
            raise _wrong("the value", data, self)
        return self.convert(data) if self.convert is not None else cast("T", data)

    def write(self, value: T) -> Any:  # noqa: ANN401 - what JSON takes has no better name
        """Return what JSON takes."""
        return self.unmake(value) if self.unmake is not None else value


@cache
def codec_of(kind: Any, *, told: bool = False) -> Codec[Any]:  # noqa: ANN401 - a union of classes is no `type`
    """Return the codec of a type, built from its hints at the first call.

    Args:
        told: What a gateway tells is read, which may be newer than we are: a word that is none of ours is no error.
    """
    if (made := _LEAVES.get(kind)) is not None:
        return made
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(args, (_UNKNOWN[args],) if told else ())
    if origin in {Union, types.UnionType}:
        return _union(args, told=told)
    if origin in {tuple, list, frozenset, Collection}:
        return _sequence(cast("type", origin), args, told=told)
    if origin in {dict, Mapping}:
        return _mapping(codec_of(args[1], told=told))
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(cast("type", kind), told=told)
    raise TypeError(f"the wire has no form for {kind}")


def _leaf(*kinds: type, words: str, numeric: bool = False) -> Codec[Any]:
    return Codec(frozenset(kinds), words, numeric=numeric)


_LEAVES: Final[dict[Any, Codec[Any]]] = {
    str: _leaf(str, words="text"),
    int: _leaf(int, words="a whole number", numeric=True),
    float: _leaf(float, int, words="a number", numeric=True),
    bool: _leaf(bool, words="true or false"),
    _NONE: _leaf(_NONE, words="null"),
    Any: _leaf(str, int, float, bool, _NONE, dict, list, words="anything"),
    Path: Codec(frozenset({str}), "a path", Path, str),
    Message: Codec(frozenset({dict}), "a message", Message.read, Message.marked),
}


_UNKNOWN: Final[dict[tuple[object, ...], str]] = {
    get_args(words): word
    for words, word in (
        (Kind, "other"),
        (ChatType, "channel"),
        (Override, "deny"),
        (RunState, "queued"),
        (RunKind, "turn"),
        (WaitStatus, "error"),
        (ExchangeKind, "send"),
        (ExchangeState, "replying"),
        (ExchangeOutcome, "interrupted"),
        (DeliveryState, "unknown"),
        (BlockKind, "thinking"),
        (ConnectionState, "live"),
        (Visibility, "self"),
        (SandboxVisibility, "spawned"),
    )
}
"""How a word that only a newer gateway knows is read, where there must be one; None where that may stand."""
_NEVER_NONE: Final = frozenset({get_args(ChatType)})
"""None would mean every one of them there."""


def _literal(choices: tuple[object, ...], unknown: Collection[object] = ()) -> Codec[Any]:
    """Return the codec of some words; any other is read as the one in `unknown`, and refused when that is empty."""
    known = frozenset(choices)
    expected = ", ".join(str(choice) for choice in choices)

    def choose(value: object) -> object:
        if value in known:
            return value
        for instead in unknown:
            return instead
        raise Invalid(f"{quoted(str(value))} is none of {expected}")

    return Codec(frozenset(type(choice) for choice in choices), f"one of {expected}", choose)


def _union(members: tuple[Any, ...], *, told: bool) -> Codec[Any]:
    codecs = [_member(member, told=told, nullable=_NONE in members) for member in members]
    made = [codec for codec in codecs if codec.convert is not None]
    found = frozenset[type]().union(*(codec.types for codec in codecs))
    words = " or ".join(codec.words for codec in codecs)
    numeric = any(codec.numeric for codec in codecs)
    assert not numeric or found <= {int, float, _NONE}, "a size is only checked of what can be nothing but a number"
    if not made:
        return Codec(found, words, numeric=numeric)
    if len(made) > 1:
        return _tagged(tuple(member for member in members if member is not _NONE), told=told)
    one = made[0]
    convert, unmake = one.convert, one.unmake
    assert convert is not None, "it was chosen for having one"
    return Codec(
        found,
        words,
        lambda data: None if data is None else convert(data),
        (lambda value: None if value is None else unmake(value)) if unmake is not None else None,
        numeric,
    )


def _member(member: Any, *, told: bool, nullable: bool) -> Codec[Any]:  # noqa: ANN401 - a union of classes is no `type`
    words = get_args(member)
    if told and nullable and get_origin(member) is Literal and words not in _NEVER_NONE:
        return _literal(words, (None,))
    return codec_of(member, told=told)


def _tagged(members: tuple[type, ...], *, told: bool) -> Codec[Any]:
    """Return the codec of a union of classes: the name of the class stands in the object as `type`."""
    by_name = {member.__name__: codec_of(member, told=told) for member in members}

    def convert(data: dict[str, Any]) -> object:
        name = data.get("type")
        if not isinstance(name, str) or name not in by_name:
            raise Invalid(f"type is {quoted(str(name))}, and none of {', '.join(by_name)}")
        return by_name[name].read(data)

    def unmake(value: object) -> dict[str, Any]:
        name = type(value).__name__
        return {"type": name, **by_name[name].write(value)}

    return Codec(frozenset({dict}), f"an object with a type: {', '.join(by_name)}", convert, unmake)


def _sequence(origin: type, args: tuple[Any, ...], *, told: bool) -> Codec[Any]:
    make: Callable[[Any], Any] = {list: list, frozenset: frozenset}.get(origin, tuple)
    if origin is tuple and args[-1] is not ...:
        return _fixed(tuple(codec_of(arg, told=told) for arg in args))
    item = codec_of(args[0], told=told)
    read, write = item.read, item.write

    def convert(data: list[Any]) -> object:
        return make([read(each) for each in data])

    def unmake(values: Collection[Any]) -> list[Any]:
        found = sorted(values) if origin is frozenset else values
        return [write(each) for each in found]

    return Codec(frozenset({list}), f"a list: {item.words}", convert, unmake)


def _fixed(items: tuple[Codec[Any], ...]) -> Codec[Any]:
    def convert(data: list[Any]) -> tuple[Any, ...]:
        if len(data) != len(items):
            raise Invalid(f"a list holds {len(data)} values, and {len(items)} are expected")
        return tuple(item.read(each) for item, each in zip(items, data, strict=True))

    def unmake(values: tuple[Any, ...]) -> list[Any]:
        return [item.write(each) for item, each in zip(items, values, strict=True)]

    return Codec(frozenset({list}), f"a list of {len(items)}", convert, unmake)


def _mapping(item: Codec[Any]) -> Codec[Any]:
    def convert(data: dict[str, Any]) -> dict[str, Any]:
        return {name: item.read(each) for name, each in data.items()}

    def unmake(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item.write(each) for name, each in values.items()}

    return Codec(frozenset({dict}), "an object", convert, unmake)


def _record(kind: type, *, told: bool) -> Codec[Any]:
    hints = typing.get_type_hints(kind)
    names = tuple(hints)
    codecs = [codec_of(hints[name], told=told) for name in names]
    absent = [_absent(kind, name, codec) for name, codec in zip(names, codecs, strict=True)]
    fields = tuple(zip(names, absent, strict=True))
    allowed = [codec.types | ({type(default)} - {_Missing}) for codec, default in zip(codecs, absent, strict=True)]
    numbers = [place for place, codec in enumerate(codecs) if codec.numeric]
    made = [(place, codec.convert, absent[place]) for place, codec in enumerate(codecs) if codec.convert is not None]

    def convert(data: dict[str, Any]) -> object:
        get = data.get
        values = [get(name, default) for name, default in fields]
        if not all(map(contains, allowed, map(type, values))):
            raise _explained(kind, names, codecs, values)
        for place in numbers:
            number = values[place]
            if number is not None and not -MAX_INT <= number <= MAX_INT:
                raise _wrong(f"{kind.__name__}.{names[place]}", number, codecs[place])
        for place, make, default in made:
            if values[place] is not default:
                try:
                    values[place] = make(values[place])
                except Invalid as error:
                    raise Invalid(f"{kind.__name__}.{names[place]}: {error.message}") from None
        return kind(*values)

    return Codec(frozenset({dict}), f"a {kind.__name__}", convert, _unmake(names, codecs, absent))


def _unmake(names: tuple[str, ...], codecs: list[Codec[Any]], absent: list[Any]) -> Callable[[Any], dict[str, Any]]:
    """Return how a record is written: without the fields that are None and would be read as None."""
    made = [(name, codec.unmake) for name, codec in zip(names, codecs, strict=True) if codec.unmake is not None]
    spoken = [
        name
        for name, codec, default in zip(names, codecs, absent, strict=True)
        if _NONE in codec.types and default is not None
    ]

    def fields_of(value: object) -> Collection[Any]:
        return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else [getattr(value, name) for name in names]

    def unmake(value: object) -> dict[str, Any]:
        data = {name: each for name, each in zip(names, fields_of(value), strict=True) if each is not None}
        for name, write in made:
            if name in data:
                data[name] = write(data[name])
        for name in spoken:
            data.setdefault(name, None)
        return data

    return unmake


def _absent(kind: type, name: str, codec: Codec[Any]) -> Any:  # noqa: ANN401 - of any type
    """Return what a field is when it is not there; `_MISSING` when it must be."""
    if dataclasses.is_dataclass(kind):
        field = next(field for field in dataclasses.fields(cast("Any", kind)) if field.name == name)
        if field.default is not dataclasses.MISSING:
            return field.default
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
    defaults = cast("dict[str, Any]", getattr(cast("Any", kind), "_field_defaults", {}))
    return defaults.get(name, None if _NONE in codec.types else _MISSING)


def _explained(kind: type, names: tuple[str, ...], codecs: list[Codec[Any]], values: list[Any]) -> Invalid:
    """Return the error that names the first wrong field."""
    for name, codec, value in zip(names, codecs, values, strict=True):
        if value is _MISSING:
            return Invalid(f"{kind.__name__} lacks {name}: {codec.words} is expected")
        if type(value) not in codec.types:
            return _wrong(f"{kind.__name__}.{name}", value, codec)
    raise AssertionError("one of them is wrong")


def _wrong(where: str, value: object, codec: Codec[Any]) -> Invalid:
    return Invalid(f"{where} is {quoted(repr(value)[:200])}, and {codec.words} is expected")


CALLER: Final[Codec[Caller]] = codec_of(Caller)
SCOPE: Final[Codec[Scope]] = codec_of(Scope)
EVENT: Final[Codec[Event]] = codec_of(Event, told=True)
_KNOWN_EVENTS: Final = frozenset(member.__name__ for member in get_args(Event))


def read_events(data: object) -> list[Event]:
    """Read a batch of events; of kinds that a newer gateway may have and we do not know, nothing is said.

    One that is wrong is left out, so that it does not take the others with it.

    Raises `Invalid` when it is no list.
    """
    if not isinstance(data, list):
        raise Invalid("the events are no list")
    events: list[Event] = []
    for each in cast("list[dict[str, Any]]", data):
        if type(each) is not dict or each.get("type") in _KNOWN_EVENTS:
            try:
                events.append(EVENT.read(each))
            except Invalid as error:
                _log.warning("an event that cannot be read is left out: %s", error.message)
    return events
