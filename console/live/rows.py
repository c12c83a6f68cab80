"""One session as the list shows it: cleaned text, what its glyph says, what is new."""

from typing import Final, Literal, NamedTuple

from console.live.text.clean import clean_line
from console.live.text.words import LOCAL, session_name
from core.model.keys import split
from core.model.runs import RunState
from core.model.sessions import Session
from core.rules.policy import PolicyDecision

Look = Literal["failed", "running", "queued", "idle", "done", "archived"]
FAILED: Final[frozenset[RunState]] = frozenset({"error", "timed_out", "interrupted"})


class Row(NamedTuple):
    """One session as the list shows it; every text in it is cleaned.

    Attributes:
        session: As it is stored, but with what else is drawn of it cleaned: models, thinking level, agent.
        gateway: The name of the gateway that it belongs to; empty for the one here.
        key: As its gateway knows it.
        look: What its glyph says.
        words: The second line: why it failed, or the last words of a running one; empty for none.
        growing: The end of `words` is what was said last.
        unread: Messages since somebody looked.
        policy: Whether messages may go in, None where the gateway does not tell.
    """

    session: Session
    gateway: str
    name: str
    key: str
    channel: str
    look: Look
    words: str
    growing: bool
    unread: int
    policy: PolicyDecision | None

    @property
    def denied(self) -> bool:
        """Whether it is known that no message may go in."""
        return self.policy is not None and not self.policy.allowed

    @property
    def haystack(self) -> str:
        """What a filter looks at, case folded."""
        preview = clean_line(self.session.preview or "", 160)
        words = (self.name, self.key, self.channel, self.look, self.session.kind, f"@{self.gateway or LOCAL}", preview)
        return "\n".join(words).casefold()


def read_row(
    session: Session, *, default_agent: str, policy: PolicyDecision | None, seen: int, words: str | None
) -> Row:
    """Return a session as the list shows it.

    Args:
        policy: What the gateway says of its send policy.
        seen: `seq` up to which somebody looked at it.
        words: The last words of its run, None when nothing was heard yet.
    """
    look = look_of(session)
    gateway, key = split(session.key)
    name = clean_line(session_name(session, default_agent), 80)
    channel = clean_line(session.channel, 24)
    second = ""
    if look == "failed":
        second = clean_line(session.error or "", 160)
    elif look == "running":
        second = clean_line(session.preview or "", 160) if words is None else words
    return Row(
        session=_cleaned(session),
        gateway=gateway,
        name=name,
        key=clean_line(key, 512),
        channel="sub" if session.spawned_by else channel,
        look=look,
        words=second,
        growing=look == "running" and words is not None,
        unread=max(0, session.last_seq - max(seen, session.first_seq - 1)),
        policy=policy,
    )


def _cleaned(session: Session) -> Session:
    drawn = (session.model or "", session.used_model or "", session.thinking_level or "", session.agent_id)
    if all(text.isascii() and text.isprintable() for text in drawn):
        return session
    model, used_model, thinking_level, agent_id = (clean_line(text, 80) for text in drawn)
    return session._replace(
        model=model or None, used_model=used_model or None, thinking_level=thinking_level or None, agent_id=agent_id
    )


def look_of(session: Session) -> Look:
    """Return what the glyph of a session says."""
    if session.archived_at is not None:
        return "archived"
    if session.status in {"running", "queued"}:
        return "running" if session.status == "running" else "queued"
    if session.status in FAILED:
        return "failed"
    return "done" if session.spawned_by is not None and session.status is not None else "idle"


def runs_of(row: Row) -> int:
    """Return how many runs of a session are not over."""
    return row.session.queued + (row.session.status == "running")


def state_word(row: Row) -> str:
    """Return the state of a session in a word, beside its glyph."""
    return run_word(row.session.status) if row.look == "failed" and row.session.status is not None else row.look


def run_word(state: RunState) -> str:
    """Return the state of a run as the console says it."""
    return {"error": "failed", "timed_out": "timed out"}.get(state, state)
