"""What a console or a command works on: the bundled runtime, gateways elsewhere, or several of them at once.

The bundled runtime is opened at once, configured and started later. One process owns its state directory; every other
one asks the owner, and takes its place when it leaves (architecture#ownership).
"""

import asyncio
import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from console.hosts.answering import answer, stop
from console.hosts.base import BaseHost
from core.config.paths import Places
from core.model.errors import Conflict, SwitchboardError
from core.runtime.gateway import Runtime

if TYPE_CHECKING:
    from console.hosts.service import Company
    from console.log import Log
    from console.profiles import Profiles
    from core.agents.choose import AgentBackends
    from core.channels import Channels
    from core.clock import Clock
    from core.config.settings import Settings
    from core.config.watch import ConfigWatch
    from core.gateway import Gateway
    from core.remote.native.gateway import NativeGateway
    from core.server.local import SocketListener

ANSWER_SECONDS: Final = 3.0
"""How long after its start an owner may take until it answers."""
LOOK_SECONDS: Final = 0.05
"""How often a new owner is asked whether it answers."""
VAIN_SECONDS: Final = 0.25
"""How often a process that only reads looks whether the owner answers after all, or has left."""
BRIEF_SECONDS: Final = 0.25
"""A command that is done sooner need not answer anybody."""


class Host(BaseHost):
    """What one process works on.

    Opening reads nothing but the state; no configuration is parsed and no lock is taken before `start`.

    Args:
        pace: Seconds between two words of the builtin agent, None for its own.
        clock: The time that the runtime goes by, None for the machine's.
        channels: Ways out to people besides webchat, by name.

    Attributes:
        pace: As given.
        runtime: The bundled runtime.
        company: Who is connected, when more than the socket is answered; to be set before `start`.
    """

    def __init__(
        self,
        places: Places,
        *,
        pace: float | None = None,
        clock: "Clock | None" = None,
        channels: "Channels | None" = None,
    ) -> None:
        super().__init__(places)
        self.here = self.runtime = Runtime.open(places.state, clock)
        self.company: Company | None = None
        self.pace = pace
        self._channels = channels
        self._backends: AgentBackends | None = None
        self._watch: ConfigWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._owner: NativeGateway | None = None
        self._answering: asyncio.Task[SocketListener] | None = None
        self._log: Log | None = None
        self._role: _Role | None = None

    @property
    def gateway(self) -> "Gateway":
        """The one gateway of a command."""
        return self.runtime

    @property
    def configured(self) -> "Settings | None":
        """The configuration, once it was read."""
        return self.runtime.settings

    @property
    def runner(self) -> str:
        """Who runs the work, for a sentence."""
        owner = self.runtime.owner
        return owner.words if owner is not None else "this process"

    async def settings(self) -> "Settings":
        """Read the configuration; `Invalid` says where it is wrong."""
        settings, self._backends, self._watch = await asyncio.to_thread(_load, self)  # 100 ms of imports
        return settings

    async def profiles(self) -> "Profiles":
        """Return the gateways that are known by name."""
        from console.profiles import Profiles

        settings = self.configured or await self.settings()
        return await asyncio.to_thread(Profiles, settings.gateways, self.state)

    async def ready(self) -> None:
        """Read the configuration, so that everything stored can be read by its rules; see `settings`."""
        self.runtime.settings = await self.settings()

    async def read_again(self) -> str | None:
        """Read the configuration now; None, since the runtime tells what came of it."""
        assert self._watch is not None, "the configuration was read at the start"
        await self._watch.read()

    async def start(self, command: str, *, run_all: bool = True, run_own: bool = True) -> None:
        """Read the configuration, and take the state directory over or ask its owner; from then on, stay with it.

        Raises:
            Invalid: The configuration is wrong.
            Conflict: Another process owns the state directory and does not answer; reading works, its changes are
                followed, and its place is taken once it leaves.
        """
        try:
            settings = await self.settings()
            self.hint = settings.hint
            self._role = _Role(command, run_all=run_all, run_own=run_own)
            await self._stop_following()
            try:
                await self._take_over_or_ask(settings)
            finally:
                if run_all:
                    assert self._watch is not None, "it comes with the settings"
                    if self._watching is not None:
                        self._watching.cancel()
                    self._watching = asyncio.create_task(self._watch.run(), name="configuration")
        finally:
            self.expect_no_start()  # it has begun by now, or will not

    async def answered(self) -> None:
        """Wait until other processes of this machine are answered here, or until the log says why they are not."""
        if self._answering is not None:
            await asyncio.wait((self._answering,))

    async def watch(self) -> None:
        """Hear of what another process does, without ever taking its place."""
        settings = self.configured or await self.settings()
        self._stay_with(await self._owner_who_answers(), settings)

    async def close(self) -> None:
        """Stop what is at work and give everything free."""
        if self._watching is not None:
            self._watching.cancel()
        await self._stop_following()
        if self._answering is not None:
            await stop(self._answering)
        await self.runtime.close()
        if self._backends is not None:
            await self._backends.close()
        if self._log is not None:
            self._log.close()

    # The owner of the state directory

    async def _take_over_or_ask(self, settings: "Settings") -> None:
        """Own the state directory, or stay with whoever does; see `start`."""
        while True:
            try:
                await self._take_over(settings)
            except Conflict:
                owner = await self._owner_who_answers()
                if owner is None and not self._is_owned():
                    continue  # it has just left
                self._stay_with(owner, settings)
                if owner is None:
                    raise
            return

    async def _take_over(self, settings: "Settings") -> None:
        """Own the state directory, run work, and answer other processes; `Conflict` when another process owns it."""
        role = self._role
        assert role is not None, "a process that only watches takes nothing over"
        assert self._backends is not None, "they come with the settings"
        log = await asyncio.to_thread(_open_log, self.state)
        with contextlib.ExitStack() as stack:
            stack.callback(log.close)
            await self.runtime.start(settings, self._backends, channels=self._channels, **role._asdict())
            stack.pop_all()
        self._log = log
        if role.run_own:
            wait = 0.0 if role.run_all else BRIEF_SECONDS
            self._answering = asyncio.create_task(
                answer(self.runtime, self.places, wait, self.company), name="answering"
            )

    async def _owner_who_answers(self) -> "NativeGateway | None":
        """Return the port of the process that owns the state directory; None when it does not answer."""
        if not self._is_owned():
            return None
        await asyncio.to_thread(importlib.import_module, "core.remote.native.local")  # 50 ms
        from core.remote.native.local import attach

        clock = self.runtime.store.clock
        while True:
            try:
                return await attach(self.state, clock)
            except SwitchboardError:
                owner = self.runtime.owner
                if owner is None or clock.now_ms() - owner.started_at > 1000 * ANSWER_SECONDS:
                    return None
            await clock.sleep(LOOK_SECONDS)

    def _stay_with(self, owner: "NativeGateway | None", settings: "Settings") -> None:
        """Work through the owner from now on, or look at what it stores; take its place when it has left."""
        self._ask(owner, settings)
        self._following = asyncio.create_task(self._follow_owners(), name="following")

    def _ask(self, owner: "NativeGateway | None", settings: "Settings") -> None:
        self._owner = owner
        if owner is not None:
            self.runtime.ask(settings, owner)
        else:
            self.runtime.follow_owner(settings)

    async def _follow_owners(self) -> None:
        while True:
            if self._owner is not None:
                await self.runtime.hear()
                await self._let_go()
            settings = self.runtime.settings
            assert settings is not None, "it was read at the start"
            with contextlib.suppress(SwitchboardError):
                if self._role is not None and not self._is_owned():
                    await self._take_over(settings)
                    return
            self._ask(await self._owner_who_answers(), settings)
            if self._owner is None:
                await self.runtime.store.clock.sleep(VAIN_SECONDS)

    async def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))
            self._following = None
        await self._let_go()

    async def _let_go(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            await owner.close()

    def _is_owned(self) -> bool:
        return self.runtime.owner is not None


class _Role(NamedTuple):
    """What a process does with the state directory once it owns it.

    Attributes:
        command: What others are told that it is.
        run_all: It runs every session's work, else only that of sessions it sends to.
        run_own: Else: it runs that; when False too, it only accepts work and leaves it queued.
    """

    command: str
    run_all: bool
    run_own: bool


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
