"""The first minute on a real terminal: what somebody types who has never seen the console becomes a first message."""

import subprocess
import termios
import tty
from pathlib import Path

import pytest

from tests.support.preloaded import Preloaded
from tests.support.terminal import Terminal
from tests.terminal.test_lifecycle import SWITCHBOARD, environment, opened

SIZES = [(80, 24), (120, 36), (200, 60)]


def said(folder: Path) -> str:
    """Return what was said in main."""
    command = [SWITCHBOARD, "--state", str(folder / "state"), "history", "main"]
    with Preloaded[str](command, env=environment(folder), stdout=subprocess.PIPE, text=True) as process:
        return process.communicate(timeout=60)[0]


def leave(terminal: Terminal) -> None:
    """Leave by the key that works everywhere."""
    terminal.settle(0.2)
    terminal.press("\x11")
    assert terminal.wait_end() == 0, terminal.text[-800:]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_somebody_types_before_the_first_picture(tmp_path: Path, columns: int, rows: int) -> None:
    with opened(tmp_path, columns=columns, rows=rows, preloaded=False) as terminal:
        terminal.press("say quick ")
        while terminal.attributes()[tty.IFLAG] & termios.ICRNL:  # until then the kernel makes a new line of Enter
            terminal.read(0.02)
        terminal.press("as a fox\r")
        terminal.wait_for("accepted")
        leave(terminal)
    assert said(tmp_path).count("quick as a fox") == 2


def mouse(column: int, row: int) -> str:
    """Return a click of the left button, both counted from 1."""
    return f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"


HABITS = {
    "type": ["say hello there"],
    "enter": ["\r", "say hello there"],
    "arrows": ["\x1b[B", "\x1b[A", "\x1b[C", "\x1b[6~", "say hello there"],
    "escape and i": ["\x1b", "\x1b", "i", "say hello there"],
    "escape and enter": ["\x1b", "\x1b", "\r", "say hello there"],
    "tab and tab": ["\t", "\x1b[Z", "say hello there"],
    "a letter in the list": ["\x1b", "\x1b", "h", "z", "i", "say hello there"],
    "help": ["\x1bOP", "\x1b", "say hello there"],
    "paste": ["\x1b[200~say hello there\x1b[201~"],
    "paste in the list": ["\x1b", "\x1b", "\x1b[200~first\nO q\x1b[201~", "i", "say hello there"],
    "mouse": ["\x1b", "\x1b", mouse(60, 34), "say hello there"],
}


@pytest.mark.parametrize("habit", HABITS)
def test_whatever_somebody_is_used_to(tmp_path: Path, habit: str) -> None:
    with opened(tmp_path) as terminal:
        terminal.wait_for("type a message to main")
        for keys in HABITS[habit]:
            terminal.settle(0.5)  # else an escape and what follows it are one key
            terminal.press(keys)
        terminal.settle(0.2)
        terminal.press("\r")
        terminal.wait_for("accepted")
        leave(terminal)
    assert said(tmp_path).count("hello there") == 2


def test_a_letter_in_the_list_says_where_to_write(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        terminal.wait_for("type a message to main")
        for _ in range(2):
            terminal.settle(0.2)
            terminal.press("\x1b")
        terminal.settle(0.2)
        terminal.press("h")
        terminal.wait_for("h does nothing here: i writes to main, ? shows the keys")
        leave(terminal)
