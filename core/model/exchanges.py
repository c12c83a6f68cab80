"""Exchanges: everything that follows one send or one spawn; and deliveries: one text to one channel address.

    first ─→ replying (turn 1 … n) ─→ announcing ─→ ended
      └──────────┴─────────────────────────┴──────→ ended

The exchange, the runs it is made of and the delivery of its announce have states of their own, which are never merged
(architecture#states): an exchange that has ended says nothing about whether its announce was delivered.
"""

from typing import Any, Final, Literal, NamedTuple

from core.model.runs import RunState

ExchangeKind = Literal["send", "spawn"]
ExchangeState = Literal["first", "replying", "announcing", "ended"]
ExchangeOutcome = Literal["done", "error", "aborted", "interrupted"]
DeliveryState = Literal["pending", "sending", "sent", "skipped", "failed", "unknown"]

REPLY_SKIP: Final = "REPLY_SKIP"
"""What an agent answers to end the reply-back loop (S9)."""
ANNOUNCE_SKIP: Final = "ANNOUNCE_SKIP"
"""What an agent writes so that nothing is announced (S10)."""
NO_CHANNEL: Final = frozenset({"internal", "unknown"})
"""What a session's channel is where nobody listens: what it announces is kept with its exchange (S10)."""
DENIED: Final = "denied by "
"""How the reason of a delivery begins that a send policy kept back."""
OPEN_DELIVERIES: Final[frozenset[DeliveryState]] = frozenset({"pending", "sending"})
RETRYABLE: Final[frozenset[DeliveryState]] = frozenset({"pending", "failed", "unknown"})
"""What the operator may send again: `sent` and `skipped` are over, `sending` is under way (S11)."""
STUCK_DELIVERIES: Final[frozenset[DeliveryState]] = frozenset({"failed", "unknown"})
"""What stays as it is until the operator retries or drops it."""


class Exchange(NamedTuple):
    """One exchange as stored.

    Attributes:
        exchange_id: The id of its first run; the later ones are `<exchange>:<n>` and `<exchange>:announce`.
        kind: `send` has a reply-back loop (S9), `spawn` goes from the task straight to the announce (W6).
        outcome: How it ended, None before that.
        requester: Key of the session that sent or spawned.
        target: Key of the session that was sent to or spawned.
        turn: Turns of the loop that have begun, 0 to `max_turns`; odd ones are the requester's.
        request_seq: `seq` of the first message, in the target's transcript.
        root: The run that began everything: sends that it caused, directly or not, share its hop budget.
        cleanup: Of a spawn: archive the child at once after the announce (W7).
        reason: Why the loop stopped, or the exchange ended, in a few words; None while neither has.
        started_at: ms since the Unix epoch; `ended_at` likewise.
        task_state: Of a spawn: what has become of its first run, so that nobody needs to read it; None where that is
            not known.
        task_ms: How long that took, None while it is not over.
    """

    exchange_id: str
    rev: int
    kind: ExchangeKind
    state: ExchangeState
    outcome: ExchangeOutcome | None
    requester: str
    target: str
    turn: int
    max_turns: int
    request_seq: int
    root: str
    cleanup: bool
    reason: str | None
    started_at: int
    ended_at: int | None
    task_state: RunState | None = None
    task_ms: int | None = None

    @property
    def next_key(self) -> str:
        """The session whose turn it is, or would be."""
        return self.requester if self.state == "replying" and self.turn % 2 else self.target

    def as_json(self) -> dict[str, Any]:
        """Return what a tool result says of it."""
        data: dict[str, Any] = {"id": self.exchange_id, "state": self.state, "outcome": self.outcome}
        if self.kind == "send":
            data |= {"turn": self.turn, "maxTurns": self.max_turns}
        data["reason"] = self.reason
        return {name: value for name, value in data.items() if value is not None}


class Delivery(NamedTuple):
    """One text for one channel address, as stored (S11).

    Attributes:
        delivery_id: `<exchange>:announce:<address>`: at most one announce per address.
        key: The session whose channel it is.
        to: The address on the channel; empty where the session itself is the address.
        text: What is said; empty when nothing was to be said.
        reason: Why it is in that state, in one sentence; None for `sent` and for a first `pending`.
        attempts: How often a channel was asked.
        due_at: ms since the Unix epoch before which it is not tried again.
    """

    delivery_id: str
    rev: int
    exchange_id: str
    key: str
    channel: str
    to: str
    account_id: str | None
    text: str
    state: DeliveryState
    reason: str | None
    attempts: int
    due_at: int
    created_at: int
    updated_at: int

    @property
    def is_open(self) -> bool:
        """Whether it is still to be sent, or being sent."""
        return self.state in OPEN_DELIVERIES

    @property
    def is_denied(self) -> bool:
        """Whether a send policy kept it back; the transcript of its session then says so (P4)."""
        return self.state == "skipped" and self.reason is not None and self.reason.startswith(DENIED)

    @property
    def address(self) -> str:
        """Channel and address in one word."""
        return f"{self.channel}:{self.to}" if self.to else self.channel

    def as_json(self) -> dict[str, Any]:
        """Return what a tool result says of it."""
        data = {"id": self.delivery_id, "state": self.state, "address": self.address, "reason": self.reason}
        return {name: value for name, value in data.items() if value is not None}
