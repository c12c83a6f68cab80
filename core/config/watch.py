"""Reads the configuration again when its file changes: a good one is taken over, a broken one is told of."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.clock import Clock
from core.config.load import load
from core.config.paths import Places
from core.config.settings import Settings
from core.model.errors import SwitchboardError

LOOK_SECONDS: Final = 1.0

Stamp = tuple[int, int, int] | None
"""What tells two states of a file apart; None while there is no file."""


def stamp_of(places: Places) -> Stamp:
    """Return the stamp of the configuration file now."""
    try:
        found = places.config.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(slots=True)
class ConfigWatch:
    """Looks at the file every second.

    A changed file is read when it has stayed the same for one more look: half of a file that is being written may be a
    valid configuration that means something else.

    Attributes:
        stamp: Of the file that was read last, at first of the one that was read at the start.
        take: Gets the new settings.
        complain: Gets the sentence that says what is wrong; the old settings stay.
    """

    places: Places
    clock: Clock
    stamp: Stamp
    take: Callable[[Settings], None]
    complain: Callable[[str], None]

    async def run(self) -> None:
        """Look until cancelled."""
        seen = self.stamp
        while True:
            await self.clock.sleep(LOOK_SECONDS)
            before, seen = seen, stamp_of(self.places)
            if seen == before and seen != self.stamp:
                await self.read()

    async def read(self) -> None:
        """Read the file now, changed or not."""
        stamp = stamp_of(self.places)
        try:
            settings = await asyncio.to_thread(load, self.places)
        except SwitchboardError as error:
            self.stamp = stamp
            self.complain(error.message)
            return
        if stamp_of(self.places) == stamp:  # else it is being written, and looked at again
            self.stamp = stamp
            self.take(settings)
