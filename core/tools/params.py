"""What all tools' parameters share: closed models in camelCase, explained in the words of JSON when they are wrong."""

import json
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from core.model.errors import Invalid
from core.model.json_codec import encodable
from core.model.keys import quoted


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("boolean", "it must be a number")
    return value


Text = Annotated[str, AfterValidator(encodable)]
"""Words for the store or for a comparison with it; what UTF-8 cannot encode becomes U+FFFD."""
Whole = Annotated[int, BeforeValidator(_no_boolean)]
"""A whole number; a boolean is none."""
Number = Annotated[float, BeforeValidator(_no_boolean)]
"""A number; a boolean is none."""
Limit = Annotated[Whole, Field(ge=1)]
"""How many at most: from 1 on, and what is more than a tool gives at once is cut to that."""

_WORDS: Final = {
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a smaller whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "string_type": "it must be text",
    "list_type": "it must be a list",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
    "greater_than": "it must be more than {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than_equal": "it must be {le:.15g} or less",
    "string_too_short": "it must have {min_length} or more characters",
    "string_too_long": "it must have {max_length} characters or fewer",
}


class ToolParams(BaseModel):
    """Base of the parameter models; their JSON schema is what models are shown. Null is the same as nothing."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, alias_generator=to_camel, validate_by_name=False
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, arguments: object) -> object:
        if not isinstance(arguments, dict):
            return arguments
        optional = {info.alias for info in cls.model_fields.values() if not info.is_required()}
        given = cast("dict[str, object]", arguments)
        return {name: value for name, value in given.items() if value is not None or name not in optional}


def explain(tool: str, error: ValidationError, params: type[ToolParams]) -> Invalid:
    """Turn a problem of the arguments into one sentence that says what to give instead.

    A name that is not known comes first: it often is why another one is missing.
    """
    problems = error.errors(include_url=False)
    problem = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    *above, last = problem["loc"] or ("arguments",)
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "missing":
        about = {info.alias: info.description for info in params.model_fields.values()}.get(str(last)) or ""
        return Invalid(f"{tool} needs {name}" + (f": {about[:1].lower()}{about[1:].rstrip('.')}" if about else ""))
    if problem["type"] == "extra_forbidden":
        where = f"{tool}: {'.'.join(map(str, above))}" if above else tool
        known = ", ".join(_names(params, above))
        return Invalid(f"{where} has no parameter {quoted(str(last))}: {f'use {known}' if known else 'it takes none'}")
    return Invalid(f"{tool}: {name} cannot be {shown(problem['input'])}: {_why(problem)}")


def shown(value: object) -> str:
    """Return a value for an error sentence, as JSON writes it, harmless and at most 80 characters long."""
    if isinstance(value, str):
        return quoted(value)
    try:
        return quoted(json.dumps(value, ensure_ascii=False, default=str))[1:-1]
    except (RecursionError, ValueError):  # of many levels, or a number of thousands of digits
        return "so large a value"


def _why(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        return f"it must be {str(context['expected']).replace(chr(39), chr(34))}"
    words = _WORDS.get(problem["type"])
    if words is not None:
        return words.format(**context)
    why = problem["msg"].removeprefix("Value error, ")
    return f"{why[:1].lower()}{why[1:]}"


def _names(params: type[ToolParams], above: list[int | str]) -> list[str]:
    section = params
    for part in above:
        if isinstance(part, str):
            section = _section(section, part) or section
    return [str(info.alias) for info in section.model_fields.values()]


def _section(params: type[ToolParams], name: str) -> type[ToolParams] | None:
    """Return the model of the objects that a parameter holds."""
    found = next(info.annotation for info in params.model_fields.values() if info.alias == name)
    kinds: tuple[Any, ...] = getattr(found, "__args__", ()) or (found,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, ToolParams)), None)
