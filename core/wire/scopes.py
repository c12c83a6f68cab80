"""What a connection may do (protocol#roles), and what each action needs; the owner's alone unless it stands here."""

from collections.abc import Mapping
from typing import Final, get_args

from core.gateway import Action

READ: Final = "operator.read"
WRITE: Final = "operator.write"
ADMIN: Final = "operator.admin"
_WRITING: Final[tuple[Action, ...]] = ("send", "exchange", "spawn", "abort", "patch", "create")
ACTION_SCOPES: Final[Mapping[Action, str]] = dict.fromkeys(get_args(Action), ADMIN) | dict.fromkeys(_WRITING, WRITE)
