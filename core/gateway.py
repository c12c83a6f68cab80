"""The port: everything anybody needs of a session system (architecture#port).

The bundled runtime implements it; the console, the command line and the session tools are written against it and know
no more. Reads take a `Scope`, computed by `RuleSet.grant` from the caller; writes take the `Caller` and are checked
again in the transaction that makes them true.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from core.model.access import Caller, Scope
from core.model.connection import Connection
from core.model.events import Cursor, Event
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import (
    HistoryPage,
    NewSession,
    Override,
    SearchHit,
    Session,
    SessionPage,
    SessionPatch,
    SessionQuery,
)
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet

Action = Literal[
    "send", "exchange", "spawn", "abort", "patch", "policy", "reset", "archive", "delete", "create", "append", "deliver"
]
"""What may be refused: `send` is a message of the operator's, `exchange` all that follows one from another session."""


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent as `agents_list` and the console's dialogs show it.

    Attributes:
        model: Ref of its model, or `builtin`.
    """

    agent_id: str
    name: str | None
    model: str
    default: bool


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that a session or a spawn may name."""

    ref: str
    context_window: int | None


NativeTool = Callable[[Mapping[str, Any], Caller], Awaitable[dict[str, Any]]]
"""A session tool that runs at the gateway: arguments as the tool takes them, the tool's result."""


Overrides = dict[str, Override]
"""Overrides of the send policy, by key."""


class Feed(Protocol):
    """One subscriber's ordered stream of events. Nobody waits for it: a slow one gets a `Gap` and catches up."""

    @property
    def cursor(self) -> Cursor:
        """The `rev` up to which everything durable has been handed out."""
        ...

    def watch(self, key: str | None) -> None:
        """Want the messages, deltas and tool progress of a session; its partial reply comes first, if it has one.

        None: of every session, there are and will be.
        """
        ...

    def unwatch(self, key: str | None) -> None:
        """Want them no longer; None ends only what None began."""
        ...

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over what happens, until the feed is closed."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...


class Reads(Protocol):
    """What is asked of a session system; nothing is changed by it."""

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        ...

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id.

        Raises:
            NotFound: There is none in this scope; the sentence names what was asked for.
        """
        ...

    async def history(
        self,
        ref: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        include_tools: bool = True,
        in_brief: bool = False,
    ) -> HistoryPage:
        """Return the newest `limit` messages, or those before a `seq`, in order.

        An id of a transcript that a reset has ended gives that transcript. A page is bounded in bytes: `before` says
        where to go on, also when it holds fewer messages than were asked for.

        Args:
            in_brief: Cut long tool results, arguments and images, each marked (`core.model.messages.brief`).
        """
        ...

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first; of one session when `key` is given.

        What could not be looked into is named with them (`core.model.sessions.unsearched`).

        Args:
            redacted: Take secrets out of the words that are shown, and leave out what matches in a secret only (H5).
        """
        ...

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        ...

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        ...

    async def overrides(self) -> Overrides:
        """Return the overrides of the send policy that wait for a session of their key (P5)."""
        ...

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        ...

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds; a wait that runs out leaves the run alone (S4, S6)."""
        ...

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce, None when the run has none; for whoever began it."""
        ...

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges that a session began or took part in, newest first, each with the delivery of its
        announce; for the operator."""
        ...

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first; of one session when `key`, in some states when `states` is given.

        For the operator.
        """
        ...

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, None where there is none to reach."""
        ...


class Writes(Protocol):
    """What changes something in a session system."""

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; when this returns, message and run are on disk.

        Raises:
            Invalid: The message is empty or too long, or the target is the caller itself.
            Forbidden: The send policy denies it.
            NotFound: There is no such session, and the request may not create it.
            Conflict: The session was reset meanwhile, or the run id stands for another request.
        """
        ...

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids.

        Without a run id the sub-agents that the session spawned, at any depth, are stopped too (W12).
        """
        ...

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session.

        The send policy alone can be set on a key that has no session yet; it waits for it, and what comes back is that
        session to be, with an empty id (P5).

        Raises:
            Invalid: A field or a value is not known.
            Forbidden: Only the owner may change the send policy (P3).
        """
        ...

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript; the old one stays readable by its id.

        Raises:
            Conflict: A run of the session is not over.
        """
        ...

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        ...

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message; one that exists already is returned as it is.

        Raises:
            Invalid: The key is malformed or reserved, or another session has the label.
            NotFound: There is no such agent or model.
            Forbidden: The caller is not the operator.
        """
        ...

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good.

        Raises:
            Invalid: It is the main session of an agent, which always exists.
            Forbidden: The caller is not the owner.
            Conflict: A run of the session is not over, or it was reset meanwhile.
        """
        ...

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run; when this returns, it is on disk.

        Raises:
            Forbidden: The caller is not the owner.
        """
        ...

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again that is pending, failed or unknown (S11).

        Raises:
            Forbidden: The caller is not the owner.
            NotFound: There is no such delivery.
            Conflict: It is sent, skipped, or under way.
        """
        ...

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery that is pending, failed or unknown; raises as `retry_delivery` does."""
        ...


class Gateway(Reads, Writes, Protocol):
    """A session system. Every method raises only the errors of `core.model.errors`."""

    @property
    def rules(self) -> RuleSet:
        """The rules in force here."""
        ...

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        ...

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        ...

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible here, or for one session, at all, in one sentence; None when it is."""
        ...

    def unready(self) -> str | None:
        """Return why nothing can be accepted here now, in one sentence; None when all is well.

        It costs next to nothing: a health check asks it.
        """
        ...

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session; None where the gateway does not tell its rules (P5)."""
        ...

    def native_tool(self, name: str) -> NativeTool | None:
        """Return a session tool that the gateway runs itself; None when it runs here, over this port
        (architecture#tools)."""
        ...

    def subscribe(self, after: Cursor | None = None) -> Feed:
        """Hear of every durable change from now on, or of everything since a cursor."""
        ...
