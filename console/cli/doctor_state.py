"""What `switchboard doctor` finds in a state directory: its files, their rights, its owner, and what is at risk."""

import contextlib
import os
import shutil
import sqlite3
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from console.live.text.words import counted
from console.log import LOG_NAME
from core.clock import SystemClock
from core.config.paths import Places
from core.config.settings import Settings
from core.config.token import HOW_TO_MAKE_ONE, TOKEN_NAME, weakness
from core.files import folder_problem, read_secret
from core.model.access import ALL
from core.model.errors import SwitchboardError
from core.model.sessions import SessionQuery
from core.store import sessions
from core.store.database import DATABASE_NAME, Store
from core.store.explain import explained
from core.store.guard import PAGE_BYTES
from core.store.lock import current_owner
from core.store.maintenance.backup import FOLDER as BACKUPS
from core.store.maintenance.check import glance
from core.wire.local import SOCKET_NAME

Verdict = Literal["ok", "note", "wrong"]
LOW_BYTES = 100_000_000
LONG_WAL_BYTES = 64_000_000
STOP_IT = "wait until it does, or stop it and start it anew"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `advice` is what to do, empty when nothing needs doing."""

    topic: str
    verdict: Verdict
    words: str
    advice: str = ""


def examine_state(places: Places) -> Iterator[Finding]:
    """Look at the state directory."""
    state = places.state
    has_wal = os.path.lexists(state / f"{DATABASE_NAME}-wal")  # before it is opened here, which makes one
    owner = current_owner(state)
    try:
        with contextlib.closing(Store.open(state, SystemClock())) as store, explained(state):
            count = len(sessions.select(store.db, SessionQuery(archived=None), ALL).sessions)
            yield Finding("state", "ok", f"{state} ({places.state_origin}): {counted(count, 'session')}")
            yield from _fit(store.db, state, is_owned=owner is not None)
            yield from _log_of_writes(state)
    except SwitchboardError as error:
        yield Finding("state", "wrong", error.message)
        return
    yield from _above(state)
    yield from _room(state)
    yield from _backups(state)
    log = state / LOG_NAME
    said = "see what it says" if log.exists() else "nothing unexpected so far"
    yield Finding("log", "note" if log.exists() else "ok", f"{log}: {said}")
    if owner is None:
        yield Finding("owner", "ok", "nobody; the next console runs what is queued")
        return
    yield Finding("owner", "ok", owner.words)
    if not has_wal:
        yield Finding(
            "owner",
            "wrong",
            f"it is at work and its {DATABASE_NAME}-wal is gone: what it stores is lost with it",
            "stop it, and restore the newest backup if `switchboard check` finds that something is missing",
        )
    if not os.path.lexists(state / SOCKET_NAME):
        yield Finding("owner", "note", f"it does not answer other windows: there is no {SOCKET_NAME}", f"see {log}")
        return
    yield from _asked(state)


def _asked(state: Path) -> Iterator[Finding]:
    """Ask whoever owns the state directory whether work is accepted, as `/ready` tells it."""
    import asyncio

    from core.remote.native.local import asking

    async def ask() -> list[object]:
        async with asking(state) as link:
            failing = (await link.request("health", {})).get("failing")
        return cast("list[object]", failing) if isinstance(failing, list) else []

    try:
        failing = asyncio.run(ask())
    except SwitchboardError as error:
        yield Finding("owner", "wrong", f"it does not answer: {error.message}", STOP_IT)
    else:
        for reason in failing:
            yield Finding("owner", "wrong", f"it accepts no work now: {reason}")


def examine_access(places: Places, settings: Settings) -> Iterator[Finding]:
    """Look at who may use the gateway of this state directory: its token and the paired devices."""
    state = places.state
    try:
        token = settings.server.token.reveal() if settings.server.token is not None else read_secret(state / TOKEN_NAME)
    except SwitchboardError as error:
        yield Finding("token", "wrong", error.message)
        return
    name = f"{state / TOKEN_NAME}" if settings.server.token is None else settings.server.token.words
    if token is None:
        yield Finding("token", "ok", "none yet; `switchboard serve` makes one")
    elif problem := weakness(token.strip()):
        yield Finding("token", "wrong", f"the gateway's token ({name}) {problem.partition(':')[0]}", HOW_TO_MAKE_ONE)
    else:
        yield Finding("token", "ok", name)
    from core.server.devices import Devices

    devices = Devices(state)
    paired = devices.paired()
    if devices.problem:
        advice = "put the file back from a copy, or remove it and pair each device anew"
        yield Finding("devices", "wrong", f"nobody is paired: {devices.problem}", advice)
        return
    words = f"{counted(len(paired), 'device')} paired; `switchboard devices` lists them" if paired else "none paired"
    yield Finding("devices", "ok", words)


def _fit(db: sqlite3.Connection, state: Path, *, is_owned: bool) -> Iterator[Finding]:
    """Look whether what is stored fits together, as far as that is quickly told."""
    damage = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    if damage != "ok":
        advice = "restore a backup, or move it away to start anew"
        yield Finding("", "wrong", f"the database is damaged: {damage}", advice)
        return
    for problem in glance(db, state, is_owned=is_owned):
        advice = "`switchboard check --mend` mends it" if problem.mend is not None else "`switchboard check` says more"
        yield Finding(problem.topic, "note" if problem.mend is not None else "wrong", problem.words, advice)


def _log_of_writes(state: Path) -> Iterator[Finding]:
    """Say where the newest messages are: a copy of the database alone may hold none of them."""
    with contextlib.suppress(OSError, struct.error):
        waiting = _waiting_bytes(state)
        if waiting:
            words = f"{waiting:,} bytes of what is stored are in {DATABASE_NAME}-wal, not in {DATABASE_NAME} alone"
            advice = "copy it with `switchboard backup FILE`, never by itself"
            yield Finding("database", "note" if waiting > LONG_WAL_BYTES else "ok", words, advice)


def _waiting_bytes(state: Path) -> int:
    """Return the bytes of the log that have not been folded into the database yet, as its index tells them.

    The index begins with two headers of 48 bytes, the last frame at 16, and then has the frames that are folded
    (SQLite's documentation of the WAL-index format).
    """
    index = (state / f"{DATABASE_NAME}-shm").read_bytes()[:100]
    last, folded = struct.unpack_from("=I", index, 16)[0], struct.unpack_from("=I", index, 96)[0]
    return max(0, last - folded) * PAGE_BYTES


def _above(state: Path) -> Iterator[Finding]:
    """Look at the folder that holds the state directory: who may write to it may put another in its place."""
    with contextlib.suppress(OSError):
        found = state.resolve().parent.stat()
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
            problem = folder_problem(state.resolve().parent, trusted=frozenset({0, found.st_uid}))
            yield Finding("state", "note", problem.partition(":")[0], problem.partition(": ")[2])


def _room(state: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(state).free
    low = free < LOW_BYTES
    yield Finding("disk", "wrong" if low else "ok", f"{free // 1_000_000:,} MB free", "free some space" if low else "")
    places = os.statvfs(state)
    if places.f_files and not places.f_favail:
        yield Finding("disk", "wrong", "no file can be made: the file system is full of names", "remove some")


def _backups(state: Path) -> Iterator[Finding]:
    """Tell of the newest backup in the state directory; others may lie elsewhere."""
    found = [path for path in (state / BACKUPS).glob("*.tar") if path.is_file()]
    if not found:
        yield Finding("backup", "ok", f"none in {state / BACKUPS}; `switchboard backup FILE` writes one anywhere")
        return
    newest = max(found, key=lambda path: path.stat().st_mtime)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest.stat().st_mtime))
    yield Finding("backup", "ok", f"{newest}, of {when}")
