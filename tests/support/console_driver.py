"""The one harness of the console's tests: a console that runs, driven by keys alone, and what it shows.

Screens are drawn where a test looks, and the Pilot waits for what the process has to do (see the imported modules).
"""

import asyncio
import time
from collections.abc import Callable

from textual import events
from textual.pilot import Pilot

import tests.support.idle  # pyright: ignore[reportUnusedImport] - it is imported for what it does
import tests.support.quick_screen  # noqa: F401  # pyright: ignore[reportUnusedImport] - it is imported for what it does
from console.app import SwitchboardApp
from console.hosts.host import Host
from console.screens.watch.screen import WatchScreen
from console.widgets.composer import Composer
from core.model.access import ALL
from core.model.messages import Message
from core.model.sessions import Session
from core.runtime.gateway import Runtime
from tests.support.screens import driver_of, key_of, strips_of


class ConsoleDriver:
    """A console that runs, and what a test asks of it.

    Attributes:
        bells: How often the bell rang, which no terminal hears here.
    """

    def __init__(self, app: SwitchboardApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.bells = 0
        ring = app.bell

        def count() -> None:
            self.bells += 1
            ring()

        app.bell = count

    @property
    def screen(self) -> WatchScreen:
        """The watch screen."""
        return self.app.watch_screen

    @property
    def runtime(self) -> Runtime:
        """The gateway behind the console."""
        host = self.app.host
        assert isinstance(host, Host)
        return host.runtime

    @property
    def notice(self) -> str:
        """What the console said last."""
        return self.screen.parts.notice.text

    @property
    def standing(self) -> str:
        """What it says for as long as it is so."""
        return self.screen.parts.standing.text

    @property
    def selected(self) -> str | None:
        """Key of the session under the cursor."""
        return self.screen.parts.sessions.selected

    @property
    def composer(self) -> Composer:
        """The composer of the main transcript."""
        composer = self.screen.parts.main.composer
        assert composer is not None, "the console is complete"
        return composer

    @property
    def order(self) -> list[str]:
        """Keys of the sessions in the list, from the top."""
        return [placed.key for placed in self.app.view_model.book.placement.placed()]

    @property
    def text(self) -> str:
        """The words on the screen, line by line."""
        strips = strips_of(self.app)
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until a condition holds while the console works; fail with the picture when it does not in time."""
        deadline = time.monotonic() + seconds
        if condition():
            return
        while not condition():
            assert time.monotonic() < deadline, f"the condition did not come true in time:\n{self.text}"
            await asyncio.sleep(0.005)
        await self.pilot.pause(0)  # what made it true is drawn as well

    async def press(self, *keys: str) -> None:
        """Press keys and let the console take them in."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def write(self, text: str) -> None:
        """Type a text, faster than the console takes it in."""
        driver = driver_of(self.app)
        assert driver is not None, "the console runs"
        for character in text:
            key = {"\n": "ctrl+j", "\t": "tab"}.get(character) or key_of(character)
            event = events.Key(key, None if character == "\n" else character)
            event.set_sender(self.app)
            driver.send_message(event)
        await self.pilot.pause()

    async def said(self, *words: str) -> str:
        """Wait until the notice holds these words."""
        await self.until(lambda: all(word in self.notice for word in words))
        return self.notice

    async def shows(self, *words: str) -> None:
        """Wait until the screen holds these words."""
        await self.until(lambda: all(word in self.text for word in words))

    async def select(self, key: str) -> None:
        """Go to a session of the list with the arrows, and wait until its transcript is open."""
        await self.until(lambda: key in self.order)
        while self.screen.position.pane != "list":
            await self.press("escape")
        sessions = self.screen.parts.sessions  # what it shows may stand in an older order for a while, for it is in use
        await self.until(lambda: key in sessions.keys)
        while self.selected != key:
            await self.press("down" if sessions.keys.index(key) > sessions.cursor else "up")
        await self.until(lambda: self.screen.parts.main.key == key)

    async def open(self, key: str) -> None:
        """Go into the transcript of a session."""
        await self.select(key)
        await self.press("enter")
        assert self.screen.position.pane == "transcript"

    async def session(self, key: str) -> Session:
        """Return a session as the gateway has it."""
        return await self.runtime.get_session(key, ALL)

    async def messages(self, key: str) -> list[Message]:
        """Return the messages that the gateway has of a session."""
        return list((await self.runtime.history(key, ALL, limit=10_000)).messages)

    async def words(self, key: str) -> list[tuple[str, str]]:
        """Return role and text of the messages that the gateway has of a session."""
        return [(message.role, message.text) for message in await self.messages(key)]

    async def at_rest(self) -> None:
        """Wait until no run is at work and the rows say so."""
        counts = self.app.view_model.book.counts
        await self.until(lambda: not self.runtime.active_runs and not counts["running"] and not counts["queued"])
