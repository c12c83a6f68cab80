"""A gateway is one object from the first moment on, also while it is not there."""

import asyncio
import time
from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR
from core.model.errors import Invalid, Unavailable
from core.model.events import ConnectionChanged, Event, Reloaded, SessionChanged
from core.model.runs import RunRequest
from core.model.sessions import SessionQuery
from core.remote.connect import connect
from core.remote.profile import Profile
from tests.remote.scripted import comes, scripted
from tests.remote.theirs import KEY, Theirs, row
from tests.support.clock import FakeClock
from tests.support.runtimes import until
from tests.support.web_socket import TOKEN, serving


async def test_a_gateway_that_is_down_holds_nobody_up_and_is_there_when_it_comes(tmp_path: Path) -> None:
    theirs = Theirs()
    clock = FakeClock()
    async with scripted(theirs.script) as closed:
        port = closed.port
    gateway = connect(Profile("prod", f"ws://127.0.0.1:{port}"), tmp_path, clock)
    assert gateway.connection.state == "connecting"
    feed = gateway.subscribe()
    feed.watch(KEY)
    events: list[Event] = []

    async def listen() -> None:
        take = events.append
        async for event in feed:
            take(event)

    listening = asyncio.get_running_loop().create_task(listen())
    began = time.monotonic()
    with pytest.raises(Unavailable, match="prod cannot be reached"):
        await gateway.opened()
    with pytest.raises(Unavailable, match="prod cannot be reached"):
        await gateway.list_sessions(SessionQuery(), ALL)
    with pytest.raises(Unavailable):
        await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
    assert time.monotonic() - began < 5
    assert "cannot be reached" in (gateway.refusal("send") or "")
    async with scripted(theirs.script, port=port):
        await comes(clock, gateway, lambda: gateway.connection.state == "live")
        assert [session.key for session in (await gateway.list_sessions(SessionQuery(), ALL)).sessions] == [KEY]
        await until(lambda: any(isinstance(event, Reloaded) for event in events))
        states = [event.connection.state for event in events if isinstance(event, ConnectionChanged)]
        assert states[0] == "connecting"
        await until(lambda: any(_is_live(event) for event in events))
        await theirs.tell("sessions.changed", {"sessionKey": "x:y", "session": row("x:y")})
        await until(lambda: any(isinstance(event, SessionChanged) and event.session.key == "x:y" for event in events))
        await gateway.close()
        await listening  # the feed ends with the gateway


async def test_another_kind_of_gateway_at_the_same_address_is_spoken_to_in_its_own_way(tmp_path: Path) -> None:
    theirs = Theirs()
    clock = FakeClock()
    async with scripted(theirs.script) as server:
        port = server.port
        gateway = connect(Profile("prod", f"ws://127.0.0.1:{port}", lambda: TOKEN), tmp_path / "here", clock)
        feed = gateway.subscribe()
        await gateway.opened()
        assert gateway.connection.version.startswith("openclaw")
    async with serving(tmp_path / "there", port=port) as ours:
        await comes(
            clock,
            gateway,
            lambda: gateway.connection.state == "live" and gateway.connection.version.startswith("switch"),
        )
        main = "agent:main:main"
        await ours.runtime.start_run(RunRequest(main, "hello", create=True), OPERATOR)
        async for event in feed:
            if isinstance(event, SessionChanged) and event.session.key == main:
                break
        assert (await gateway.get_session(main, ALL)).key == main
        await gateway.close()


def test_an_address_in_the_open_is_refused_before_anything_is_tried(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not encrypted"):
        connect(Profile("prod", "ws://10.0.0.7:1"), tmp_path, FakeClock())


def _is_live(event: Event) -> bool:
    return isinstance(event, ConnectionChanged) and event.connection.state == "live"
