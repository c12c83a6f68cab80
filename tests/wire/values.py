"""Any value of any type of the port, made from the type's hints."""

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin

from hypothesis import strategies as st

from core.model.messages import MAX_INT, Message
from tests.model.test_messages import MESSAGES

WORDS = st.text(max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    int: st.integers(-MAX_INT, MAX_INT),
    float: st.floats(-1e12, 1e12),
    bool: st.booleans(),
    type(None): st.none(),
    Any: JSON,
    Path: WORDS.map(Path),
    Message: MESSAGES,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return the strategy for a type; every field is varied, also those with a default."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in {Union, types.UnionType}:
        return st.one_of(*map(values_of, args))
    if origin is tuple and args[-1] is not ...:
        return st.tuples(*map(values_of, args))
    if origin in {tuple, list, Collection}:
        return st.lists(values_of(args[0]), max_size=2).map(tuple if origin is tuple else list)
    if origin is frozenset:
        return st.frozensets(values_of(args[0]), max_size=2)
    if origin in {dict, Mapping}:
        return st.dictionaries(WORDS, values_of(args[1]), max_size=2)
    assert dataclasses.is_dataclass(kind) or issubclass(kind, tuple)
    make = cast("Callable[..., Any]", kind)  # a class whose fields are its hints
    hints = typing.get_type_hints(make)
    return st.builds(make, *[st.deferred(lambda hint=hint: values_of(hint)) for hint in hints.values()])
