"""The database: its files, its connections, and the one writer with group commit.

Reads of a few hundred indexed rows run on the caller's own connection (`Store.db`); long ones on one reader thread
(`Store.scan`). Every write is a function that runs on the writer thread and takes effect as a whole or not at all;
writes that arrive together share one commit (WAL, synchronous=FULL) and are acknowledged after it
(architecture#loop-and-writer).
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from core.clock import Clock
from core.files import make_folder, open_private
from core.model.errors import SwitchboardError, Unavailable
from core.model.events import DurableEvent
from core.model.sessions import Session
from core.store.explain import CLOSED, DATABASE_NAME, explain, explained
from core.store.guard import FILES, PAGE_BYTES, FileGuard
from core.store.maintenance.repair import NUMBERED
from core.store.schema import check_tables, migrate

T = TypeVar("T")
Db = sqlite3.Connection
"""A connection, for those who hand one on without knowing SQL."""

_MAX_GROUP: Final = 512
_REMEMBERED_ROWS: Final = 2_000
_PRAGMAS: Final = "PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY;"
_READER_PRAGMAS: Final = "PRAGMA query_only = ON;"
_WRITER_PRAGMAS: Final = "PRAGMA synchronous = FULL;"
_LOOK_SECONDS: Final = 1.0
"""After so long without a write, the files are looked at, and the log is folded back into the database: then the
database alone holds it all."""
_FOLD_SECONDS: Final = 10.0
"""The log is folded back after so long however much is written."""
_log = logging.getLogger("switchboard.store")


@dataclass(slots=True)
class Tx:
    """One write as its function sees it: the connection, the time, and what subscribers will hear after the commit.

    Attributes:
        directory: The state directory, for paths that a row tells of.
        now: ms since the Unix epoch; the same for everything in this write.
        rows: The writer's memory of sessions as they stand in this transaction; whoever changes a row in another way
            than through `core.store.sessions` takes it out.
        touched: Keys of sessions that changed; each becomes one `SessionChanged` when the function has ended.
        afterwards: Statements with their values that run at the end of the group, before its commit: FTS5 writes its
            pending words to disk at every savepoint, which would triple the cost of an append.
    """

    db: sqlite3.Connection
    directory: Path
    now: int
    rev: int
    rows: dict[str, Session] = field(default_factory=dict[str, Session])
    events: list[DurableEvent] = field(default_factory=list[DurableEvent])
    touched: dict[str, None] = field(default_factory=dict[str, None])
    afterwards: list[tuple[str, tuple[object, ...]]] = field(default_factory=list[tuple[str, tuple[object, ...]]])

    def next_rev(self) -> int:
        """Take the next number of the global order."""
        self.rev += 1
        return self.rev


WriteFunction = Callable[[Tx], T]
"""A write. It may run a second time when another one of its group fails, so it does nothing beyond its `Tx`."""
Finish = Callable[[Tx], None]
Publish = Callable[[Sequence[DurableEvent]], None]


@dataclass(slots=True)
class _Job(Generic[T]):
    function: WriteFunction[T]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]
    result: T | None = None
    error: BaseException | None = None
    events: list[DurableEvent] = field(default_factory=list[DurableEvent])
    afterwards: list[tuple[str, tuple[object, ...]]] = field(default_factory=list[tuple[str, tuple[object, ...]]])


class Store:
    """The open database of one state directory.

    Opening creates what is missing. Writing needs `start_writer`, which only the process that owns the state
    directory may call (`core.store.lock`).
    """

    def __init__(self, directory: Path, clock: Clock, db: sqlite3.Connection) -> None:
        self.directory = directory
        self.db = db
        self.clock = clock
        self.publish: Publish = _nobody_listens
        self._path = directory / DATABASE_NAME
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._reader_db: sqlite3.Connection | None = None
        self._writer: _Writer | None = None
        self._guard = FileGuard(directory, (DATABASE_NAME,))

    @classmethod
    def open(cls, directory: Path, clock: Clock) -> "Store":
        """Open the database of a state directory, creating or migrating it as needed.

        `Unavailable` where the directory cannot be written, is full, damaged, or holds a newer schema.
        """
        path = directory / DATABASE_NAME
        with explained(directory):
            _make_private(path)
            with contextlib.ExitStack() as undo:
                db = undo.enter_context(contextlib.closing(_connect(path)))
                migrate(db, directory)
                check_tables(db, directory)
                undo.pop_all()
        return cls(directory, clock, db)

    def start_writer(self, finish: Finish) -> None:
        """Start the writer thread.

        Args:
            finish: Runs at the end of each write, inside its savepoint; turns what was touched into events.

        Raises:
            Unavailable: The database cannot be opened for writing, or is damaged.
        """
        with explained(self.directory):
            self._writer = _Writer(self._path, self.clock, finish, self._on_commit)
        self._guard = self._writer.guard

    def unready(self) -> str | None:
        """Return why nothing can be written now, in one sentence; None when all is well."""
        if self._writer is None:
            return f"the state directory {self.directory} {CLOSED}"
        try:
            with explained(self.directory):
                return self._writer.problem() or self._writer.superseded(self.db)
        except SwitchboardError as error:
            return error.message

    async def write(self, function: WriteFunction[T]) -> T:
        """Run a function on the writer thread and return its result once it is on disk.

        `Unavailable` when the store cannot be written: not the owner, disk full, closed.
        """
        if self._writer is None:
            raise Unavailable("the state directory is open for reading only")
        loop = asyncio.get_running_loop()
        job = _Job(function, loop, loop.create_future())
        self._writer.submit(job)
        return await job.future

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a short read on the caller's own connection; `Unavailable` where the database cannot be read."""
        with explained(self.directory):
            return function(self.db)

    async def scan(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a long read on the reader thread, on a connection of its own."""

        def call() -> T:
            with explained(self.directory):
                if self._reader_db is None:
                    self._reader_db = _connect(self._path, readonly=True)
                return function(self._reader_db)

        try:
            reading = asyncio.get_running_loop().run_in_executor(self._reader, call)
        except RuntimeError:  # the thread takes nothing any more
            raise Unavailable(f"the state directory {self.directory} {CLOSED}") from None
        return await reading

    async def aclose(self) -> None:
        """Finish the writes that were accepted and close every connection, while the loop goes on.

        What is read here from now on is refused.
        """
        self._guard.close(self.db)  # here, where it is read: SQLite does not survive that a read goes on beside it
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Finish the writes that were accepted and close every connection; the caller waits for it."""
        self._guard.close(self.db)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with contextlib.suppress(RuntimeError):  # a second time there is nothing to close
            self._reader.submit(self._close_reader)
        self._reader.shutdown(wait=True)

    def _close_reader(self) -> None:
        if self._reader_db is not None:
            self._guard.close(self._reader_db)

    def _on_commit(self, jobs: Sequence[_Job[Any]]) -> None:
        """Tell subscribers, then whoever waits; runs in the event loop, in commit order."""
        events = [event for job in jobs for event in job.events]
        if events:
            self.publish(events)
        for job in jobs:
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


class _Writer:
    """The writer thread: takes what has arrived, runs it in one transaction, commits, acknowledges."""

    def __init__(
        self, path: Path, clock: Clock, finish: Finish, acknowledge: Callable[[Sequence[_Job[Any]]], None]
    ) -> None:
        self._directory = path.parent
        with contextlib.ExitStack() as undo:
            self._db = undo.enter_context(contextlib.closing(_connect(path)))
            self._epoch, rev = _take_over(self._db)
            self.guard: Final = FileGuard(path.parent, FILES)
            pages = self.guard.log_pages
            self._db.executescript(
                f"PRAGMA wal_autocheckpoint = {pages}; PRAGMA journal_size_limit = {pages * PAGE_BYTES};"
            )
            undo.pop_all()
        self._rev: int | None = rev
        self._lost: str | None = None
        self._told: str | None = None
        self._unfolded = True
        self._folded_at = time.monotonic()
        self._rows: dict[str, Session] = {}
        self._clock = clock
        self._finish = finish
        self._acknowledge = acknowledge
        self._gathered: list[_Job[Any]] = []
        self._groups: deque[list[_Job[Any]]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, job: _Job[Any]) -> None:
        """Take a job; those of one round of the event loop go to the thread together, and share a commit."""
        if self._closing:
            raise Unavailable("the store is closing")
        self._gathered.append(job)
        if len(self._gathered) == 1:
            job.loop.call_soon(self._hand_over)

    def problem(self) -> str | None:
        """Return why nothing can be written now, as far as the files tell; None when all is well."""
        return self._lost or self.guard.problem()

    def superseded(self, db: sqlite3.Connection) -> str | None:
        """Return that another process has taken the directory over; None when it has not."""
        if _epoch(db) == self._epoch:
            return None
        return (
            f"another switchboard has taken over the state directory {self._directory}: nothing more is accepted here;"
            " stop this one"
        )

    def close(self) -> None:
        """Write what was taken, then end the thread."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _hand_over(self) -> None:
        group, self._gathered = self._gathered, []
        if group:
            self._groups.append(group)
        self._wake.set()

    def _run(self) -> None:
        while True:
            is_woken = self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()
            closing = self._closing
            if closing:  # nothing is taken any more; what was, is the last group
                self._hand_over()
            while self._groups:
                group = self._groups.popleft()
                while self._groups and len(group) < _MAX_GROUP:
                    group += self._groups.popleft()
                self._commit(group)
                # A loop that has closed meanwhile has nobody left to tell; the commit stands.
                with contextlib.suppress(RuntimeError):
                    group[0].loop.call_soon_threadsafe(self._acknowledge, group)
            if closing:
                self._fold("TRUNCATE")
                self.guard.close(self._db)
                return
            if not is_woken:
                self._look()
            if not is_woken or time.monotonic() - self._folded_at > _FOLD_SECONDS:
                self._fold("PASSIVE")

    def _look(self) -> None:
        """Tell the log when something came in between; who asks or writes is told anyway."""
        problem = self.guard.changed()
        if problem is not None and problem != self._told:
            _log.error("%s", problem)
        self._told = problem

    def _fold(self, mode: str) -> None:
        """Fold the log back into the database, as far as readers let it."""
        if self._unfolded and self.guard.changed() is None:
            with contextlib.suppress(sqlite3.Error):
                _, pages, folded = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
                self._unfolded = folded < pages
            self._folded_at = time.monotonic()

    def _commit(self, group: Sequence[_Job[Any]]) -> None:
        """Run a group in one transaction; what fails as a whole leaves the numbers of order as they were."""
        db, now = self._db, self._clock.now_ms()
        try:
            with explained(self._directory):
                _refuse(self.guard.problem())
                rev = self._begin()
                try:
                    rev = self._run_together(db, group, now, rev)
                except _LeftChanges:
                    self._rows.clear()
                    db.execute("ROLLBACK")
                    rev = self._run_apart(db, group, now, self._begin())
                for statement, values in [entry for job in group for entry in job.afterwards]:
                    db.execute(statement, values)
                db.execute("COMMIT")
                self._unfolded = True
                _refuse(self.guard.changed())
        except BaseException as error:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            self._rows.clear()
            self._rev = None  # whether the commit stands is for the database to say
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            for job in group:
                job.error = job.error or error
                job.events = []
        else:
            self._rev = rev
            if len(self._rows) > _REMEMBERED_ROWS:
                self._rows.clear()

    def _begin(self) -> int:
        """Begin a transaction; return the last number of order that was given out before it.

        `Unavailable` when another process has taken the directory over, which is for good.
        """
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        self._lost = self.superseded(db)
        _refuse(self._lost)
        return last_rev(db) if self._rev is None else self._rev

    def _run_together(self, db: sqlite3.Connection, group: Sequence[_Job[Any]], now: int, rev: int) -> int:
        """Run all jobs without savepoints, which cost a fifth of an append; return the last number of order.

        `_LeftChanges`: a job failed after it had changed something.
        """
        for job in group:
            changes = db.total_changes
            rev = self._run_job(job, Tx(db, self._directory, now, rev, self._rows))
            if job.error is not None and (db.total_changes != changes or not db.in_transaction):
                raise _LeftChanges if db.in_transaction else job.error
        return rev

    def _run_apart(self, db: sqlite3.Connection, group: Sequence[_Job[Any]], now: int, rev: int) -> int:
        """Run all jobs again, each in a savepoint of its own; return the last number of order."""
        for job in group:
            db.execute("SAVEPOINT job")
            rev = self._run_job(job, Tx(db, self._directory, now, rev, self._rows))
            if job.error is not None:
                if not db.in_transaction:  # SQLite has taken back the whole group: disk full or an I/O error
                    raise job.error
                self._rows.clear()
                db.execute("ROLLBACK TO job")
            db.execute("RELEASE job")
        return rev

    def _run_job(self, job: _Job[Any], tx: Tx) -> int:
        job.result, job.error, job.events, job.afterwards = None, None, [], []
        try:
            job.result = job.function(tx)
            self._finish(tx)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for this job
            job.error = error if isinstance(error, SwitchboardError) else explain(error, self._directory)
        else:
            job.events = sorted(tx.events, key=lambda event: event.rev)
            job.afterwards = tx.afterwards
        return tx.rev


class _LeftChanges(Exception):
    """A job of a group failed after it had changed something; the group starts anew, job by job."""


def last_rev(db: sqlite3.Connection) -> int:
    """Return the highest `rev` given out so far, 0 in a new database."""
    newest = ", ".join(f"coalesce((SELECT max(rev) FROM {table}), 0)" for table in NUMBERED)
    return int(db.execute(f"SELECT max({newest})").fetchone()[0])


def store_id(db: sqlite3.Connection) -> str:
    """Return the uuid that the database was given when it was made."""
    return str(db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchone()[0])


def _epoch(db: sqlite3.Connection) -> int:
    """Return how often the directory was taken over."""
    return int(db.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])


def _take_over(db: sqlite3.Connection) -> tuple[int, int]:
    """Make this connection's process the only one that may commit from now on; return its number and the last rev."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        epoch, rev = _epoch(db) + 1, last_rev(db)
        db.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (str(epoch),))
    return epoch, rev


def data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has written."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _make_private(path: Path) -> None:
    """Create the folder (0700) and the file (0600); SQLite gives its side files the same rights."""
    make_folder(path.parent)
    os.close(open_private(path, os.O_CREAT | os.O_RDWR))


def _connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    # A connection belongs to one thread at a time; the store sees to that, closing happens on another.
    with contextlib.ExitStack() as undo:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
        undo.callback(db.close)
        db.executescript(_PRAGMAS + (_READER_PRAGMAS if readonly else _WRITER_PRAGMAS))
        undo.pop_all()
    return db


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise Unavailable(problem)


def _nobody_listens(events: Sequence[DurableEvent]) -> None:
    """Stand in for the feed until there is one."""
