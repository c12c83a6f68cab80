"""Hands on what is typed one by one, so that nothing typed quickly goes to where the focus no longer is.

Textual gives a key to the widget with the focus as soon as it comes, and the key then travels through the queues of
everything around that widget until somebody acts on it. What was typed right behind it, or came with it in one packet
over ssh, would still go to the first widget: letters after the key that opens the composer would be commands.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.widget import Widget

Typed: TypeAlias = Key | Paste
BUILD_SECONDS: Final = 3.0
"""How long what is typed waits at most until everything that it could be meant for is there."""
PATIENCE_SECONDS: Final = 1.0
"""How long something typed waits at most for what was typed before it."""


@dataclass
class Arrived(Message):
    """Travels behind something typed into `target`, and tells when its way has ended.

    With `is_last` it also travelled behind what that widget had to say of it.
    """

    target: Widget
    is_last: bool = False


class Stage(Enum):
    """What becomes of something that is typed."""

    BUILDING = auto()
    """It waits until the console is there."""
    FREE = auto()
    """It is handed on at once."""
    UNDER_WAY = auto()
    """It waits for the end of the way of what was typed before it."""
    OPENING = auto()
    """That way has ended; it waits for the screen that came of it."""


class Typeahead:
    """What was typed and waits; `hand_on` gives it to the widget with the focus, as Textual does by itself."""

    def __init__(self, app: App[None], hand_on: Callable[[Event], Awaitable[None]]) -> None:
        self._app = app
        self._hand_on = hand_on
        self._waiting: deque[Typed] = deque()
        self._stage = Stage.BUILDING
        self._handed_on_at = 0.0
        self._opening = 0
        self._is_impatient = False
        self._is_guarded = False

    def begin(self) -> None:
        """Hand on what was typed so far, and from now on at once; a second time it does nothing."""
        if self._stage is Stage.BUILDING:
            self._stage = Stage.UNDER_WAY
            self._app.call_later(self._next)
            self._guard(PATIENCE_SECONDS)

    async def take(self, typed: Typed) -> None:
        """Hand it on now, or after what was typed before it."""
        self._waiting.append(typed)
        if self._stage is Stage.FREE:
            await self._next()
        elif self._stage is not Stage.BUILDING:
            self._guard(PATIENCE_SECONDS)

    def arrived(self, behind: Arrived) -> None:
        """Note that something has come to its end, with or without what the widget said of it."""
        if behind.is_last or not behind.target.post_message(Arrived(behind.target, is_last=True)):
            self._follow()

    async def opening(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do what opens a screen in the background: what is typed meanwhile is meant for the screen."""
        self._opening += 1
        try:
            await do()
        finally:
            self._opening -= 1
            if not self._opening:
                self._is_impatient = False
            if self._stage is Stage.OPENING:
                self._stage = Stage.UNDER_WAY
                self._follow()

    def _follow(self) -> None:
        """Go on once the focus and the screen that came of something typed are there."""
        if not self._app.screen_stack:  # the console is being closed
            self._waiting.clear()
        elif self._opening and not self._is_impatient:
            self._stage = Stage.OPENING
        elif not self._app.screen.call_later(self._app.call_later, self._next):  # a new screen is built first
            self._app.call_later(self._next)

    async def _next(self) -> None:
        self._stage = Stage.UNDER_WAY if self._waiting else Stage.FREE
        if self._waiting:
            self._handed_on_at = time.monotonic()
            target = self._app.focused or self._app.screen
            await self._hand_on(self._waiting.popleft())
            if not target.post_message(Arrived(target)):
                self._follow()

    def _guard(self, seconds: float) -> None:
        """Look after a while whether what waits still does."""
        if not self._is_guarded:
            self._is_guarded = True
            self._app.set_timer(seconds, self._go_on)

    async def _go_on(self) -> None:
        """Hand on what waits although nothing came to its end: a widget that is gone tells nothing."""
        self._is_guarded = False
        rest = PATIENCE_SECONDS - (time.monotonic() - self._handed_on_at)
        if self._waiting and rest <= 0:
            self._is_impatient = self._opening > 0
            await self._next()
        if self._waiting:
            self._guard(max(rest, 0) or PATIENCE_SECONDS)
