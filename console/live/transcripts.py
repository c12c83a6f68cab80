"""The open transcripts: read by pages where somebody looks, and kept true from events."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from console.live.book import Book
from console.live.changes import PendingChanges
from console.live.exchanges import Exchanges
from console.live.text.words import LOCAL
from console.live.transcript import PAGE, Transcript
from core.gateway import Feed
from core.model.access import ALL
from core.model.connection import REACHED
from core.model.errors import NotFound, SwitchboardError, Unavailable
from core.model.keys import split
from core.model.messages import Message
from core.model.paging import forwards
from core.model.sessions import HistoryPage, Session
from core.multi import MultiGateway
from core.tasks import Tasks

RUNS: Final = 200
"""How many runs of a session are read when it is opened, to know which messages are steps of exchanges."""
_log = logging.getLogger("switchboard.console")


class Transcripts:
    """The transcripts that somebody looks at, by key in `opened`.

    `exchanges` gets those of each session that is opened, and of its sub-agents.
    """

    def __init__(self, gateway: MultiGateway, book: Book, exchanges: Exchanges, changes: PendingChanges) -> None:
        self.opened: dict[str, Transcript] = {}
        self._gateway = gateway
        self._book = book
        self._exchanges = exchanges
        self._changes = changes
        self._feed: Feed | None = None
        self._ends: dict[str, int] = {}
        self._fetching: set[str] = set()
        self._tasks = Tasks(lambda error: _log.error("a transcript was not read on", exc_info=error))

    def follow(self, feed: Feed) -> None:
        """Have this feed tell of the messages of open sessions."""
        self._feed = feed
        for key in self.opened:
            feed.watch(key)

    # Opening and paging

    async def open(self, key: str) -> Transcript:
        """Open a transcript at its end, keep it live; `NotFound`: its session is gone, `Unavailable`: not reached."""
        known = self.opened.get(key)
        if known is not None:
            known.look_again()
            return known
        self._check_reached(key)
        if self._feed is not None:
            self._feed.watch(key)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close, key)  # one that was cut off is not open
            transcript = await self._read(key)
            undo.pop_all()
        return transcript

    def close(self, key: str) -> None:
        """Give an open transcript up."""
        self.opened.pop(key, None)
        if self._feed is not None:
            self._feed.unwatch(key)

    def close_all(self, gateway: str) -> None:
        """Give the open transcripts of a gateway up."""
        for key in self._of(gateway):
            self.close(key)

    async def read_again(self, gateway: str) -> None:
        """Read the open transcripts of a gateway again."""
        for key in self._of(gateway):
            try:
                await self._read(key)
                self._changes.note().transcripts.add(key)
            except NotFound:
                self.close(key)
            except SwitchboardError as error:
                self._refuse(self.opened[key], self.opened[key].first, error)

    async def read_exchanges(self) -> None:
        """Read the exchanges of all open sessions."""
        for key in list(self.opened):
            await self._read_exchanges(key)

    def fetch_wanted(self, transcript: Transcript) -> None:
        """Start reading the pages that somebody looked for and did not find."""
        if transcript.key in self._fetching or not transcript.wanted:
            return
        self._fetching.add(transcript.key)
        self._tasks.spawn(self._fetch_all(transcript))

    async def whole(self, key: str, seq: int) -> Message | None:
        """Read one message without anything cut."""
        page = await self._gateway.history(key, ALL, limit=1, before=seq + 1)
        return page.messages[0] if page.messages and page.messages[0].seq == seq else None

    # Following

    def changing(self, *keys: str) -> Iterator[Transcript]:
        """Yield those of these transcripts that are open, each to be changed and then drawn."""
        for key in keys:
            if (transcript := self.opened.get(key)) is not None:
                yield transcript
                self._changes.note().transcripts.add(key)

    async def append(self, key: str, session_id: str, message: Message) -> None:
        """Add a message at the end, and before it those that are missing."""
        transcript = self.opened.get(key)
        if transcript is None or transcript.session_id != session_id:
            return
        if not transcript.append(message) and message.seq > transcript.last:
            await self._catch_up(transcript, message.seq)
        self._changes.note().transcripts.add(key)

    async def follow_session(self, session: Session) -> None:
        """Start an open transcript anew when its session was reset, and fill a hole that its row tells of."""
        known = self.opened.get(session.key)
        if known is None:
            return
        if known.session_id != session.session_id:
            known = Transcript(session.key, session.session_id, session.first_seq, session.first_seq - 1)
            self.opened[session.key] = known
            self._changes.note().transcripts.add(session.key)
        if session.last_seq > known.last:
            await self._catch_up(known, session.last_seq)
            self._changes.note().transcripts.add(session.key)

    def resume(self, gateway: str) -> None:
        """After a gap: what is under way is told again by the feed, what is stored too."""
        for transcript in self.changing(*self._of(gateway)):
            transcript.live = None
            transcript.look_again()

    # Reading

    def _of(self, gateway: str) -> list[str]:
        """Return the keys of the open transcripts of a gateway."""
        return [key for key in self.opened if split(key)[0] == gateway]

    def _check_reached(self, key: str) -> None:
        connection = self._gateway.of(key).connection
        if connection.state not in REACHED:
            name = connection.name or LOCAL
            raise Unavailable(f"{name} is not connected: what was not read yet can be read when it is")

    async def _read(self, key: str) -> Transcript:
        """Read a session's transcript from its end."""
        session = await self._gateway.get_session(key, ALL)
        transcript = self.opened[key] = Transcript(key, session.session_id, session.first_seq, session.last_seq)
        await self._read_exchanges(key)
        for run in reversed(await self._gateway.runs(key, ALL, limit=RUNS)):
            transcript.take_run(run)
        if session.last_seq >= session.first_seq:
            await self._fetch(transcript, session.last_seq + 1, PAGE)
        return transcript

    async def _read_exchanges(self, key: str) -> None:
        """Read the exchanges of a session and of those of its sub-agents that have some of their own."""
        await self._exchanges.read(self._gateway, key)
        for _, row in self._book.below(key):
            if self._book.children(row.session.key):
                await self._exchanges.read(self._gateway, row.session.key)

    async def _fetch_all(self, transcript: Transcript) -> None:
        try:
            while (wanted := transcript.next_page()) is not None:
                before, limit = wanted
                try:
                    self._check_reached(transcript.key)
                    await self._fetch(transcript, before, limit)
                except SwitchboardError as error:
                    self._refuse(transcript, before - limit, error, before - 1)
        finally:
            self._fetching.discard(transcript.key)

    async def _fetch(self, transcript: Transcript, before: int, limit: int) -> None:
        first, wanted = before - limit, before
        while wanted > first:  # a page ends sooner where messages are long
            page = await self._gateway.history(
                transcript.session_id, ALL, limit=wanted - first, before=wanted, include_tools=True, in_brief=True
            )
            transcript.take_page(page.messages)
            self._changes.note().transcripts.add(transcript.key)
            wanted = page.before or first

    async def _catch_up(self, transcript: Transcript, last: int) -> None:
        """Fill the hole before a message that came too early; from elsewhere, without keeping other events waiting."""
        key = transcript.key
        if not split(key)[0]:
            await self._fill(transcript, last)
            return
        is_filling = key in self._ends
        self._ends[key] = max(last, self._ends.get(key, 0))
        if not is_filling:
            self._tasks.spawn(self._fill_soon(transcript))

    async def _fill_soon(self, transcript: Transcript) -> None:
        try:
            while transcript.last < (last := self._ends[transcript.key]):
                before = transcript.last
                await self._fill(transcript, last)
                if transcript.last == before:
                    return
        finally:
            self._ends.pop(transcript.key, None)
            self._changes.note().transcripts.add(transcript.key)

    async def _fill(self, transcript: Transcript, last: int) -> None:
        async def read(limit: int, before: int) -> HistoryPage:
            return await self._gateway.history(transcript.key, ALL, limit=limit, before=before, in_brief=True)

        try:
            async for messages, _ in forwards(read, transcript.last, last, PAGE):
                before = transcript.last
                for message in messages:
                    transcript.append(message)
                if transcript.last == before:
                    return
        except NotFound:
            return  # it was deleted: what follows tells of it
        except SwitchboardError as error:
            self._refuse(transcript, transcript.last + 1, error, last)

    def _refuse(self, transcript: Transcript, first: int, error: SwitchboardError, last: int | None = None) -> None:
        """Show in the place of messages why they could not be read."""
        transcript.refuse(first, transcript.last if last is None else last, error.message)
        self._changes.note().transcripts.add(transcript.key)
