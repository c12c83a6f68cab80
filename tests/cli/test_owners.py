"""One process owns the state; others read and say who it is. Stopped commands leave nothing behind
(architecture#ownership, architecture#command-line)."""

import asyncio
import signal
from pathlib import Path

import pytest

from console.hosts.host import Host
from core.config.paths import find_places
from core.store.lock import current_owner
from tests.cli.program import Cli, started

SLOW = ("send", "main", "be slow 60")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("json", [False, True])
def test_a_stopped_send_ends_its_run_and_gives_the_state_free(
    cli: Cli, home: Path, number: signal.Signals, json: bool
) -> None:
    with started(*SLOW, *["--json"] * json) as sending:
        sending.wait_for("main: at work")
        ended = sending.end(number)
    assert ended.code == 128 + number
    sentence = f"stopped by {number.name}; what was at work ends as interrupted, what was said is kept"
    if json:
        assert ended.document == {"status": "error", "code": "interrupted", "error": sentence}
        assert "switchboard:" not in ended.err
    else:
        assert (ended.out, ended.err) == ("", f"switchboard: {sentence}\n")
    assert current_owner(home / "state") is None
    assert cli("list", "--json").document["sessions"][0]["status"] == "interrupted"
    assert "interrupted: switchboard was closed while it was at work" in cli("history", "main").out
    assert cli("send", "main", "say hi").code == 0
    assert not (home / "state" / "switchboard.log").exists()


def test_stopped_after_its_answer_it_prints_no_second_one(cli: Cli) -> None:
    with started(*SLOW, "--timeout", "0.1", "--json") as sending:
        assert sending.process.stdout is not None
        lines = [sending.process.stdout.readline() for _ in range(5)]
        ended = sending.end(signal.SIGTERM)
    assert lines[0] == "{\n"
    assert lines[-1] == "}\n"
    assert ended.out == ""
    assert ended.code == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in ended.err


def test_a_spawn_can_be_stopped(cli: Cli) -> None:
    with started("spawn", "be slow 60") as spawning:
        spawning.wait_for(": at work")
        assert spawning.end(signal.SIGINT).code == 130
    assert cli("list", "--json").document["sessions"][0]["status"] == "interrupted"


def test_detached_work_is_done_by_the_next_console(cli: Cli) -> None:
    cli("send", "main", "say later", "--detach")
    cli("send", "cron:nightly", "say elsewhere", "--detach")
    cli("spawn", "say below", "--detach")

    async def open_console() -> None:
        host = Host(find_places(), pace=0.0)
        await host.start("console")
        await host.runtime.drained()
        await host.close()

    asyncio.run(open_console())
    assert {row["status"] for row in cli("list", "--json").document["sessions"]} == {"done"}
    assert cli("history", "cron:nightly", "--json").document["messages"][1]["content"][0]["text"] == "elsewhere"


def test_a_killed_owner_leaves_no_lock_and_its_run_is_told(cli: Cli, home: Path) -> None:
    with started(*SLOW) as owner:
        owner.wait_for("main: at work")
        assert owner.end(signal.SIGKILL).code == -signal.SIGKILL
    assert (home / "state" / "owner.lock").read_text(), "it left its name"
    assert cli("list", "--json").document["sessions"][0]["status"] == "running"
    assert cli("send", "main", "say hi").out == "hi\n"
    texts = [m["content"][0]["text"] for m in cli("history", "main", "--json").document["messages"]]
    assert texts[0] == "be slow 60"
    assert "interrupted" in texts[1]
    assert texts[2:] == ["say hi", "hi"]
