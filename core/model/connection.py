"""How a gateway is reached, and how current its answers are."""

from dataclasses import dataclass
from typing import Final, Literal

ConnectionState = Literal["live", "reading", "starting", "connecting", "lost", "refused"]
REACHED: Final[frozenset[ConnectionState]] = frozenset({"live", "reading", "starting"})
"""The states in which a gateway answers."""
UNREACHED: Final[tuple[ConnectionState, ...]] = ("connecting", "lost", "refused")


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to one gateway at one moment.

    Attributes:
        state: `live`: it runs work and tells every change; `reading`: it shows what is stored, another process owns it;
            `starting`: it shows what is stored, and what is wanted of it waits until it does more; `connecting`: for
            the first time; `lost`: it was live and is being reached again; `refused`: it answered, and trying again by
            itself would not help.
        detail: One sentence for the operator: who owns it, what is wrong, what to do; empty when all is well.
        name: Name of the profile, empty for the bundled runtime.
        address: The URL without secrets, or `local`.
        heard_at: ms since the Unix epoch by the local clock when something was last heard; None where nothing lies
            between, so that answers are always current.
        retry_at: ms since the Unix epoch by the local clock of the next attempt, None when none is planned.
        latency_ms: Of the last request that measured it, None when none has.
        version: What the gateway calls itself, such as `switchboard 0.2.0` or `openclaw 2026.9.6`; empty when unknown.
        scopes: What this connection may do, as the gateway granted it: `operator.read` and so on; empty when unknown.
    """

    state: ConnectionState
    detail: str = ""
    name: str = ""
    address: str = "local"
    heard_at: int | None = None
    retry_at: int | None = None
    latency_ms: float | None = None
    version: str = ""
    scopes: tuple[str, ...] = ()


def unreached(connection: Connection) -> str | None:
    """Return that a gateway is not reached, in words for a sentence's end as well; None when it is."""
    if connection.state in REACHED:
        return None
    if connection.state == "refused" and connection.detail:
        return connection.detail
    words = {"lost": "is lost and being reached again", "refused": "refused the connection"}
    return f"{connection.name or 'the gateway'} {words.get(connection.state, 'is not connected yet')}"
