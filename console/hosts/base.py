"""What the hosts have in common: the state directory of this machine, and the bundled runtime where it is worked on."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.config.paths import Places

if TYPE_CHECKING:
    from console.hosts.gateways import KeptGateway
    from core.runtime.gateway import Runtime

_NOWHERE: Final = logging.NullHandler()


class BaseHost:
    """What one process works on. While it is open, what is logged goes to no terminal: nowhere, or to an open log.

    Attributes:
        here: The bundled runtime, None when it is not worked on.
        hint: One line for a start without a model; empty otherwise.
        kept: Connections to gateways elsewhere, by name.
    """

    def __init__(self, places: Places) -> None:
        for name in ("switchboard", "asyncio"):
            logging.getLogger(name).addHandler(_NOWHERE)
        self.places = places
        self.here: Runtime | None = None
        self.hint = ""
        self.kept: dict[str, KeptGateway] = {}

    @property
    def state(self) -> Path:
        """The state directory of this machine, where the console remembers."""
        return self.places.state

    @property
    def started(self) -> bool:
        """Whether the configuration is in use, so that it can be read again."""
        return self.here is None or self.here.connection.state == "live"

    @property
    def owns(self) -> bool:
        """Whether this process runs the work, so that its end is the end of what is at work."""
        return self.here is not None and self.here.owns

    @property
    def active_runs(self) -> list[str]:
        """Ids of the runs at work in this process."""
        return self.here.active_runs if self.here is not None else []

    async def drained(self) -> None:
        """Wait until no run is at work in this process and none may start."""
        if self.here is not None:
            await self.here.drained()

    def expect_start(self) -> None:
        """Let what is wanted of the bundled runtime wait for `start`, which comes soon."""
        if self.here is not None:
            self.here.expect_start()

    def expect_no_start(self) -> None:
        """Let it wait no longer: there will be none."""
        if self.here is not None:
            self.here.expect_no_start()
