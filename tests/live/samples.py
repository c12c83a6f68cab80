"""Sessions, runs and text for tests of what is on the screens."""

from typing import Any

from hypothesis import strategies as st

from core.model.messages import Usage
from core.model.runs import Run
from core.model.sessions import Session

_NASTY = (
    "\x1b\x9b\r\n\t\0\x07\u200b\u200d\ufe0f\u202e\u2028"
    "漢🇩🇪👩\u0301שa b`~#*_|->[](){}<>&;:.\\/0123456789\ud83d\U000e0041"
)


def any_text(max_size: int = 200) -> st.SearchStrategy[str]:
    """Return any text at all, and much of what is known to be trouble."""
    anything = st.characters(codec=None)
    return st.text(st.one_of(st.sampled_from(_NASTY), anything), max_size=max_size)


def make_session(key: str, *, rev: int = 1, **fields: Any) -> Session:
    """Return a session with the given fields and plain ones for the rest."""
    plain: dict[str, Any] = dict.fromkeys(Session._fields)
    plain |= {
        "key": key,
        "session_id": f"id of {key}",
        "rev": rev,
        "agent_id": "main",
        "kind": "other",
        "chat_type": "direct",
        "channel": "unknown",
        "created_at": 1,
        "updated_at": 1,
        "first_seq": 1,
        "last_seq": 0,
        "system_sent": False,
        "aborted_last_run": False,
        "queued": 0,
        "spent_tokens": 0,
    }
    return Session(**(plain | fields))


def make_run(key: str, **fields: Any) -> Run:
    """Return a run that is done, with the given fields."""
    plain: dict[str, Any] = dict.fromkeys(Run._fields)
    plain |= {
        "run_id": "run",
        "key": key,
        "session_id": f"id of {key}",
        "rev": 1,
        "kind": "turn",
        "state": "done",
        "input_seq": 1,
        "accepted_at": 0,
        "timeout_ms": 0,
        "usage": Usage(),
    }
    return Run(**(plain | fields))
