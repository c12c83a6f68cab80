"""What must hold in a state directory whatever happened to the processes that worked on it, read from its rows.

The rules of exchanges are written down here a second time, by the words of the requirements (S9-S11, W6, W7).
"""

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.stores import other_connection

Rows = dict[str, Any]
_OF_SESSION = "session = (SELECT id FROM sessions WHERE key = ?)"


def look(
    state: Path, taken: Mapping[str, int], acknowledged: Iterable[str], *, over: bool = False, steered: bool = False
) -> Iterator[str]:
    """Return everything that must not be, one sentence each.

    Args:
        taken: How often a channel has the text of a delivery, by its id.
        acknowledged: Ids of the runs whose acceptance was acknowledged.
        over: Everything has come to its end.
        steered: The operator deleted, archived and retried meanwhile, and changed send policies.
    """
    with contextlib.closing(other_connection(state)) as db:
        db.row_factory = sqlite3.Row
        (health,) = db.execute("PRAGMA integrity_check").fetchone()
        if health != "ok":
            yield f"integrity_check: {health}"
        found = {row["run_id"]: row for row in db.execute("SELECT * FROM runs ORDER BY id")}
        yield from (f"{run_id} was acknowledged and is gone" for run_id in acknowledged if run_id not in found)
        yield from _transcripts(db)
        yield from _runs(db, found, over=over)
        yield from _exchanges(db, found, over=over, steered=steered)
        yield from _deliveries(db, taken, over=over)


def _transcripts(db: sqlite3.Connection) -> Iterator[str]:
    """Messages are numbered without a gap, and the session's row knows the last."""
    for key, last, count, newest in db.execute(
        "SELECT s.key, s.last_seq, count(*), max(m.seq) FROM sessions AS s JOIN messages AS m ON m.session = s.id"
        " GROUP BY s.id"
    ):
        if not last == count == newest:
            yield f"{key} has {count} messages, the last is number {newest}, and its row says {last}"


def _runs(db: sqlite3.Connection, found: Rows, *, over: bool) -> Iterator[str]:
    """Each run has one input, and its end stands beside its words."""
    written: dict[str, Counter[tuple[str, str]]] = {}
    for run_id, key, role in db.execute(
        "SELECT m.run_id, s.key, m.role FROM messages AS m JOIN sessions AS s ON s.id = m.session"
        " WHERE m.run_id IS NOT NULL"
    ):
        written.setdefault(run_id, Counter())[key, role] += 1
    spent = {run_id for (run_id,) in db.execute("SELECT run_id FROM spent_runs")}  # of sessions that were deleted
    known = found.keys() | spent
    yield from (f"{run_id} has messages and does not exist" for run_id in written if run_id not in known)
    for run_id, run in found.items():
        count, key, run_state = written.get(run_id, Counter()), run["key"], run["state"]
        if run["kind"] == "command":
            yield from _command(run, count)
            continue
        replies = count[key, "assistant"] - count[key, "toolResult"]
        is_live = run_state in {"queued", "running"}
        if count[key, "user"] != 1:
            yield f"{run_id} has {count[key, 'user']} inputs"
        if run_state == "done" and (run["reply_seq"] is None or replies != 1):
            yield f"{run_id} is done and has {replies} replies, the last is number {run['reply_seq']}"
        if replies > 1:
            yield f"{run_id} is {run_state} and has {replies} replies"
        if is_live and (run["reply_seq"] is not None or run["ended_at"] is not None):
            yield f"{run_id} is {run_state} and has an end"
        if run["attempts"] > 1:
            yield f"{run_id} was begun {run['attempts'] + 1} times"
        if run_state == "interrupted" and run["exchange"] and not run["attempts"] and not count[key, "assistant"]:
            yield f"{run_id} had written nothing and was not begun again"
        if over and is_live:
            yield f"{run_id} never ended"


def _command(run: sqlite3.Row, count: Counter[tuple[str, str]]) -> Iterator[str]:
    """A command reaches no agent: it is over when it is accepted, and the note of what it did is all of it."""
    run_id, run_state, note = run["run_id"], run["state"], run["reply_seq"]
    if count != {(run["key"], "system"): 1}:
        yield f"the command {run_id} wrote {dict(count)} and not one note"
    if run_state != "done" or note is None or note != run["input_seq"]:
        yield f"the command {run_id} is {run_state}, and its note is number {note}"


def _exchanges(db: sqlite3.Connection, found: Rows, *, over: bool, steered: bool) -> Iterator[str]:
    """An exchange has the steps that its runs ask for, each once, in turn, and no other."""
    there: dict[str | None, list[str]] = {}
    for run_id, run in found.items():
        there.setdefault(run["exchange"], []).append(run_id)
    deleted = {key for (key,) in db.execute("SELECT key FROM gone")}  # though there may be a new one of that key
    for exchange in db.execute("SELECT * FROM exchanges").fetchall():
        if steered and deleted & {exchange["requester"], exchange["target"]}:
            continue  # its runs went with it
        expected, outcome, announces = _walk(db, exchange, found)
        own = exchange["exchange_id"]
        if there.get(own) != expected:
            yield f"{own} has the runs {there.get(own)} and should have {expected}"
        if exchange["outcome"] != outcome or (exchange["state"] == "ended") != (outcome is not None):
            yield f"{own} is {exchange['state']} {exchange['outcome']} and should have come to {outcome}"
        if over and outcome is None:
            yield f"{own} never ended"
        yield from _ends(db, exchange, outcome, announces=announces, steered=steered)


def _walk(db: sqlite3.Connection, exchange: sqlite3.Row, found: Rows) -> tuple[list[str], str | None, bool]:
    """Follow an exchange by its runs; return those it must have, its outcome, and whether it has something to say."""
    own, turn, run_id = exchange["exchange_id"], 0, exchange["exchange_id"]
    path = [run_id]
    while True:
        run = found.get(run_id)
        if run is None or run["state"] in {"queued", "running"}:
            return path, None, False
        well, words = run["state"] == "done", _said(db, run)
        if run_id == f"{own}:announce":
            return path, *_announced(exchange["kind"], run["state"], words)
        if exchange["kind"] == "spawn":
            if not well:
                return path, "done", True
            if f"{own}:announce" not in found and _has_children_at_work(db, exchange["target"]):
                return path, None, False  # it waits for them
        elif not well and (turn == 0 or run["state"] in {"aborted", "interrupted"}):
            return path, run["state"], False
        elif (
            well
            and words not in {"", "REPLY_SKIP"}
            and turn < exchange["max_turns"]
            and not _is_kept_from(exchange, turn + 1)
        ):
            turn += 1
            run_id = f"{own}:{turn}"
            path.append(run_id)
            continue
        elif f"{own}:announce" not in found and _is_silenced(db, own):  # nobody is asked what to say there
            return path, "done", False
        run_id = f"{own}:announce"
        path.append(run_id)


def _is_kept_from(exchange: sqlite3.Row, turn: int) -> bool:
    """Return whether a send policy denied that turn (P4), or there was nobody to take it."""
    next_key = exchange["requester"] if turn % 2 else exchange["target"]
    # The last one stands in place of the others.
    reasons = (f"{next_key} is denied by ", "one side does not exist", "the announce step ended: ")
    return exchange["turn"] < turn and (exchange["reason"] or "").startswith(reasons)


def _is_silenced(db: sqlite3.Connection, own: str) -> bool:
    """Return whether a send policy kept the announce back before its end (P4)."""
    row = db.execute("SELECT reason FROM deliveries WHERE exchange_id = ? AND state = 'skipped'", (own,)).fetchone()
    return row is not None and (row[0] or "").startswith("denied by ")


def _has_children_at_work(db: sqlite3.Connection, key: str) -> bool:
    """Return whether a session has spawned what has not announced yet."""
    found = db.execute("SELECT 1 FROM exchanges WHERE requester = ? AND kind = 'spawn' AND state <> 'ended'", (key,))
    return found.fetchone() is not None


def _announced(kind: str, run_state: str, words: str) -> tuple[str, bool]:
    """Return outcome and whether there is something to say, after the announce step."""
    well = run_state == "done"
    if kind == "spawn":
        return "done", not (well and words == "ANNOUNCE_SKIP")
    return "done" if well else run_state, well and words not in {"", "ANNOUNCE_SKIP"}


def _said(db: sqlite3.Connection, run: sqlite3.Row) -> str:
    row = db.execute(
        "SELECT body FROM messages WHERE session = (SELECT id FROM sessions WHERE key = ?) AND seq = ?",
        (run["key"], run["reply_seq"]),
    ).fetchone()
    return (json.loads(row[0])["content"][0].get("text") or "").strip() if row is not None else ""


def _ends(
    db: sqlite3.Connection, exchange: sqlite3.Row, outcome: str | None, *, announces: bool, steered: bool
) -> Iterator[str]:
    """What an exchange has come to stands in the same transaction as its end, and not before."""
    own = exchange["exchange_id"]
    rows = db.execute("SELECT text FROM deliveries WHERE exchange_id = ?", (own,)).fetchall()
    if len(rows) != (outcome == "done"):
        yield f"{own} has come to {outcome} and has {len(rows)} deliveries"
    if exchange["kind"] == "send":
        return
    posted = db.execute(
        "SELECT count(*) FROM messages WHERE run_id = ? AND session = (SELECT id FROM sessions WHERE key = ?)",
        (own, exchange["requester"]),
    ).fetchone()[0]
    if posted != announces:
        yield f"{own} is {exchange['state']} and was posted {posted} times"
    if outcome is not None:
        yield from _handed_on(db, exchange)
    archived, is_parent = db.execute(
        "SELECT archived_at, EXISTS (SELECT 1 FROM sessions WHERE spawned_by = s.key) FROM sessions AS s WHERE key = ?",
        (exchange["target"],),
    ).fetchone()
    due = outcome is not None and bool(exchange["cleanup"])
    if due != (archived is not None) and not is_parent and not steered:  # what its own child posts brings it back
        yield f"{own} has come to {outcome} with cleanup {exchange['cleanup']} and was archived at {archived}"


def _handed_on(db: sqlite3.Connection, exchange: sqlite3.Row) -> Iterator[str]:
    """What a sub-agent was told by its own is known to whoever started it, once it has announced.

    Its announce step had read it, or it was told along with the announce, or it was handed on.
    """
    own, child = exchange["exchange_id"], exchange["target"]
    row = db.execute("SELECT input_seq FROM runs WHERE run_id = ?", (f"{own}:announce",)).fetchone()
    asked = row[0] if row is not None else 0
    told = dict[str, str]()
    for run_id, body in db.execute(f"SELECT run_id, body FROM messages WHERE {_OF_SESSION}", (exchange["requester"],)):
        told[run_id] = told.get(run_id, "") + json.loads(body)["content"][0].get("text", "")
    for seq, run_id, body in db.execute(
        f"SELECT seq, run_id, body FROM messages WHERE {_OF_SESSION} AND role = 'user' AND run_id IN"
        " (SELECT exchange_id FROM exchanges WHERE kind = 'spawn' AND target <> ?)",
        (child, child),
    ).fetchall():
        text = json.loads(body)["content"][0]["text"]
        if seq > asked and run_id not in told and text not in told.get(own, ""):
            yield f"{run_id} was told to {child} only, which has announced"


def _deliveries(db: sqlite3.Connection, taken: Mapping[str, int], *, over: bool) -> Iterator[str]:
    """A channel has once what is said to be sent, and nothing of what is said not to be."""
    known: set[str] = set()
    for own, channel, state in db.execute("SELECT delivery_id, channel, state FROM deliveries"):
        known.add(own)
        count = taken.get(own, 0)
        least, most = {"sent": (1, 1), "unknown": (0, 1), "sending": (0, 1)}.get(state, (0, 0))
        if channel == "webchat":
            least, most = 0, 0
        if not least <= count <= most:
            yield f"{own} is {state} and the channel has it {count} times"
        if over and state in {"pending", "sending"}:
            yield f"{own} is {state} in the end"
    yield from (f"the channel has {own}, which does not exist" for own in taken if own not in known)
