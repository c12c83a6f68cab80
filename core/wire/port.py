"""The port on the wire, dialect `port-v1`: `port.<method>` for each method of `core.gateway.Gateway`, by its hints.

    port.describe                                   what the plain properties of the port say
    port.subscribe {feed, turn, storeId?, after?, watch, all}  begin a feed, or begin it anew
                                                    → {storeId, cursor, reset}
    port.watch {feed, watch, all}                   all the sessions that a feed watches from now on
    port.unsubscribe {feed}                         end a feed
    port.tool {name, arguments, caller}             a session tool, run at the gateway
    event port.events {feed, turn, events, described?}  in order, in batches

Whatever changes something carries `once`, an idempotency key, and `boot`, the start of the server that it is meant for:
asked again after a lost connection, it is done once and answered twice. A `start_run` is stored, and needs no `boot`.
"""

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from core.gateway import AgentInfo, Gateway, Reads
from core.model.connection import ConnectionState
from core.model.errors import Invalid
from core.rules.ruleset import RuleSet
from core.wire.codec import Codec, codec_of
from core.wire.scopes import ADMIN, WRITE

READS: Final = tuple(name for name, each in vars(Reads).items() if inspect.iscoroutinefunction(each))
"""What whoever may read may ask."""
CHANGES: Final = dict.fromkeys(("start_run", "abort", "patch", "create"), WRITE) | dict.fromkeys(
    ("archive", "reset", "delete", "append", "retry_delivery", "drop_delivery"), ADMIN
)
"""The scope that each change needs; what only the owner may do inside one is the gateway's to check."""
DESCRIBE: Final = "port.describe"
SUBSCRIBE: Final = "port.subscribe"
WATCH: Final = "port.watch"
UNSUBSCRIBE: Final = "port.unsubscribe"
TOOL: Final = "port.tool"
EVENTS: Final = "port.events"
MOST: Final = 10_000
"""The highest `limit` that is answered."""


@dataclass(frozen=True, slots=True)
class Described:
    """What the plain properties of a gateway say.

    Attributes:
        store_id: Of the store; a cursor means something in the store that gave it only.
        boot: uuid4 of this start of the server.
        cursor: The newest `rev`.
        refusals: Why an action is not possible at all, for those that are not.
        detail: Of its `connection`.
    """

    store_id: str
    boot: str
    cursor: int
    rules: RuleSet
    state: ConnectionState = "live"
    detail: str = ""
    refusals: dict[str, str] = field(default_factory=dict[str, str])
    agents: tuple[AgentInfo, ...] = ()


DESCRIBED: Final[Codec[Described]] = codec_of(Described, told=True)


@dataclass(frozen=True, slots=True)
class Call:
    """How the parameters and the result of one method of the port are written."""

    name: str
    params: Mapping[str, Codec[Any]]
    required: frozenset[str]
    result: Codec[Any]

    @property
    def method(self) -> str:
        """Its name on the wire."""
        return f"port.{self.name}"

    def write(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters for the wire."""
        return {name: self.params[name].write(value) for name, value in arguments.items()}

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Read the parameters; those that are not known are passed over.

        Raises `Invalid` when one is missing or wrong.
        """
        lacking = self.required - params.keys()
        if lacking:
            raise Invalid(f"invalid {self.method} params: must have required property '{min(lacking)}'")
        found: dict[str, Any] = {}
        for name, codec in self.params.items():
            if name in params:
                try:
                    found[name] = codec.read(params[name])
                except Invalid as error:
                    raise Invalid(f"invalid {self.method} params: at /{name}: {error.message}") from None
        limit = found.get("limit", 1)
        if not 1 <= limit <= MOST:
            raise Invalid(f"invalid {self.method} params: at /limit: must be 1 to {MOST}")
        return found


@cache
def call(name: str) -> Call:
    """Return the call of a method of the port."""
    function = getattr(Gateway, name)
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    defaults = {each.name for each in inspect.signature(function).parameters.values() if each.default is not each.empty}
    return Call(
        name,
        {name: codec_of(hint) for name, hint in hints.items()},
        frozenset(hints) - defaults,
        codec_of(result, told=True),
    )
