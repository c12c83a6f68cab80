"""What cannot be read says why in its place, and is read once it can be."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.live.memory import Memory
from console.live.synchronizer import Synchronizer
from console.live.transcript import PAGE
from console.live.view_model import ViewModel
from core.gateway import HistoryPage
from core.model.access import Scope
from core.model.errors import Forbidden, Invalid, NotFound, SwitchboardError, Unavailable
from core.model.events import DurableEvent, Gap, MessageAppended
from core.runtime.gateway import Runtime
from tests.support.lines import Line
from tests.support.runtimes import MAIN, running, send, until

REMOTE = f"@far:{MAIN}"


class Closed(Line):
    """A gateway that reads no messages for a while."""

    problem: SwitchboardError | None = None

    async def history(self, key: str, scope: Scope, **options: Any) -> HistoryPage:
        """Return messages while it does."""
        if self.problem is not None:
            raise self.problem
        return await self.runtime.history(key, scope, **options)


@contextlib.asynccontextmanager
async def desk_on(runtime: Runtime) -> AsyncGenerator[tuple[ViewModel, Synchronizer, Closed]]:
    """Open a view_model on a gateway elsewhere."""
    from core.multi import MultiGateway

    line = Closed(runtime)
    line.become(name="far")
    fleet = MultiGateway({"far": line.gateway})
    view_model = ViewModel(fleet, Memory())
    synchronizer = Synchronizer(view_model)
    await synchronizer.load()
    task = asyncio.create_task(synchronizer.follow())
    try:
        yield view_model, synchronizer, line
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


ERRORS = [
    Forbidden("this token may not read"),
    Invalid("unexpected property offset"),
    Unavailable("no answer"),
    NotFound("there is no such session"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_page_that_cannot_be_read_says_why(state: Path, error: SwitchboardError) -> None:
    async with running(state) as runtime:
        for number in range(PAGE):
            await send(runtime, MAIN, f"say {number}")
        async with desk_on(runtime) as (view_model, _, line):
            key = next(iter(view_model.book.rows))
            transcript = await view_model.transcripts.open(key)
            assert transcript.item(1) is None
            line.problem = error
            view_model.changes.take()
            view_model.transcripts.fetch_wanted(transcript)
            await until(lambda: transcript.why_missing(1))
            assert transcript.why_missing(1) == error.message
            assert key in view_model.changes.take().transcripts
            assert transcript.item(1) is None
            assert not transcript.wanted, "it is not asked for again and again"
            line.problem = None
            await view_model.transcripts.open(key)
            assert transcript.item(1) is None
            view_model.transcripts.fetch_wanted(transcript)
            await until(lambda: transcript.item(1))
            assert not transcript.why_missing(1)


@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda error: type(error).__name__)
async def test_a_hole_that_cannot_be_filled_says_why_and_is_filled_after_a_gap(
    state: Path, error: SwitchboardError
) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say one")
        async with desk_on(runtime) as (view_model, synchronizer, line):
            key = next(iter(view_model.book.rows))
            transcript = await view_model.transcripts.open(key)
            publish = runtime.hub.publish

            def without_messages(events: Sequence[DurableEvent]) -> None:
                publish([each for each in events if not isinstance(each, MessageAppended)])

            runtime.hub.publish = without_messages
            line.problem = error
            await send(runtime, MAIN, "say two")
            await runtime.drained()
            await until(lambda: transcript.last == 4 and transcript.why_missing(4))
            assert transcript.why_missing(4) == error.message
            runtime.hub.publish = publish
            line.problem = None
            await synchronizer.apply(Gap("far"))
            await until(lambda: not transcript.refused)
            assert transcript.item(4) is None
            view_model.transcripts.fetch_wanted(transcript)
            await until(lambda: transcript.item(4))
            await send(runtime, MAIN, "say three")
            await until(lambda: transcript.last == 6 and transcript.item(6))


async def test_another_error_does_not_end_what_follows_events(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say one")
        async with desk_on(runtime) as (view_model, _, line):
            key = next(iter(view_model.book.rows))
            await view_model.transcripts.open(key)
            line.problem = Forbidden("no")
            await send(runtime, MAIN, "say two")
            await runtime.drained()
            line.problem = None
            await send(runtime, "agent:main:other", "say three")
            await until(lambda: any("other" in each for each in view_model.book.rows))
