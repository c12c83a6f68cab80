"""L4: transcripts as files, whole after every crash, with nothing in them twice."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.messages import Draft, text_block
from core.store import jsonl, messages, sessions
from core.store.database import Store
from tests.support.clock import FakeClock
from tests.support.stores import create, opened, say

KEY = "agent:main:main"


def session_id(store: Store) -> str:
    """Return the id of the current transcript."""
    session = sessions.by_key(store.db, KEY)
    assert session is not None
    return session.session_id


def append(store: Store, transcript: str | None = None) -> int:
    """Bring the transcript's file up to date."""
    return jsonl.append_new(store.db, store.directory, KEY, transcript or session_id(store))


def lines(store: Store, transcript: str | None = None) -> list[dict[str, Any]]:
    """Return the lines of the file."""
    path = jsonl.transcript_path(store.directory, transcript or session_id(store))
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.spec("H2")
async def test_the_file_nests_the_flat_message(state: Path) -> None:
    async with opened(state, FakeClock(5_000)) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "one"))
        await store.write(lambda tx: say(tx, KEY, "two"))
        assert append(store) == 2
        head, one, two = lines(store)
        assert head == {"type": "session", "version": 3, "id": session_id(store), "key": KEY}
        assert (one["type"], one["parentId"], one["timestamp"]) == ("message", None, 5_000)
        stored = messages.at(store.db, KEY, 1)
        assert stored is not None
        assert one["message"] == stored.as_json()
        assert two["parentId"] == one["id"] == stored.id
        assert append(store) == 0


async def test_file_and_folder_are_private(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        append(store)
        path = jsonl.transcript_path(state, session_id(store))
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


@settings(max_examples=40)
@given(torn=st.integers(0, 900), long=st.booleans())
async def test_a_torn_end_is_repaired_wherever_it_is_torn(tmp_path_factory: Any, torn: int, long: bool) -> None:
    state = tmp_path_factory.mktemp("torn")
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        for text in ("one ä", "two\u2028\x85\r", "漢" * (40_000 if long else 1)):
            await store.write(lambda tx, text=text: say(tx, KEY, text))
        append(store)
        path = jsonl.transcript_path(state, session_id(store))
        whole = path.read_bytes()
        os.truncate(path, max(0, len(whole) - torn))
        await store.write(lambda tx: say(tx, KEY, "three"))
        append(store)
        assert [line.get("message", {}).get("seq") for line in lines(store)] == [None, 1, 2, 3, 4]
        assert path.read_bytes().startswith(whole), "what was written before is the same again"


async def test_nothing_is_doubled_when_only_the_database_or_only_the_file_moved_on(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "one"))
        append(store)
    async with opened(state) as store:  # the process died after the commit and before the file
        await store.write(lambda tx: say(tx, KEY, "two"))
    async with opened(state) as store:
        assert append(store) == 1
        assert append(store) == 0
        assert [line["message"]["content"][0]["text"] for line in lines(store)[1:]] == ["one", "two"]


async def test_each_transcript_has_its_own_file_also_after_a_reset(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "one"))
        old = sessions.by_key(store.db, KEY)
        assert old is not None
        await store.write(lambda tx: sessions.new_transcript(tx, old))
        await store.write(lambda tx: say(tx, KEY, "two"))
        assert append(store, old.session_id) == 1, "the rest of the old one is still written"
        assert append(store) == 1
        assert [line["message"]["seq"] for line in lines(store, old.session_id)[1:]] == [1]
        assert [line["message"]["seq"] for line in lines(store)[1:]] == [2]
        assert lines(store)[1]["parentId"] is None


@pytest.mark.parametrize(
    "content", [b"5\n", b"[]\n", b'{"type":"message"}\n', b'{"type":"message","id":"x","message":{}}\n', b"\xff\n"]
)
async def test_a_file_that_is_not_ours_is_left_alone(state: Path, content: bytes) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        await store.write(lambda tx: say(tx, KEY, "one"))
        path = jsonl.transcript_path(state, session_id(store))
        path.parent.mkdir()
        path.write_bytes(content)
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with the line
            append(store)
        assert path.read_bytes() == content


async def test_links_are_not_followed(state: Path, tmp_path: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        path = jsonl.transcript_path(state, session_id(store))
        path.parent.mkdir()
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError, match="symbolic link"):
            append(store)
        assert not (tmp_path / "elsewhere").exists()


async def test_a_megabyte_in_one_line(state: Path) -> None:
    async with opened(state) as store:
        await store.write(lambda tx: create(tx, KEY))
        big = Draft("toolResult", (text_block("x" * 1_000_000),))
        await store.write(lambda tx: messages.append(tx, KEY, big))
        append(store)
        await store.write(lambda tx: say(tx, KEY, "next"))
        assert append(store) == 1
        assert [line.get("message", {}).get("seq") for line in lines(store)] == [None, 1, 2]
