"""`switchboard check`: whether everything that is stored fits together, and mending what can be mended."""

import argparse
import contextlib
import os
import sqlite3
from dataclasses import dataclass

from console.cli.output import draws_unicode, print_json, print_line, write_line
from console.live.text.words import counted
from core.clock import SystemClock
from core.config.paths import Places
from core.model.errors import NotFound
from core.store.database import DATABASE_NAME, Store, explained
from core.store.lock import OwnerLock, current_owner
from core.store.maintenance.backup import holds_database
from core.store.maintenance.check import Problem, check


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a look at a state directory found: what was wrong and is mended, and what still is wrong."""

    sessions: int
    messages: int
    mended: list[Problem]
    wrong: list[Problem]


def run_check(options: argparse.Namespace, places: Places) -> int:
    """Look, mend if that is wanted, and return the exit code; `SwitchboardError` says why that cannot be done now."""
    if not holds_database(places.state):
        raise NotFound(f"the state directory {places.state} holds no {DATABASE_NAME}: there is nothing to check")
    clock = SystemClock()
    with contextlib.ExitStack() as stack:
        if options.mend:
            lock = OwnerLock.acquire(places.state, "check", clock.now_ms())
            stack.callback(lock.release)
        store = stack.enter_context(contextlib.closing(Store.open(places.state, clock)))
        stack.enter_context(explained(places.state))
        found = look(store.db, places, mend=options.mend)
    if options.json:
        rows = [{"topic": each.topic, "found": each.words, "mended": True} for each in found.mended]
        rows += [
            {"topic": each.topic, "found": each.words, "mended": False, "canBeMended": each.mend is not None}
            for each in found.wrong
        ]
        counts = {"sessions": found.sessions, "messages": found.messages}
        print_json({"ok": not found.wrong, "stateDir": str(places.state), **counts, "problems": rows})
    else:
        _print(found, places)
    return int(bool(found.wrong))


def look(db: sqlite3.Connection, places: Places, *, mend: bool) -> CheckResult:
    """Check, mend, and check again what is left."""
    problems = _problems(db, places)
    mended: list[Problem] = []
    if mend and any(problem.mend is not None for problem in problems):
        for problem in problems:
            if problem.mend is not None:
                db.execute("BEGIN IMMEDIATE")
                problem.mend(db)
                db.execute("COMMIT")
        left = _problems(db, places)
        mended = [problem for problem in problems if problem.words not in {each.words for each in left}]
        problems = left
    (sessions,) = db.execute("SELECT count(*) FROM sessions").fetchone()
    (messages,) = db.execute("SELECT count(*) FROM messages").fetchone()
    return CheckResult(sessions, messages, mended, problems)


def _problems(db: sqlite3.Connection, places: Places) -> list[Problem]:
    """Check what is there at one moment."""
    owner = current_owner(places.state)
    db.execute("BEGIN")
    try:
        return list(check(db, places.state, is_owned=owner is not None and owner.pid != os.getpid()))
    finally:
        db.execute("ROLLBACK")


def _print(found: CheckResult, places: Places) -> None:
    good, bad, arrow = ("✓", "×", "→") if draws_unicode() else ("+", "x", "->")
    for problem in found.mended:
        print_line(f"{good} {problem.topic}: {problem.words}: mended")
    for problem in found.wrong:
        print_line(f"{bad} {problem.topic}: {problem.words}")
        write_line(f"  {arrow} {'`switchboard check --mend` mends it' if problem.mend is not None else ADVICE}")
    what = f"{counted(found.sessions, 'session')}, {counted(found.messages, 'message')}"
    if not found.wrong:
        print_line(f"{good} {places.state}: {what}: everything fits together")


ADVICE = "nothing here can mend that: restore a backup, or go on with what is there"
