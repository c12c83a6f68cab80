"""Runs: one turn of an agent in a session, from acceptance to its end.

    queued ←→ running ─→ done | error | aborted | timed_out | interrupted
       └────→ aborted

`interrupted` is written when the process that ran it died; a run of an exchange that had written nothing yet is queued
once more instead. A wait that runs out (`timeout`) is a fact about the wait
and never a state of the run (architecture#states).
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from core.model.attachments import Attachment, Receipt
from core.model.messages import Provenance, Usage

RunState = Literal["queued", "running", "done", "error", "aborted", "timed_out", "interrupted"]
RunKind = Literal["turn", "reply", "announce", "subagent", "command"]
WaitStatus = Literal["ok", "error", "timeout"]

BUILTIN_MODEL: Final = "builtin"
"""The ref of the builtin agent, where others name a model."""
CUT_SHORT: Final = (
    "the reply is cut short: the model has reached its limit of output (maxTokens, where it is configured)"
)
"""What is said of a run that is done and whose last words are not all of them."""
LIVE_STATES: Final[frozenset[RunState]] = frozenset({"queued", "running"})
NEXT_STATES: Final[dict[RunState, frozenset[RunState]]] = {
    "queued": frozenset({"running", "aborted"}),
    "running": frozenset({"done", "error", "aborted", "timed_out", "interrupted"}),
}


class Run(NamedTuple):
    """One run as stored.

    Attributes:
        run_id: uuid4, or the idempotency key the caller gave.
        session_id: The transcript it belongs to; a run does not survive a reset of its session.
        kind: `turn` of a session, first turn of a `subagent`, `reply` or `announce` of an exchange, or a `command`
            that reached no model.
        requester: Session key of who sent the message, None for the operator (S13) and for users of a channel.
        input_seq: `seq` of the message that started it.
        error: One sentence when the state is not `done`.
        timeout_ms: The run is aborted after that long, 0 for never (W5).
        exchange: Id of the exchange it is a step of, None for a run of its own.
        turn: Of a `reply`: which turn of the loop, from 1.
        root: Id of the run that caused this one, directly or not; None when a person did.
        attempts: How often it was begun again.
        usage: Sum over all model calls of the run.
    """

    run_id: str
    key: str
    session_id: str
    rev: int
    kind: RunKind
    state: RunState
    requester: str | None
    input_seq: int
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    reply_seq: int | None = None
    error: str | None = None
    model: str | None = None
    thinking: str | None = None
    timeout_ms: int = 0
    exchange: str | None = None
    turn: int = 0
    root: str | None = None
    attempts: int = 0
    usage: Usage = Usage()

    @property
    def live(self) -> bool:
        """Whether it is still to end."""
        return self.state in LIVE_STATES


def bare_run(run_id: str, key: str, session_id: str, kind: RunKind, state: RunState, accepted_at: int) -> Run:
    """Return a run of which nothing else is known."""
    return Run(run_id, key, session_id, 0, kind, state, requester=None, input_seq=0, accepted_at=accepted_at)


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """What makes a run the first turn of a new sub-agent session (W1).

    Attributes:
        requester: Key of the session that spawns, and gets the result.
        agent_id: Whose sub-agent it is.
        model: `<provider>/<model>` instead of the agent's own, None to inherit.
        thinking: Thinking level instead of the agent's own, None to inherit.
        sandboxed: The child must be sandboxed (W9).
        cleanup: Archive the child at once after its announce (W7).
        attachments: Files for the child's workspace (W8).
        mount_path: Where they are meant to be seen, once there are sandboxes; the task names it.
    """

    requester: str
    agent_id: str
    label: str | None = None
    model: str | None = None
    thinking: str | None = None
    sandboxed: bool = False
    cleanup: bool = False
    attachments: tuple[Attachment, ...] = ()
    mount_path: str | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A message that asks for a run.

    Attributes:
        target: Canonical key, or the id of the transcript the caller was looking at, which is a `Conflict` when the
            session was reset meanwhile (architecture#port). Ignored when `spawn` is set, which makes its own.
        run_id: Idempotency key: the same key and body give the same run, another body a `Conflict`.
        provenance: Set when a session is the requester (S8).
        create: A well-formed key that does not exist yet becomes a session (operator only, K6).
        agent_id: Whose session that is when its key names nobody; None for the default agent.
        timeout_ms: Abort the run after that long, 0 for never; None for what is configured.
    """

    target: str
    message: str
    run_id: str | None = None
    provenance: Provenance | None = None
    create: bool = False
    timeout_ms: int | None = None
    spawn: SpawnSpec | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunTicket:
    """The receipt for an accepted run; what it says is on disk.

    Attributes:
        created: The session was made by this request.
        reply: The answer of a command, which is done at once.
        attachments: Where the files of a spawn are; None without any.
    """

    run_id: str
    key: str
    session_id: str
    state: RunState
    created: bool = False
    reply: str | None = None
    attachments: Receipt | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a wait for a run ended: `done` is ok, another end is an error, no end yet is a timeout (S3-S5).

    Attributes:
        reply: The run's last words, empty when it had none.
        error: One sentence for `error` and `timeout`.
        stop_reason: Why the reply ended, as its message says; None where that is not known.
    """

    run_id: str
    key: str
    status: WaitStatus
    state: RunState
    reply: str | None = None
    error: str | None = None
    stop_reason: str | None = None

    @property
    def note(self) -> str | None:
        """What is to be known of a reply besides its words, in one sentence; None for nothing."""
        return CUT_SHORT if self.status == "ok" and self.stop_reason == "length" else None
