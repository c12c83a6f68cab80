"""Carrying out the commands of a session: `/send on|off|inherit` and its like (P3).

A command is done in the transaction that accepts it; it passes a deny and never reaches a model. The transcript says
what it did.
"""

from typing import Final

from core.config.settings import THINKING_LEVELS, Settings
from core.model.access import Caller
from core.model.commands import Command, parse_command
from core.model.errors import Conflict, Invalid
from core.model.ids import new_id
from core.model.json_codec import encodable
from core.model.keys import quoted
from core.model.messages import note_draft
from core.model.money import dollars
from core.model.runs import Run, RunRequest
from core.model.sessions import Session, SessionPatch
from core.runtime.authority import require_operator, require_owner
from core.store import messages, runs, sessions
from core.store.database import Db, Tx
from core.store.runs import NewRun

POLICY_WORDS: Final[dict[str, str | None]] = {"on": "allow", "off": "deny", "inherit": None}
_COLUMNS: Final = {
    "label": "label",
    "model": "model",
    "thinkingLevel": "thinking_level",
    "verboseLevel": "verbose_level",
    "sendPolicy": "send_policy",
}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "sendPolicy": ("allow", "deny"),
    "thinkingLevel": THINKING_LEVELS,
    "verboseLevel": ("off", "on", "full"),
}
OF_THE_OWNER: Final = frozenset({"send", "reset", "archive"})
"""Commands that do what only the owner may."""
MAX_LABEL_CHARS: Final = 120


ELSEWHERE: Final = {
    "/compact": "/compact is not needed here: what no longer fits the model's window is left out of its prompt by"
    " itself, and the transcript keeps everything; /reset begins an empty one",
}
"""Commands of OpenClaw's clients that would be words for the model here, and what to say instead."""


def find(message: str) -> Command | None:
    """Return the command that a message is, None when it is an ordinary message.

    `Invalid` when its argument is missing, wrong, or one too many; or there is nothing to do for it here.
    """
    if message.strip().lower() in ELSEWHERE:
        raise Invalid(ELSEWHERE[message.strip().lower()])
    return parse_command(message)


def check_caller(command: Command, caller: Caller) -> None:
    """Refuse a command to agents, and to operators what is the owner's alone (`Forbidden`, P3)."""
    require = require_owner if command.name in OF_THE_OWNER else require_operator
    require(caller, f"use /{command.name} in a session")


def carry_out(tx: Tx, session: Session, command: Command, settings: Settings) -> str:
    """Do what a command asks and return the answer for whoever wrote it.

    `/abort` and `/spawn` are not handled here: they concern runs and belong to the engine.

    Raises:
        Invalid: The argument is not possible.
        Conflict: The session has a run that must end first.
    """
    match command.name:
        case "send":
            override = POLICY_WORDS[command.argument]
            sessions.update(tx, session.key, send_policy=override)
            return f"send policy {override}" if override else "send policy inherited from the configuration"
        case "status":
            return _status(session, settings)
        case "model":
            patch(tx, session, SessionPatch({"model": command.argument or None}), settings)
            return f"model: {command.argument or 'the agent’s own'}"
        case "label":
            patch(tx, session, SessionPatch({"label": command.argument or None}), settings)
            return f"label: {command.argument or 'removed'}"
        case "reset":
            reset(tx, session)
            return "a new transcript has begun; the old one stays readable by its id"
        case "archive":
            sessions.update(tx, session.key, archived_at=tx.now)
            return "archived; a new message brings the session back"
        case _:
            raise Invalid(f"/{command.name} is not a command of this session")


def done(db: Db, request: RunRequest, command: Command) -> tuple[Run, str] | None:
    """Return the run and the answer of a command that was carried out before; None when it is new.

    A `/spawn` is a message for its sub-agent and no run of its own. `Conflict`: the run id stands for another request.
    """
    if request.run_id is None or command.name == "spawn":
        return None
    run = runs.same_request(db, request.run_id, runs.fingerprint(request))
    if run is None:
        return None
    note = messages.at(db, run.key, run.input_seq)
    return run, note.text.removeprefix(f"{command.written}: ") if note is not None else ""


def record(tx: Tx, request: RunRequest, target: Session, command: Command, answer: str, requester: str | None) -> Run:
    """Note in the transcript what a command did, and record it as a run that is over."""
    run_id = request.run_id or new_id()
    note = messages.append(tx, target.key, note_draft(f"{command.written}: {answer}"), run_id)
    session = sessions.by_key(tx.db, target.key)
    assert session is not None, "a note was just appended to it"
    new = NewRun(run_id, "command", note.seq, runs.fingerprint(request), requester)
    return runs.record_command(tx, session, new)


def patch(tx: Tx, session: Session, change: SessionPatch, settings: Settings) -> None:
    """Change fields of a session; `Invalid` for a field or a value that is not known."""
    columns: dict[str, object] = {}
    for name, value in change.fields.items():
        column = _COLUMNS.get(name)
        if column is None:
            raise Invalid(f"sessions have no field {quoted(name)} to change: use one of {', '.join(_COLUMNS)}")
        choices = _CHOICES.get(name)
        if value is not None and choices and value not in choices:
            raise Invalid(f"{name} cannot be {quoted(value)}: use one of {', '.join(choices)}")
        if name == "label" and value is not None:
            check_label(value)
        if name == "model" and value is not None:
            settings.model(value)
        columns[column] = encodable(value) if value else None
    if columns:
        sessions.update(tx, session.key, **columns)


def check_label(label: str) -> None:
    """Refuse a label that is too long (`Invalid`)."""
    if len(label) > MAX_LABEL_CHARS:
        raise Invalid(f"the label is {len(label)} characters long and at most {MAX_LABEL_CHARS} fit: shorten it")


def check_idle(session: Session) -> None:
    """Refuse what would pull a transcript away from under a run that is not over (`Conflict`)."""
    if session.status in {"queued", "running"}:
        raise Conflict(f"session {session.key} is at work: abort it first, or wait until it has ended")


def reset(tx: Tx, session: Session) -> None:
    """Begin a new transcript; a `Conflict` while a run of the session is not over."""
    check_idle(session)
    sessions.new_transcript(tx, session)


def _status(session: Session, settings: Settings) -> str:
    """Say what a session works with and what it has used."""
    decision = settings.rules.send_decision(session)
    model = session.model or settings.agent(session.agent_id).model
    cost = f", {dollars(session.cost_usd)}" if session.cost_usd is not None else ""
    policy = f"send policy {decision.effective} ({decision.reason})"
    return f"agent {session.agent_id}, model {model}, {session.spent_tokens} tokens{cost}, {policy}"
