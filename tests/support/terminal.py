"""Runs a program on a pseudo-terminal that answers like a real one, and watches what it draws."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.preloaded import start

ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[()][0-9A-B]|[=>78cM])"
)
OVERLAP = 16_384
"""Words that are waited for stand in that many bytes, with the escape sequences between their letters."""
ANSWERS: tuple[tuple[bytes, bytes], ...] = (
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    (b"\x1b[?2048$p", b"\x1b[?2048;0$y"),
    (b"\x1b[?u", b"\x1b[?0u"),
    (b"\x1b[6n", b"\x1b[1;1R"),
)


class Terminal:
    """A program on a pseudo-terminal.

    Args:
        preloaded: Start it from a process that has its modules already.

    Attributes:
        output: Everything the program has written so far.
        started: Monotonic seconds of the start.
        answering: Answer what the program asks the terminal.
        exit_code: How it ended, negative for the signal that killed it; None while it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        columns: int = 120,
        rows: int = 36,
        preloaded: bool = False,
    ) -> None:
        self.output = bytearray()
        self.exit_code: int | None = None
        self.answering = True
        self._answered = 0
        self.started = time.perf_counter()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        if preloaded:
            self._descriptor, screen = os.openpty()
            fcntl.ioctl(screen, termios.TIOCSWINSZ, size)
            self.pid = start(command, environment, (screen, screen, screen), terminal=True)
            os.close(screen)
            return
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(command[0], list(command), dict(environment))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def text(self) -> str:
        """Everything written so far without the escape sequences, in the order in which it was written."""
        return self.text_since(0)

    def text_since(self, since: int) -> str:
        """Return what was written after that many bytes, without the escape sequences."""
        return ESCAPES.sub(b"", bytes(self.output[since:])).decode(errors="replace")

    def wait_for(self, words: str, *, since: int = 0, seconds: float = 20.0) -> float:
        """Wait until words are on the screen and return the monotonic seconds of that moment.

        Args:
            since: Look only at what was written after that many bytes.
        """
        deadline = time.perf_counter() + seconds
        looked_at, again = -1, since
        while time.perf_counter() < deadline:
            if len(self.output) != looked_at:
                looked_at = len(self.output)
                if words in self.text_since(again):
                    return time.perf_counter()
                again = max(since, looked_at - OVERLAP)
            if not self.read(0.02):
                break
        seen = self.text_since(since)[-400:]
        raise TimeoutError(f"{words!r} did not appear within {seconds} s; the last was {seen!r}")

    def read(self, seconds: float) -> bool:
        """Take in what is written within that time; False when the program has closed the terminal."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:
            return False
        self.output += data
        if self.answering:
            self._answer()
        return bool(data)

    def wait_end(self, seconds: float = 20.0) -> int:
        """Wait until the program has ended and return its exit code, negative for a signal."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            open_ = self.read(0.02)
            if self._has_ended():
                while self.read(0.0) and select.select([self._descriptor], [], [], 0.0)[0]:
                    pass
                assert self.exit_code is not None, "it has ended"
                return self.exit_code
            if not open_:
                time.sleep(0.005)  # the terminal is closed and nothing more can be waited for
        raise TimeoutError(f"the program did not end within {seconds} s; the last was {self.text[-400:]!r}")

    def settle(self, quiet: float = 0.5, seconds: float = 20.0) -> None:
        """Wait until the program has neither worked nor written for a while."""
        deadline = time.perf_counter() + seconds
        size, last = len(self.output), time.perf_counter()
        while time.perf_counter() < deadline and time.perf_counter() - last < quiet:
            self.read(0.01)
            if len(self.output) != size or not self._rests():
                size, last = len(self.output), time.perf_counter()

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self._descriptor, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size; the kernel tells the program."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def attributes(self) -> list[Any]:
        """Return the modes of the terminal, as `termios.tcgetattr` has them."""
        return termios.tcgetattr(self._descriptor)

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    def memory_mb(self) -> float:
        """Return the resident memory of the program in MB."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the kernel does not tell the memory of a process")

    def close(self) -> None:
        """End the program, by force if it does not go by itself."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.perf_counter() + 3.0
            if not self._has_ended():
                self.signal(number)
            while not self._has_ended() and time.perf_counter() < deadline:
                self.read(0.02)
        os.close(self._descriptor)

    def _rests(self) -> bool:
        """Whether the main thread sleeps, or has ended; on a busy machine it can have work and write nothing."""
        try:
            state = Path(f"/proc/{self.pid}/task/{self.pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            return True
        return state not in "RD"

    def _has_ended(self) -> bool:
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code is not None

    def _answer(self) -> None:
        """Answer what the program asks the terminal, also where a question came in two pieces."""
        while True:
            found = [(at, *pair) for pair in ANSWERS if (at := self.output.find(pair[0], self._answered)) >= 0]
            if not found:
                self._answered = max(self._answered, len(self.output) - 16)
                return
            at, question, answer = min(found)
            self._answered = at + len(question)
            os.write(self._descriptor, answer)
