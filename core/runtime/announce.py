"""What an exchange says in the end, and where that goes (S10, W6).

The announce of a send goes to the target's channel, the result of a spawn to the requester's transcript and channel.
On `webchat` the transcript is the channel: the row and its delivery are one transaction. Everything else goes through
the outbox.
"""

from typing import Final

from core.config.settings import Settings
from core.model.exchanges import ANNOUNCE_SKIP, DeliveryState, Exchange
from core.model.keys import parse
from core.model.messages import Message, Provenance, note_draft, user_draft
from core.model.runs import Run
from core.model.sessions import Session
from core.rules.policy import PolicyDecision
from core.store import deliveries, messages, runs, sessions
from core.store.database import Tx
from core.store.deliveries import NewDelivery
from core.store.jsonl import transcript_path

SPAWN_TOOL: Final = "sessions_spawn"
WEBCHAT: Final = "webchat"
NO_CHANNEL: Final = frozenset({"internal", "unknown"})
RESULT_CHARS: Final = 20_000
SPAWN_INPUT: Final = (
    "Your task is done. Write what the session that started you should be told: the result, in a few sentences."
    f" Write exactly {ANNOUNCE_SKIP} to tell it nothing."
)
_SEND_INPUT: Final = """\
The exchange is over. Write what should be said on this session's channel about it.
Write exactly {skip} to say nothing.

The request was:
{request}

The first reply was:
{first}

The latest reply was:
{latest}"""


def send_input(request: str, first: str, latest: str) -> str:
    """Return the message that asks a target what to announce (S10)."""
    return _SEND_INPUT.format(skip=ANNOUNCE_SKIP, request=request, first=first, latest=latest)


def address(session: Session) -> tuple[str, str]:
    """Return the channel of a session and its address there; a room is addressed by what its key says of it."""
    key = parse(session.key)
    if key.channel is not None and key.chat_type != "direct":
        room = session.key.removeprefix(f"agent:{key.agent_id}:{key.channel}:")
        return session.channel, session.last_to or room
    return session.channel, session.last_to or ""


def refused(tx: Tx, exchange: Exchange, session: Session, settings: Settings) -> bool:
    """Record why nothing can be announced on a session's channel; False when something can."""
    decision = settings.rules.send_decision(session)
    if not decision.allowed:
        _record(tx, exchange, session, "", "skipped", note_denied(tx, session.key, decision))
        return True
    if session.channel in NO_CHANNEL:
        reason = f"the session has no channel of its own ({session.channel})"
        _record(tx, exchange, session, "", "skipped", reason)
        return True
    return False


def note_denied(tx: Tx, key: str, decision: PolicyDecision) -> str:
    """Note in the transcript that a send policy kept an announce back, and return the reason for the delivery."""
    reason = f"denied by {decision.reason}"
    messages.append(tx, key, note_draft(f"Nothing was announced: {reason}."))
    return reason


def deliver(tx: Tx, exchange: Exchange, text: str, settings: Settings) -> None:
    """Hand what is announced to where it goes; of a spawn, post the result to the requester."""
    if exchange.kind == "send":
        session = sessions.by_key(tx.db, exchange.target)
        if session is not None and not refused(tx, exchange, session, settings):
            _hand_over(tx, exchange, session, text)
        return
    requester = sessions.by_key(tx.db, exchange.requester)
    if requester is None:
        return
    posted = _post_result(tx, exchange, text)
    if not refused(tx, exchange, requester, settings):
        _hand_over(tx, exchange, requester, posted)


def skip(tx: Tx, exchange: Exchange, reason: str) -> None:
    """Record that nothing is announced, and why."""
    session = sessions.by_key(tx.db, exchange.target if exchange.kind == "send" else exchange.requester)
    if session is not None:
        _record(tx, exchange, session, "", "skipped", reason)


def _hand_over(tx: Tx, exchange: Exchange, session: Session, text: str) -> None:
    """Webchat has it already: it stands in the transcript. Other channels get it from the outbox."""
    _record(tx, exchange, session, text, "sent" if session.channel == WEBCHAT else "pending", None)


def _record(tx: Tx, exchange: Exchange, session: Session, text: str, state: DeliveryState, reason: str | None) -> None:
    channel, to = address(session)
    account = session.last_account_id
    new = NewDelivery(exchange.exchange_id, session.key, channel, to, account, text, state, reason)
    deliveries.add(tx, new)


# The result of a sub-agent


def _post_result(tx: Tx, exchange: Exchange, said: str) -> str:
    """Append a sub-agent's result to the transcript of the session that spawned it; that starts no run there."""
    run, child = runs.by_id(tx.db, exchange.exchange_id), sessions.by_key(tx.db, exchange.target)
    assert run is not None, "an exchange begins with its first run"
    assert child is not None, "a session with an exchange under way is not deleted"
    written = messages.of_run(tx.db, run.run_id, run.key, run.input_seq)
    text = result_text(child, run, said or _last_words(written), str(transcript_path(tx.directory, child.session_id)))
    provenance = Provenance(child.key, child.channel, SPAWN_TOOL)
    messages.append(tx, exchange.requester, user_draft(text, provenance), run.run_id)
    return text


def result_text(child: Session, run: Run, result: str, transcript: str) -> str:
    """Return what a requester is told (W6).

    Args:
        run: The ended run of the task; the status comes from its state, never from words of the model.
        transcript: Path of the child's transcript file.
    """
    is_cut = len(result) > RESULT_CHARS
    shown = f"{result[:RESULT_CHARS]}…" if is_cut else result
    notes = [run.error] if run.error else []
    if is_cut:
        notes.append(f"the result was cut after {RESULT_CHARS:,} characters; the transcript has all of it")
    lines = [f"Sub-agent {child.label or child.key} has ended.", "", f"Status: {run.state}", f"Result: {shown}"]
    lines += [f"Notes: {'; '.join(notes)}"] if notes else []
    return "\n".join([*lines, "", _stats(child, run, transcript)])


def _last_words(written: list[Message]) -> str:
    """Return the run's final reply, or what its last tool answered when that is empty (W6)."""
    said = [message.text.strip() for message in written if message.role == "assistant"]
    answered = [message.text.strip() for message in written if message.role == "toolResult"]
    for text in (said[-1:], answered[-1:], said[::-1]):
        found = next(filter(None, text), None)
        if found:
            return found
    return "(nothing was said)"


def _stats(child: Session, run: Run, transcript: str) -> str:
    seconds = ((run.ended_at or 0) - (run.started_at or run.ended_at or 0)) / 1000
    parts = [f"runtime {seconds:.1f} s", f"{run.usage.context} tokens"]
    if run.usage.cost_usd is not None:
        parts.append(f"${run.usage.cost_usd:.4f}")
    parts += [f"session {child.key}", f"id {child.session_id}", f"transcript {transcript}"]
    return "Stats: " + " · ".join(parts)
