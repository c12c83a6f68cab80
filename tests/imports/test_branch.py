"""Which entries of a linked transcript are on the active branch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.imports.branch import Branch


def active(entries: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the active branch."""
    branch = Branch()
    for entry in entries:
        branch.add(entry)
    return [entry["id"] for entry, mark in zip(entries, branch.active(), strict=True) if mark]


def linked(*links: str) -> list[dict[str, Any]]:
    """Return entries: `b<a` is an entry b with the parent a, `b` one without."""
    return [
        {"type": "message", "id": name, "parentId": parent or None}
        for name, _, parent in (link.partition("<") for link in links)
    ]


def test_a_straight_transcript_is_all_active() -> None:
    assert active(linked("a", "b<a", "c<b")) == ["a", "b", "c"]


def test_of_two_branches_the_one_written_last_counts() -> None:
    assert active(linked("a", "b<a", "c<b", "d<a", "e<d")) == ["a", "d", "e"]
    assert active(linked("a", "b<a", "c<b", "d<a", "e<c")) == ["a", "b", "c", "e"]


def test_what_hangs_on_nothing_goes_on_from_what_stands_before_it() -> None:
    assert active(linked("a", "b<a", "c", "d<c", "e<gone")) == ["a", "b", "c", "d", "e"]


def test_a_control_chooses_the_branch_and_what_hangs_on_it_hangs_on_its_target() -> None:
    entries = linked("a", "b<a", "c<b")
    entries.append({"type": "leaf", "id": "L", "parentId": "c", "targetId": "a"})
    assert active(entries) == ["a"]
    assert active([*entries, *linked("d<L")]) == ["a", "d"]
    unknown = {"type": "leaf", "id": "M", "parentId": "c", "targetId": "nowhere"}
    assert active([*linked("a", "b<a"), unknown]) == ["a", "b"]


def test_what_is_written_aside_does_not_become_the_end() -> None:
    entries = linked("a", "b<a")
    entries.append({"type": "custom", "id": "s", "parentId": "b", "appendMode": "side"})
    assert active(entries) == ["a", "b"]
    assert active([*entries, *linked("c<b")]) == ["a", "b", "c"]


def test_after_a_reset_a_late_answer_does_not_lead_back_behind_it() -> None:
    entries = [*linked("a", "b<a"), {"type": "reset", "id": "r", "parentId": "b"}, *linked("c<r", "late<b", "d<late")]
    assert active(entries) == ["a", "b", "r", "c", "late", "d"]


def naive(entries: list[dict[str, Any]]) -> list[str]:
    """Say the same with a dictionary, for transcripts of messages only."""
    parents: dict[str, str | None] = {}
    leaf: str | None = None
    for entry in entries:
        parent = entry["parentId"]
        parents[entry["id"]] = parent if parent in parents else leaf
        leaf = entry["id"]
    found: list[str] = []
    while leaf is not None:
        found.append(leaf)
        leaf = parents[leaf]
    return found[::-1]


@given(st.lists(st.one_of(st.none(), st.integers(0, 12_000)), max_size=60), st.integers(0, 6000))
def test_any_tree_is_reduced_as_a_dictionary_would(links: list[int | None], before: int) -> None:
    entries = linked("0", *(f"{number}<{number - 1}" for number in range(1, before)))
    first = len(entries)
    for number, link in enumerate(links, first):
        entries.append({"type": "message", "id": str(number), "parentId": None if link is None else str(link)})
    assert active(entries) == naive(entries)


def test_entries_that_cannot_be_meant_do_no_harm() -> None:
    branch = Branch()
    odd: list[dict[str, Any]] = [{}, {"id": 7, "parentId": 7}, {"id": None, "parentId": []}, {"type": "leaf"}]
    for entry in odd:
        branch.add(entry)
    assert list(branch.active()) == [1, 1, 1, 0]
