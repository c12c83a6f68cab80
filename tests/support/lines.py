"""A runtime as if it were somewhere else: the way to it can be cut, refused, or slow."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from core.gateway import Action, Gateway
from core.model.access import Scope
from core.model.connection import REACHED, Connection
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged
from core.model.sessions import SearchHit, Session, SessionPage, SessionQuery
from core.rules.policy import PolicyDecision
from core.runtime.gateway import Runtime

_REMOTE = frozenset({"get_session", "history", "search", "runs", "exchanges", "deliveries", "start_run", "patch"})


class Line:
    """A gateway: the runtime behind it, and the way there.

    Attributes:
        answers: While it is not set, no list or search is answered.
        denied: Why actions are refused, by action.
        tells_rules: Whether it says which policy is in effect.
        retried: How often somebody asked to be connected now.
    """

    def __init__(self, runtime: Runtime, **facts: Any) -> None:
        self.runtime = runtime
        self.answers = asyncio.Event()
        self.answers.set()
        self.denied: dict[Action, str] = {}
        self.tells_rules = True
        self.retried = 0
        self.closed = False
        self._connection = Connection("live", address="wss://gateway.example:18789", **facts)

    @property
    def gateway(self) -> Gateway:
        """It, as what it stands for."""
        return cast("Gateway", self)

    @property
    def connection(self) -> Connection:
        """How it is reached."""
        return self._connection

    def become(self, **facts: Any) -> None:
        """Change how it is reached, and tell so."""
        self._connection = replace(self._connection, **facts)
        self.runtime.hub.passing(ConnectionChanged(self._connection))

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not allowed."""
        return self.denied.get(action) or self.runtime.refusal(action, key)

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the policy in effect, unless it is not told."""
        return self.runtime.policy_of(session) if self.tells_rules else None

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, once there is an answer."""
        self._check()
        await self.answers.wait()
        return await self.runtime.list_sessions(query, scope)

    async def search(self, text: str, scope: Scope, **options: Any) -> list[SearchHit]:
        """Return hits, once there is an answer."""
        self._check()
        await self.answers.wait()
        return await self.runtime.search(text, scope, **options)

    def retry(self) -> None:
        """Count it."""
        self.retried += 1

    async def close(self) -> None:
        """Be closed; the runtime is somebody else's."""
        self.closed = True

    def __getattr__(self, name: str) -> Any:
        """Do the rest as the runtime does."""
        if name in _REMOTE:
            self._check()
        return getattr(self.runtime, name)

    def _check(self) -> None:
        if self._connection.state not in REACHED:
            raise Unavailable("the gateway cannot be reached")
