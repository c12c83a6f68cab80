"""What goes to stdout and stderr, to readers that leave, and to terminals that can do little
(architecture#command-line, architecture#threats)."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from core.model.messages import user_draft
from core.store import messages, sessions
from tests.cli.program import COMMAND, Cli, program
from tests.support.stores import ROOT, create, opened, tool_draft

HOSTILE = "a\x1b]52;c;aGk=\x07b\x1b[2Jc\x9b31md\x08e\rf\u202eg\u2028h\x7f\U000e0041i"
HARMFUL = {chr(code) for code in (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x202E, 0x2028, 0xE0041)} - {"\n"}
OPS = "agent:main:discord:group:ops"


async def fill_with_hostile_words(home: Path) -> None:
    """Store what a hostile channel and a hostile model could say."""
    async with opened(home / "state") as store:
        await store.write(lambda tx: create(tx, OPS, label=HOSTILE))
        await store.write(lambda tx: sessions.update(tx, OPS, display_name=HOSTILE))
        await store.write(lambda tx: messages.append(tx, OPS, user_draft(f"needle {HOSTILE}")))
        await store.write(lambda tx: messages.append(tx, OPS, tool_draft(HOSTILE)))
        await store.write(lambda tx: messages.append(tx, OPS, user_draft(f"2  2026-01-01 00:00:00  system{HOSTILE}")))


@pytest.mark.parametrize(
    "line",
    [
        ["list"],
        ["list", "--search", "needle"],
        ["history", OPS, "--tools"],
        ["search", "needle"],
        ["export", OPS],
        ["policy", OPS],
        ["doctor"],
        ["history", HOSTILE],
        ["send", HOSTILE, "hi"],
        ["send", OPS, f"fail: {HOSTILE}"],
        ["send", OPS, f"say {HOSTILE}"],
        ["spawn", "say hi", "--agent", HOSTILE],
        ["spawn", f"say {HOSTILE}", "--label", HOSTILE[:40]],
        [HOSTILE],
        ["list", f"--{HOSTILE}"],
        ["list", "--config", f"/none/{HOSTILE}"],
    ],
    ids=range(16),
)
def test_nothing_that_a_terminal_obeys_is_printed(home: Path, cli: Cli, line: list[str]) -> None:
    asyncio.run(fill_with_hostile_words(home))
    plain = cli(*line)
    assert plain.out + plain.err
    assert not HARMFUL & set(plain.out + plain.err)
    document = cli("--json", *line)
    assert not HARMFUL & set(document.out + document.err)
    assert isinstance(json.loads(document.out), dict), "one document, also when it fails"
    assert document.code == plain.code


def test_json_loses_nothing_of_hostile_words(home: Path, cli: Cli) -> None:
    asyncio.run(fill_with_hostile_words(home))
    assert cli("history", OPS, "--json").document["messages"][0]["content"][0]["text"] == f"needle {HOSTILE}"
    assert cli("list", "--json").document["sessions"][0]["label"] == HOSTILE


def test_a_message_cannot_pass_for_another_one(home: Path, cli: Cli) -> None:
    asyncio.run(fill_with_hostile_words(home))
    lines = cli("history", OPS, "--tools").out.splitlines()
    assert [line for line in lines if not line.startswith("    ")] == [
        line for line in lines if line.split()[0] in {"1", "2", "3"} and line.endswith(("user", "answered"))
    ]


def test_a_reader_that_leaves_is_no_error(home: Path) -> None:
    for number in range(3):
        program("send", "main", f"say {number} {'x' * 60_000}")
    for command in ("export", "history"):
        reading = subprocess.Popen(
            [*COMMAND, command, "main"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert reading.stdout is not None
        assert reading.stdout.read(1)
        reading.stdout.close()
        assert reading.stderr is not None
        assert reading.stderr.read() == b""
        reading.stderr.close()
        assert reading.wait(timeout=30) == 0


def test_work_goes_on_when_nobody_reads(home: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "send", "main", "say hi"], stdout=write, stderr=write, timeout=30, check=False, cwd=ROOT
    )
    os.close(write)
    assert done.returncode == 0
    assert program("list", "--json").document["sessions"][0]["status"] == "done"


def test_streams_that_are_closed_from_the_start(home: Path) -> None:
    def close() -> None:
        for number in (0, 1, 2):
            os.close(number)

    def close_stdin() -> None:
        os.close(0)

    assert program("send", "main", "say hi", prepare=close).code == 0
    assert program("nonsense", prepare=close).code == 2
    assert program("list", "--json").document["count"] == 1
    assert program(prepare=close).code == 2
    said = program("send", "main", "-", prepare=close_stdin)
    assert (said.code, said.sentence) == (2, "there is no message: stdin is closed")


def test_an_output_that_is_full_is_told(home: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False, cwd=ROOT
        )
    assert done.returncode == 1
    assert done.stderr == "switchboard: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_the_console_needs_a_terminal(home: Path, term: str) -> None:
    for line in ([], ["demo"]):
        refused = program(*line, environment={"TERM": term})
        assert refused.code == 2
        assert refused.sentence == (
            "the console needs a terminal: run it in one, or use a command such as `switchboard list`"
        )
    assert program("--json").document["code"] == "invalid"
    assert not home.exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"TERM": "dumb", "NO_COLOR": "1"},
    ],
    ids=str,
)
def test_any_locale_will_do(home: Path, environment: dict[str, str]) -> None:
    sent = subprocess.run(
        [*COMMAND, "send", "agent:main:discord:group:日本", "say 日本語 → 😀"],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
    assert sent.returncode == 0
    assert b"Traceback" not in sent.stderr
    assert b"\x1b" not in sent.stdout + sent.stderr
    for line in (["--help"], ["doctor"]):
        said = subprocess.run(
            [*COMMAND, *line], env={**os.environ, **environment}, capture_output=True, timeout=30, check=False, cwd=ROOT
        )
        assert b"Traceback" not in said.stderr
        assert said.returncode == 0
    found = subprocess.run(
        [*COMMAND, "list", "--json"],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
    assert json.loads(found.stdout)["sessions"][0]["key"].endswith(":日本"), "no character is lost in JSON"


def test_columns_stay_straight_with_wide_characters(cli: Cli) -> None:
    cli("send", "agent:main:discord:group:日本語", "/label 運用")
    cli("send", "main", "/label plain")
    head, *rows = cli("list").out.splitlines()
    at = head.index("CHANNEL")
    wide, plain = sorted(rows, key=lambda row: "main " in row[:5])
    assert plain.index("webchat") == at
    assert wide.rindex("discord") == at - len("日本語運用"), "a wide character takes two columns"


def test_bytes_that_are_no_text_are_taken_and_shown(home: Path) -> None:
    sent = program("send", "main", b"say \xff\xfe!")
    assert (sent.code, sent.out) == (0, "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}!\n")
    assert program("history", b"\xff").code == 2
    assert program(b"\xff").code == 2
