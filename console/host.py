"""The runtime that a console or a command works on: opened at once, configured and started later."""

import asyncio
from pathlib import Path

from core.agents.choose import AgentBackends
from core.config.paths import Places
from core.config.settings import NO_MODEL_HINT, Settings
from core.model.errors import Conflict
from core.runtime.gateway import Runtime


class Host:
    """The bundled runtime of one process.

    Opening reads nothing but the state; no configuration is parsed and no lock is taken before `start`.

    Attributes:
        runtime: The gateway.
        hint: One line for a start without a model; empty otherwise.
        trouble: Why nothing can be changed here, in one sentence; empty when it can.
    """

    def __init__(self, places: Places, backends: AgentBackends | None = None) -> None:
        self.places = places
        self.runtime = Runtime.open(places.state)
        self.hint = ""
        self.trouble = ""
        self._backends = backends or AgentBackends()

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.places.state

    async def settings(self) -> Settings:
        """Read the configuration.

        Raises:
            Invalid: It is wrong; the sentence says where.
        """
        return await asyncio.to_thread(_load, self.places)  # the parser takes 100 ms to import

    async def start(self, command: str, *, run_all: bool = True, run_own: bool = True) -> None:
        """Read the configuration, take the state directory over and run work.

        Raises:
            Invalid: The configuration is wrong.
            Conflict: Another process owns the state directory; reading works, and its changes are followed.
        """
        settings = await self.settings()
        self.hint = "" if settings.has_model else NO_MODEL_HINT
        try:
            await self.runtime.start(settings, self._backends, command=command, run_all=run_all, run_own=run_own)
        except Conflict:
            self.runtime.follow_owner(settings)
            raise

    async def close(self) -> None:
        """Stop what is at work and give everything free."""
        await self.runtime.close()
        await self._backends.close()


def _load(places: Places) -> Settings:
    from core.config.load import load

    return load(places)
