"""Who asks, and what of the sessions that one may see."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Operator:
    """The person at the console or the command line, or the holder of the gateway's token: the owner (V4, P3).

    Attributes:
        acting_for: Canonical key of the session the operator sends or spawns from; that session is then the requester,
            while the authority stays the operator's (S13). None for the operator alone.
        owner: May do what is the owner's alone; a connection without `operator.admin` may not (protocol#roles).
    """

    acting_for: str | None = None
    owner: bool = True


@dataclass(frozen=True, slots=True)
class SessionCaller:
    """An agent acting inside a session: it has that session's rights and no others.

    `run_id` is None for a client that acts as the session from outside. `agent_id`, which the session's row names, is
    None until that has been looked up (`RuleSet.owner_of`).
    """

    key: str
    run_id: str | None = None
    agent_id: str | None = None


Caller = Operator | SessionCaller
OPERATOR: Final = Operator()


@dataclass(frozen=True, slots=True)
class All:
    """Every session."""


@dataclass(frozen=True, slots=True)
class Agents:
    """Every session of these agents; with a `root`, also that session and what it spawned, of whatever agent."""

    ids: frozenset[str]
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """One session and what it spawned, at any depth."""

    root: str


@dataclass(frozen=True, slots=True)
class One:
    """One session only."""

    key: str


Scope = All | Agents | Tree | One
"""What a caller may see; computed once from the caller by `rules.visibility` and pushed into each query
(architecture#port)."""

ALL: Final = All()
