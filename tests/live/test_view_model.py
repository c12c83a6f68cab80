"""The view_model when sessions are deleted, and when what it knew of the gateway is void (architecture#console)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from console.live.book import Book
from console.live.memory import Memory
from console.live.synchronizer import Synchronizer
from console.live.view_model import ViewModel
from core.model.access import OPERATOR, Operator, Scope
from core.model.connection import Connection
from core.model.errors import NotFound, Unavailable
from core.model.events import ConnectionChanged, Reloaded
from core.model.sessions import Session, SessionPage, SessionQuery
from core.rules.policy import PolicyDecision, Rule, SendPolicy, decide
from core.runtime.gateway import Runtime
from tests.live.samples import make_session
from tests.support.runtimes import MAIN, nobody, running, send, session, until

OPS = "agent:main:discord:group:ops"
OTHER = "agent:main:other"


@contextlib.asynccontextmanager
async def following(runtime: Runtime, *keys: str) -> AsyncGenerator[ViewModel]:
    """Open a view_model on a runtime and sessions on it, and follow what happens."""
    view_model = ViewModel(runtime, Memory())
    synchronizer = Synchronizer(view_model)
    await synchronizer.load()
    for key in keys:
        await view_model.transcripts.open(key)
    task = asyncio.create_task(synchronizer.follow())
    try:
        yield view_model
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def unheard(runtime: Runtime, *deeds: Any) -> None:
    """Change the store without any subscriber hearing of it, as if it were another one."""
    publish, runtime.hub.publish = runtime.hub.publish, nobody
    for deed in deeds:
        await deed
    await runtime.drained()
    runtime.hub.publish = publish


async def test_a_deleted_session_leaves_the_book_and_the_open_transcripts(runtime: Runtime) -> None:
    for key in (MAIN, OPS):
        await send(runtime, key, "hello")
    async with following(runtime, MAIN, OPS) as view_model:
        view_model.changes.take()
        await runtime.delete(OPS, OPERATOR)
        await until(lambda: OPS not in view_model.book.rows)
        assert list(view_model.transcripts.opened) == [MAIN]
        assert view_model.changes.take().gone == {OPS}
        assert [placed.key for placed in view_model.book.placement.placed()] == [MAIN]
        assert sum(view_model.book.counts.values()) == 1
        with pytest.raises(NotFound):
            await view_model.transcripts.open(OPS)
        await send(runtime, OPS, "again")
        await until(lambda: OPS in view_model.book.rows and view_model.book.rows[OPS].unread == 2)


async def test_one_that_is_deleted_while_its_messages_are_read_stops_nothing(runtime: Runtime) -> None:
    await send(runtime, OPS, "hello")
    view_model = ViewModel(runtime, Memory())
    synchronizer = Synchronizer(view_model)
    await synchronizer.load()
    transcript = await view_model.transcripts.open(OPS)
    transcript.last -= 1  # there is a hole to be filled when the next message comes
    await send(runtime, OPS, "more")
    await runtime.drained()
    await runtime.delete(OPS, OPERATOR)
    await send(runtime, MAIN, "hello")
    task = asyncio.create_task(synchronizer.follow())
    await until(lambda: MAIN in view_model.book.rows and OPS not in view_model.book.rows)
    assert not task.done()
    task.cancel()


async def test_after_a_reload_everything_is_read_again(runtime: Runtime) -> None:
    for key in (MAIN, OPS, OTHER):
        await send(runtime, key, "say one")
    async with following(runtime, MAIN, OPS) as view_model:
        before = view_model.transcripts.opened[MAIN]
        await unheard(
            runtime,
            runtime.delete(OPS, OPERATOR),
            runtime.archive(OTHER, OPERATOR, archived=True),
            send(runtime, MAIN, "say two"),
            send(runtime, OTHER, "say three", Operator(MAIN)),
        )
        assert view_model.transcripts.opened[MAIN].last == 2
        last = (await session(runtime, MAIN)).last_seq
        assert last >= 4
        runtime.hub.passing(Reloaded())
        await until(
            lambda: view_model.transcripts.opened[MAIN].last == last and list(view_model.transcripts.opened) == [MAIN]
        )
        assert view_model.transcripts.opened[MAIN] is not before
        assert OPS not in view_model.book.rows
        assert view_model.book.rows[OTHER].session == await session(runtime, OTHER)
        assert view_model.exchanges.of(MAIN)
        await send(runtime, MAIN, "say four")
        await until(lambda: view_model.transcripts.opened[MAIN].last == last + 2)


class Unreachable(Runtime):
    """A runtime that cannot be reached for a while."""

    is_away = False

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions while it can be reached."""
        if self.is_away:
            raise Unavailable("the gateway does not answer")
        return await super().list_sessions(query, scope)


async def test_a_reload_that_fails_is_made_up_for_when_the_way_is_back(state: Path) -> None:
    async with running(state) as writer:
        await send(writer, MAIN, "hello")
        runtime = Unreachable.open(state)
        async with following(runtime, MAIN) as view_model:
            await send(writer, OPS, "hello")
            runtime.is_away = True
            for event in (Reloaded(), ConnectionChanged(Connection("lost", "no answer"))):
                runtime.hub.passing(event)
            await until(lambda: view_model.changes.take().connections)
            assert OPS not in view_model.book.rows
            runtime.is_away = False
            runtime.hub.passing(ConnectionChanged(Connection("live")))
            await until(lambda: OPS in view_model.book.rows)
        await runtime.close()


# What a row says of the send policy


class Silent(Runtime):
    """A runtime that does not tell its rules."""

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return nothing."""
        del session


async def test_a_row_says_what_the_gateway_says_of_the_policy(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "hello")
        async with following(runtime) as view_model:
            assert view_model.book.rows[MAIN].policy == runtime.policy_of(await session(runtime, MAIN))
            assert not view_model.book.rows[MAIN].denied
            await send(runtime, MAIN, "/send off")
            await until(lambda: view_model.book.rows[MAIN].denied)
    silent = Silent.open(state)
    async with following(silent) as view_model:
        assert view_model.book.rows[MAIN].policy is None
        assert not view_model.book.rows[MAIN].denied
    await silent.close()


def test_rows_follow_other_rules() -> None:
    policy = SendPolicy()

    def rules(session: Session) -> PolicyDecision:
        return decide(policy, session)

    book = Book(rules)
    book.load([make_session("agent:main:a")], {})
    assert not book.rows["agent:main:a"].denied
    policy = SendPolicy((Rule("deny"),))
    book.configure("agent:main:main", {})
    assert book.rows["agent:main:a"].denied


def test_sub_agents_of_a_deleted_session_stand_on_their_own() -> None:
    book = Book()
    rows = [make_session("agent:main:a"), make_session("agent:main:b", status="running", spawned_by="agent:main:a")]
    book.load(rows, {})
    assert [placed.branch for placed in book.placement.placed()] == ["", "└"]
    assert book.remove("agent:main:a")
    assert not book.remove("agent:main:a")
    assert [(placed.key, placed.branch) for placed in book.placement.placed()] == [("agent:main:b", "")]
    assert book.remove("agent:main:b")
    assert book.children("agent:main:a") == []
    assert (book.placement.placed(), set(book.counts.values())) == ([], {0})
