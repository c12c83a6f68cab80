"""OpenClaw's own TUI on our gateway: what is typed there, step by step, and what must be readable."""

import re
from pathlib import Path
from typing import Final

import pyte
from pyte.screens import Char
from rich.style import Style
from rich.text import Text

from tests.scenes.pictures import Picture, picture_of_rows
from tests.support.terminal import Terminal

SCRIPT: Final = Path(__file__).with_name("tui_scene.txt")
COLUMNS: Final = 120
ROWS: Final = 40
HEX: Final = re.compile("[0-9a-f]{6}")
KEYS: Final = {"escape": "\x1b", "enter": "\r"}


def play(terminal: Terminal, url: str) -> Picture:
    """Play the scene, check what can be read, and return the picture of it."""
    at, drawn = 0, None
    for line in SCRIPT.read_text(encoding="utf-8").splitlines():
        what, _, words = line.partition(" ")
        match what:
            case "<":
                terminal.wait_for(words.replace("{URL}", url), since=at, seconds=60.0)
            case "^":
                terminal.settle(0.3, 2.0)
                terminal.press(KEYS[words])
            case "*":
                terminal.settle(0.3, 2.0)
                drawn = _picture(terminal)
            case ">":
                at = _enter(terminal, words)
            case _:
                pass
    assert drawn is not None, f"{SCRIPT.name} says where it is drawn"
    return drawn


def _enter(terminal: Terminal, words: str) -> int:
    """Write a line and enter it; return how much the terminal had written before."""
    terminal.settle(0.4, 3.0)
    at = len(terminal.output)
    terminal.press(words)
    terminal.settle(0.3, 2.0)
    terminal.press("\r")
    if words.startswith("be slow"):
        terminal.wait_for("connected", since=at, seconds=60.0)
        terminal.settle(1.0, 2.0)
    return at


def _picture(terminal: Terminal) -> Picture:
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(re.sub(rb"127\.0\.0\.1:\d{5}", b"127.0.0.1:18789", bytes(terminal.output)))
    rows = [Text.assemble(*(_cell(screen.buffer[row][column]) for column in range(COLUMNS))) for row in range(ROWS)]
    return picture_of_rows(rows, COLUMNS)


def _cell(char: Char) -> tuple[str, Style]:
    style = Style(
        color=_color(char.fg), bgcolor=_color(char.bg), bold=char.bold, italic=char.italics, reverse=char.reverse
    )
    return char.data, style


def _color(name: str) -> str | None:
    if name == "default":
        return None
    return f"#{name}" if HEX.fullmatch(name) else name.replace("brown", "yellow").replace("bright", "bright_")
