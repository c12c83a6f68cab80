"""What the console remembers, whatever stands in its file."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from console.live.memory import FILE_NAME, HISTORY_ENTRIES, Memory
from tests.live.samples import any_text
from tests.support.stores import as_nobody

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text(20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text(10), inner, max_size=4),
    max_leaves=10,
)


def kept(memory: Memory) -> tuple[dict[str, str], dict[str, int], list[str]]:
    return memory.drafts, memory.seen, memory.history


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_a_file_of_any_bytes_starts_empty_or_as_it_says(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    drafts, seen, history = kept(Memory.load(tmp_path))
    assert all(isinstance(text, str) for text in [*drafts.values(), *history])
    assert all(isinstance(seq, int) for seq in seen.values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON | st.fixed_dictionaries({}, optional={"drafts": JSON, "seen": JSON, "history": JSON}))
@example({"seen": {"\ud800": 0}, "drafts": {"\ud800": "\udfff"}})
def test_any_json_is_read_as_far_as_it_makes_sense(tmp_path: Path, content: Any) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    memory = Memory.load(tmp_path)
    assert all(isinstance(text, str) for text in [*memory.drafts.values(), *memory.history])
    assert all(type(seq) is int for seq in memory.seen.values())
    memory.save()
    assert kept(Memory.load(tmp_path)) == (
        {repaired(key): repaired(text) for key, text in memory.drafts.items()},
        {repaired(key): seq for key, seq in memory.seen.items()},
        [repaired(text) for text in memory.history],
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"drafts": {"a": "b"', b"\xff\xfe", b"[" * 200_000, b'{"history": 5}']
)
def test_a_broken_file_costs_what_it_held_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    memory = Memory.load(tmp_path)
    assert kept(memory) == ({}, {}, [])
    memory.keep_draft("agent:main:main", "draft")
    memory.save()
    assert Memory.load(tmp_path).drafts == {"agent:main:main": "draft"}


def test_the_file_is_for_its_owner_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    os.umask(0o022)
    memory = Memory.load(tmp_path)
    memory.move_to_history("", "secret words")
    memory.save()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("untouched")
    (tmp_path / FILE_NAME).symlink_to(other)
    Memory(tmp_path / FILE_NAME, {"a": "b"}).save()
    assert other.read_text() == "untouched"


def test_a_folder_that_cannot_be_written_costs_the_memory_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    result = as_nobody(
        """
        from pathlib import Path
        from console.live.memory import Memory
        drop_rights()
        memory = Memory(Path("/proc") / "console.json", {"a": "b"})
        memory.save()
        print("went on")
        """
    )
    assert result.stdout == "went on\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(any_text(20), any_text(50), max_size=5), st.lists(any_text(20), max_size=5))
def test_what_was_written_comes_back(tmp_path: Path, drafts: dict[str, str], history: list[str]) -> None:
    memory = Memory(tmp_path / FILE_NAME)
    for key, text in drafts.items():
        memory.keep_draft(key, text)
    for text in history:
        memory.move_to_history("", text)
    memory.seen = {"key": 7}
    memory.save()
    again = Memory.load(tmp_path)
    assert again.seen == {"key": 7}
    utf8 = {repaired(key): repaired(text) for key, text in memory.drafts.items()}
    assert (again.drafts, again.history) == (utf8, [repaired(text) for text in memory.history])


def repaired(text: str) -> str:
    """Return the text with what UTF-8 cannot hold replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_drafts_and_history_are_bounded_and_forgotten() -> None:
    memory = Memory()
    assert memory.keep_draft("key", "draft")
    assert not memory.keep_draft("key", "draft")
    assert memory.keep_draft("key", "")
    assert memory.drafts == {}
    for number in range(HISTORY_ENTRIES + 10):
        memory.move_to_history("", f"{number}")
        memory.move_to_history("", f"{number}")
    assert len(memory.history) == HISTORY_ENTRIES
    assert memory.history[-1] == f"{HISTORY_ENTRIES + 9}"
