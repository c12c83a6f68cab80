"""One owner of a state directory, named, and never guessed (architecture#ownership)."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.model.errors import Conflict
from core.store.guard import LOCK_NAME
from core.store.lock import Owner, OwnerLock, current_owner
from tests.support.stores import ROOT

NO_NAMES = [
    b"",
    b"{",
    b"5",
    b'{"pid": "x"}',
    b"\xff\xfe",
    b"[" * 4096,
    b'{"pid": 1e999, "command": "x", "startedAt": 0}',
    b'{"pid": 7, "pid": 8, "command": "x", "startedAt": 0}',
    b'{"pid": 7, "command": "x", "startedAt": NaN}',
    b'{"pid": 7, "command": "x", "startedAt": 1' + b"0" * 400 + b"}",
    b'{"pid": 7, "command": "x", "startedAt": 1' + b"0" * 4050 + b"}",
]
HOLD = """
import sys, time
from pathlib import Path
from core.store.lock import OwnerLock
lock = OwnerLock.acquire(Path(sys.argv[1]), "console", 1_700_000_000_000)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(state: Path) -> Iterator["subprocess.Popen[str]"]:
    """Give another process that owns the state directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(state)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_lock_names_its_owner(state: Path, holder: "subprocess.Popen[str]") -> None:
    assert current_owner(state) == Owner(holder.pid, "console", 1_700_000_000_000)
    with pytest.raises(Conflict) as caught:
        OwnerLock.acquire(state, "send", 0)
    assert f"switchboard console (process {holder.pid}, since 22:13)" in caught.value.message
    assert str(state) in caught.value.message
    assert "stop that one first" in caught.value.message


def test_an_owner_that_was_killed_is_none(state: Path, holder: "subprocess.Popen[str]") -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (state / LOCK_NAME).read_text(), "the dead owner left its name"
    assert current_owner(state) is None
    lock = OwnerLock.acquire(state, "send", 5)
    assert current_owner(state) == Owner(os.getpid(), "send", 5)
    lock.release()


def test_release_gives_the_directory_free(state: Path) -> None:
    assert current_owner(state) is None
    lock = OwnerLock.acquire(state, "console", 0)
    with pytest.raises(Conflict):
        OwnerLock.acquire(state, "console", 0)
    lock.release()
    lock.release()
    assert current_owner(state) is None
    assert (state / LOCK_NAME).read_bytes() == b""
    OwnerLock.acquire(state, "console", 0).release()


def test_the_lock_file_is_private(state: Path) -> None:
    OwnerLock.acquire(state, "console", 0).release()
    assert (state / LOCK_NAME).stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700


def test_who_only_looks_never_keeps_an_owner_out(state: Path) -> None:
    OwnerLock.acquire(state, "console", 0).release()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            current_owner(state)

    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            OwnerLock.acquire(state, "console", 0).release()
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()


@pytest.mark.parametrize("content", NO_NAMES, ids=lambda each: str(each[:60]))
def test_an_owner_that_has_not_written_its_name_is_still_an_owner(state: Path, content: bytes) -> None:
    lock = OwnerLock.acquire(state, "console", 0)
    (state / LOCK_NAME).write_bytes(content)
    owner = current_owner(state)
    assert owner is not None
    assert owner.words == "another switchboard"
    lock.release()
