"""B1 and B2: how soon the console shows something, and what it takes; on a pseudo-terminal, beside a bare app."""

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.terminal import Terminal
from tests.tools.bench.seed import FIRST_WORDS, LAST_WORDS, seed
from tests.tools.bench.table import Figure, of_runs

SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))

RUNS = 7
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("bare app is up")
Bare().run()
"""


def measure_start() -> list[Figure]:
    """B1: start to rows and transcript, in turn with a bare Textual app."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seed(folder / "state")
        ours = _console(folder)
        bare_times: list[float] = []
        our_times: list[float] = []
        for run in range(RUNS + 1):
            bare = _first_paint([sys.executable, "-c", BARE], folder, "bare app is up")
            own = _first_paint(ours, folder, LAST_WORDS)
            if run:  # the first of each warms the caches
                bare_times.append(bare)
                our_times.append(own)
    ratios = [own / bare for own, bare in zip(our_times, bare_times, strict=True)]
    return [
        of_runs("B1", "bare Textual app, start to paint", bare_times, "s"),
        of_runs("B1", "console, start to rows and transcript", our_times, "s", 0.5),
        Figure("B1", "ratio, median of pairs", statistics.median(ratios), "x", 2.2, spread=(min(ratios), max(ratios))),
    ]


def measure_memory() -> list[Figure]:
    """B2: memory after paging to the first message and back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seed(folder / "state")
        with Terminal(_console(folder), environment(folder)) as terminal:
            terminal.wait_for(LAST_WORDS)
            terminal.settle()
            at_start = terminal.memory_mb()
            page_through(terminal, LAST_WORDS)
            after = terminal.memory_mb()
    return [
        Figure("B2", "console, 1,000 sessions, 10,000 messages open", at_start, "MB", 80),
        Figure("B2", "the same after paging to the first and back", after, "MB", 80),
    ]


def page_through(terminal: Terminal, last_words: str) -> None:
    """Go to the first message, through the middle with its long tool results, and back to the end."""
    terminal.press("\r")
    terminal.settle()
    since = len(terminal.output)
    terminal.press("g")
    terminal.wait_for(FIRST_WORDS, since=since)
    for _ in range(400):
        terminal.press("\x04")
        terminal.read(0.01)
    terminal.settle()
    since = len(terminal.output)
    terminal.press("G")
    terminal.wait_for(last_words, since=since)
    terminal.settle()


def _first_paint(command: Sequence[str], folder: Path, words: str) -> float:
    with Terminal(command, environment(folder)) as terminal:
        return terminal.wait_for(words) - terminal.started


def _console(folder: Path) -> list[str]:
    return [SWITCHBOARD, "--state", str(folder / "state")]


def environment(folder: Path) -> dict[str, str]:
    """Return a clean environment with its home in a folder."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
