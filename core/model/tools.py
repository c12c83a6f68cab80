"""A tool as a model is told about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that an agent may call; its parameters are a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
