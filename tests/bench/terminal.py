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
from typing import Self

ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[()][0-9A-B]|[=>78cM])"
)
ANSWERS: tuple[tuple[bytes, bytes], ...] = (
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    (b"\x1b[?2048$p", b"\x1b[?2048;0$y"),
    (b"\x1b[?u", b"\x1b[?0u"),
    (b"\x1b[6n", b"\x1b[1;1R"),
)


class Terminal:
    """A program on a pseudo-terminal.

    Attributes:
        output: Everything the program has written so far.
        started: Monotonic seconds of the start.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, columns: int = 120, rows: int = 36
    ) -> None:
        self.output = b""
        self.started = time.perf_counter()
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], list(command), dict(environment))
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait_for(self, words: str, *, since: int = 0, seconds: float = 30.0) -> float:
        """Wait until words are on the screen and return the monotonic seconds of that moment.

        Args:
            since: Look only at what was written after that many bytes.
        """
        wanted = words.encode()
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            if wanted in ESCAPES.sub(b"", self.output[since:]):
                return time.perf_counter()
            self.read(0.02)
        seen = ESCAPES.sub(b"", self.output[since:])[-400:]
        raise TimeoutError(f"{words!r} did not appear within {seconds} s; the last was {seen!r}")

    def read(self, seconds: float) -> bool:
        """Take in what is written within that time; False when the program has ended."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:
            return False
        self.output += data
        for question, answer in ANSWERS:
            for _ in range(data.count(question)):
                os.write(self._descriptor, answer)
        return bool(data)

    def settle(self, quiet: float = 0.5, seconds: float = 20.0) -> None:
        """Wait until nothing has been written for a while."""
        deadline = time.perf_counter() + seconds
        size, last = len(self.output), time.perf_counter()
        while time.perf_counter() < deadline and time.perf_counter() - last < quiet:
            self.read(0.02)
            if len(self.output) != size:
                size, last = len(self.output), time.perf_counter()

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self._descriptor, keys.encode())

    def memory_mb(self) -> float:
        """Return the resident memory of the program in MB."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the kernel does not tell the memory of a process")

    def close(self) -> None:
        """End the program, by force if it does not go by itself."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                break
            deadline = time.perf_counter() + 3.0
            while time.perf_counter() < deadline:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    os.close(self._descriptor)
                    return
                self.read(0.02)
        os.close(self._descriptor)
