"""What is not possible at an OpenClaw gateway, and why."""

from typing import Final

from core.gateway import Action
from core.model.errors import Forbidden, Unavailable
from core.remote.openclaw.cache import GatewayCache, is_main
from core.remote.openclaw.dialect import ADMIN, LIST, WRITE
from core.remote.openclaw.tools import Tools, how_to_open

_NEEDS: Final[dict[Action, str]] = {
    "send": WRITE,
    "exchange": WRITE,
    "spawn": WRITE,
    "abort": WRITE,
    "patch": WRITE,
    "archive": WRITE,
    "create": WRITE,
    "policy": ADMIN,
    "reset": ADMIN,
    "delete": ADMIN,
    "append": ADMIN,
    "deliver": ADMIN,
}


class Refusals:
    """What one gateway would refuse, said before it is tried."""

    def __init__(self, known: GatewayCache, tools: Tools) -> None:
        self._known = known
        self._tools = tools

    def reason(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible here, in one sentence; None when it is."""
        if (unready := self._known.unready()) is not None:
            return unready
        needed = self._needed(action)
        if not self._known.may(needed):
            return f"this connection may not do that: the gateway did not grant it {needed}"
        if action == "spawn" and not self._tools.open("sessions_spawn"):
            return how_to_open("sessions_spawn")
        if action == "exchange" and not self._tools.open("sessions_send"):
            return f"only the first run of such a send happens here: {how_to_open('sessions_send')}"
        if action == "archive" and not self._archives():
            return "this gateway cannot archive sessions: reset or delete them instead"
        if action == "deliver":
            return "this gateway keeps its deliveries to itself: they cannot be listed or tried again from here"
        if action == "delete" and key is not None and is_main(key):
            return "the main session of an agent cannot be deleted: reset it instead"
        return None

    def check(self, action: Action, key: str | None = None) -> None:
        """Let an action pass, as far as is known.

        Raises:
            Forbidden: The connection was not granted what it needs.
            Unavailable: It is not possible here.
        """
        reason = self.reason(action, key)
        if reason is None:
            return
        if self._known.link.live and not self._known.may(self._needed(action)):
            raise Forbidden(reason, (self._needed(action),))
        raise Unavailable(reason)

    def _needed(self, action: Action) -> str:
        """Return the scope that an action needs; some gateways want more for a change than others."""
        return (self._known.features.needs("sessions.patch") if action == "patch" else None) or _NEEDS[action]

    def _archives(self) -> bool:
        """Whether sessions can be archived, and be found again."""
        return self._known.features.takes("sessions.patch", "archived") and self._known.features.takes(LIST, "archived")
