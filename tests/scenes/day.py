"""A working day on a real runtime.

Everything in it is said through the calls that anybody can make. The agents follow a script, the clock is moved by
hand, ids are counted; so the same scene always gives the same picture.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Generator
from hashlib import sha256
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast
from unittest.mock import patch

from console.hosts.host import Host
from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ToolEnded, ToolResult, ToolStarted, Turn
from core.channels import ChannelBusy, OutgoingText
from core.config.load import load
from core.config.paths import Places
from core.config.settings import Settings
from core.config.watch import ConfigWatch, stamp_of
from core.model import ids
from core.model.access import OPERATOR, Operator
from core.model.exchanges import OPEN_DELIVERIES as OPEN
from core.model.messages import text_block, tool_call_block
from core.model.sessions import SessionPatch
from core.runtime.exchanges.announce import SPAWN_INPUT
from core.runtime.runs import live_reply
from core.tools.dispatch import dispatch
from tests.scenes.script import (
    ANNOUNCES,
    DESIGN,
    FAMILY,
    ICONS,
    LICENCES,
    MAIN,
    MODEL,
    NEAR,
    OLD_IDEA,
    ON_CALL,
    OPS,
    ORDER,
    PARCEL,
    PROMISE,
    REGION,
    RESEARCH,
    SCRIPT,
    SUPPORT,
    TOKYO,
    TONIGHT,
    USERS,
    Fail,
    Hold,
    Part,
    Say,
    Use,
    Work,
)
from tests.support.clock import FakeClock
from tests.support.runtimes import Agent, begin, quiet

if TYPE_CHECKING:
    from tests.scenes.elsewhere import Elsewhere

MIDNIGHT: Final = 1_773_273_600_000
"""12 March 2026, 00:00 UTC, in ms since the Unix epoch."""
_ENVIRONMENT: Final = {"TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_ANIMATIONS": "none"}


@contextlib.contextmanager
def fixed_world() -> Generator[Path]:
    """Work in an empty folder, in one time zone, with ids that are counted; yield the folder, relative to itself."""

    def numbered(size: int) -> bytes:
        return sha256(str(next(numbers)).encode()).digest()[:size]

    numbers = count(1)
    with (
        TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"), ignore_cleanup_errors=True) as folder,
        contextlib.chdir(folder),
        patch.dict(os.environ, _ENVIRONMENT),
        patch.object(ids, "os", SimpleNamespace(urandom=numbered)),
        patch.object(live_reply, "ACTIVITY_SECONDS", 0.0),  # else the last words may or may not be told
    ):
        os.environ.pop("NO_COLOR", None)
        time.tzset()
        yield Path()
    time.tzset()


class SceneHost(Host):
    """The host of a scene: its clock stands still, its agents follow the script.

    Args:
        config: What the configuration holds; None for a first start, without any.
    """

    def __init__(self, folder: Path, config: dict[str, Any] | None) -> None:
        self.clock = FakeClock(MIDNIGHT)
        self.cast = Cast(self.clock)
        self.elsewhere: Elsewhere | None = None
        file = folder / "config.json5"
        if config is not None:
            file.write_text(json.dumps(config), encoding="utf-8")
        super().__init__(
            Places(folder / "state", file, "scene", "scene", config_required=False),
            clock=self.clock,
            channels={"slack": Slack(), "telegram": Telegram(), "signal": Signal()},
        )

    async def profiles(self) -> Any:
        """Return the gateways that could be opened."""
        return self.elsewhere

    async def settings(self) -> Settings:
        """Read the configuration; who answers is always the script."""
        self._backends = cast("Any", self.cast)
        # Nobody changes the file of a scene: the time of what looks after it stands still.
        self._watch = ConfigWatch(
            self.places, FakeClock(), stamp_of(self.places), self.runtime.configure, self.runtime.complain
        )
        return load(self.places, {})

    async def start(self, command: str, *, run_all: bool = True, run_own: bool = True) -> None:
        """Start once: the morning before the console is opened runs on the same runtime."""
        if self.runtime.connection.state != "live":
            await super().start(command, run_all=run_all, run_own=run_own)


class Cast(Agent):
    """The agents, who follow the script.

    Attributes:
        holding: What lets those go on who hold, by the message they work on.
        words: What each session's agent said last, by key.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(self._act)
        self.holding: dict[str, asyncio.Event] = {}
        self.words: dict[str, str] = {}
        self._clock = clock

    async def _act(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        asked, said = turn.transcript[-1].text, ""
        part = SCRIPT.get(asked) or _announce(turn, asked)
        for number, step in enumerate(part.steps):
            match step:
                case Say(text):
                    said = self.words[turn.key] = text
                    yield TextDelta(text)
                case Work(seconds):
                    await self._clock.advance(seconds)
                case Use():
                    async for event in self._use(turn, step, f"call_{number}", said):
                        yield event
                    said = ""
                case Hold():
                    released = self.holding[asked] = asyncio.Event()
                    await released.wait()
                case Fail(reason):
                    raise AgentFailure(reason)
        yield Reply((text_block(said),), part.usage, MODEL)

    async def _use(self, turn: Turn, use: Use, call_id: str, said: str) -> AsyncGenerator[AgentEvent, None]:
        words = (text_block(said),) if said else ()
        yield Reply((*words, tool_call_block(call_id, use.tool, use.arguments)), None, MODEL, "toolUse")
        yield ToolStarted(call_id, use.tool)
        await self._clock.advance(use.seconds)
        known = ToolResult(use.answer) if use.answer is not None else None
        yield ToolEnded(call_id, use.tool, known or await turn.call_tool(call_id, use.tool, use.arguments))


def _announce(turn: Turn, asked: str) -> Part:
    """Return what an agent does that is asked what to announce."""
    began = turn.transcript[0].text if asked == SPAWN_INPUT else next(word for word in ANNOUNCES if word in asked)
    return Part((Work(1), Say(ANNOUNCES[began])))


class Slack:
    """A channel that takes everything."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Take a text."""
        del outgoing


class Telegram:
    """A channel that is busy."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Take nothing, and ask to be left alone for two hours."""
        del outgoing
        raise ChannelBusy("telegram is busy: too many requests", 7200.0)


class Signal:
    """A channel that breaks down."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Leave it unknown whether the text was taken."""
        raise ConnectionResetError


class Day:
    """The day of a fleet: the morning before the console is opened, and what happens while it is."""

    def __init__(self, host: SceneHost) -> None:
        self._host = host

    async def morning(self) -> None:
        """Live until 13:55, with all at rest."""
        await self._host.start("console")
        await self._say("03:00", "cron:nightly", "Run the nightly checks.")
        await self._say("08:55", FAMILY, "Dinner on Sunday?", label="family")
        await begin(self._host.runtime, FAMILY, "/send off")
        await self._say("09:10", "node-laptop", "Morning report?")
        await self._say("10:05", OPS, "Check what we ship, and the old idea.", label="ops")
        await self._go_on(LICENCES)
        await self._go_on(OLD_IDEA)
        await self._say("10:15", MAIN, "Good morning. What is open?")
        await self._say("11:20", TOKYO, "配送は間に合いますか。", label="東京サポート")
        await self._send("11:25", MAIN, TOKYO, PROMISE)
        await begin(self._host.runtime, DESIGN, "/send on")
        await begin(self._host.runtime, DESIGN, "/label design")
        await self._send("12:10", MAIN, DESIGN, ICONS)
        await begin(self._host.runtime, DESIGN, "/send inherit")
        await self._go_on(ICONS)
        await self._say("13:05", SUPPORT, "Can I change my address?", label="support-42")

    async def afternoon(self) -> None:
        """Live until 14:03, with something going on everywhere."""
        await self._say("13:58", "hook:deploy", "Deploy 2f9c1ab to production.")
        await self._say("14:01", MAIN, REGION)
        await self._go_on(NEAR)
        await self._go_on(RESEARCH)
        await self._say("14:01:40", MAIN, USERS)
        await self._say("14:02:20", "node-laptop", "Anything new since this morning?")
        await self._say("14:02:38", SUPPORT, ORDER)
        await self._until("14:03")

    async def errands(self) -> None:
        """Live until 13:30: what is announced on channels that are not well."""
        await self._send("13:20", MAIN, SUPPORT, PARCEL)
        await self._send("13:30", MAIN, ON_CALL, TONIGHT)

    async def ask(self, key: str, message: str) -> None:
        """Send a message now and wait until the agent has done what the script says."""
        await begin(self._host.runtime, key, message)
        await self._settled()

    async def _say(self, at: str, key: str, message: str, *, label: str | None = None) -> None:
        await self._until(at)
        await self.ask(key, message)
        if label is not None:
            await self._host.runtime.patch(key, SessionPatch({"label": label}), OPERATOR)

    async def _send(self, at: str, sender: str, key: str, message: str) -> None:
        await self._until(at)
        arguments = {"sessionKey": key, "message": message, "timeoutSeconds": 0}
        await dispatch(self._host.runtime, Operator(sender), "sessions_send", arguments)
        await self._settled()

    async def _go_on(self, message: str) -> None:
        self._host.cast.holding.pop(message).set()
        await self._settled()

    async def _until(self, at: str) -> None:
        hours, minutes, seconds = (int(part) for part in f"{at}:00".split(":")[:3])
        await self._host.clock.advance(hours * 3600 + minutes * 60 + seconds - self._host.clock.monotonic())

    async def _settled(self) -> None:
        """Wait until every run at work holds where the script says so, all others have ended, and nothing is sent."""
        while not await self._is_settled():
            await quiet(self._host.runtime)

    async def _is_settled(self) -> bool:
        """Whether all is at rest, and still is when what was written meanwhile has been acted upon."""
        runtime, cast = self._host.runtime, self._host.cast
        for _ in range(2):
            found = await runtime.deliveries(states=OPEN, limit=10)
            under_way = [each for each in found if each.state == "sending" or each.due_at <= runtime.now_ms()]
            if len(runtime.active_runs) != len(cast.holding) or under_way:
                return False
            await quiet(runtime)
        return True
