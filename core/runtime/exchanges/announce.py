"""What an exchange says in the end, and where that goes (S10, W6).

The announce of a send goes to the target's channel, the result of a spawn to the requester's transcript and channel.
On `webchat` the transcript is the channel: the row and its delivery are one transaction. Everything else goes through
the outbox.
"""

from dataclasses import replace
from typing import Final

from core.config.settings import Settings
from core.model.exchanges import ANNOUNCE_SKIP, DENIED, NO_CHANNEL, DeliveryState, Exchange
from core.model.keys import parse
from core.model.messages import Message, Provenance, note_draft, user_draft
from core.model.money import dollars
from core.model.runs import CUT_SHORT, Run
from core.model.sessions import Session
from core.rules.policy import PolicyDecision
from core.runtime.exchanges.report import TaskReport, read_report
from core.store import deliveries, exchanges, messages, runs, sessions
from core.store.database import Tx
from core.store.deliveries import NewDelivery
from core.store.jsonl import transcript_path

SPAWN_TOOL: Final = "sessions_spawn"
WEBCHAT: Final = "webchat"
RESULT_CHARS: Final = 20_000
NOTES_CHARS: Final = 4_000
STATUS_CHARS: Final = 200
SPAWN_INPUT: Final = (
    "Your task is done. Write what the session that started you should be told: the result, in a few sentences."
    f" Write exactly {ANNOUNCE_SKIP} to tell it nothing."
)
NESTED_INPUT: Final = f"{SPAWN_INPUT} The sub-agents that you started have ended too: their results stand above."
SEND_INPUT: Final = f"""\
The exchange is over. Write what should be said on this session's channel about it.
Write exactly {ANNOUNCE_SKIP} to say nothing.

The request was:
{{request}}

The first reply was:
{{first}}

The latest reply was:
{{latest}}"""
"""What asks a target what to announce (S10)."""


def address(session: Session) -> tuple[str, str]:
    """Return the channel of a session and its address there; a room is addressed by what its key says of it."""
    key = parse(session.key)
    if key.channel is not None and key.chat_type != "direct":
        room = session.key.removeprefix(f"agent:{key.agent_id}:{key.channel}:")
        return session.channel, session.last_to or room
    return session.channel, session.last_to or ""


def denied(tx: Tx, exchange: Exchange, session: Session, settings: Settings, text: str = "") -> bool:
    """Record that a send policy keeps an announce back; False when none does."""
    decision = settings.rules.send_decision(session)
    if decision.allowed:
        return False
    _record(tx, exchange, session, text, "skipped", note_denied(tx, session.key, decision))
    return True


def note_denied(tx: Tx, key: str, decision: PolicyDecision) -> str:
    """Note in the transcript that a send policy kept an announce back, and return the reason for the delivery."""
    reason = f"{DENIED}{decision.reason}"
    messages.append(tx, key, note_draft(f"Nothing was announced: {reason}."))
    return reason


def deliver(tx: Tx, exchange: Exchange, text: str, settings: Settings) -> None:
    """Hand what is announced to where it goes; of a spawn, post the result to the requester."""
    if exchange.kind == "spawn":
        text = _result_of(tx, exchange, text)
        session = _post_result(tx, exchange, text)
    else:
        session = sessions.by_key(tx.db, exchange.target)
    if session is not None:
        _hand_over(tx, exchange, session, text, settings)


def skip(tx: Tx, exchange: Exchange, reason: str) -> None:
    """Record that nothing is announced, and why."""
    session = sessions.by_key(tx.db, exchange.target if exchange.kind == "send" else exchange.requester)
    if session is not None:
        _record(tx, exchange, session, "", "skipped", reason)


def _hand_over(tx: Tx, exchange: Exchange, session: Session, text: str, settings: Settings) -> None:
    """Webchat has it already: it stands in the transcript. A session without a channel keeps it. Others get it from
    the outbox."""
    if denied(tx, exchange, session, settings, text):
        return
    if session.channel in NO_CHANNEL:
        reason = f"the session has no channel of its own ({session.channel})"
        _record(tx, exchange, session, text, "skipped", reason)
        return
    _record(tx, exchange, session, text, "sent" if session.channel == WEBCHAT else "pending", None)


def _record(tx: Tx, exchange: Exchange, session: Session, text: str, state: DeliveryState, reason: str | None) -> None:
    channel, to = address(session)
    account = session.last_account_id
    new = NewDelivery(exchange.exchange_id, session.key, channel, to, account, text, state, reason)
    deliveries.add(tx, new)


# The result of a sub-agent


def _post_result(tx: Tx, exchange: Exchange, text: str) -> Session | None:
    """Append a sub-agent's result to the transcript of the session that spawned it; that starts no run there.

    One that is a sub-agent itself and has begun to announce, or has announced, tells of nothing more: what comes then
    is handed on to the session above it. Returns the last one that was told.
    """
    child = sessions.by_key(tx.db, exchange.target)
    provenance = Provenance(exchange.target, child.channel if child is not None else "unknown", SPAWN_TOOL)
    told: Session | None = None
    above: Exchange | None = exchange
    while above is not None and (session := sessions.by_key(tx.db, above.requester)) is not None:
        told = session
        messages.append(tx, session.key, user_draft(text, provenance), exchange.exchange_id)
        own = exchanges.spawn_of(tx.db, session.key)
        above = own if own is not None and own.state in {"announcing", "ended"} else None
    return told


def _result_of(tx: Tx, exchange: Exchange, said: str) -> str:
    run, child = runs.by_id(tx.db, exchange.exchange_id), sessions.by_key(tx.db, exchange.target)
    assert run is not None, "an exchange begins with its first run"
    assert child is not None, "a session with an exchange under way is not deleted"
    written = messages.of_run(tx.db, run.run_id, run.key, run.input_seq)
    report, more = read_report(said), []
    if _is_cut_short(tx, exchange, written):
        report = replace(report, notes=_joined(CUT_SHORT, report.notes))
    if not report.result:
        last = _last_words(written)
        report = TaskReport(last.result, report.status or last.status, _joined(report.notes, last.notes))
        more = [each.text for each in messages.posted(tx.db, run.key, run.input_seq)]
    result = "\n\n".join([report.result or "(nothing was said)", *more])
    transcript = str(transcript_path(tx.directory, child.session_id))
    return result_text(child, run, replace(report, result=result), transcript)


def _is_cut_short(tx: Tx, exchange: Exchange, written: list[Message]) -> bool:
    """Whether the model reached its limit in the announce, or in the last words of the task."""
    run = runs.by_id(tx.db, f"{exchange.exchange_id}:announce")
    announced = messages.reply_of(tx.db, run) if run is not None and run.state == "done" else None
    return "length" in {said.stop_reason for said in (announced, *written[-1:]) if said is not None}


def result_text(child: Session, run: Run, report: TaskReport, transcript: str) -> str:
    """Return what a requester is told (W6).

    Args:
        run: The ended run of the task; the status comes from its state, never from words of the model.
        report: What the sub-agent said of its task.
        transcript: Path of the child's transcript file.
    """
    is_cut = len(report.result) > RESULT_CHARS
    shown = f"{report.result[:RESULT_CHARS]}…" if is_cut else report.result
    notes = run.error or ""
    if is_cut:
        notes = _joined(notes, f"the result was cut after {RESULT_CHARS:,} characters; the transcript has all of it")
    if report.status and report.status.casefold() != run.state:
        notes = _joined(notes, f"it calls its status: {_cut(report.status, STATUS_CHARS)}")
    notes = _joined(notes, _cut(report.notes, NOTES_CHARS))
    lines = [f"Sub-agent {child.label or child.key} has ended.", "", f"Status: {run.state}", f"Result: {shown}"]
    lines += [f"Notes: {notes}"] if notes else []
    return "\n".join([*lines, "", _stats(child, run, transcript)])


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _last_words(written: list[Message]) -> TaskReport:
    """Return the run's final reply, or what its last tool answered when that is empty (W6)."""
    said = [message.text.strip() for message in written if message.role == "assistant"]
    answered = [message.text.strip() for message in written if message.role == "toolResult"]
    for text in said[-1:]:
        if (report := read_report(text)).result:
            return report
    for text in (answered[-1:], said[::-1]):
        found = next(filter(None, text), None)
        if found:
            return TaskReport(found)
    return TaskReport("")


def _stats(child: Session, run: Run, transcript: str) -> str:
    seconds = ((run.ended_at or 0) - (run.started_at or run.ended_at or 0)) / 1000
    parts = [f"runtime {seconds:.1f} s", f"{run.usage.context} tokens"]
    if run.usage.cost_usd is not None:
        parts.append(dollars(run.usage.cost_usd))
    parts += [f"session {child.key}", f"id {child.session_id}", f"transcript {transcript}"]
    return "Stats: " + " · ".join(parts)
