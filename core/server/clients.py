"""Who is connected, and what all of them are told: presence (protocol#events)."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from core.wire.frames import CLOSE_REFUSED

if TYPE_CHECKING:
    from core.server.conversation import Conversation

PRESENCE_DELAY: Final = 0.25
"""Seconds in which comings and goings are gathered before all are told; a crowd that reconnects is told once."""
MAX_PRESENCE: Final = 100
"""Clients that presence names; the newest ones."""


class Clients:
    """The conversations that are past their handshake.

    Attributes:
        version: Counts the changes, as `stateVersion.presence` tells them.
    """

    def __init__(self) -> None:
        self.version = 0
        self._open: dict[str, Conversation] = {}
        self._telling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, conversation: "Conversation") -> None:
        """Let a conversation take part."""
        self._open[conversation.id] = conversation
        self._changed()

    def remove(self, conversation: "Conversation") -> None:
        """Forget a conversation that has ended."""
        if self._open.pop(conversation.id, None) is not None:
            self._changed()

    def end_device(self, device_id: str) -> None:
        """End every conversation of a device, as soon as what it has asked for is answered: it was unpaired."""
        for conversation in list(self._open.values()):
            device = conversation.admitted.params.device
            if device is not None and device.id == device_id:
                conversation.end_answered(CLOSE_REFUSED, "device removed")

    def presence(self) -> list[dict[str, Any]]:
        """Return who is there, without the gateway itself."""
        return [each.presence() for each in list(self._open.values())[-MAX_PRESENCE:]]

    def _changed(self) -> None:
        self.version += 1
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        told = -1
        while told != self.version:
            await asyncio.sleep(PRESENCE_DELAY)
            told = self.version
            for conversation in list(self._open.values()):
                conversation.spawn(self._tell_one(conversation))

    async def _tell_one(self, conversation: "Conversation") -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await conversation.tell_presence()
