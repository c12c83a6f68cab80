"""Work in a process of its own: its answer, its errors and its end come back, and what it imports stays there."""

import os
import signal
import sys

import pytest

from core.child_process import in_child_process
from core.model.errors import Conflict, Unavailable


def pids(*, of: str) -> tuple[str, int]:
    return of, os.getpid()


def imports(name: str) -> bool:
    __import__(name)
    return name in sys.modules


def refuses() -> None:
    raise Conflict("the file «a» is being written: try again")


def breaks() -> None:
    raise KeyError("nobody expected this")


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def prints() -> str:
    print("to whoever listens", file=sys.stderr)
    return "done"


def test_it_is_done_elsewhere_and_answered_here(capfd: pytest.CaptureFixture[str]) -> None:
    words, pid = in_child_process(pids, of="all")
    assert words == "all"
    assert pid != os.getpid()
    assert in_child_process(prints) == "done"
    assert capfd.readouterr() == ("", "")


def test_what_it_imports_is_not_imported_here() -> None:
    assert "turtledemo" not in sys.modules
    assert in_child_process(imports, "turtledemo")
    assert "turtledemo" not in sys.modules


def test_what_it_raises_is_raised_here() -> None:
    with pytest.raises(Conflict) as refused:
        in_child_process(refuses)
    assert refused.value.message == "the file «a» is being written: try again"
    with pytest.raises(KeyError, match="nobody expected"):
        in_child_process(breaks)


def test_one_that_ends_without_an_answer_is_an_error() -> None:
    with pytest.raises(Unavailable, match="ended before it had answered"):
        in_child_process(is_killed)


def test_one_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(Unavailable, match="no process can be started"):
        in_child_process(prints)
