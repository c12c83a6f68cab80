"""Replies that an abort cut off and that a transcript holds twice.

Gateways until 2026.5 note what was said until the abort, with the id of its run, and then the run writes the same reply
itself, after its question. The note is the repeat: the run's own entry stands in its place and says more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.imports.entries import INJECTED, PROMPT_ERROR, Entry
from core.model.json_codec import mapping
from core.model.messages import read_content, text_of

WORDS: Final = "replies that were cut off and are kept there twice: the second one is here"


@dataclass(slots=True)
class _Note:
    """What was said until an abort, as the gateway noted it.

    Attributes:
        asked: The question of its run came after it.
        proven: The run itself has said since that it was aborted.
    """

    number: int
    run_id: str
    words: str
    asked: bool = False
    proven: bool = False


class RepeatedMessages:
    """Takes the entries of a transcript one after the other, then says which repeat what follows.

    A note counts that nothing but its own run follows, when the run's reply is the same or goes on from it.
    """

    def __init__(self) -> None:
        self._number = -1
        self._note: _Note | None = None
        self._found: dict[int, int] = {}

    def add(self, entry: Entry) -> None:
        """Take the next entry; headers are passed over by the caller."""
        self._number += 1
        if entry.get("type") == "custom" and entry.get("customType") == PROMPT_ERROR:
            self._ended(mapping(entry.get("data")).get("runId"))
        elif entry.get("type") == "message":
            self._said(mapping(entry.get("message")))

    def among(self, marks: Sequence[int]) -> set[int]:
        """Return the numbers of the repeats whose other half is on the active branch."""
        return {number for number, other in self._found.items() if marks[other]}

    def _ended(self, run_id: object) -> None:
        if self._note is not None and self._note.run_id == run_id:
            self._note.proven = True
        else:
            self._note = None

    def _said(self, said: Entry) -> None:
        note, self._note = self._note, None
        run_id = mapping(said.get("openclawAbort")).get("runId")
        is_cut_off = said.get("role") == "assistant" and said.get("stopReason") == "aborted"
        if said.get("model") == INJECTED and isinstance(run_id, str):
            words = _only_words(said)
            self._note = _Note(self._number, run_id, words) if words else None
        elif note is None:
            return
        elif said.get("role") == "user":
            if not note.asked and said.get("idempotencyKey") in (None, f"{note.run_id}:user"):
                note.asked = True
                self._note = note
        elif note.proven and is_cut_off and _only_words(said).startswith(note.words):
            self._found[note.number] = self._number


def _only_words(said: Entry) -> str:
    """Return what a message says, nothing if it holds anything but text."""
    content = read_content(said.get("content"))
    return text_of(content).strip() if all(block.get("type") == "text" for block in content) else ""
