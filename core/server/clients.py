"""Who is connected, and what all of them are told: presence (protocol#events)."""

import asyncio
import logging
from typing import Any, Final, Protocol

from core.tasks import Tasks
from core.wire.frames import CLOSE_REFUSED

PRESENCE_DELAY: Final = 0.25
"""Seconds in which comings and goings are gathered before all are told; a crowd that reconnects is told once."""
MAX_PRESENCE: Final = 100
"""Clients that presence names; the newest ones."""
_log = logging.getLogger("switchboard.server")


class ConnectedClient(Protocol):
    """A client that is past its handshake."""

    @property
    def id(self) -> str:
        """uuid4 of its connection."""
        ...

    @property
    def device_id(self) -> str | None:
        """The device that it is on, None for a client without one."""
        ...

    def presence(self) -> dict[str, Any]:
        """Return what others are told of it."""
        ...

    def tell_presence(self) -> None:
        """Tell it who is there now, as soon as it reads."""
        ...

    def end_answered(self, code: int, reason: str) -> None:
        """End its conversation, as soon as what it has asked for is answered."""
        ...


class Clients:
    """The clients that are past their handshake; `version` counts changes, as `stateVersion.presence` tells them."""

    def __init__(self) -> None:
        self.version = 0
        self._open: dict[str, ConnectedClient] = {}
        self._tasks = Tasks(lambda error: _log.error("presence could not be told", exc_info=error))
        self._telling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, client: ConnectedClient) -> None:
        """Let a client take part."""
        self._open[client.id] = client
        self._changed()

    def remove(self, client: ConnectedClient) -> None:
        """Forget a client whose conversation has ended."""
        if self._open.pop(client.id, None) is not None:
            self._changed()

    def end_device(self, device_id: str) -> None:
        """End every conversation of a device, as soon as what it has asked for is answered: it was unpaired."""
        for client in list(self._open.values()):
            if client.device_id == device_id:
                client.end_answered(CLOSE_REFUSED, "device removed")

    def presence(self) -> list[dict[str, Any]]:
        """Return who is there, without the gateway itself."""
        return [each.presence() for each in list(self._open.values())[-MAX_PRESENCE:]]

    def _changed(self) -> None:
        self.version += 1
        if self._telling is None or self._telling.done():
            self._telling = self._tasks.spawn(self._tell())

    async def _tell(self) -> None:
        told = -1
        while told != self.version:
            await asyncio.sleep(PRESENCE_DELAY)
            told = self.version
            for client in list(self._open.values()):
                client.tell_presence()
