"""The parameters of methods: what they have in common, and the words for wrong ones."""

import itertools
from collections.abc import Iterable
from functools import cache
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from core.model.errors import Invalid

_WORDS: Final = {
    "greater_than_equal": "must be >= {ge}",
    "less_than_equal": "must be <= {le}",
    "string_type": "must be string",
    "string_too_short": "must NOT have fewer than {min_length} characters",
    "string_too_long": "must NOT have more than {max_length} characters",
    "int_type": "must be integer",
    "bool_type": "must be boolean",
    "list_type": "must be array",
    "too_long": "must NOT have more than {max_length} items",
    "dict_type": "must be object",
    "model_type": "must be object",
    "literal_error": "must be one of {expected}",
}


class MethodParams(BaseModel):
    """Parameters of a method, exact about types; `sessionKey` on the wire is `session_key` here.

    Open: clients of every generation say a little more than the one before, and what they say beyond this means nothing
    here (`unknown`).
    """

    model_config = ConfigDict(
        extra="ignore", strict=True, frozen=True, alias_generator=to_camel, defer_build=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        """Take null for nothing where a value has another default; where None is the default, it may mean to clear."""
        if not isinstance(given, dict):
            return given
        defaults = {
            info.alias for info in cls.model_fields.values() if not (info.is_required() or info.default is None)
        }
        found = cast("dict[str, object]", given)
        return {name: value for name, value in found.items() if value is not None or name not in defaults}


class KeyParams(MethodParams):
    """Parameters of what concerns one session; `agent_id` says whose session a short form of the key is."""

    key: str
    agent_id: str | None = None


class ClosedParams(MethodParams):
    """Parameters of a change that must not be done in part: a property that means nothing here is refused."""

    model_config = ConfigDict(extra="forbid")


class Nothing(MethodParams):
    """No parameters."""


def unknown(params: type[BaseModel], given: Iterable[str]) -> list[str]:
    """Return the given parameters that mean nothing to a method, at most 20 of them."""
    if params.model_config.get("extra") != "ignore":
        return []
    names = _names(params)
    return [name for name in itertools.islice(given, 1_000) if name not in names][:20]


@cache
def _names(params: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in params.model_fields.items())


def explain(name: str, error: ValidationError) -> Invalid:
    """Return the error for wrong parameters, in the words that clients of OpenClaw know."""
    found = error.errors(include_url=False, include_input=False)
    return Invalid(f"invalid {name} params: {'; '.join(_words(each) for each in found[:3])}")


def _words(error: ErrorDetails) -> str:
    path = "/".join(str(part) for part in error["loc"][:-1])
    where = f"/{path}" if path else "root"
    if error["type"] == "extra_forbidden":
        return f"at {where}: unexpected property '{str(error['loc'][-1])[:80]}'"
    if error["type"] == "missing":
        prefix = f"at {where}: " if path else ""
        return f"{prefix}must have required property '{error['loc'][-1]}'"
    words = _WORDS.get(error["type"])
    at = "/".join(str(part) for part in error["loc"])
    return f"at /{at}: {words.format(**error.get('ctx', {})) if words else error['msg']}"
