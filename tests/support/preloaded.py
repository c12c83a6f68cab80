"""Starts the program as a process of its own that has its modules already: most of what a short command costs.

A server, one for each test process, has loaded what the program may load. For each start it forks, and the child runs
the module as `python -m` does, with the arguments, environment, folder and streams that it was given. The child is a
child of the test process, which can wait for it. How long a start takes, what is loaded when, and how much memory is
used must be asked of `subprocess`.

python -m tests.support.preloaded DESCRIPTOR    the server, on a socket that it inherits
"""

# It does what the interpreter does at its end:
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr, Final, NoReturn

_PR_SET_CHILD_SUBREAPER: Final = 36
_READ_AT_START: Final = ("PYTHON", "TEXTUAL", "LANG", "LC_", "ESCDELAY")
"""Variables that are read when Python or Textual begins: a server for each set of them."""
_LEFT_OUT: Final = {"console.__main__", "console.demo"}
_STREAMS: Final = (("stdin", "rb", "strict"), ("stdout", "wb", "strict"), ("stderr", "wb", "backslashreplace"))
_MOST: Final = 1 << 20
"""Bytes of a request."""


class Preloaded(subprocess.Popen[AnyStr]):
    """A `subprocess.Popen` of `[python, "-m", module, …]`, or of the program by its name, that the server starts."""

    def _execute_child(self, *given: Any) -> None:
        own: Any = super()
        asked = inspect.signature(own._execute_child).bind(*given).arguments
        streams = [(asked["p2cread"], 0), (asked["c2pwrite"], 1), (asked["errwrite"], 2)]
        try:
            self.pid = start(
                asked["args"],
                os.environ if asked["env"] is None else asked["env"],
                [default if given_one == -1 else given_one for given_one, default in streams],
                folder=asked["cwd"],
            )
            self._child_created = True
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            own._close_pipe_fds(*(asked[name] for name in pipes))


def start(
    command: Sequence[str | bytes],
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    folder: str | Path | None = None,
    terminal: bool = False,
) -> int:
    """Start a program and return its pid.

    Args:
        command: `[python, "-m", module, …]`, or the path of the installed program and its arguments.
        streams: Descriptors of its stdin, stdout and stderr.
        terminal: Make its stdin the terminal of a session of its own.
    """
    words = [os.fsdecode(word) for word in command]
    module, arguments = (words[2], words[3:]) if words[1:2] == ["-m"] else ("console", words[1:])
    request = {
        "module": module,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder or Path.cwd()),
        "terminal": terminal,
    }
    settings = {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
    server = _server(tuple(sorted(settings.items())))
    with _adopting():
        socket.send_fds(server, [json.dumps(request).encode("utf-8", "surrogateescape")], list(streams))
        pid = int(server.recv(64))
        while _parent_of(pid) != os.getpid():
            time.sleep(0.0005)  # the process in between ends at once
    return pid


@functools.cache
def _server(settings: tuple[tuple[str, str], ...]) -> socket.socket:
    """Start a server; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_READ_AT_START)}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.preloaded", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=environment | dict(settings),
            pass_fds=[theirs.fileno()],
            cwd=Path(__file__).parents[2],
        )
    assert ours.recv(64) == b"ready"
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


@contextlib.contextmanager
def _adopting() -> Generator[None]:
    """Become the parent of what the server's children leave behind."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def _serve(connection: socket.socket) -> tuple[str, list[str]]:
    """Fork for each request; return in the child what it has to run."""
    connection.send(b"ready")
    while True:
        data, streams, _, _ = socket.recv_fds(connection, _MOST, 3)
        if not data:
            os._exit(0)
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                connection.send(str(pid).encode())
                os._exit(0)
            connection.close()
            return _become(json.loads(data), streams)
        os.waitpid(between, 0)
        for descriptor in streams:
            os.close(descriptor)


def _become(request: dict[str, Any], streams: list[int]) -> tuple[str, list[str]]:
    """Take on what the process was given, in the place of what the server has."""
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    for number, (name, mode, errors) in enumerate(_STREAMS):
        raw = open(number, mode, closefd=False)  # noqa: SIM115 - it is open as long as the process lives
        stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=number == 2 or raw.isatty())
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return request["module"], request["arguments"]


def _load() -> None:
    for package in ("core", "console"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if found.name not in _LEFT_OUT:
                importlib.import_module(found.name)
    for name in (
        "mcp",
        "uvicorn",
        "websockets",
        "cryptography",
        "httpx",
        "textual.app",
        "textual.drivers.linux_driver",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main() -> None:
    """Be the server, and in each child the program."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _load()
        gc.freeze()  # else each child goes through, and so copies, all that was loaded
        module, arguments = _serve(connection)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        _end(0)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        _end(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:  # noqa: BLE001 - as the interpreter does at the end
        traceback.print_exc()
        _end(1)


def _end(code: int) -> NoReturn:
    """End as the interpreter does, without taking down module by module what was loaded, which takes 0.3 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    os._exit(code)


if __name__ == "__main__":
    main()
