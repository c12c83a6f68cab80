"""Transcripts' files are whole after a clean end, and after the start that follows another one."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR
from core.model.messages import user_draft
from core.runtime.gateway import Runtime
from core.runtime.transcript_files import TranscriptFiles
from core.store import jsonl
from core.store.database import DATABASE_NAME
from core.store.jsonl import transcript_path
from core.store.maintenance.check import check
from tests.support.runtimes import MAIN, running, send, session, until
from tests.support.stores import create, opened, other_connection, say

OTHER = "agent:main:other"


def told(state: Path, session_id: str) -> list[str]:
    """Return the words in a transcript's file."""
    lines = transcript_path(state, session_id).read_text().splitlines()[1:]
    return [json.loads(line)["message"]["content"][0]["text"] for line in lines]


async def stored(runtime: Runtime, key: str) -> list[str]:
    """Return the words in a transcript."""
    return [message.text for message in (await runtime.history(key, ALL, limit=100)).messages]


async def test_every_file_is_whole_after_a_clean_end(state: Path) -> None:
    kept: dict[str, list[str]] = {}
    async with running(state) as runtime:
        for key in (MAIN, OTHER):
            await send(runtime, key, "say hello")
            await runtime.append(key, user_draft("without a run"), OPERATOR)
            kept[(await session(runtime, key)).session_id] = await stored(runtime, key)
        await runtime.store.write(lambda tx: create(tx, "agent:main:third"))
        await runtime.append("agent:main:third", user_draft("never ran"), OPERATOR)
        kept[(await session(runtime, "agent:main:third")).session_id] = ["never ran"]
    assert {session_id: told(state, session_id) for session_id in kept} == kept


async def test_what_a_process_that_died_left_behind_is_written_at_the_next_start(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hello")
        found = await session(runtime, MAIN)
    before = told(state, found.session_id)
    async with opened(state) as store:  # as far as files go, it ends like a kill
        await store.write(lambda tx: say(tx, MAIN, "left behind"))
        await store.write(lambda tx: create(tx, "agent:main:imported"))
        await store.write(lambda tx: say(tx, "agent:main:imported", "from elsewhere"))
        assert [key for key, _ in jsonl.behind(store.db, state)] == [MAIN]
    assert told(state, found.session_id) == before
    async with running(state) as runtime:
        await until(lambda: told(state, found.session_id) == [*before, "left behind"])
        imported = await session(runtime, "agent:main:imported")
    assert not transcript_path(state, imported.session_id).exists()
    async with opened(state) as store:
        assert jsonl.behind(store.db, state) == []
        assert jsonl.recorded(store.db) == jsonl.newest(store.db)


async def test_a_file_that_could_not_be_written_is_behind_until_it_can(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(state) as runtime:
        (state / "transcripts").write_text("in the way")
        await send(runtime, MAIN, "say hello")
        found = await session(runtime, MAIN)
    assert "was not written" in caplog.text
    (state / "transcripts").unlink()
    async with running(state):
        await until(lambda: transcript_path(state, found.session_id).exists())
    assert told(state, found.session_id) == ["say hello", "hello"]


async def test_whoever_only_reads_writes_nothing(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hello")
        reader = Runtime.open(state)
        files = TranscriptFiles(reader.store)
        await files.finish()
        await reader.close()
    db = other_connection(state)
    assert jsonl.recorded(db) == jsonl.newest(db) > 0
    db.close()


async def test_a_message_that_was_being_stored_at_the_end_is_in_its_file(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hi")
        writing = [asyncio.create_task(runtime.append(MAIN, user_draft("x" * 300_000), OPERATOR)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in writing:
            task.cancel()  # the write goes on
        await asyncio.wait(writing)
    with contextlib.closing(sqlite3.connect(state / DATABASE_NAME)) as db:
        assert list(check(db, state, is_owned=False)) == []
