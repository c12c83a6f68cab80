"""The one door to the session tools: the same parameters, rules and results for whoever calls (architecture#tools)."""

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any, Final, cast

from pydantic import ValidationError

from core.gateway import Gateway
from core.model.access import OPERATOR, Caller, Operator
from core.model.errors import Invalid
from core.model.keys import quoted
from core.model.tools import Tool
from core.tools.params import ToolParams, explain
from core.tools.reading import readable_result
from core.tools.target import Refusal, find, identified

TOOL_NAMES: Final = (
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "sessions_search",
    "agents_list",
)
READING: Final = frozenset({"sessions_list", "sessions_history", "sessions_search", "agents_list"})
"""The tools that change nothing."""
FAILED: Final = frozenset({"error", "forbidden"})
"""The states of a result that tell of a failure: a model and a client are to take it for an error."""

Run = Callable[[Gateway, Caller, ToolParams], Awaitable[dict[str, Any]]]


async def dispatch(gateway: Gateway, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool and return its result; what a rule refuses is a result with `status: "forbidden"`.

    Args:
        caller: Who calls; the session an operator acts for may be named in any spelling.

    Raises:
        Invalid: There is no such tool, or its arguments are wrong.
        SwitchboardError: What the tool could not do, in one sentence.
    """
    params = _read(name, arguments)
    native = gateway.native_tool(name)
    try:
        if isinstance(caller, Operator) and caller.acting_for is not None:
            caller = replace(caller, acting_for=(await find(gateway, OPERATOR, caller.acting_for)).key)
        if native is not None:  # the gateway applies its own rules; what they refuse is a result as well
            result = await native(arguments, caller)
        else:
            result = await _run(gateway, caller, name, params)
    except Refusal as refusal:
        result = refusal.result()
    return readable_result(caller, result)


async def run_here(gateway: Gateway, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool over the port, for a gateway that has one of its own and does not run it for this call; raises as
    `dispatch` does."""
    params = _read(name, arguments)
    try:
        return await _run(gateway, caller, name, params)
    except Refusal as refusal:
        return refusal.result()


@cache
def schemas() -> tuple[Tool, ...]:
    """Return all tools as a model sees them."""
    return tuple(
        Tool(name, _module(name).DESCRIPTION, _params(_module(name)).model_json_schema()) for name in TOOL_NAMES
    )


def _read(name: str, arguments: Mapping[str, Any]) -> ToolParams:
    params = _params(_module(name))
    try:
        return params.model_validate(dict(arguments))
    except ValidationError as error:
        raise explain(name, error, params) from None


async def _run(gateway: Gateway, caller: Caller, name: str, params: ToolParams) -> dict[str, Any]:
    """Run a tool here, unless it is withheld from the calling session (W3)."""
    caller = await identified(gateway, caller)
    control = gateway.rules.withheld(name, caller)
    if control is not None:
        words = f"this session does not have the tool {quoted(name)}: {control} says so; do without it"
        raise Refusal(words, (control,))
    return await cast("Run", _module(name).run)(gateway, caller, params)


def _module(name: str) -> ModuleType:
    if name not in TOOL_NAMES:
        raise Invalid(f"there is no tool {quoted(name)}: use one of {', '.join(TOOL_NAMES)}")
    return importlib.import_module(f"core.tools.{name}")


def _params(module: ModuleType) -> type[ToolParams]:
    name = "".join(part.capitalize() for part in module.__name__.rpartition(".")[2].split("_"))
    return cast("type[ToolParams]", getattr(module, f"{name}Params"))
