"""The README says what is true: its commands are understood, its files are there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.cli.parser import parse
from core.config.load import load
from core.config.paths import find_places

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
START = "python3 -m venv .venv && .venv/bin/pip install --quiet '.[mcp]' && .venv/bin/switchboard"
TESTS = "python3 -m venv .venv && .venv/bin/pip install --quiet -e '.[test]' && .venv/bin/pytest"
TEXTS = {
    ".cfg",
    ".css",
    ".in",
    ".ini",
    ".json",
    ".json5",
    ".md",
    ".py",
    ".sh",
    ".sql",
    ".svg",
    ".tcss",
    ".toml",
    ".txt",
}
ELSEWHERE = (
    "py" + "pi.org",
    "python" + "hosted",
    "np" + "mjs",
    "/wo" + "rk/",
    "/tm" + "p/w/",
    "/ro" + "ot/",
    "/ho" + "me/",
)


def blocks(language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[str]:
    """Return every way of writing a `switchboard` command that the README has."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    lines += re.findall(r"`((?:\.venv/bin/)?switchboard[^`.]*)`", README)
    for line in lines:
        for part in line.split(" && "):
            words = part.partition("  #")[0]
            start = re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?switchboard\b", words)
            if start is not None:
                yield words[start.end() :].strip()


def spelled(usage: str) -> Iterator[str]:
    """Return a usage as somebody would type it: with everything in brackets, and without."""
    for with_options in (True, False):
        line = re.sub(r"\[([^\]]*)\]", r"\1" if with_options else "", usage)
        line = re.sub(r"\b(\w+)(?:\|\w+)+", r"\1", line)
        yield re.sub(r"\b(N|S|MINUTES)\b", "5", line)


def test_the_two_commands_are_there() -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert START in lines
    assert TESTS in lines
    assert README.index("<!-- tests -->") < README.index(TESTS)


def test_there_are_commands_to_check() -> None:
    found = {command.split(" ")[0] for command in commands()}
    assert found >= {"", "list", "history", "send", "spawn", "policy", "abort", "search", "export", "doctor", "demo"}


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_is_understood(command: str) -> None:
    for line in spelled(command):
        options = parse(shlex.split(line))
        first = command.partition(" ")[0]
        assert (options.command or "") == ("" if first.startswith("--") else first)


def test_the_configuration_is_understood(tmp_path: Path) -> None:
    (text,) = blocks("json5")
    file = tmp_path / "config.json5"
    file.write_text(text, encoding="utf-8")
    settings = load(find_places(str(tmp_path), str(file)), {})
    assert settings.notices == ()
    assert settings.agents["main"].model == "local/llama3"


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:core|console|tests|screenshots|\.ci)/[\w./-]*)`", README))
    named |= set(re.findall(r"\]\(([^)#:]+)\)", README))
    named |= {module.replace(".", "/") for module in re.findall(r"-m (tests[\w.]*)", README)}
    assert len(named) > 8
    missing = [name for name in named if not any((ROOT / f"{name}{end}").exists() for end in ("", ".py"))]
    assert missing == []


def files() -> list[Path]:
    """Return the files of the repository that hold text."""
    folders = ("core", "console", "docs", "tests", "screenshots", ".ci")
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # a worktree has such a file
    found += [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [path for path in found if path.suffix in TEXTS or path.suffix == ""]


def test_no_file_knows_where_it_was_made() -> None:
    found = files()
    assert len(found) > 100
    telling = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in found
        for word in ELSEWHERE
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert telling == []
