"""What each generation's store may look like: torn, compressed, being written to, newer than known, damaged."""

from pathlib import Path

import pytest

from core.model.errors import Invalid, Unavailable
from core.store.database import Store
from tests.imports.folders import SID, Newer, Older, Talk
from tests.imports.here import MAIN, bring, found, reasons, said
from tests.support.stores import opened


async def test_torn_and_unreadable_lines_are_counted(store: Store, tmp_path: Path) -> None:
    theirs = Older(tmp_path / "oc")
    talk = Talk()
    talk.user("one")
    talk.user("two")
    file = theirs.put(MAIN, talk)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "not json", lines[1], "[]", "", lines[2], lines[2][:40]]))
    report = await bring(store, theirs)
    assert [message.text for message in said(store)] == ["one", "two"]
    assert reasons(report) == {"lines that cannot be read": 2, "last lines that were only half written": 1}
    assert report.skipped.reasons["lines that cannot be read"].examples == [f"{file.name}:2", f"{file.name}:4"]


async def test_a_transcript_without_ids_has_the_same_ones_each_time(store: Store, tmp_path: Path) -> None:
    theirs = Older(tmp_path / "oc")
    file = theirs.put(MAIN, Talk())
    file.write_text('{"type":"message","message":{"role":"user","content":"a"}}\n' * 3)
    await bring(store, theirs)
    assert len({message.id for message in said(store)}) == 3
    assert (await bring(store, theirs)).unchanged == 1


async def test_a_row_without_a_transcript_is_a_session_without_messages(store: Store, theirs: Older | Newer) -> None:
    theirs.put(MAIN, Talk(), label="empty")
    report = await bring(store, theirs)
    assert (report.imported, report.messages) == (1, 0)
    assert (found(store).label, found(store).last_seq) == ("empty", 0)
    assert (await bring(store, theirs)).unchanged == 1


async def test_compressed_events_are_read(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    talk = Talk()
    talk.user("squeezed " * 50)
    theirs.put(MAIN, talk, packed=True)
    await bring(store, theirs)
    assert [len(message.text) for message in said(store)] == [450]
    theirs.db.execute("UPDATE transcript_events SET event_zstd = x'00' WHERE event_zstd IS NOT NULL")
    async with opened(tmp_path / "other") as other:
        assert reasons(await bring(other, theirs)) == {"entries that cannot be read": 1}


async def test_a_database_that_a_gateway_is_writing_to_is_read_and_left_as_it_is(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    theirs.db.execute("PRAGMA journal_mode = WAL")
    theirs.db.execute("PRAGMA wal_autocheckpoint = 0")
    talk = Talk()
    talk.user("still in the log")
    theirs.put(MAIN, talk)
    before = {path.name: path.read_bytes() for path in theirs.file.parent.iterdir()}
    assert before["openclaw-agent.sqlite-wal"]
    await bring(store, theirs)
    assert [message.text for message in said(store)] == ["still in the log"]
    assert {path.name: path.read_bytes() for path in theirs.file.parent.iterdir()} == before


async def test_nothing_is_written_beside_a_database_at_rest(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    theirs.db.execute("PRAGMA journal_mode = WAL")
    theirs.put(MAIN, Talk())
    theirs.close()
    before = {path.name: path.read_bytes() for path in theirs.file.parent.iterdir()}
    assert list(before) == ["openclaw-agent.sqlite"]
    assert (await bring(store, theirs)).imported == 1
    assert {path.name: path.read_bytes() for path in theirs.file.parent.iterdir()} == before


async def test_a_newer_version_is_tried_and_told(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc", version=99)
    theirs.put(MAIN, Talk())
    report = await bring(store, theirs)
    assert report.imported == 1
    assert "version 99, newer than the known 23" in report.notices[0]


async def test_a_damaged_database_is_one_sentence(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    theirs.put(MAIN, Talk())
    theirs.close()
    theirs.file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(Unavailable, match=r"openclaw-agent\.sqlite is damaged: have OpenClaw repair it"):
        await bring(store, theirs)
    other = Older(tmp_path / "oc", "second")
    other.put("agent:second:main", Talk())
    report = await bring(store, theirs)
    assert report.imported == 1
    assert len(report.failed) == 1


async def test_of_two_generations_side_by_side_the_newer_counts(store: Store, tmp_path: Path) -> None:
    newer = Newer(tmp_path / "oc")
    older = Older(tmp_path / "oc")
    stale = Talk()
    stale.user("stale")
    older.put(MAIN, stale)
    empty = await bring(store, newer)
    assert (empty.imported, [message.text for message in said(store)]) == (1, ["stale"])
    fresh = Talk("22222222-2222-4333-8444-555555555555")
    fresh.user("fresh")
    newer.put(MAIN, fresh)
    async with opened(tmp_path / "other") as other:
        report = await bring(other, newer)
        assert [message.text for message in said(other)] == ["fresh"]
        assert reasons(report) == {"older indexes beside a database that took their place": 1}


async def test_what_lies_beside_transcripts_makes_no_sessions(store: Store, tmp_path: Path) -> None:
    theirs = Older(tmp_path / "oc")
    talks = [Talk(f"{number:08d}-2222-4333-8444-555555555555") for number in range(4)]
    for number, talk in enumerate(talks):
        talk.user(f"words {number}")
        theirs.put(f"agent:main:s{number}", talk)
        theirs.write(talk, f"{talk.session_id}.trajectory.jsonl")
        theirs.write(talk, f"{talk.session_id}.checkpoint.{SID}.jsonl")
        (theirs.folder / f"{talk.session_id}.trajectory-path.json").write_text("{}")
        (theirs.folder / f"{talk.session_id}.jsonl.lock").write_text("{}")
    theirs.write(talks[0], f"{talks[0].session_id}.trajectory.jsonl.deleted.2026-11-21T06-34-38.475Z")
    theirs.write(talks[0], "notes.jsonl")
    report = await bring(store, theirs)
    assert (report.imported, report.messages, report.failed) == (4, 4, [])
    assert reasons(report) == {
        "files that are no transcripts": 9,
        "records of runs, which repeat what transcripts hold": 5,
        "copies of transcripts that were made before compacting them": 4,
    }


async def test_files_that_rows_name_and_topics_are_transcripts_whatever_they_are_called(
    store: Store, tmp_path: Path
) -> None:
    theirs = Older(tmp_path / "oc")
    named, topic = Talk("my-own-name"), Talk()
    named.user("named")
    topic.user("topic")
    theirs.put(MAIN, named)
    theirs.write(topic, f"{SID}-topic-42.jsonl")
    report = await bring(store, theirs)
    assert (report.imported, reasons(report)) == (2, {})
    assert [message.text for message in said(store)] == ["named"]
    assert [message.text for message in said(store, f"agent:main:import:{SID}-topic-42")] == ["topic"]


async def test_a_transcript_that_is_a_link_out_of_the_folder_is_left_out(store: Store, tmp_path: Path) -> None:
    theirs = Older(tmp_path / "oc")
    talk = Talk()
    talk.user("not meant for anybody")
    file = theirs.put(MAIN, talk)
    file.rename(tmp_path / "elsewhere.jsonl")
    file.symlink_to(tmp_path / "elsewhere.jsonl")
    report = await bring(store, theirs)
    assert reasons(report) == {"links that lead out of the folder": 1}
    assert (report.imported, report.messages) == (1, 0)
    assert said(store) == []


@pytest.mark.parametrize("part", ["agents/main", "agents/main/sessions", "agents/main/sessions/sessions.json"])
async def test_a_store_that_is_a_link_out_of_the_folder_is_refused(store: Store, tmp_path: Path, part: str) -> None:
    theirs = Older(tmp_path / "oc")
    talk = Talk()
    talk.user("not meant for anybody")
    theirs.put(MAIN, talk)
    (theirs.path / part).rename(tmp_path / "elsewhere")
    (theirs.path / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="is a link that leads out of"):
        await bring(store, theirs)
