"""The one door to the session tools: the same parameters, rules and results for whoever calls (DESIGN 1)."""

import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final, cast

from pydantic import ValidationError

from core.gateway import Gateway
from core.model.access import OPERATOR, Caller, Operator, SessionCaller
from core.model.errors import Invalid
from core.model.keys import quoted
from core.model.tools import Tool
from core.tools.params import Params, explain
from core.tools.target import Refusal, find

TOOL_NAMES: Final = (
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "sessions_search",
    "agents_list",
)

Run = Callable[[Gateway, Caller, Params], Awaitable[dict[str, Any]]]


async def dispatch(gateway: Gateway, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool and return its result; what a rule refuses is a result with `status: "forbidden"`.

    Args:
        caller: Who calls; the session an operator acts for may be named in any spelling.

    Raises:
        Invalid: There is no such tool, or its arguments are wrong.
        SwitchboardError: What the tool could not do, in one sentence.
    """
    module = _module(name)
    try:
        params = _params(module).model_validate(dict(arguments))
    except ValidationError as error:
        raise explain(name, error) from None
    try:
        _check_has(gateway, caller, name)
        if isinstance(caller, Operator) and caller.acting_for is not None:
            caller = Operator((await find(gateway, OPERATOR, caller.acting_for)).key)
        return await cast("Run", module.run)(gateway, caller, params)
    except Refusal as refusal:
        return refusal.result()


@cache
def schemas() -> tuple[Tool, ...]:
    """Return all tools as a model sees them."""
    return tuple(
        Tool(name, _module(name).DESCRIPTION, _params(_module(name)).model_json_schema()) for name in TOOL_NAMES
    )


def _check_has(gateway: Gateway, caller: Caller, name: str) -> None:
    """Refuse a tool that is withheld from the calling session (W3)."""
    control = gateway.rules.withheld(name, caller.key) if isinstance(caller, SessionCaller) else None
    if control is not None:
        raise Refusal(f"this session does not have the tool {quoted(name)}: {control}", (control,))


def _module(name: str) -> ModuleType:
    if name not in TOOL_NAMES:
        raise Invalid(f"there is no tool {quoted(name)}: use one of {', '.join(TOOL_NAMES)}")
    return importlib.import_module(f"core.tools.{name}")


def _params(module: ModuleType) -> type[Params]:
    name = "".join(part.capitalize() for part in module.__name__.rpartition(".")[2].split("_"))
    return cast("type[Params]", getattr(module, f"{name}Params"))
