"""The view_model over two gateways: one that is slow, lost or another store does nothing to the rows of the other."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from console.live.book import Book
from console.live.memory import Memory
from console.live.synchronizer import Synchronizer
from console.live.view_model import ViewModel
from core.model.events import Reloaded, SessionChanged
from core.multi import MultiGateway
from core.runtime.gateway import Runtime
from tests.live.samples import make_session
from tests.support.lines import Line
from tests.support.runtimes import MAIN, running, send, until

if TYPE_CHECKING:
    from core.model.sessions import Session

THERE = "@prod:agent:main:main"
KEYS = [f"@prod:agent:main:s{number}" for number in range(4)]


@contextlib.asynccontextmanager
async def following(folder: Path) -> AsyncGenerator[tuple[ViewModel, Synchronizer, Runtime, Runtime, Line]]:
    """Open a view_model over two gateways, each with a session."""
    async with running(folder / "here") as here, running(folder / "prod") as prod:
        await send(here, "main", "hello")
        await send(prod, "main", "hello")
        line = Line(prod)
        view_model = ViewModel(MultiGateway({"": here, "prod": line.gateway}), Memory())
        synchronizer = Synchronizer(view_model)
        await synchronizer.load()
        synchronizer.configure()
        task = asyncio.create_task(synchronizer.follow())
        try:
            yield view_model, synchronizer, here, prod, line
        finally:
            task.cancel()


async def test_a_slow_transcript_elsewhere_keeps_no_other_event_waiting(tmp_path: Path) -> None:
    async with following(tmp_path) as (view_model, synchronizer, here, prod, line):
        await view_model.transcripts.open(THERE)
        asked, answers = asyncio.Event(), asyncio.Event()

        async def slowly(*args: Any, **kwargs: Any) -> Any:
            asked.set()
            await answers.wait()
            return await prod.history(*args, **kwargs)

        line.gateway.history = slowly
        transcript = view_model.transcripts.opened[THERE]
        session = view_model.book.rows[THERE].session
        changed = SessionChanged(session.rev + 1, session._replace(rev=session.rev + 1, last_seq=4))
        await asyncio.wait_for(synchronizer.apply(changed), 5)
        await asked.wait()
        await send(here, "agent:main:new", "hello")
        await until(lambda: "agent:main:new" in view_model.book.rows)
        assert transcript.last == 2
        await send(prod, "main", "again")
        answers.set()
        await until(lambda: transcript.last == 4)


async def test_rows_of_a_lost_gateway_stay_and_are_read_again_when_it_is_back(tmp_path: Path) -> None:
    async with following(tmp_path) as (view_model, synchronizer, _, prod, line):
        assert set(view_model.book.rows) == {MAIN, THERE}
        line.become(state="lost", heard_at=view_model.wall_ms() - 5_000)
        await until(lambda: view_model.silent_ms(THERE) is not None)
        assert view_model.silent_ms(MAIN) is None
        assert (view_model.silent_ms(THERE) or 0) >= 5_000
        assert view_model.now_ms(THERE) <= view_model.now_ms(MAIN) - 4_000
        prod.hub.passing(Reloaded())
        await until(lambda: "prod" in synchronizer.void)
        assert THERE in view_model.book.rows
        line.become(state="live")
        await until(lambda: not synchronizer.void)
        assert view_model.silent_ms(THERE) is None
        assert set(view_model.book.rows) == {MAIN, THERE}


async def test_only_the_gateway_that_was_reloaded_is_read_again(tmp_path: Path) -> None:
    async with following(tmp_path) as (view_model, synchronizer, _, prod, _):
        await view_model.transcripts.open(MAIN)
        await view_model.transcripts.open(THERE)
        mine, theirs = view_model.transcripts.opened[MAIN], view_model.transcripts.opened[THERE]
        ghost = make_session("@prod:agent:main:ghost", rev=10**9)
        view_model.book.apply(SessionChanged(ghost.rev, ghost))
        prod.hub.passing(Reloaded())
        await until(lambda: ghost.key not in view_model.book.rows)
        await until(lambda: not synchronizer.void)
        assert view_model.transcripts.opened[MAIN] is mine
        assert view_model.transcripts.opened[THERE] is not theirs


async def test_drafts_and_what_was_seen_stay_with_a_gateway_that_is_put_away(tmp_path: Path) -> None:
    async with following(tmp_path) as (view_model, synchronizer, _, prod, line):
        view_model.memory.keep_draft(THERE, "half")
        await send(prod, "main", "news")
        await until(lambda: view_model.book.rows[THERE].unread == 2)
        view_model.gateway.remove("prod")
        await until(lambda: THERE not in view_model.book.rows)
        assert synchronizer.unseen()[THERE] == 2
        view_model.gateway.add("prod", line.gateway)
        await until(lambda: THERE in view_model.book.rows)
        assert view_model.book.rows[THERE].unread == 2
        assert view_model.memory.drafts[THERE] == "half"


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 50)), max_size=6),
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 5)), max_size=6),
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(6, 9)), max_size=4),
)
def test_after_another_store_only_what_it_tells_is_left(
    before: list[tuple[str, int]], listed: list[tuple[str, int]], told: list[tuple[str, int]]
) -> None:
    mine = make_session("agent:main:mine")
    book = Book()
    book.load([mine, *(make_session(key, rev=rev, label="old") for key, rev in before)], {})
    book.void("prod")
    page: dict[str, Session] = {key: make_session(key, rev=rev, label="new") for key, rev in listed}
    expected = dict(page)
    for key, rev in told:  # of the new store, heard while it was being read
        session = make_session(key, rev=rev, label="new")
        book.apply(SessionChanged(rev, session))
        if rev > getattr(expected.get(key), "rev", 0):
            expected[key] = session
    book.load_one("prod", page.values(), {})
    rows = {key: row.session for key, row in book.rows.items()}
    assert rows == {mine.key: mine, **expected}
    assert sum(book.counts.values()) == len(rows)
    assert {placed.key for placed in book.placement.placed()} == set(rows)
