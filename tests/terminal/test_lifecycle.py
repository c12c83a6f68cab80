"""The real console on a real pseudo-terminal: how it begins, is used, ends, and comes back."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.live.memory import FILE_NAME
from core.store.lock import OwnerLock
from tests.support.terminal import Terminal

SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?7h")


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a clean environment with its home in a folder."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    return plain | {"TMPDIR": str(folder)} | dict(more or {})


def opened(
    folder: Path, more: Mapping[str, str] | None = None, *, columns: int = 120, rows: int = 36, preloaded: bool = True
) -> Terminal:
    """Start the console on the state of a folder."""
    command = [SWITCHBOARD, "--state", str(folder / "state")]
    return Terminal(command, environment(folder, more), columns=columns, rows=rows, preloaded=preloaded)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Terminal]:
    with opened(tmp_path) as terminal:
        live(terminal)
        yield terminal


def live(terminal: Terminal) -> None:
    """Wait until the console takes messages, and go to the list, where letters are commands."""
    terminal.wait_for("builtin agent", seconds=10.0)
    terminal.settle(0.2)
    to_the_list(terminal)


def to_the_list(terminal: Terminal) -> None:
    """Go out of the composer and the transcript; an escape and what follows it at once would be one key."""
    for _ in range(2):
        terminal.press("\x1b")
        terminal.settle(0.2)


def say(terminal: Terminal, words: str) -> int:
    """Send a message to main, making it when there is none; return how much had been written before."""
    since = len(terminal.output)
    terminal.press("s")
    terminal.wait_for("send a message", since=since)
    terminal.settle(0.1)
    terminal.press(words)
    terminal.wait_for(words[-8:], since=since)
    terminal.press("\x13")
    return since


def assert_restored(terminal: Terminal, before: list[Any]) -> None:
    """Check that the terminal is as it was before the console."""
    last = {mode: terminal.output.rfind(mode[:-1]) for mode in RESTORED}
    for mode, at in last.items():
        assert terminal.output[at:].startswith(mode), f"{mode!r} is not the last word on it"
    assert terminal.attributes() == before


def assert_free(folder: Path) -> None:
    """Check that nobody owns the state directory any more."""
    OwnerLock.acquire(folder / "state", "test", 0).release()


def test_chat_with_the_builtin_agent_by_keys(tmp_path: Path, console: Terminal) -> None:
    since = say(console, "say the quick brown fox")
    console.wait_for("the quick brown fox", since=since)
    console.settle(0.3)
    since = len(console.output)
    console.press("i")
    console.wait_for("new line", since=since)
    console.press("say jumps over\r")
    console.wait_for("jumps over", since=since)
    console.settle(0.3)
    console.press("\x1b")
    console.settle(0.3)
    assert "⊘" not in console.text, "no key was ever shown as unavailable, not even before the runtime had started"
    console.press("q")
    assert console.wait_end() == 0
    listed = subprocess.run(
        [SWITCHBOARD, "--state", str(tmp_path / "state"), "history", "main"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "the quick brown fox" in listed
    assert "jumps over" in listed


def test_what_is_typed_before_the_runtime_has_started_waits_for_it(tmp_path: Path) -> None:
    state, config = tmp_path / "state", tmp_path / "config.json5"
    sending = [SWITCHBOARD, "--state", str(state), "send", "main", "say hello"]
    subprocess.run(sending, env=environment(tmp_path), capture_output=True, check=True)
    os.mkfifo(config)  # who reads the configuration waits until it is written
    with Terminal([SWITCHBOARD, "--state", str(state), "--config", str(config)], environment(tmp_path)) as terminal:
        terminal.press("isay early ")  # before there is anything to see
        terminal.wait_for("starting")
        terminal.wait_for("esc back")
        terminal.press("bird\r")
        terminal.settle(0.2)
        assert "reading only" not in terminal.text
        since = len(terminal.output)
        config.write_text("{}")
        terminal.wait_for("accepted", since=since)
        terminal.settle(0.2)
        since = len(terminal.output)
        terminal.press("\x1b")
        terminal.wait_for("? keys", since=since)  # an escape and what follows it at once would be one key
        terminal.press("q")
        assert terminal.wait_end() == 0
        assert "⊘" not in terminal.text
    config.unlink()
    told = subprocess.run(
        [*sending[:-3], "history", "main"], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert told.stdout.count("early bird") == 2, "the message and its reply"


def test_the_window_changes_its_size_while_a_reply_streams(tmp_path: Path) -> None:
    with opened(tmp_path, columns=200, rows=60) as terminal:
        live(terminal)
        since = say(terminal, "be slow 2")
        terminal.wait_for("at work", since=since)
        for columns, rows in ((20, 5), (80, 24), (1, 1), (250, 70), (80, 24)):
            terminal.resize(columns, rows)
            terminal.settle(0.05, 1.0)
        before = len(terminal.output)
        terminal.resize(100, 30)
        terminal.wait_for("switchboard", since=before)
        terminal.settle(0.5)
        terminal.press("q")
        if terminal.exit_code is None and "leave?" in terminal.text_since(before):
            terminal.press("l")
        assert terminal.wait_end() == 0, terminal.text[-800:]


@pytest.mark.parametrize("way", ["q", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str)
def test_every_way_out_leaves_the_terminal_as_it_was(tmp_path: Path, way: str | signal.Signals) -> None:
    with opened(tmp_path) as terminal:
        before = terminal.attributes()
        live(terminal)
        assert terminal.attributes() != before
        if isinstance(way, str):
            terminal.press(way)
        else:
            terminal.signal(way)
        assert terminal.wait_end() == 0, terminal.text[-800:]
        assert_restored(terminal, before)
    assert_free(tmp_path)


def test_a_killed_console_comes_back_with_everything(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        live(terminal)
        since = say(terminal, "say remember me")
        terminal.wait_for("remember me", since=since)
        terminal.settle(0.3)
        terminal.press("i")
        terminal.settle(0.2)
        terminal.press("half a thought")
        draft = tmp_path / "state" / FILE_NAME
        until(lambda: draft.exists() and "half a thought" in draft.read_text(), terminal)
        terminal.signal(signal.SIGKILL)
        assert terminal.wait_end() == -signal.SIGKILL
    with opened(tmp_path) as terminal:
        live(terminal)
        terminal.wait_for("remember me")
        terminal.wait_for("half a thought")


def until(condition: Callable[[], bool], terminal: Terminal) -> None:
    """Wait until something is so, while the console goes on."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        terminal.read(0.02)


@pytest.mark.parametrize("way", ["q", signal.SIGTERM], ids=str)
def test_the_demo_moves_at_once_and_leaves_nothing_behind(tmp_path: Path, way: str | signal.Signals) -> None:
    command = [SWITCHBOARD, "demo"]
    with Terminal(command, environment(tmp_path), columns=160, rows=40, preloaded=True) as terminal:
        terminal.wait_for("demo", seconds=5.0)
        terminal.wait_for("support-42", seconds=8.0)
        terminal.wait_for("at work", seconds=8.0)
        assert [path.name for path in tmp_path.glob("switchboard-demo-*")]
        if isinstance(way, str):
            terminal.press("q")
            terminal.wait_for("leave?")
            terminal.press("l")
        else:
            terminal.signal(way)
        assert terminal.wait_end() == 0, terminal.text[-800:]
    assert not list(tmp_path.glob("switchboard-demo-*"))


def test_without_a_terminal_there_is_one_clear_sentence(tmp_path: Path) -> None:
    for stdout in (subprocess.PIPE, subprocess.DEVNULL):
        ended = subprocess.run(
            [SWITCHBOARD, "--state", str(tmp_path / "state")],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            check=False,
            text=True,
        )
        assert ended.returncode in {1, 2}
        assert re.fullmatch(r"switchboard: [^\n]*needs a terminal[^\n]*\n", ended.stderr)


def test_a_terminal_without_stdout_is_refused_too(tmp_path: Path) -> None:
    command = ["sh", "-c", f"exec {SWITCHBOARD} --state {tmp_path}/state >&-"]
    with Terminal(command, environment(tmp_path)) as terminal:
        assert terminal.wait_end() in {1, 2}
        assert "Traceback" not in terminal.text
        assert "needs a terminal" in terminal.text


@pytest.mark.parametrize("more", [{"TERM": ""}, {"NO_COLOR": "1"}, {"TERM": "linux"}], ids=str)
def test_it_opens_on_any_terminal(tmp_path: Path, more: dict[str, str]) -> None:
    with opened(tmp_path, more, preloaded=False) as terminal:
        live(terminal)
        terminal.press("q")
        assert terminal.wait_end() == 0, terminal.text[-800:]


def test_a_terminal_that_cannot_draw_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with opened(tmp_path, {"TERM": "dumb"}, preloaded=False) as terminal:
        assert terminal.wait_end() == 2
        assert terminal.text.count("\n") == 1
        assert "set TERM" in terminal.text


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path) -> None:
    with opened(
        tmp_path, {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, preloaded=False
    ) as terminal:
        live(terminal)
        since = say(terminal, "fail: no luck")
        terminal.wait_for("x main", since=since)
        terminal.press("q")
        assert terminal.wait_end() == 0, terminal.text[-800:]
        strange = set(terminal.text) - set(map(chr, range(128)))
        assert not strange
