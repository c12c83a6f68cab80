"""The one transaction that ends a run, however it ends: last words, last state, and what follows from it
(architecture#transactions)."""

from typing import Final

from core.config.settings import Settings
from core.model.messages import Draft, note_draft, text_block, unanswered_calls
from core.model.runs import Run
from core.runtime.exchanges import steps
from core.store import messages, runs, sessions
from core.store.database import Tx
from core.store.runs import End

MAX_ATTEMPTS: Final = 1
"""How often a step of an exchange is begun again after its process stopped (S11)."""


def end_run(tx: Tx, run: Run, end: End, settings: Settings) -> Run:
    """Write how a run ended, and what that starts.

    A run of an exchange that was interrupted before it wrote anything is queued again instead, once: a turn of the loop
    or an announce step in any case, a first run when its process died.
    """
    written = messages.of_run(tx.db, run.run_id, run.key, run.input_seq)
    if end.state == "interrupted" and not written and run.attempts < MAX_ATTEMPTS and _goes_on(run, end):
        return runs.begin_again(tx, run)
    for call_id, name in unanswered_calls(written):
        messages.append(tx, run.key, _no_answer(call_id, name, end), run.run_id)
    replies = [messages.append(tx, run.key, draft, run.run_id) for draft in end.last_words]
    if end.error is not None:
        messages.append(tx, run.key, note_draft(end.error, end.state), run.run_id)
    if run.state == "running":
        sessions.update(tx, run.key, system_sent=1)
    ended = runs.end(tx, run.run_id, end, replies[0].seq if replies else None)
    steps.follow(tx, ended, settings)
    return ended


def _goes_on(run: Run, end: End) -> bool:
    return run.kind in {"reply", "announce"} or (run.exchange is not None and end.died)


def _no_answer(call_id: str, name: str, end: End) -> Draft:
    text = f"no answer: the run ended ({end.state}) before the tool did"
    return Draft("toolResult", (text_block(text),), tool_call_id=call_id, tool_name=name, is_error=True)
