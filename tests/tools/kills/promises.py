"""What killed processes had promised of sessions they made and deleted, and of overrides that wait for a session.

One `Promises` is for one state directory; its keys and run ids are new for each process, so that each stands for one
deletion or one override only.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.model.access import OPERATOR
from core.runtime.gateway import Runtime
from core.store import jsonl, sessions
from tests.tools.kills.driver import brief_request


@dataclass
class Deletion:
    """A session that somebody began to delete.

    Attributes:
        run_id: The run that had ended in it.
        acknowledged: Whether the process lived to hear that it is deleted.
    """

    session_id: str
    run_id: str
    acknowledged: bool = False


@dataclass
class Patched:
    """An override of the send policy that somebody began to set on a key without a session."""

    word: str
    acknowledged: bool = False


@dataclass
class Promises:
    """What was begun, and what of it was acknowledged.

    Attributes:
        made: Ids of the sessions whose creation was acknowledged and whose deletion was not begun, by key.
    """

    made: dict[str, str] = field(default_factory=dict[str, str])
    deletions: dict[str, Deletion] = field(default_factory=dict[str, Deletion])
    overrides: dict[str, Patched] = field(default_factory=dict[str, Patched])

    @property
    def deleted(self) -> dict[str, Deletion]:
        """Those deletions that were acknowledged, by key."""
        return {key: deletion for key, deletion in self.deletions.items() if deletion.acknowledged}

    def take_in(self, word: str, rest: str) -> None:
        """Note one line of a driver, as far as it is about sessions and overrides."""
        key, _, more = rest.partition(" ")
        match word:
            case "created":
                self.made[key] = more
            case "deleting":
                self.deletions[key] = Deletion(self.made.pop(key), more)
            case "deleted":
                self.deletions[key].acknowledged = True
            case "overriding":
                self.overrides[key] = Patched(more)
            case "overridden":
                self.overrides[key].acknowledged = True
            case _:
                pass

    def problems(self, state: Path, db: sqlite3.Connection) -> Iterator[str]:
        """Return where the files break a promise, one sentence each."""
        policies = dict[str, str | None](db.execute("SELECT key, send_policy FROM sessions"))
        yield from (f"{key} was created and is gone" for key in self.made if key not in policies)
        for key, deletion in self.deletions.items():
            yield from _not_deleted(state, db, key, deletion)
        yield from self.broken_overrides(sessions.waiting_overrides(db), policies)

    def broken_overrides(self, waiting: Mapping[str, str], policies: Mapping[str, str | None]) -> Iterator[str]:
        """Return which overrides are lost, doubled or only half there.

        Args:
            waiting: Those that wait, by key.
            policies: What each session has, by key.
        """
        for key, patched in self.overrides.items():
            found = [word for word in (waiting.get(key), policies.get(key)) if word is not None]
            if found != [patched.word] and (patched.acknowledged or found or key in policies):
                said = "was acknowledged" if patched.acknowledged else "was asked for"
                yield f"the override {patched.word} of {key} {said} and there is {found}"
            if key in policies and key in waiting:
                yield f"the override of {key} waits for a session that there is"
        yield from (f"an override of {key} waits, which nobody set" for key in waiting if key not in self.overrides)

    async def ask_again(self, runtime: Runtime) -> list[str]:
        """Send again what had ended in sessions that are deleted; return what came of it and must not."""
        found: list[str] = []
        for key, deletion in self.deleted.items():
            ticket = await runtime.start_run(brief_request(key, deletion.run_id), OPERATOR)
            if ticket.created or ticket.state != "done" or ticket.session_id != deletion.session_id:
                found.append(f"{deletion.run_id} of the deleted {key} began anew in {ticket.session_id}")
        return found


def _not_deleted(state: Path, db: sqlite3.Connection, key: str, deletion: Deletion) -> Iterator[str]:
    """A deleted session has left nothing but the id of its run; one that may be is wholly there, or has left that."""

    def count(what: str, value: str) -> int:
        number: int = db.execute(f"SELECT count(*) FROM {what} = ?", (value,)).fetchone()[0]
        return number

    rows = {
        "sessions": count("sessions WHERE key", key),
        "transcripts": count("transcripts WHERE session_id", deletion.session_id),
        "runs": count("runs WHERE key", key),
        "messages": min(1, count("messages WHERE run_id", deletion.run_id)),
    }
    spent = count("spent_runs WHERE run_id", deletion.run_id)
    if deletion.acknowledged:
        yield from (f"{key} was deleted and is still in {table}" for table, number in rows.items() if number)
        if jsonl.transcript_path(state, deletion.session_id).exists():
            yield f"{key} was deleted and its transcript's file is there"
        if not spent:
            yield f"{key} was deleted and its run {deletion.run_id} is not spent"
    elif {*rows.values(), 1 - spent} not in ({0}, {1}):
        yield f"{key} was being deleted and is half there: {rows}, spent {spent}"
