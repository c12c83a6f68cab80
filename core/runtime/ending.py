"""The one transaction that ends a run, however it ends: last words, last state, and what follows from it (DESIGN 5)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.model.messages import Draft, note_draft, text_block, unanswered_calls
from core.model.runs import Run
from core.runtime.announce import result_draft
from core.store import messages, runs, sessions
from core.store.database import Tx
from core.store.jsonl import transcript_path
from core.store.runs import End


def end_run(tx: Tx, run: Run, end: End, directory: Path, last_words: Sequence[Draft] = ()) -> Run:
    """Write how a run ended.

    Args:
        last_words: The reply, or what had been said of it; the first becomes the run's reply.
        directory: The state directory, for the path of the transcript that a requester is told.
    """
    for call_id, name in unanswered_calls(messages.of_run(tx.db, run.run_id, run.key, run.input_seq)):
        messages.append(tx, run.key, _no_answer(call_id, name, end), run.run_id)
    written = [messages.append(tx, run.key, draft, run.run_id) for draft in last_words]
    if end.error is not None:
        messages.append(tx, run.key, note_draft(end.error, end.state), run.run_id)
    if run.state == "running":
        sessions.update(tx, run.key, system_sent=1)
    ended = runs.end(tx, run.run_id, replace(end, reply_seq=written[0].seq if written else None))
    if run.kind == "subagent" and run.requester is not None:
        _post_result(tx, ended, run.requester, directory)
    return ended


def _post_result(tx: Tx, run: Run, requester: str, directory: Path) -> None:
    """Append a sub-agent's result to the transcript of the session that spawned it; that starts no run there."""
    child = sessions.by_key(tx.db, run.key)
    if child is None or sessions.by_key(tx.db, requester) is None:
        return
    written = messages.of_run(tx.db, run.run_id, run.key, run.input_seq)
    path = str(transcript_path(directory, child.session_id))
    messages.append(tx, requester, result_draft(child, run, written, path), run.run_id)


def _no_answer(call_id: str, name: str, end: End) -> Draft:
    text = f"no answer: the run ended ({end.state}) before the tool did"
    return Draft("toolResult", (text_block(text),), tool_call_id=call_id, tool_name=name, is_error=True)
