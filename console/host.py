"""The runtime that a console or a command works on: opened at once, configured and started later."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from core.config.paths import Places
from core.model.errors import Conflict, SwitchboardError
from core.runtime.gateway import Runtime

if TYPE_CHECKING:
    from console.log import Log
    from core.agents.choose import AgentBackends
    from core.channels import Channels
    from core.config.settings import Settings
    from core.config.watch import ConfigWatch
    from core.model.clock import Clock


for _name in ("switchboard", "asyncio"):  # until the log is open, nothing of it may reach the screen
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Host:
    """The bundled runtime of one process.

    Opening reads nothing but the state; no configuration is parsed and no lock is taken before `start`.

    Args:
        pace: Seconds between two words of the builtin agent, None for its own.
        clock: The time that the runtime goes by, None for the machine's.
        channels: Ways out to people besides webchat, by name.

    Attributes:
        pace: As given.
        runtime: The gateway.
        hint: One line for a start without a model; empty otherwise.
    """

    def __init__(
        self,
        places: Places,
        *,
        pace: float | None = None,
        clock: "Clock | None" = None,
        channels: "Channels | None" = None,
    ) -> None:
        self.places = places
        self.runtime = Runtime.open(places.state, clock)
        self.hint = ""
        self.pace = pace
        self._channels = channels
        self._backends: AgentBackends | None = None
        self._watch: ConfigWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self._log: Log | None = None

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.places.state

    async def settings(self) -> "Settings":
        """Read the configuration.

        Raises:
            Invalid: It is wrong; the sentence says where.
        """
        settings, self._backends, self._watch = await asyncio.to_thread(_load, self)  # 100 ms of imports
        return settings

    async def read_again(self) -> None:
        """Read the configuration now; the runtime tells what came of it."""
        assert self._watch is not None, "the configuration was read at the start"
        await self._watch.read()

    async def start(self, command: str, *, run_all: bool = True, run_own: bool = True) -> None:
        """Read the configuration, take the state directory over and run work.

        Raises:
            Invalid: The configuration is wrong.
            Conflict: Another process owns the state directory; reading works, and its changes are followed.
        """
        settings = await self.settings()
        assert self._backends is not None, "they come with the settings"
        assert self._watch is not None, "it comes with the settings"
        self.hint = settings.hint
        log = await asyncio.to_thread(_open_log, self.state)
        try:
            await self.runtime.start(
                settings,
                self._backends,
                command=command,
                channels=self._channels,
                run_all=run_all,
                run_own=run_own,
            )
        except SwitchboardError as error:
            log.close()
            if isinstance(error, Conflict):
                self.runtime.follow_owner(settings)
            raise
        finally:
            if run_all:
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = asyncio.create_task(self._watch.run(), name="configuration")
        self._log = log

    async def close(self) -> None:
        """Stop what is at work and give everything free."""
        if self._watching is not None:
            self._watching.cancel()
        await self.runtime.close()
        if self._backends is not None:
            await self._backends.close()
        if self._log is not None:
            self._log.close()


def _open_log(state: Path) -> "Log":
    from console.log import Log

    return Log(state)


def _load(host: Host) -> "tuple[Settings, AgentBackends, ConfigWatch]":
    from core.agents.choose import AgentBackends
    from core.config.load import load
    from core.config.watch import ConfigWatch, stamp_of

    runtime, stamp = host.runtime, stamp_of(host.places)
    settings = load(host.places)
    watch = ConfigWatch(host.places, runtime.store.clock, stamp, runtime.configure, runtime.complain)
    pace = host.pace
    return settings, AgentBackends() if pace is None else AgentBackends(pace), watch
