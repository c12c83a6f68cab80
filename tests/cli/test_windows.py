"""One process owns a state directory; every other window on it works through that one, or takes its place
(architecture#ownership)."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.store.guard import LOCK_NAME
from core.store.lock import OwnerLock, current_owner
from core.wire.local import SOCKET_NAME
from tests.cli.program import Cli, Result, Started, started
from tests.support.terminal import Terminal
from tests.terminal.test_lifecycle import to_the_list

SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))
SLOW = ("send", "main", "be slow 60")


@contextmanager
def window(home: Path, *arguments: str) -> Generator[Terminal]:
    """Open a console on a pseudo-terminal."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    command = [SWITCHBOARD, *arguments]
    with Terminal(command, plain | {"SWITCHBOARD_HOME": str(home)}, columns=160, rows=40, preloaded=True) as terminal:
        yield terminal


def ready(terminal: Terminal) -> None:
    """Wait until a console takes messages."""
    terminal.wait_for("builtin agent", seconds=20.0)
    terminal.settle(0.2)
    to_the_list(terminal)


def until(condition: Callable[[], object], *terminals: Terminal, seconds: float = 20.0) -> None:
    """Wait until something is so, while consoles go on."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, [terminal.text[-600:] for terminal in terminals]
        for terminal in terminals:
            terminal.read(0.01)
        time.sleep(0.005)


def beside(*terminals: Terminal) -> Callable[..., Result]:
    """Return what runs a command to its end in a process of its own, while consoles go on."""

    def run(*arguments: str) -> Result:
        with started(*arguments) as command:
            until(lambda: command.process.poll() is not None, *terminals)
            return command.end()

    return run


def answers(home: Path) -> bool:
    """Whether the owner of a home's state answers on its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(home / "state" / SOCKET_NAME))
        except OSError:
            return False
        return True


def texts(cli: Cli, key: str) -> list[str]:
    """Return the words of all messages of a session."""
    return [m["content"][0]["text"] for m in cli("history", key, "--json").document["messages"]]


def test_a_send_in_a_second_terminal_shows_up_live_in_the_first(cli: Cli, home: Path) -> None:
    with window(home) as console:
        ready(console)
        until(lambda: answers(home), console)
        since = len(console.output)
        done = beside(console)("send", "main", "say heard in both terminals")
        assert (done.code, done.out) == (0, "heard in both terminals\n")
        assert "main: at work\nmain: done after" in done.err, "its progress, where it was started"
        console.wait_for("heard in both terminals", since=since)
        owner = current_owner(home / "state")
        assert owner is not None
        assert owner.pid == console.pid, "the console went on owning it"
        assert cli("policy", "main", "off").out == "main: deny by override\n"
        assert cli("send", "main", "/send inherit").code == 0
        console.settle(0.2)
        console.press("q")
        assert console.wait_end() == 0


def test_work_that_is_left_runs_at_the_owner(cli: Cli, home: Path) -> None:
    with window(home) as console:
        ready(console)
        until(lambda: answers(home), console)
        left = beside(console)("send", "main", "say done by the owner", "--detach")
        assert left.code == 0
        assert f"switchboard console (process {console.pid}" in left.out
        assert left.out.rstrip().endswith("runs it")
        console.wait_for("done by the owner")
        late = beside(console)("send", "main", "be slow 1", "--timeout", "0.1")
        assert late.code == 5
        assert f"switchboard console (process {console.pid}" in late.err
        assert beside(console)("spawn", "say from below").out == "from below\n", "its result is what was asked for"
        assert beside(console)("send", "main", "say hi", "--json").document["reply"] == "hi"


def test_a_console_takes_the_place_of_a_killed_owner_and_loses_nothing(cli: Cli, home: Path) -> None:
    with window(home) as first:
        ready(first)
        assert beside(first)("send", "main", "say before").code == 0
        until(lambda: answers(home), first)
        with window(home) as second:
            second.wait_for("before")
            ready(second)
            assert "owned by" not in second.text, "it works as if it owned the state"
            second.press("i")
            second.settle(0.2)
            second.press("half a thought")
            second.settle(0.2)
            first.signal(signal.SIGKILL)
            assert first.wait_end() == -signal.SIGKILL
            until(lambda: (owner := current_owner(home / "state")) and owner.pid == second.pid, second)
            until(lambda: answers(home), second)
            since = len(second.output)
            assert beside(second)("send", "main", "say after").out == "after\n"
            second.wait_for("after", since=since)
            second.press("\r")
            until(lambda: "half a thought" in texts(cli, "main"), second)
            assert texts(cli, "main")[:4] == ["say before", "before", "say after", "after"]
            assert current_owner(home / "state") is not None


def test_a_run_of_a_killed_owner_is_told_by_the_heir(cli: Cli, home: Path) -> None:
    with window(home) as first, window(home) as second:
        ready(first)
        ready(second)
        until(lambda: answers(home), first, second)
        held = current_owner(home / "state")
        assert held is not None
        owner, heir = (first, second) if held.pid == first.pid else (second, first)
        with started(*SLOW) as sending:
            sending.wait_for("main: at work")
            heir.wait_for("be slow 60")
            owner.signal(signal.SIGKILL)
            owner.wait_end()
            ended = sending.end()
        assert ended.code == 1
        assert "interrupted" in ended.err
        heir.wait_for("interrupted")


def test_leaving_an_attached_console_asks_nothing_and_leaves_the_work_alone(cli: Cli, home: Path) -> None:
    with started(*SLOW) as owner:
        owner.wait_for("main: at work")
        until(lambda: answers(home))
        with window(home) as console:
            console.wait_for("be slow 60")
            ready(console)
            console.press("q")
            assert console.wait_end() == 0
            assert "leave?" not in console.text
        assert cli("list", "--json").document["sessions"][0]["status"] == "running"
        assert cli("abort", "main").out == "main: stopped 1 run\n", "a command may stop what another one runs"
        assert owner.end().code == 1


def test_two_commands_share_a_state(cli: Cli, home: Path) -> None:
    with started("send", "main", "be slow 2") as owner:
        owner.wait_for("main: at work")
        until(lambda: answers(home))
        assert beside()("send", "cron:nightly", "say beside it").out == "beside it\n"
        assert owner.end().code == 0


def test_an_owner_that_does_not_answer_is_named_and_reading_works(cli: Cli, home: Path) -> None:
    state = home / "state"
    assert cli("send", "main", "say hi").code == 0
    lock = OwnerLock.acquire(state, "console", int(time.time() * 1000) - 60_000)
    dead = socket.socket(socket.AF_UNIX)
    try:
        dead.bind(str(state / SOCKET_NAME))  # nobody listens: what a killed owner leaves
        assert cli("history", "main").code == 0
        for line in (["send", "main", "hi"], ["send", "main", "hi", "--detach"], ["policy", "main", "off"]):
            refused = cli(*line)
            assert refused.code == 1
            assert f"is owned by switchboard console (process {os.getpid()}, since " in refused.sentence
            assert "stop that one first; reading works" in refused.sentence
        with window(home) as console:
            console.wait_for("stop that one first; reading works")
            lock.release()
            until(lambda: (owner := current_owner(state)) and owner.pid == console.pid, console)
    finally:
        dead.close()
        lock.release()
    assert (state / LOCK_NAME).exists()


@pytest.mark.parametrize("json_lines", [False, True])
def test_follow_prints_what_is_said_until_it_is_stopped(cli: Cli, json_lines: bool) -> None:
    assert cli("send", "main", "say long ago").code == 0
    with started("follow", "main", *["--json"] * json_lines) as following:
        following.wait_for("following main")
        assert cli("send", "main", "say first").code == 0
        with started("send", "main", "say second") as sending:
            assert sending.end().code == 0
        lines = _read(following, 4 if json_lines else 8)
        ended = following.end(signal.SIGINT)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    if json_lines:
        messages = [json.loads(line) for line in lines]
        assert [m["content"][0]["text"] for m in messages] == ["say first", "first", "say second", "second"]
        assert [m["seq"] for m in messages] == [3, 4, 5, 6]
    else:
        assert [line.strip() for line in lines[1::2]] == ["say first", "first", "say second", "second"]


def test_follow_hears_an_owner_that_answers(home: Path) -> None:
    with window(home) as console:
        ready(console)
        assert beside(console)("send", "main", "say hi").code == 0
        with started("follow", "main", "--json") as following:
            following.wait_for("following main")
            console.press("i")
            console.settle(0.2)
            console.press("say typed by hand\r")
            lines = _read(following, 2)
            assert json.loads(lines[1])["content"][0]["text"] == "typed by hand"


def test_a_session_that_is_not_there_cannot_be_followed(cli: Cli) -> None:
    assert cli("follow", "nowhere").code == 3


def _read(following: Started, count: int) -> list[str]:
    assert following.process.stdout is not None
    return [following.process.stdout.readline() for _ in range(count)]
