"""Keeps the transcripts' files beside the database up to date (architecture#files); the database has it all.

A file is written when a run of its session ends, and what else was said is written at a clean end. The database notes
up to which change all files are written; what came after it, because a process died, is written at the next start.
"""

import contextlib
import logging
from typing import Final

from core.model.errors import Unavailable
from core.store import jsonl
from core.store.database import Db, Store
from core.tasks import Tasks

_log = logging.getLogger("switchboard.runtime")
_AT_A_TIME: Final = 32
"""Files that are written before other long reads have their turn."""


class TranscriptFiles:
    """The files of one state directory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = Tasks(lambda error: _log.error("transcripts' files were not written", exc_info=error))
        self._behind: set[tuple[str, str]] = set()
        self._begun = False

    def begin(self) -> None:
        """Write what a process that died has left behind; from now on this process keeps the files."""
        self._begun = True
        self._tasks.spawn(self._catch_up())

    def note(self, key: str, session_id: str) -> None:
        """Note that a transcript has a message that its file does not hold yet."""
        self._behind.add((key, session_id))

    def bring_up_to_date(self, key: str, session_id: str) -> None:
        """Append to the file of a transcript what it does not hold yet, soon."""
        self.note(key, session_id)
        self._tasks.spawn(self._write([(key, session_id)]))

    async def written(self) -> None:
        """Wait until what was asked for is done."""
        await self._tasks.wait()

    async def finish(self) -> None:
        """Write everything that is behind, and note in the database that nothing is."""
        if self._begun:
            with contextlib.suppress(Unavailable):
                await self._store.write(lambda _: None)  # what was on its way, for whoever is gone, is stored before it
        await self.written()
        if not self._begun:
            return
        try:
            rev = await self._store.scan(jsonl.newest)
            await self._write(sorted(self._behind))
            if not self._behind and rev > await self._store.scan(jsonl.recorded):
                await self._store.write(lambda tx: jsonl.record(tx.db, rev))
        except Unavailable as error:
            _log.warning("the transcripts' files will be brought up to date at the next start: %s", error)

    async def _catch_up(self) -> None:
        with contextlib.suppress(Unavailable):  # whoever reads or writes next says it
            directory = self._store.directory
            found = await self._store.scan(lambda db: jsonl.behind(db, directory))
            self._behind.update(found)
            await self._write(found)

    async def _write(self, transcripts: list[tuple[str, str]]) -> None:
        for start in range(0, len(transcripts), _AT_A_TIME):
            some = transcripts[start : start + _AT_A_TIME]
            self._behind.difference_update(some)  # what is said from now on is behind again
            try:
                await self._store.scan(lambda db, some=some: self._append_new(db, some))
            except Unavailable as error:
                self._behind.update(some)
                _log.warning("%d transcripts' files were not written: %s", len(some), error)

    def _append_new(self, db: Db, transcripts: list[tuple[str, str]]) -> None:
        for key, session_id in transcripts:
            try:
                jsonl.append_new(db, self._store.directory, key, session_id)
            except (OSError, Unavailable, ValueError) as error:
                _log.warning("the transcript file of %s was not written: %s", key, error)
                if not isinstance(error, ValueError):  # what is not ours in there stays, whoever tries
                    self._behind.add((key, session_id))
