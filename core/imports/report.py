"""What came of an import: counts, and the reasons for what was left out with the first examples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

EXAMPLES: Final = 3


@dataclass(slots=True)
class Reason:
    """How often a reason for leaving something out held, and the first few examples it held for."""

    count: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Notes:
    """Reasons and how often each held, in the order they were met."""

    reasons: dict[str, Reason] = field(default_factory=dict[str, Reason])

    def add(self, words: str, example: str, count: int = 1) -> None:
        """Count something; `words` say what it is and why, without naming it."""
        if count:
            reason = self.reasons.setdefault(words, Reason())
            reason.count += count
            if len(reason.examples) < EXAMPLES and example not in reason.examples:
                reason.examples.append(example)

    def take(self, other: "Notes") -> None:
        """Add what somebody else counted."""
        for words, reason in other.reasons.items():
            mine = self.reasons.setdefault(words, Reason())
            mine.count += reason.count
            mine.examples += [example for example in reason.examples if example not in mine.examples]
            del mine.examples[EXAMPLES:]

    def as_json(self) -> list[dict[str, Any]]:
        """Return what `--json` prints."""
        return [{"reason": words, **asdict(reason)} for words, reason in self.reasons.items()]


@dataclass(slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        agents: Whose sessions were there.
        imported: Sessions that are new here.
        extended: Sessions that were here and got new messages.
        unchanged: Sessions that were here with every message.
        messages: Rows that were written.
        transcripts: Transcripts those belong to.
        skipped: Sessions, files and entries that were left out.
        failed: What could not be read or written; the examples are whole sentences.
        notices: What the operator should know besides.
    """

    directory: str
    agents: list[str] = field(default_factory=list[str])
    imported: int = 0
    extended: int = 0
    unchanged: int = 0
    messages: int = 0
    transcripts: int = 0
    skipped: Notes = field(default_factory=Notes)
    failed: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])

    def as_json(self) -> Mapping[str, Any]:
        """Return the one document of `--json`."""
        return {"status": "error" if self.failed else "ok", **asdict(self), "skipped": self.skipped.as_json()}
