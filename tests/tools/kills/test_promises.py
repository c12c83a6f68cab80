"""What a killed process had promised is told from what it had only begun."""

import contextlib
from pathlib import Path

import pytest

from core.model.access import OPERATOR
from core.model.sessions import NewSession, SessionPatch
from tests.support.runtimes import Agent, running
from tests.support.stores import opened, other_connection
from tests.tools.kills.driver import brief_request
from tests.tools.kills.promises import Promises

BRIEF, KEPT, WAITING, TAKEN = (f"agent:main:{name}" for name in ("brief", "kept", "waiting", "taken"))
ACKNOWLEDGED = (f"deleted {BRIEF}", f"overridden {WAITING}", f"overridden {TAKEN}")
WAITS = f"INSERT INTO overrides VALUES ('{WAITING}', 'deny')"


async def worked(state: Path, *, well: bool) -> Promises:
    """Do what a driver does, or only what comes before its deletion and its overrides; return what is known of it."""
    promises = Promises()
    async with running(state, backends=Agent()) as runtime:
        brief, kept = [await runtime.create(NewSession(key), OPERATOR) for key in (BRIEF, KEPT)]
        await runtime.start_run(brief_request(BRIEF, "b1"), OPERATOR)
        await runtime.drained()
        if well:
            await runtime.delete(BRIEF, OPERATOR)
            for key in (WAITING, TAKEN):
                await runtime.patch(key, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
            await runtime.create(NewSession(TAKEN), OPERATOR)
    begun = (f"deleting {BRIEF} b1", f"overriding {WAITING} deny", f"overriding {TAKEN} deny")
    for line in (f"created {BRIEF} {brief.session_id}", f"created {KEPT} {kept.session_id}", *begun):
        promises.take_in(*line.split(" ", 1))
    return promises


def told(state: Path, promises: Promises) -> list[str]:
    """Return what is wrong."""
    with contextlib.closing(other_connection(state)) as db:
        return list(promises.problems(state, db))


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_what_was_done_may_be_acknowledged_or_not(state: Path, acknowledged: bool) -> None:
    promises = await worked(state, well=True)
    for line in ACKNOWLEDGED if acknowledged else ():
        promises.take_in(*line.split(" ", 1))
    assert told(state, promises) == []
    async with running(state, backends=Agent()) as runtime:
        assert await promises.ask_again(runtime) == []
    assert told(state, promises) == []


async def test_what_was_not_done_must_not_be_acknowledged(state: Path) -> None:
    promises = await worked(state, well=False)
    assert told(state, promises) == []
    for line in ACKNOWLEDGED:
        promises.take_in(*line.split(" ", 1))
    found = "\n".join(told(state, promises))
    for end in (*(f"still in {table}" for table in ("sessions", "transcripts", "runs", "messages")), "is not spent"):
        assert end in found, found
    assert "its transcript's file is there" in found
    assert found.count("was acknowledged and there is []") == 2


@pytest.mark.parametrize(
    ("well", "change", "finding"),
    [
        (True, f"DELETE FROM sessions WHERE key = '{KEPT}'", f"{KEPT} was created and is gone"),
        (True, "DELETE FROM spent_runs", "is half there"),
        (False, "DELETE FROM messages", "is half there"),
        (False, "DELETE FROM runs", "is half there"),
        (False, WAITS.replace("deny", "allow"), "the override deny of agent:main:waiting was asked for and there is"),
        (False, WAITS.replace("waiting", "other"), "agent:main:other waits, which nobody set"),
        (True, WAITS.replace("waiting", "taken"), "waits for a session that there is"),
        (True, "UPDATE sessions SET send_policy = NULL", "the override deny of agent:main:taken was asked for"),
    ],
)
async def test_what_is_there_by_half_is_found(state: Path, well: bool, change: str, finding: str) -> None:
    promises = await worked(state, well=well)
    async with opened(state) as store:
        await store.write(lambda tx: tx.db.execute(change) and None)
    assert any(finding in each for each in told(state, promises)), told(state, promises)


async def test_a_run_that_begins_anew_is_found(state: Path) -> None:
    promises = await worked(state, well=True)
    promises.take_in(*ACKNOWLEDGED[0].split(" ", 1))
    async with opened(state) as store:
        await store.write(lambda tx: tx.db.execute("DELETE FROM spent_runs") and None)
    async with running(state, backends=Agent()) as runtime:
        (found,) = await promises.ask_again(runtime)
        await runtime.drained()
    assert f"b1 of the deleted {BRIEF} began anew" in found
