"""What follows a send or a spawn: the reply-back loop and the announce step (S9-S11, W6).

`transition` decides, from the state of an exchange and the end of its last run, what comes next; `follow` makes that
true in the transaction that ends the run. There is never a moment in between (architecture#transactions).
"""

from dataclasses import dataclass
from typing import Final

from core.config.settings import Settings
from core.model.exchanges import ANNOUNCE_SKIP, REPLY_SKIP, Exchange, ExchangeOutcome
from core.model.messages import Draft, Provenance, note_draft, user_draft
from core.model.runs import Run, RunKind, RunState
from core.model.sessions import Session
from core.runtime.exchanges import announce
from core.store import exchanges, messages, runs, sessions
from core.store.database import Tx
from core.store.runs import NewRun

SEND_TOOL: Final = "sessions_send"
WAITS: Final = "its own sub-agents are at work"
"""Reason of an exchange whose task is done and whose announce waits."""


@dataclass(frozen=True, slots=True)
class ReplyStep:
    """The other side answers: a turn of the loop, from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class Announce:
    """The loop is over, and the target says what is to be announced."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Deliver:
    """The announce is known; empty where the announce step had nothing to say."""

    text: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing is announced."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The task is done; what it spawned is not, and is to be told of as well."""


@dataclass(frozen=True, slots=True)
class Over:
    """The exchange has ended without an announce."""

    outcome: ExchangeOutcome
    reason: str


Next = ReplyStep | Announce | Deliver | Silent | Wait | Over


def transition(exchange: Exchange, ended: RunState, said: str, *, spawned: bool = False) -> Next:
    """Return what follows the end of an exchange's run.

    Args:
        ended: The last state of the run.
        said: Its reply, without space around it.
        spawned: The target has started sub-agents that have not announced yet.
    """
    if exchange.kind == "spawn" and exchange.state == "first":
        return _after_task(ended, spawned=spawned)
    if exchange.kind == "spawn":
        return _after_spawn_announce(ended, said)
    if exchange.state == "announcing":
        return _after_announce(ended, said)
    step = "the first run" if exchange.state == "first" else f"turn {exchange.turn}"
    if ended in {"aborted", "interrupted"} or (exchange.state == "first" and ended != "done"):
        return Over(_outcome(ended), f"{step} ended: {ended}")
    if ended != "done":
        return Announce(f"{step} ended: {ended}")
    if said == REPLY_SKIP:
        return Announce(f"{REPLY_SKIP} in {step}")
    if not said:
        return Announce(f"{step} said nothing")
    if exchange.turn >= exchange.max_turns:
        return Announce(f"all {exchange.max_turns} turns are used" if exchange.max_turns else None)
    return ReplyStep(exchange.turn + 1)


def _after_task(ended: RunState, *, spawned: bool) -> Next:
    """A task that came to nothing is told at once; what its own sub-agents say later is handed on."""
    if ended != "done":
        return Deliver("")
    return Wait() if spawned else Announce()


def _after_spawn_announce(ended: RunState, said: str) -> Next:
    """The result is posted whatever became of the announce step; only the sub-agent itself can keep it back."""
    if ended == "done" and said == ANNOUNCE_SKIP:
        return Silent(ANNOUNCE_SKIP)
    return Deliver(said if ended == "done" else "")


def _after_announce(ended: RunState, said: str) -> Next:
    if ended != "done":
        return Over(_outcome(ended), f"the announce step ended: {ended}")
    if said == ANNOUNCE_SKIP or not said:
        return Silent(said or "the announce step said nothing")
    return Deliver(said)


def _outcome(ended: RunState) -> ExchangeOutcome:
    return "aborted" if ended == "aborted" else "interrupted" if ended == "interrupted" else "error"


def follow(tx: Tx, run: Run, settings: Settings) -> None:
    """Advance the exchange that an ended run belongs to."""
    exchange = exchanges.by_id(tx.db, run.exchange) if run.exchange is not None else None
    if exchange is None or exchange.state == "ended":
        return
    reply = messages.reply_of(tx.db, run)
    spawned = exchange.kind == "spawn" and exchanges.has_open_spawns(tx.db, exchange.target)
    match transition(exchange, run.state, reply.text.strip() if reply is not None else "", spawned=spawned):
        case ReplyStep(turn):
            assert reply is not None, "there is no turn without a reply before it"
            _begin_turn(tx, exchange, turn, reply.text, settings)
        case Announce(reason):
            _begin_announce(tx, exchange, reason, settings)
        case Deliver(text):
            announce.deliver(tx, exchange, text, settings)
            _end(tx, exchange, "done", exchange.reason, settings)
        case Silent(reason):
            announce.skip(tx, exchange, reason)
            _end(tx, exchange, "done", exchange.reason, settings)
        case Wait():
            exchanges.update(tx, exchange.exchange_id, reason=WAITS)
        case Over(outcome, reason):
            _end(tx, exchange, outcome, reason, settings)


def _end(tx: Tx, exchange: Exchange, outcome: ExchangeOutcome, reason: str | None, settings: Settings) -> None:
    """End an exchange; a child that is not to be kept goes to the archive (W7), and who waited for it goes on."""
    exchanges.update(tx, exchange.exchange_id, state="ended", outcome=outcome, reason=reason, ended_at=tx.now)
    if exchange.cleanup:
        sessions.update(tx, exchange.target, archived_at=tx.now)
    if exchange.kind == "spawn" and (above := exchanges.spawn_of(tx.db, exchange.requester)) is not None:
        task = runs.by_id(tx.db, above.exchange_id)
        if above.state == "first" and task is not None and not task.live:
            follow(tx, task, settings)


def _begin_turn(tx: Tx, exchange: Exchange, turn: int, said: str, settings: Settings) -> None:
    """Hand the reply of one side to the other, if its send policy allows that (P4)."""
    keys = (exchange.target, exchange.requester)
    to, source = (sessions.by_key(tx.db, key) for key in (keys[turn % 2], keys[(turn + 1) % 2]))
    if to is None or source is None:
        _begin_announce(tx, exchange, "one side does not exist any more", settings)
        return
    decision = settings.rules.send_decision(to)
    if not decision.allowed:
        note = f"A reply from {source.key} was not delivered here: denied by {decision.reason}."
        messages.append(tx, to.key, note_draft(note))
        _begin_announce(tx, exchange, f"{to.key} is denied by {decision.reason}", settings)
        return
    draft = user_draft(said, Provenance(source.key, source.channel, SEND_TOOL))
    _begin_step(tx, exchange, to, draft, source.key, turn)
    exchanges.update(tx, exchange.exchange_id, state="replying", turn=turn)


def _begin_announce(tx: Tx, exchange: Exchange, reason: str | None, settings: Settings) -> None:
    """Ask the target what to announce; where a send policy keeps it back, nobody is asked."""
    exchange = exchanges.update(tx, exchange.exchange_id, state="announcing", reason=reason)
    target = sessions.by_key(tx.db, exchange.target)
    if target is None:
        _end(tx, exchange, "error", "the session does not exist any more", settings)
        return
    if exchange.kind == "send" and announce.denied(tx, exchange, target, settings):
        _end(tx, exchange, "done", reason, settings)
        return
    _begin_step(tx, exchange, target, _announce_input(tx, exchange, target), exchange.requester)


def _begin_step(tx: Tx, exchange: Exchange, to: Session, draft: Draft, requester: str, turn: int = 0) -> None:
    """Append the input of a step and queue its run: a turn of the loop, or the announce step when it is none."""
    kind: RunKind = "reply" if turn else "announce"
    run_id = f"{exchange.exchange_id}:{turn or 'announce'}"
    message = messages.append(tx, to.key, draft, run_id, preview=bool(turn))
    new = NewRun(run_id, kind, message.seq, "", requester, exchange=exchange.exchange_id, turn=turn, root=exchange.root)
    runs.accept(tx, to, new)


def _announce_input(tx: Tx, exchange: Exchange, target: Session) -> Draft:
    requester = sessions.by_key(tx.db, exchange.requester)
    channel = requester.channel if requester is not None else "unknown"
    if exchange.kind == "spawn":
        has_results = bool(messages.posted(tx.db, target.key, exchange.request_seq))
        asked = announce.NESTED_INPUT if has_results else announce.SPAWN_INPUT
        return user_draft(asked, Provenance(exchange.requester, channel, announce.SPAWN_TOOL))
    request = messages.at(tx.db, target.key, exchange.request_seq)
    text = announce.SEND_INPUT.format(
        request=request.text if request is not None else "",
        first=_reply_of(tx, exchange.exchange_id),
        latest=_latest_reply(tx, exchange),
    )
    return user_draft(text, Provenance(exchange.requester, channel, SEND_TOOL))


def _latest_reply(tx: Tx, exchange: Exchange) -> str:
    """Return the newest reply of the exchange that says something."""
    for turn in range(exchange.turn, 0, -1):
        said = _reply_of(tx, f"{exchange.exchange_id}:{turn}")
        if said and said != REPLY_SKIP:
            return said
    return _reply_of(tx, exchange.exchange_id)


def _reply_of(tx: Tx, run_id: str) -> str:
    run = runs.by_id(tx.db, run_id)
    reply = messages.reply_of(tx.db, run) if run is not None else None
    return reply.text.strip() if reply is not None else ""
