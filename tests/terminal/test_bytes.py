"""What the console writes, byte for byte, while everything it shows is hostile (architecture#threats)."""

import asyncio
import contextlib
import os
import shutil
import sys
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.support.model_formats import Say, Step, Wait
from tests.support.model_server import ModelServer, Request, stream
from tests.support.terminal import Terminal
from tests.terminal.grammar import Violation, violations
from tests.terminal.payloads import ESC, PAYLOADS, marked, name_of
from tests.terminal.seed import ALL, configure, seed

COLUMNS, ROWS = 170, 110
PAGES = 90
CUT = list(marked())[::3]
"""Those that are streamed in two halves; all of them are cut everywhere in `test_wall_entrance`."""


class Endpoint:
    """A model on a loop of its own that streams every payload: whole, then cut once more with each answer."""

    def __init__(self) -> None:
        self.url = ""
        self.halves: dict[str, asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._loop.close()

    def go_on(self, marker: str) -> None:
        """Send the rest of a payload."""
        self._loop.call_soon_threadsafe(self.halves[marker].set)

    async def _serve(self) -> None:
        async with ModelServer() as server:
            server.handler = self._answer
            self.url = server.url
            self._ready.set()
            await self._closing.wait()

    def _answer(self, request: Request):
        """Answer with all payloads, `whole` or `cut` as the message says."""
        asked = request.json["messages"][-1]["content"]
        words = asked if isinstance(asked, str) else asked[-1]["text"]
        steps: list[Step] = []
        for marker, payload in marked().items():
            steps.append(Say(f"\n\n{marker} says "))
            bare = payload.removeprefix(f"{marker} ")
            if words == "whole" or marker not in CUT:
                steps.append(Say(bare))
            else:
                at = 1 + int(marker[1:]) // 3 % max(1, len(bare) - 1)
                event = self.halves[marker] = asyncio.Event()
                steps += [Say(bare[:at]), Wait(event), Say(bare[at:])]
        return stream(*steps, Say("\n\nthat is all"))


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded")
    seed(folder / "state")
    return folder


@pytest.fixture
def folder(seeded: Path, tmp_path: Path) -> Path:
    """Return a copy of the seeded state, so that each start finds the same."""
    shutil.copytree(seeded / "state", tmp_path / "state")
    return tmp_path


def watch(folder: Path, walls: str, manner: str, *looks: Callable[[Terminal], None]) -> bytes:
    """Open the console, be told everything, look at what is stored, and return what it wrote.

    Args:
        manner: How the model says it: `whole` or `cut`.
        looks: How to look at what is stored.
    """
    with Endpoint() as endpoint:
        configure(folder / "config.json5", endpoint.url)
        command = [sys.executable, "-m", "tests.terminal.open_console", walls]
        command += [str(folder / "state"), str(folder / "config.json5")]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        with Terminal(command, environment, columns=COLUMNS, rows=ROWS, preloaded=walls == "both") as terminal:
            terminal.wait_for("as operator")
            terminal.wait_for("write")
            terminal.answering = walls != "none"  # or the questions in the payloads would be answered on and on
            terminal.settle(0.1)
            _listen(terminal, endpoint, manner)
            for look in looks:
                look(terminal)
            terminal.press("q")
            assert terminal.wait_end() == 0, terminal.text[-2000:]
            return bytes(terminal.output)


def _press(terminal: Terminal, *keys: str) -> None:
    """Press one key after the other, each once the screen is at rest."""
    for key in keys:
        terminal.press(key)
        terminal.settle(0.15 if key == ESC else 0.04)  # an escape is one when nothing follows it for a while


def _listen(terminal: Terminal, endpoint: Endpoint, manner: str) -> None:
    """Have the model say everything; cut in halves, the second comes once the first is on the screen."""
    _press(terminal, "g", "i")
    since = len(terminal.output)
    terminal.press(f"{manner}\r")
    for marker in CUT if manner == "cut" else ():
        terminal.wait_for(f"{marker} says", since=since)
        endpoint.go_on(marker)
    terminal.wait_for("that is all", since=since)
    _press(terminal, ESC, ESC)


def _look_at_list(terminal: Terminal) -> None:
    """Page through the list of sessions, from its beginning to its end."""
    since = len(terminal.output)
    _press(terminal, "g")
    _page_through(terminal, since, "\x04", "\x15")
    since = len(terminal.output)
    for _ in range(5):  # two keys that are taken at once on a busy machine end where they began, and nothing is drawn
        _press(terminal, "g", "G")
        with contextlib.suppress(TimeoutError):
            terminal.wait_for(ALL, since=since, seconds=4.0)
            return
    terminal.wait_for(ALL, since=since)


def _look_at_transcript(terminal: Terminal) -> None:
    """Page through the transcript that holds everything, from its end to its beginning, with the thinking shown."""
    since = len(terminal.output)
    _press(terminal, "\r", "T", "\x15", "t")
    _page_through(terminal, since, "\x15", "\x04")


def _page_through(terminal: Terminal, since: int, key: str, back: str) -> None:
    """Press a key for the next page until every payload was on the screen; go back where a frame was left out."""
    missing, idle = set(marked()), 0
    for _ in range(PAGES):
        shown = terminal.text_since(since)
        since = max(since, len(terminal.output) - 100)
        seen = {marker for marker in missing if f"{marker} " in shown}
        missing -= seen
        if not missing:
            return
        idle = 0 if seen else idle + 1
        if idle > 8:
            key, back, idle = back, key, 0
        _press(terminal, key)
    raise AssertionError(f"not seen: {sorted(map(name_of, missing))}")


def _look_at_dialogs(terminal: Terminal) -> None:
    """Open a message in full, the palette with the sessions in it, and a search."""
    _press(terminal, "k", "o", ESC, "\x10", "go to", ESC, "S", "rm", ESC, ESC)


def told(found: list[Violation]) -> str:
    """Return what was found, for the message of a failed test."""
    return "\n".join(f"{violation.payload or 'nobody'}: {violation.around!r}" for violation in found[:20])


def test_with_both_walls_nothing_but_drawing_reaches_the_terminal(folder: Path) -> None:
    found = violations(watch(folder, "both", "cut"), COLUMNS, ROWS)
    assert not found, told(found)


@pytest.mark.parametrize("walls", ["entrance", "exit"])
def test_each_wall_holds_alone(folder: Path, walls: str) -> None:
    output = watch(folder, walls, "whole", _look_at_list, _look_at_transcript, _look_at_dialogs)
    found = violations(output, COLUMNS, ROWS)
    assert not found, told(found)


def test_without_walls_the_recogniser_finds_what_comes_through(folder: Path) -> None:
    found = violations(watch(folder, "none", "whole", _look_at_list), COLUMNS, ROWS)
    names = {violation.payload for violation in found}
    missed = {name for name, payload in PAYLOADS.items() if _is_obeyed(payload)} - names
    assert not missed


def _is_obeyed(payload: str) -> bool:
    """Whether a terminal does something with it, other than to go to the next line or column."""
    return any(letter not in "\t\n\r" and unicodedata.category(letter) == "Cc" for letter in payload)
