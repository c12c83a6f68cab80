"""`switchboard import DIR`: what it accepts, what it prints, and how it ends."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.store.lock import OwnerLock
from tests.cli.program import Cli, started
from tests.imports.folders import Newer, Older, Talk
from tests.support.stores import NOBODY, as_nobody

MAIN = "agent:main:main"


def talk(text: str = "hello") -> Talk:
    """Return a short transcript."""
    new = Talk()
    new.user(text)
    new.reply("hello yourself")
    return new


@pytest.fixture
def theirs(tmp_path: Path) -> Older:
    """Return a state directory with one session."""
    older = Older(tmp_path / "home" / ".openclaw")
    older.put(MAIN, talk(), label="the main one", status="done")
    return older


def test_it_prints_what_came_of_it_and_the_session_is_there(cli: Cli, theirs: Older) -> None:
    theirs.put("agent:main:a::b", talk())
    first = cli("import", str(theirs.path))
    assert (first.code, first.err) == (0, "")
    left_out = (
        "        1  left out: sessions under a key that cannot be one here"
        ' (session key "agent:main:a::b" has an empty part between its colons: fill it in)'
    )
    assert first.out.splitlines() == [
        f"from {theirs.path}",
        "        1  sessions new",
        "        0  sessions with new messages",
        "        0  sessions unchanged",
        "        2  messages written, of 1 new transcripts",
        left_out,
    ]
    assert [line.strip() for line in cli("history", "main").out.splitlines()[1::2]] == ["hello", "hello yourself"]
    assert cli("list", "--json").document["sessions"][0]["label"] == "the main one"
    again = cli("import", str(theirs.path), "--json")
    assert (again.code, again.err) == (0, "")
    document = again.document
    assert (document["status"], document["imported"], document["unchanged"], document["messages"]) == ("ok", 0, 1, 0)
    assert [reason["count"] for reason in document["skipped"]] == [1]


@pytest.mark.parametrize("below", [".", "agents", "agents/main", "agents/main/sessions", ".."])
def test_it_finds_the_state_directory_around_what_is_named(cli: Cli, theirs: Older, below: str) -> None:
    assert cli("import", str(theirs.path / below), "--json").document["imported"] == 1


def test_one_agent_of_several_can_be_named(cli: Cli, theirs: Older) -> None:
    second = Newer(theirs.path, "Helper")
    second.put("agent:helper:main", Talk("22222222-2222-4333-8444-555555555555"))
    document = cli("import", str(theirs.path / "agents" / "Helper"), "--json").document
    assert (document["imported"], document["agents"]) == (1, ["helper"])
    assert "agents helper" in document["notices"][0]
    everything = cli("import", str(theirs.path), "--json").document
    assert (everything["imported"], everything["unchanged"], everything["agents"]) == (1, 1, ["helper", "main"])


def test_what_is_no_state_directory_is_refused_with_what_was_looked_for(cli: Cli, tmp_path: Path) -> None:
    tmp_path = tmp_path / "elsewhere"
    assert cli("import", str(tmp_path)).sentence.endswith(
        "elsewhere does not exist: give the state directory of OpenClaw, such as ~/.openclaw"
    )
    tmp_path.mkdir()
    refused = cli("import", str(tmp_path))
    assert refused.code == 2
    assert "is not an OpenClaw state directory: neither agents/<id>/agent/openclaw-agent.sqlite" in refused.sentence
    for name in ("one", "two"):
        Older(tmp_path / name).put(MAIN, talk())
    several = cli("import", str(tmp_path), "--json")
    assert several.code == 2
    assert "holds several OpenClaw state directories (one, two): name one of them" in several.document["error"]
    (tmp_path / "file").write_text("")
    assert cli("import", str(tmp_path / "file")).sentence.startswith(f"{tmp_path / 'file'} is not a folder")
    assert cli("import").code == 2


def test_what_is_damaged_is_one_sentence(cli: Cli, theirs: Older) -> None:
    index = theirs.folder / "sessions.json"
    whole = index.read_text()
    broken = {
        whole[:-20]: "that is not JSON",
        f'{{"a": {"1" * 5000}}}': "more than 4,300 digits",
        "[" * 200_000: "too deep",
        "[]": "expected an object",
    }
    for text, why in broken.items():
        index.write_text(text)
        refused = cli("import", str(theirs.path))
        assert refused.code == 1
        assert refused.sentence.startswith(f"{index} is damaged: ")
        assert why in refused.sentence


def test_the_owner_of_the_state_directory_is_named(cli: Cli, theirs: Older, home: Path) -> None:
    lock = OwnerLock.acquire(home / "state", "console", SystemClock().now_ms())
    try:
        refused = cli("import", str(theirs.path))
    finally:
        lock.release()
    assert refused.code == 1
    assert f"is owned by switchboard console (process {os.getpid()}" in refused.sentence


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that everybody can look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of somebody else")
def test_what_may_not_be_read_is_one_sentence(public: Path) -> None:
    theirs = Older(public / "oc")
    file = theirs.put(MAIN, talk())
    theirs.put("agent:main:other", Talk("22222222-2222-4333-8444-555555555555"))
    file.chmod(0o600)
    ours = public / "ours"
    ours.mkdir()
    os.chown(ours, NOBODY, NOBODY)
    ran = as_nobody(
        """
        import os, sys
        import console.cli.importing, core.imports.openclaw_sqlite, tests.imports.folders
        from console.cli.parser import run
        from core.config.load import load
        from core.config.paths import find_places
        load(find_places(sys.argv[1]))
        drop_rights()
        os.environ["SWITCHBOARD_HOME"] = sys.argv[1]
        sys.exit(run(["import", sys.argv[2]]))
        """,
        ours,
        theirs.path,
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.stderr.splitlines() == [f"switchboard: {MAIN}: {file} cannot be read: Permission denied"]
    assert "1  sessions new" in ran.stdout


def test_ctrl_c_leaves_whole_sessions_and_says_how_to_go_on(cli: Cli, tmp_path: Path) -> None:
    theirs = Older(tmp_path / "oc")
    long = Talk()
    for number in range(30_000):
        long.user(f"line {number}")
    theirs.put("agent:main:long", long)
    with started("import", str(theirs.path)) as program:
        program.wait_for("of 1 sessions")
        stopped = program.end(signal.SIGINT)
    assert (stopped.code, stopped.out) == (130, "")
    last = stopped.err.splitlines()[-1]
    assert last == "switchboard: stopped by SIGINT after 0 of 1 sessions; the same command goes on from there"
    assert cli("list").out.startswith("no sessions yet")
