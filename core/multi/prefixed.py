"""One gateway of a fleet under its name: the port, with the name before every key and id."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from core.delegating import DelegatingGateway, T
from core.gateway import Action, Feed, Gateway, NativeTool, Overrides
from core.model.access import Caller, Scope
from core.model.connection import Connection
from core.model.events import Cursor, Event
from core.model.sessions import Session
from core.multi.prefix import KeyPrefix
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet


class PrefixedGateway(DelegatingGateway):
    """The gateway `inner` with refs that carry a name; see `core.gateway.Gateway`."""

    def __init__(self, name: str, inner: Gateway) -> None:
        self.inner = inner
        self._prefix = KeyPrefix(name)

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; their keys have no name."""
        return self.inner.rules

    @property
    def connection(self) -> Connection:
        return self._told(self.inner.connection)

    def now_ms(self) -> int:
        return self.inner.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        return self.inner.refusal(action, self._given(key))

    def unready(self) -> str | None:
        return self.inner.unready()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        return self.inner.policy_of(self._given(session))

    def native_tool(self, name: str) -> NativeTool:
        """Return a session tool: it runs where the gateway says, with keys as the gateway knows them."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            from core.tools.dispatch import dispatch

            prefix = self._prefix
            return prefix.result(await dispatch(self.inner, prefix.given(caller), name, prefix.arguments(arguments)))

        return run

    def subscribe(self, after: Cursor | None = None) -> "PrefixedFeed":
        return PrefixedFeed(self._prefix, self.inner.subscribe(after))

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by key, in any spelling, or id."""
        return await super().get_session(self.inner.rules.resolve(self._given(ref)), scope)

    async def overrides(self) -> Overrides:
        return {self._told(key): override for key, override in (await self.inner.overrides()).items()}

    async def _reads(self, ref: str | None) -> Gateway:  # noqa: ARG002 - it has them all
        return self.inner

    _writes = _reads

    def _given(self, value: T) -> T:
        return self._prefix.given(value)

    def _told(self, answer: T) -> T:
        return self._prefix.told(answer)


class PrefixedFeed:
    """One subscriber's stream of a named gateway; see `core.gateway.Feed`."""

    def __init__(self, prefix: KeyPrefix, inner: Feed) -> None:
        self._prefix = prefix
        self._inner = inner

    @property
    def cursor(self) -> Cursor:
        return self._inner.cursor

    def watch(self, key: str | None) -> None:
        self._inner.watch(self._prefix.given(key))

    def unwatch(self, key: str | None) -> None:
        self._inner.unwatch(self._prefix.given(key))

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self._inner:
            yield self._prefix.told(event)

    def close(self) -> None:
        self._inner.close()
