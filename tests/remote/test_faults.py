"""What must be survived on the way to a gateway, ours over WebSocket and OpenClaw's: nothing is missed or repeated."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.choose import AgentBackends
from core.clock import SystemClock
from core.model.access import ALL, OPERATOR
from core.model.errors import Unavailable
from core.model.events import Delta, Gap, MessageAppended, Reloaded, RunChanged
from core.model.runs import RunRequest
from core.model.sessions import SessionQuery
from core.remote.connect import RemoteGateway, connect
from core.remote.profile import Profile, Tls
from core.runtime.gateway import Runtime
from core.server.auth import Auth
from core.server.http.app import create_app
from core.server.http.listen import Door, NetworkListener, Place
from tests.contract.ways import own_context
from tests.remote.generations import NEWEST, PROTOCOL_3
from tests.remote.openclaw.test_gateway import Ear
from tests.remote.scripted import Cable, certificate, comes
from tests.remote.theirs import KEY, Theirs
from tests.remote.theirs import serving as their_gateway
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, running, transcript, until
from tests.support.servers import TOKEN


@contextlib.asynccontextmanager
async def ours(runtime: Runtime, place: Place, token: str = TOKEN) -> AsyncGenerator[int]:
    """Serve a runtime; give the port."""
    context = own_context(runtime, runtime.store.directory)
    context.auth = Auth(token, None, SystemClock())
    door = Door(place)
    listener = await NetworkListener.open(create_app(context), context, door)
    try:
        yield door.port
    finally:
        await listener.close(_at_once, "the test is over")


async def _at_once() -> None:
    """Wait for no run."""


@contextlib.asynccontextmanager
async def operated(url: str, state: Path, **more: Any) -> AsyncGenerator[RemoteGateway]:
    """Reach a gateway as a console does."""
    gateway = connect(Profile("prod", url, lambda: TOKEN, **more), state, SystemClock())
    try:
        await gateway.opened()
        yield gateway
    finally:
        await gateway.close()


def heard(ear: Ear) -> list[tuple[int, str]]:
    """Return place and role of the messages that were told."""
    return [(event.message.seq, event.message.role) for event in ear.of(MessageAppended)]


@pytest.mark.parametrize("after", [10, 300, 1200])
async def test_half_a_frame_in_mid_stream_from_ours(tmp_path: Path, after: int) -> None:
    async with (
        running(tmp_path / "state", backends=AgentBackends(0.002)) as runtime,
        ours(runtime, Place()) as port,
        Cable(port) as cable,
        operated(f"ws://127.0.0.1:{cable.port}", tmp_path / "own") as gateway,
    ):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(MAIN)
        words = " ".join(f"w{n}" for n in range(300))
        await gateway.start_run(RunRequest(MAIN, f"say {words}", run_id="k", create=True), OPERATOR)
        await until(lambda: ear.of(Delta))
        cable.only = after
        await until(lambda: gateway.connection.state == "lost")
        gateway.retry()
        outcome = await gateway.wait_run("k", 30)
        assert outcome.reply == words
        await until(lambda: any(not event.run.live for event in ear.of(RunChanged)))
        assert heard(ear) == [(1, "user"), (2, "assistant")]
        history = await gateway.history(MAIN, ALL, limit=10)
        assert list(history.messages) == await transcript(runtime, MAIN)


async def test_a_cable_to_ours_that_is_cut_in_silence(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path / "state") as runtime, ours(runtime, Place()) as port, Cable(port) as cable:
        gateway = connect(Profile("prod", f"ws://127.0.0.1:{cable.port}", lambda: TOKEN), tmp_path / "own", clock)
        try:
            await gateway.opened()
            ear = Ear(gateway.subscribe())
            ear.feed.watch(MAIN)
            await gateway.start_run(RunRequest(MAIN, "say one", run_id="one", create=True), OPERATOR)
            await until(lambda: len(heard(ear)) == 2)
            cable.silent = True
            ticket = await runtime.start_run(RunRequest(MAIN, "say two", run_id="two"), OPERATOR)
            await runtime.wait_run(ticket.run_id, 10)
            await clock.advance(60.1)  # no further: what is dialled in silence waits 10 s for its answer
            await until(lambda: gateway.connection.state == "lost")
            assert len(heard(ear)) == 2
            cable.silent = False
            await comes(clock, gateway, lambda: gateway.connection.state == "live" and len(heard(ear)) == 4)
            assert [seq for seq, _ in heard(ear)] == [1, 2, 3, 4]
        finally:
            await gateway.close()


async def test_a_token_that_ours_takes_no_more_is_said_and_not_tried_again(tmp_path: Path) -> None:
    async with running(tmp_path / "state") as runtime:
        async with ours(runtime, Place()) as port:
            gateway = connect(Profile("prod", f"ws://127.0.0.1:{port}", lambda: TOKEN), tmp_path / "own", FakeClock())
            await gateway.opened()
        try:
            await until(lambda: gateway.connection.state == "lost")
            for file in (tmp_path / "state").glob("devices*"):
                file.unlink()  # the devices that the old token paired are not known either
            async with ours(runtime, Place(port=port), token="another-token"):
                gateway.retry()
                await until(lambda: gateway.connection.state == "refused")
                assert "token" in gateway.connection.detail
                assert gateway.connection.retry_at is None
                with pytest.raises(Unavailable, match="does not accept this token"):
                    await gateway.list_sessions(SessionQuery(), ALL)
            async with ours(runtime, Place(port=port)):
                gateway.retry()
                await until(lambda: gateway.connection.state == "live")
        finally:
            await gateway.close()


async def test_a_certificate_that_ours_changed_while_connected_is_told_and_nothing_is_given_away(
    tmp_path: Path,
) -> None:
    _, fingerprint = certificate(tmp_path, "first")
    certificate(tmp_path, "second")
    first, second = (tmp_path / f"{name}.pem" for name in ("first", "second"))
    async with running(tmp_path / "state") as runtime:
        async with ours(runtime, Place(certificate=first, key=first)) as port:
            url, tls = f"wss://127.0.0.1:{port}", Tls(fingerprint=fingerprint)
            gateway = connect(Profile("prod", url, lambda: TOKEN, tls), tmp_path / "own", FakeClock())
            await gateway.opened()
        try:
            await until(lambda: gateway.connection.state == "lost")
            async with ours(runtime, Place(port=port, certificate=second, key=second)):
                gateway.retry()
                await until(lambda: gateway.connection.state == "refused")
                assert "another certificate than the pinned one" in gateway.connection.detail
                with pytest.raises(Unavailable):
                    await gateway.start_run(RunRequest(MAIN, "hello", create=True), OPERATOR)
            async with ours(runtime, Place(port=port, certificate=first, key=first)):
                gateway.retry()
                await until(lambda: gateway.connection.state == "live")
                assert not (await gateway.list_sessions(SessionQuery(), ALL)).sessions
        finally:
            await gateway.close()


@pytest.mark.parametrize("version", [NEWEST, PROTOCOL_3])
async def test_ten_thousand_messages_of_theirs_while_there_was_no_connection(tmp_path: Path, version: str) -> None:
    """The newer one gives all of them; of the older one the newest thousand can be had, and they come in order."""
    theirs, clock = Theirs(version), FakeClock()
    theirs.say("user", "before")
    async with their_gateway(theirs, tmp_path, clock) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        await gateway.history(KEY, ALL, limit=5)
        await theirs.hang_up()
        await until(lambda: gateway.connection.state == "lost")
        for place in range(2, 10_002):
            theirs.say("assistant", f"n{place}", place)
        await comes(clock, gateway, lambda: gateway.connection.state == "live")
        theirs.say("assistant", "after")
        await theirs.hint()
        await until(lambda: ear.told()[-1:] == [(10_002, "assistant", "after")], seconds=30)
        places = [place for place, _, _ in ear.told()]
        assert places == sorted(set(places)), "in order, and nothing twice"
        assert len(places) == 10_001 or (ear.of(Reloaded) and ear.of(Gap)), "who was told less was told that"
        page = await gateway.history(KEY, ALL, limit=900)
        assert [message.seq for message in page.messages] == list(range(9_103, 10_003)), "nothing is missing"


async def test_a_send_to_theirs_whose_answer_was_lost_goes_out_again_under_its_own_key(tmp_path: Path) -> None:
    theirs, clock = Theirs(), FakeClock()
    async with their_gateway(theirs, tmp_path, clock) as (gateway, server):
        swallowed = asyncio.Event()
        script = server.script

        async def lossy(conversation: Any) -> None:
            answer = conversation.answer

            async def lose(request: dict[str, Any], payload: object) -> None:
                if request["method"] in {"chat.send", "agent"} and not swallowed.is_set():
                    swallowed.set()
                    await conversation.socket.close(1012, "restart")
                else:
                    await answer(request, payload)

            conversation.answer = lose
            await script(conversation)

        server.script = lossy
        await theirs.hang_up()
        await comes(clock, gateway, lambda: len(server.conversations) > 1 and gateway.connection.state == "live")
        sending = asyncio.ensure_future(gateway.start_run(RunRequest(KEY, "once", run_id="mine"), OPERATOR))
        await swallowed.wait()
        await comes(clock, gateway, sending.done)
        assert (await sending).run_id == "mine"
        sent = [each["params"] for each in theirs.asked if each["method"] in {"chat.send", "agent"}]
        assert len(sent) == 2
        assert {params["idempotencyKey"] for params in sent} == {"mine"}, "it runs once, however often it arrives"
