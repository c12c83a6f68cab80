"""What a gateway of another make takes, found by asking (protocol#methods).

Their methods and parameters came one by one over many versions, and parameters that are not known are refused. So what
is optional is tried, and left out once a refusal names it: a property that is not expected, a value of another type, a
method that is not there. What was learnt holds for the connection, as behind the next one may be a newer gateway.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from core.model.errors import Forbidden, Invalid
from core.model.json_codec import mapping
from core.remote.link import ANSWER_SECONDS, Link
from core.remote.refusal import RequestNotTaken

ANY: Final = object()
_UNEXPECTED: Final = re.compile(r"unexpected property '([^']{1,100})'")
_WRONG: Final = re.compile(r"(?:^|[;:] )at /([A-Za-z]{1,100}): must ")
_UNKNOWN: Final = "unknown method"
_MALFORMED: Final = re.compile(r"invalid \S{1,100} params\b")
_SCOPE: Final = re.compile(r"missing scope: (\S{1,60})")

Build = Callable[[], dict[str, Any]]


class Features:
    """What one gateway takes, as far as it was tried."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._methods: set[str] = set()
        self._refused: set[tuple[str, str, object]] = set()
        self._scopes: dict[str, str] = {}

    def forget(self) -> None:
        """Begin anew: another connection has come up."""
        self._methods.clear()
        self._refused.clear()
        self._scopes.clear()

    def has(self, method: str) -> bool:
        """Whether a method was not found missing."""
        return method not in self._methods

    def takes(self, method: str, name: str, value: object = ANY) -> bool:
        """Whether a parameter was not refused: with this value, or at all."""
        known = {(method, name, ANY), (method, name, _written(value))}
        return self.has(method) and self._refused.isdisjoint(known)

    def needs(self, method: str) -> str | None:
        """Return the scope that the gateway wanted for a method; None while it has not said."""
        return self._scopes.get(method)

    def pick(self, method: str, **optional: object) -> dict[str, Any]:
        """Return those of the parameters that were not refused."""
        return {name: value for name, value in optional.items() if self.takes(method, name, value)}

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | Build | None = None,
        *,
        timeout: float = ANSWER_SECONDS,  # noqa: ASYNC109 - it goes by the clock that tests move
        again: bool = False,
    ) -> Mapping[str, Any]:
        """Ask the gateway, again without what it refuses to take, and return its answer; empty when that is no object.

        Args:
            params: The parameters, or what makes them, of which some are picked by what the gateway takes.
            timeout: Seconds after which it counts as unanswered.
            again: It may be asked twice, as `Link.request` says.

        Raises:
            NotTaken: It has no such method, or does not take what has to be said.
            SwitchboardError: As `Link.request`.
        """
        build = params if callable(params) else lambda: dict(params or {})
        sent = build()
        while True:
            try:
                return mapping(await self._link.request(method, sent, timeout=timeout, again=again))
            except Invalid as error:
                self._learn(method, sent, error.message)
                before, sent = sent, build()
                if not self.has(method) or (sent == before and _MALFORMED.match(error.message)):
                    where = self._link.connection.name or self._link.connection.address
                    raise RequestNotTaken(f"{where} does not take {method}: {error.message}") from None
                if sent == before:
                    raise
            except Forbidden as error:
                if (scope := _SCOPE.match(error.message)) is not None:
                    self._scopes[method] = scope[1]
                raise

    async def optional(self, method: str, params: Mapping[str, Any] | Build | None = None) -> Mapping[str, Any] | None:
        """Ask for what a connection can do without; None when the gateway has it not, or not for us."""
        try:
            return await self.ask(method, params)
        except (Forbidden, Invalid, RequestNotTaken):
            return None

    def _learn(self, method: str, sent: Mapping[str, Any], message: str) -> None:
        if message.startswith(_UNKNOWN):
            self._methods.add(method)
        if not _MALFORMED.match(message):  # it may repeat what we gave
            return
        names = [(name, ANY) for name in _UNEXPECTED.findall(message)]
        names += [(name, _written(sent.get(name))) for name in _WRONG.findall(message)]
        self._refused |= {(method, name, value) for name, value in names if name in sent}


def _written(value: object) -> object:
    """Return a value as it is told from others: `true` is not 1, and lists cannot be kept in sets."""
    return value if value is ANY else repr(value)
