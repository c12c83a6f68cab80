"""What is asked of one of our own gateways, and what it has said of itself (dialect `port-v1`, `core.wire.port`)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from core.model.access import Caller
from core.model.errors import Invalid, Unavailable
from core.model.ids import new_id
from core.remote.hello import mapping
from core.remote.link import Link
from core.remote.refusal import RequestNotTaken
from core.wire import port
from core.wire.codec import CALLER
from core.wire.port import DESCRIBED, Described, call

ANSWER_SECONDS: Final = 30.0
UNKNOWN_METHOD: Final = "unknown method"


class PortRequests:
    """The requests to one gateway.

    Args:
        ready: Returns when a request may be sent; feeds that are being begun come first.

    Attributes:
        described: What the gateway says of itself; None until it was told.
    """

    def __init__(self, link: Link, ready: Callable[[], Awaitable[None]]) -> None:
        self.described: Described | None = None
        self._link = link
        self._ready = ready

    def describe(self, payload: object) -> None:
        """Take what the gateway says of itself."""
        try:
            self.described = DESCRIBED.read(payload)
        except Invalid as error:
            raise Unavailable(f"the gateway says nothing of itself that can be read: {error.message}") from None

    def not_connected(self) -> str:
        """Return why nothing reaches the gateway, in one sentence."""
        connection = self._link.connection
        where = connection.name or connection.address
        if connection.state == "refused":
            return connection.detail
        if connection.retry_at is None:
            return f"not connected to {where} yet"
        seconds = max(0, round((connection.retry_at - self._link.clock.now_ms()) / 1000))
        return f"not connected to {where}: next try in {seconds} s"

    async def call(self, name: str, *, seconds: float = ANSWER_SECONDS, **arguments: object) -> Any:  # noqa: ANN401
        """Call a method that changes nothing."""
        return self._result(name, await self._asked(f"port.{name}", call(name).write(arguments), seconds))

    async def change(self, name: str, **arguments: object) -> Any:  # noqa: ANN401 - as the port says
        """Call a method that changes something; asked for again, it is done once."""
        params = {**call(name).write(arguments), **self._once()}
        return self._result(name, await self._asked(f"port.{name}", params, ANSWER_SECONDS))

    async def run_tool(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Have a session tool run at the gateway."""
        seconds = arguments.get("timeoutSeconds")
        patience = float(seconds) if isinstance(seconds, int | float) else ANSWER_SECONDS
        params = {"name": name, "arguments": dict(arguments), "caller": CALLER.write(caller), **self._once()}
        return dict(mapping(await self._asked(port.TOOL, params, patience + ANSWER_SECONDS)))

    def _once(self) -> dict[str, Any]:
        boot = self.described.boot if self.described is not None else None
        return {"once": new_id(), "boot": boot}

    async def _asked(self, method: str, params: object, seconds: float) -> Any:  # noqa: ANN401 - any JSON
        await self._ready()
        if not self._link.live:
            raise Unavailable(self.not_connected())
        try:
            return await self._link.request(method, params, timeout=seconds, again=True)
        except Invalid as error:
            if not error.message.startswith(UNKNOWN_METHOD):
                raise
            there = self._link.connection.version or "older than this program"
            raise RequestNotTaken(f"this gateway is {there} and has no {method} yet: update it") from None

    def _result(self, name: str, payload: object) -> Any:  # noqa: ANN401 - as the port says
        try:
            return call(name).result.read(payload)
        except Invalid as error:
            raise Unavailable(
                f"the gateway answers port.{name} in a way that cannot be read: {error.message}"
            ) from None
