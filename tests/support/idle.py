"""Makes Textual's Pilot wait until this process rests, by looking at what it has to do and not at a clock.

Textual sleeps 20 ms and more for each look, several times a key, and asks whether the processor was used meanwhile:
long on an idle machine, and too short on a busy one, where a process that gets no turn looks as if it had nothing to
do. Importing this module replaces that wait for every Pilot of the process.
"""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import textual.app
import textual.pilot

_TASKS = Path("/proc/self/task")
_LOOK_SECONDS = 0.002
_LOOKS = 2
"""A thread that waits for the interpreter's lock looks asleep; not two times, with time in between to take it."""


async def until_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the event loop has nothing to run and no other thread computes or waits for a disk.

    Args:
        min_sleep: Seconds to wait at least.
        max_sleep: Seconds to wait at most: a console that always moves never rests.
    """
    loop: Any = asyncio.get_running_loop()
    started, looks = time.monotonic(), 0
    while time.monotonic() - started < max_sleep:
        await asyncio.sleep(_LOOK_SECONDS)
        looks = 0 if loop._ready or _a_thread_works() else looks + 1
        if looks >= _LOOKS and time.monotonic() - started >= min_sleep:
            return


def _a_thread_works() -> bool:
    """Whether a thread besides this one runs or could, or waits for a disk."""
    own = str(threading.get_native_id())
    return any(_state(task) in "RD" for task in _TASKS.iterdir() if task.name != own)


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "S"  # it has ended


if _TASKS.is_dir():  # elsewhere Textual's own way has to do
    for _module in (textual.app, textual.pilot):
        vars(_module)["wait_for_idle"] = until_idle
