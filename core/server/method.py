"""What a method of the gateway is: its name, the scope it needs, its parameters, and what carries it out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from core.server.conversation.client import Client


@dataclass(frozen=True, slots=True)
class Later:
    """Two answers to one request: `payload`, and what `second` makes, which follows on the same id."""

    payload: Any
    second: Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        scope: What the connection must have, such as `operator.read`; None for nothing.
        params: Model of its parameters, closed.
        run: Carries it out and returns the payload: JSON-able, `RawJson`, or `Later`.
        heavy: Its answers are long: few of them are made at once.
    """

    name: str
    scope: str | None
    params: type[BaseModel]
    run: Callable[[Client, Any], Awaitable[Any]]
    heavy: bool = False
