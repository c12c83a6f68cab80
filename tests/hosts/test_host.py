"""What a process hears and does through the owner of its state directory, and when it takes its place
(architecture#ownership)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from console.hosts.host import Host
from core.config.paths import Places
from core.gateway import Feed
from core.model.access import ALL, OPERATOR
from core.model.errors import Conflict
from core.model.events import ConnectionChanged, Delta, Event, MessageAppended, RunChanged
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch, SessionQuery
from core.wire.local import SOCKET_NAME

MAIN = "agent:main:main"


def places(state: Path) -> Places:
    """Return places without a configuration."""
    return Places(state, state / "none.json5", "test", "test", config_required=False)


@contextlib.asynccontextmanager
async def hosted(state: Path, *, starts: bool = True, pace: float = 0.0) -> AsyncGenerator[Host]:
    """Open a state directory as a console does."""
    host = Host(places(state), pace=pace)
    try:
        if starts:
            await host.start("console")
        if host.owns:
            await until((state / SOCKET_NAME).exists)
        yield host
    finally:
        await host.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def say(host: Host, words: str, run_id: str | None = None) -> str:
    """Send words to main, and return the reply."""
    ticket = await host.runtime.start_run(RunRequest(MAIN, words, run_id, create=True), OPERATOR)
    return (await host.runtime.wait_run(ticket.run_id, 20)).reply or ""


class Heard:
    """Everything that a feed tells."""

    def __init__(self, feed: Feed) -> None:
        self.events: list[Event] = []
        self._feed = feed
        self._task = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        async for event in self._feed:
            self.events.append(event)

    @property
    def words(self) -> list[str]:
        """The words of all messages, in the order in which they were heard."""
        return [event.message.text for event in self.events if isinstance(event, MessageAppended)]

    @property
    def states(self) -> list[str]:
        """The states of the connection, as they were heard."""
        return [event.connection.state for event in self.events if isinstance(event, ConnectionChanged)]


async def test_through_the_owner_one_does_and_hears_everything(state: Path) -> None:
    async with hosted(state, pace=0.05) as owner, hosted(state) as other:
        assert owner.owns
        assert not other.owns
        assert other.runtime.connection.state == "live"
        assert other.runtime.refusal("send") is None
        feed = other.runtime.subscribe()
        feed.watch(MAIN)
        heard = Heard(feed)
        assert await say(other, "say one two three") == "one two three"
        await until(lambda: heard.words == ["say one two three", "one two three"])
        assert any(isinstance(event, Delta) for event in heard.events), "words of the running reply come too"
        assert not other.active_runs
        assert await other.runtime.abort(MAIN, OPERATOR) == []
        patched = await other.runtime.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        assert patched.send_policy == "deny"
        assert (await owner.runtime.get_session(MAIN, ALL)).send_policy == "deny"
        assert await other.runtime.agents() == await owner.runtime.agents()
        archived = await other.runtime.archive(MAIN, OPERATOR, archived=True)
        assert archived.archived_at is not None
        feed.close()


async def test_the_heir_hears_everything_once_and_in_order(state: Path) -> None:
    async with hosted(state, starts=False) as heir:
        feed = heir.runtime.subscribe()
        feed.watch(MAIN)
        heard = Heard(feed)
        async with hosted(state) as owner:
            await say(owner, "say before it hears")
            with contextlib.suppress(Conflict):
                await heir.start("console")
            await say(owner, "say while it hears")
            await until(lambda: "while it hears" in heard.words)
        await until(lambda: heir.owns)
        assert await say(heir, "say as the owner") == "as the owner"
        await until(lambda: "as the owner" in heard.words)
        assert heard.words == [
            *("say before it hears", "before it hears"),
            *("say while it hears", "while it hears"),
            *("say as the owner", "as the owner"),
        ]
        assert heard.states[0] == "live"
        assert heard.states[-1] == "live"
        assert "starting" in heard.states, "between two owners it says so"
        revs = [event.rev for event in heard.events if isinstance(event, MessageAppended | RunChanged)]
        assert revs == sorted(set(revs))
        feed.close()


async def test_of_several_one_becomes_the_owner_and_the_others_go_on_with_it(state: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with hosted(state):
            others = [await stack.enter_async_context(hosted(state)) for _ in range(3)]
            assert not any(other.owns for other in others)
        await until(lambda: any(other.owns for other in others))
        await until(lambda: all(other.runtime.connection.state == "live" for other in others))
        assert sum(other.owns for other in others) == 1
        for number, other in enumerate(others):
            assert await say(other, f"say {number}") == str(number)
        page = await others[0].runtime.list_sessions(SessionQuery(limit=10), ALL)
        assert page.sessions[0].last_seq == 6


async def test_a_message_that_was_on_its_way_is_accepted_once(state: Path) -> None:
    async with contextlib.AsyncExitStack() as stack, hosted(state, starts=False) as heir:
        await stack.enter_async_context(hosted(state))
        await heir.start("console")
        await say(heir, "say hi", "the-run")
        leaving = asyncio.create_task(stack.aclose())
        assert await say(heir, "say hi", "the-run") == "hi", "the same run, whoever is asked"
        await leaving
        await until(lambda: heir.owns)
        assert await say(heir, "say hi", "the-run") == "hi"
        assert len((await heir.runtime.history(MAIN, ALL, limit=10)).messages) == 2


async def test_only_what_is_looked_at_is_asked_of_the_owner(state: Path) -> None:
    async with hosted(state) as owner, hosted(state) as other:
        feed = other.runtime.subscribe()
        for number in range(5):
            feed.watch(f"cron:job-{number}")
            feed.unwatch(f"cron:job-{number}")
        feed.watch(MAIN)
        await until(lambda: owner.runtime.hub.all_watched() == frozenset({MAIN}))
        assert await say(owner, "say hi") == "hi"
        feed.close()


async def test_why_the_owner_accepts_nothing_is_passed_on(state: Path) -> None:
    async with hosted(state) as owner, hosted(state) as other:
        assert not other.owns
        owner.runtime.readiness.cannot_answer("nobody is answered")
        await until(lambda: other.runtime.connection.detail == "nobody is answered")
        owner.runtime.readiness.cannot_answer("")
        await until(lambda: other.runtime.connection.detail == "")


@pytest.mark.parametrize("run_own", [True, False])
async def test_a_command_takes_the_place_of_an_owner_that_has_left(state: Path, run_own: bool) -> None:
    async with contextlib.AsyncExitStack() as stack, hosted(state, starts=False) as command:
        await stack.enter_async_context(hosted(state))
        await command.start("send", run_all=False, run_own=run_own)
        assert not command.owns
        await stack.aclose()
        await until(lambda: command.owns)


async def test_what_was_stored_between_the_first_picture_and_the_start_is_heard(state: Path) -> None:
    async with hosted(state, starts=False) as late:
        feed = late.runtime.subscribe()
        feed.watch(MAIN)
        heard = Heard(feed)
        async with hosted(state) as owner:
            await say(owner, "say hi")
        await late.start("console")
        assert late.owns
        await until(lambda: heard.words == ["say hi", "hi"])
        feed.close()
