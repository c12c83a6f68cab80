"""What all tools' parameters share: closed models in camelCase, explained when they are wrong."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from core.model.errors import Invalid
from core.model.keys import quoted
from core.model.messages import encodable

Text = Annotated[str, AfterValidator(encodable)]
"""Words for the store or for a comparison with it; what UTF-8 cannot encode becomes U+FFFD."""


class Params(BaseModel):
    """Base of the parameter models; their JSON schema is what models are shown."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, alias_generator=to_camel, validate_by_name=False
    )


def explain(tool: str, error: ValidationError) -> Invalid:
    """Turn the first problem of the arguments into one sentence."""
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "missing":
        return Invalid(f"{tool} needs {name}")
    if problem["type"] == "extra_forbidden":
        return Invalid(f"{tool} has no parameter {quoted(name)}")
    value: Any = problem["input"]
    shown = quoted(value) if isinstance(value, str) else quoted(repr(value))
    why = problem["msg"].removeprefix("Value error, ")
    return Invalid(f"{tool}: {name} cannot be {shown}: {why[:1].lower()}{why[1:]}")
