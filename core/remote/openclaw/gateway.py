"""The port over OpenClaw's own protocol, all generations of it (protocol#openclaw)."""

from core.gateway import NativeTool
from core.model.connection import Connection
from core.model.events import Cursor
from core.remote.link import Link
from core.remote.openclaw.cache import GatewayCache
from core.remote.openclaw.feed import HubFeed
from core.remote.openclaw.tools import Tools
from core.remote.openclaw.writes import OpenClawWrites
from core.remote.profile import Profile
from core.rules.ruleset import RuleSet


class OpenClawGateway(OpenClawWrites):
    """An OpenClaw gateway; see `core.gateway.Gateway`.

    Args:
        link: Everything heard on it comes here from now on; it is to be used once `on_up` of the link has returned.
    """

    def __init__(self, link: Link, profile: Profile) -> None:
        self._link = link
        self._known = GatewayCache(link)
        self._tools = Tools(self, self._known, profile)

    @property
    def rules(self) -> RuleSet:
        """The rules in force here, as far as the gateway tells them."""
        return self._known.rules

    @property
    def connection(self) -> Connection:
        return self._link.connection

    def now_ms(self) -> int:
        return self._link.now_ms()

    def native_tool(self, name: str) -> NativeTool | None:
        return self._tools.native(name)

    def subscribe(self, after: Cursor | None = None) -> HubFeed:
        """Hear of every change from now on."""
        return self._known.hub.subscribe(after)

    async def close(self) -> None:
        """End the connection and all feeds."""
        await self._known.close()
