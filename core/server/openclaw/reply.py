"""What a client has been told of a running reply: words are gathered, so that a long one does not cost its square."""

from dataclasses import dataclass, field
from typing import Any, Final

from core.model.events import Delta
from core.model.exchanges import ANNOUNCE_SKIP, REPLY_SKIP
from core.model.messages import Message, text_of

SECONDS: Final = 0.1
"""Between two tellings of one reply."""
CHARS_A_SECOND: Final = 64_000
"""Every telling holds the whole text, so a long one is told less often."""
SILENT: Final = frozenset({"NO_REPLY", REPLY_SKIP, ANNOUNCE_SKIP})
"""Replies with which an agent says nothing."""


@dataclass(slots=True)
class ToldReply:
    """The words of one run.

    Attributes:
        whole: It has been heard from its beginning.
        seq: Counts what was told of the run.
        calls: Arguments of the tools it has asked for, by the id of the call.
        begun: Ids of the calls that were told to have begun, with ms since the Unix epoch.
    """

    key: str
    run_id: str
    agent_id: str
    whole: bool
    seq: int = 0
    calls: dict[str, Any] = field(default_factory=dict[str, Any])
    begun: dict[str, int] = field(default_factory=dict[str, int])
    _said: list[str] = field(default_factory=list[str])
    _blocks: dict[int, str] = field(default_factory=dict[int, str])
    _told: str = ""
    _told_at: float = 0.0
    _fresh: bool = False

    def add(self, delta: Delta) -> None:
        """Take words in; what does not follow on is left out until the whole comes again."""
        if delta.kind != "text":
            return
        known = self._blocks.get(delta.block, "")
        if delta.offset <= len(known):
            self._blocks[delta.block] = known[: delta.offset] + delta.text
            self._fresh = True

    def commit(self, message: Message) -> None:
        """Take in a message that the run has finished."""
        self._blocks.clear()
        if text := text_of(message.content):
            self._said.append(text)
            self._fresh = True
        for block in message.content:
            if block.get("type") == "toolCall":
                self.calls[str(block.get("id", ""))] = block.get("arguments")

    def forget_live(self) -> None:
        """Forget the words that are not in a message yet: some were lost, and they come again."""
        self._blocks.clear()

    @property
    def text(self) -> str:
        """Everything the run has said so far."""
        return "\n\n".join([*self._said, *(self._blocks[block] for block in sorted(self._blocks))])

    def due(self) -> float | None:
        """Return the time of the loop at which it is to be told on; None when there is nothing new."""
        return self._told_at + max(SECONDS, len(self._told) / CHARS_A_SECOND) if self._fresh else None

    def tell(self, now: float) -> tuple[str, dict[str, Any]] | None:
        """Return the whole text and the new part of it, None when it is the same."""
        self._fresh, self._told_at = False, now
        text, told = self.text, self._told
        if text == told:
            return None
        self._told = text
        if text.startswith(told):
            return text, {"deltaText": text[len(told) :]}
        return text, {"deltaText": text, "replace": True}


def spoken(text: str) -> str | None:
    """Return the words of a reply, None when it says nothing."""
    return text if text.strip() and text.strip() not in SILENT else None
