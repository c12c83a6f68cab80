"""Catching up from any `rev` gives what a subscriber who missed nothing has (architecture#order)."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.events import DurableEvent, MessageAppended, RunChanged, SessionChanged, SessionGone
from core.model.runs import Run, RunRequest
from core.store import gone, messages, runs, sessions
from core.store.database import Tx, last_rev
from core.store.runs import End, NewRun
from tests.support.stores import create, opened, say

KEYS = ("agent:main:main", "agent:main:discord:group:a", "cron:n")
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "say", "say", "label", "reset", "archive", "run", "step", "fail", "delete"]),
        st.integers(0, len(KEYS) - 1),
    ),
    min_size=1,
    max_size=25,
)


def carry_out(tx: Tx, what: str, key: str, number: int) -> None:
    """Do one of the operations, where it is possible."""
    session = sessions.by_key(tx.db, key)
    if session is None:
        create(tx, key)
        return
    live = runs.live(tx.db, key)
    match what:
        case "say":
            say(tx, key, f"message {number}")
        case "label":
            sessions.update(tx, key, label=f"label {number}")
        case "reset" if not live:
            sessions.new_transcript(tx, session)
        case "archive":
            sessions.update(tx, key, archived_at=tx.now)
        case "run":
            say(tx, key, f"input {number}")
            new = NewRun(f"run {number}", "turn", session.last_seq + 1, runs.fingerprint(RunRequest(key, "x")))
            runs.accept(tx, session, new)
        case "step" if live:
            if live[0].state == "queued":
                runs.start(tx, live[0].run_id)
            else:
                runs.end(tx, live[0].run_id, End("done"))
        case "delete" if not live:
            gone.delete(tx, session)
        case "fail":
            say(tx, key, "never stored")
            raise ZeroDivisionError
        case _:
            pass


class Replica:
    """What a subscriber knows: the newest row of each thing, and every message of the sessions it watches."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], object] = {}
        self.messages: dict[tuple[str, int], MessageAppended] = {}
        self.cursor = 0

    def apply(self, event: DurableEvent) -> None:
        """Take in one event."""
        assert event.rev > self.cursor, "events come in the order of their numbers"
        self.cursor = event.rev
        match event:
            case SessionChanged(_, session):
                self.rows["session", session.key] = session
            case RunChanged(_, run):
                self.rows["run", run.run_id] = run
            case SessionGone(_, key):
                self.rows.pop(("session", key), None)
                self.rows = {name: row for name, row in self.rows.items() if not isinstance(row, Run) or row.key != key}
                self.messages = {place: message for place, message in self.messages.items() if place[0] != key}
            case MessageAppended():
                assert (event.key, event.message.seq) not in self.messages, "nothing twice"
                self.messages[event.key, event.message.seq] = event
            case _:
                raise AssertionError(f"nothing here makes a {event}")

    def copy(self) -> "Replica":
        """Return one that knows the same."""
        other = Replica()
        other.rows, other.messages, other.cursor = dict(self.rows), dict(self.messages), self.cursor
        return other


async def converges(operations: list[tuple[str, int]], groups: list[int], directory: Path) -> None:
    """Do the operations in groups; then catch every earlier replica up and compare."""
    replica = Replica()
    earlier = [replica.copy()]

    def publish(events: Any) -> None:
        for event in events:
            replica.apply(event)
            earlier.append(replica.copy())

    async with opened(directory) as store:
        store.publish = publish
        rest = [(what, KEYS[place], number) for number, (what, place) in enumerate(operations)]
        for size in [*groups, len(rest)]:
            writes = [partial(carry_out, what=what, key=key, number=number) for what, key, number in rest[:size]]
            await asyncio.gather(*(store.write(write) for write in writes), return_exceptions=True)
            rest = rest[size:]
        for late in earlier:
            events: list[DurableEvent] = [
                SessionChanged(s.rev, s) for s in sessions.changed_since(store.db, late.cursor)
            ]
            events += [RunChanged(run.rev, run) for run in runs.changed_since(store.db, late.cursor)]
            events += gone.since(store.db, late.cursor)
            touched = set(sessions.keys_touched_since(store.db, late.cursor))
            for key in KEYS:
                assert key in touched or not messages.since(store.db, key, late.cursor)
                events += messages.since(store.db, key, late.cursor)
            for event in sorted(events, key=lambda event: event.rev):
                late.apply(event)
            assert late.rows == replica.rows
            assert late.messages == replica.messages
        assert replica.cursor == last_rev(store.db)


@settings(max_examples=60)
@given(OPERATIONS, st.lists(st.integers(1, 6), max_size=8))
def test_catching_up_from_any_rev_converges(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]], groups: list[int]
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as directory:
        asyncio.run(converges(operations, groups, Path(directory)))
