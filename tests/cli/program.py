"""Runs the program: in this process where that is the same and faster, else as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from tests.support.preloaded import Preloaded
from tests.support.stores import ROOT

COMMAND = (sys.executable, "-m", "console")


@dataclass(frozen=True, slots=True)
class Result:
    """What the program did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one sentence on stderr."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("switchboard: ")
        assert self.out == ""
        return lines[0].removeprefix("switchboard: ")


Cli = Callable[..., Result]
"""Runs a command line in this process; the arguments are its words."""


def program(
    *arguments: str | bytes,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Result:
    """Run a command line to its end in a process of its own.

    Args:
        environment: Variables beside those of the test.
        prepare: Is called in the new process before the program starts.
    """
    kind: type[subprocess.Popen[bytes]] = subprocess.Popen if prepare is not None else Preloaded[bytes]
    with kind(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        preexec_fn=prepare,
        cwd=ROOT,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
    return Result(process.returncode, out.decode("utf-8"), err.decode("utf-8"))


class Started:
    """A program at work.

    Attributes:
        process: Its process.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def wait_for(self, words: str) -> str:
        """Read stderr until a line holds the words, and return that line."""
        for line in _lines(self.process.stderr):
            if words in line:
                return line
        raise AssertionError(f"the program ended without saying {words!r}")

    def end(self, number: signal.Signals | None = None) -> Result:
        """Wait for its end, with a signal before it if one is given."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return Result(self.process.returncode, out, err)


@contextmanager
def started(*arguments: str, environment: Mapping[str, str] | None = None) -> Generator[Started]:
    """Start the program and let it work; killed at the end if it still is."""
    process = Preloaded[str](
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        cwd=ROOT,
    )
    with process:
        try:
            yield Started(process)
        finally:
            process.kill()


def _lines(stream: IO[str] | None) -> Iterator[str]:
    assert stream is not None
    while line := stream.readline():
        yield line
