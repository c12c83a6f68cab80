"""What a requester is told when its sub-agent's run has ended (W6)."""

from core.model.messages import Draft, Message, Provenance, user_draft
from core.model.runs import Run
from core.model.sessions import Session

ANNOUNCE_TOOL = "sessions_spawn"


def result_draft(child: Session, run: Run, written: list[Message], transcript_path: str) -> Draft:
    """Return the inter-session message for the requester's transcript.

    Args:
        run: The ended run; the status comes from its state, never from words of the model.
        written: What the run wrote to the child's transcript, in order.
    """
    lines = [
        f"Sub-agent {child.label or child.key} has ended.",
        "",
        f"Status: {run.state}",
        f"Result: {result_text(written)}",
    ]
    if run.error:
        lines.append(f"Notes: {run.error}")
    lines += ["", _stats(child, run, transcript_path)]
    return user_draft("\n".join(lines), Provenance(child.key, "internal", ANNOUNCE_TOOL))


def result_text(written: list[Message]) -> str:
    """Return the run's final reply, or what its last tool answered when that is empty (W6)."""
    said = [message.text.strip() for message in written if message.role == "assistant"]
    answered = [message.text.strip() for message in written if message.role == "toolResult"]
    for text in (said[-1:], answered[-1:], said[::-1]):
        found = next(filter(None, text), None)
        if found:
            return found
    return "(nothing was said)"


def _stats(child: Session, run: Run, transcript_path: str) -> str:
    seconds = ((run.ended_at or 0) - (run.started_at or run.ended_at or 0)) / 1000
    parts = [f"runtime {seconds:.1f} s", f"{run.usage.context} tokens"]
    if run.usage.cost_usd is not None:
        parts.append(f"${run.usage.cost_usd:.4f}")
    parts += [f"session {child.key}", f"id {child.session_id}", f"transcript {transcript_path}"]
    return "Stats: " + " · ".join(parts)
