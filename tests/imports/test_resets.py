"""Transcripts that a reset put aside under the id of before, which the row of their session does not call its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.imports.writing import ON_THEIR_OWN, TOO_LATE
from core.store import sessions
from core.store.database import Store
from tests.imports.folders import SID, START, Older, Talk
from tests.imports.here import MAIN, bring, found, reasons, said
from tests.support.stores import opened

FIRST, SECOND = (f"{number}2222222-2222-4333-8444-555555555555" for number in (3, 2))  # not in the order of their time
WHEN = ("2026-11-21T06-34-37.596Z", "2026-11-21T06-50-00.000Z")


def words(text: str, session_id: str = SID) -> Talk:
    """Return a transcript in which one thing is said."""
    talk = Talk(session_id)
    talk.user(text)
    return talk


def aside(theirs: Older, text: str, session_id: str, when: str) -> str:
    """Put a transcript aside, as a reset does, and return the name of its file."""
    return theirs.write(words(text, session_id), f"{session_id}.jsonl.reset.{when}").name


def record_runs(theirs: Older, session_id: str, key: str, **more: Any) -> None:
    """Leave the record of runs that lies beside a transcript."""
    first = {"traceSchema": "openclaw-trajectory", "sessionId": session_id, "sessionKey": key, **more}
    (theirs.folder / f"{session_id}.trajectory.jsonl").write_text(f"{json.dumps(first)}\n{{}}\n")


@pytest.fixture
def theirs(tmp_path: Path) -> Older:
    """Return a folder with nothing in it yet."""
    return Older(tmp_path / "oc")


async def test_what_the_row_lists_and_what_the_records_name_comes_first_in_its_order(
    store: Store, theirs: Older
) -> None:
    aside(theirs, "first", FIRST, WHEN[0])
    aside(theirs, "second", SECOND, WHEN[1])
    record_runs(theirs, FIRST, MAIN)
    listed: dict[str, Any] = {"usageFamilyKey": MAIN, "usageFamilySessionIds": [SECOND, SID]}
    theirs.put(MAIN, words("now"), sessionStartedAt=START + 90_000, **listed)
    report = await bring(store, theirs)
    assert (report.imported, report.messages, report.transcripts, report.notices) == (1, 3, 3, [])
    told = [[message.text for message in said(store, transcript=each)] for each in (FIRST, SECOND, SID)]
    assert told == [["first"], ["second"], ["now"]]
    assert (found(store).session_id, found(store).created_at) == (SID, START)
    assert (await bring(store, theirs)).unchanged == 1


async def test_a_reset_after_an_import_goes_on_with_the_session(store: Store, theirs: Older) -> None:
    file = theirs.put(MAIN, words("before", FIRST))
    await bring(store, theirs)
    file.rename(f"{file}.reset.{WHEN[0]}")
    record_runs(theirs, FIRST, MAIN)
    theirs.put(MAIN, words("after"))
    report = await bring(store, theirs)
    assert (report.extended, report.messages, report.transcripts) == (1, 1, 1)
    assert [message.text for message in said(store, transcript=FIRST)] == ["before"]
    assert [message.text for message in said(store)] == ["after"]


@pytest.mark.parametrize(
    ("recorded", "listed"),
    [
        ({}, {}),
        ({"key": "agent:main:gone"}, {}),
        ({"key": "agent:main:other"}, {"usageFamilySessionIds": [FIRST]}),
        ({"key": MAIN, "sessionId": SECOND}, {}),
        ({"key": MAIN, "sessionKey": 7}, {}),
        ({}, {"usageFamilyKey": "agent:main:other", "usageFamilySessionIds": [FIRST]}),
        ({}, {"usageFamilySessionIds": {"0": FIRST}}),
    ],
)
async def test_what_is_not_certain_is_said_and_stands_on_its_own(
    store: Store, theirs: Older, recorded: dict[str, Any], listed: dict[str, Any]
) -> None:
    name = aside(theirs, "whose", FIRST, WHEN[0])
    if recorded:
        record_runs(theirs, FIRST, recorded.pop("key"), **recorded)
    theirs.put("agent:main:other", words("something else", SECOND))
    theirs.put(MAIN, words("now"), **listed)
    report = await bring(store, theirs)
    (notice,) = report.notices
    assert notice.startswith(
        "no session that is there is known for certain to have had these transcripts of agent main"
    )
    assert notice.endswith(f"sessions of their own: {name}")
    assert [message.text for message in said(store, f"agent:main:import:{FIRST}")] == ["whose"]
    assert found(store).last_seq == 1
    assert (await bring(store, theirs)).unchanged == 3


async def test_of_many_that_are_not_certain_a_few_are_named(store: Store, theirs: Older) -> None:
    theirs.put(MAIN, words("now"))
    for number in range(5):
        aside(theirs, "whose", f"{number}4444444-2222-4333-8444-555555555555", WHEN[0])
    (notice,) = (await bring(store, theirs)).notices
    assert notice.endswith(" and 2 more")
    assert notice.count(".reset.") == 3


async def test_a_record_that_is_a_link_out_of_the_folder_proves_nothing(store: Store, theirs: Older) -> None:
    aside(theirs, "whose", FIRST, WHEN[0])
    record_runs(theirs, FIRST, MAIN)
    record = theirs.folder / f"{FIRST}.trajectory.jsonl"
    record.rename(theirs.path / "elsewhere")
    record.symlink_to(theirs.path / "elsewhere")
    theirs.put(MAIN, words("now"))
    await bring(store, theirs)
    assert found(store).last_seq == 1


async def test_what_came_before_it_was_known_whose_it_is_holds_up_nothing(
    store: Store, theirs: Older, tmp_path: Path
) -> None:
    aside(theirs, "before", FIRST, WHEN[0])
    now = words("now")
    theirs.put(MAIN, now)
    await bring(store, theirs)
    record_runs(theirs, FIRST, MAIN)
    now.reply("and more")
    theirs.put(MAIN, now)
    report = await bring(store, theirs)
    assert (report.extended, report.messages) == (1, 1)
    assert reasons(report)[ON_THEIR_OWN] == 1
    assert [message.text for message in said(store, f"agent:main:import:{FIRST}")] == ["before"]
    async with opened(tmp_path / "other") as other:
        (theirs.folder / f"{FIRST}.jsonl.reset.{WHEN[0]}").rename(tmp_path / "away")
        await bring(other, theirs)
        (tmp_path / "away").rename(theirs.folder / f"{FIRST}.jsonl.reset.{WHEN[0]}")
        report = await bring(other, theirs)
        assert (report.unchanged, reasons(report)[TOO_LATE]) == (1, 1)
        assert sessions.by_key(other.db, f"agent:main:import:{FIRST}") is None
