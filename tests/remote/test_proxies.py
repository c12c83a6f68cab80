"""What the environment says of proxies, and whatever else an attempt may end in: a sentence, and the right state."""

import asyncio
import sys
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.model.errors import Unavailable
from core.remote.hello import HelloRequest
from core.remote.link import Link
from core.remote.profile import Profile
from core.remote.websocket import dialer
from core.wire.transport import Transport
from tests.remote.scripted import Conversation, comes, linked, scripted
from tests.support.clock import FakeClock

NAMES = ("all_proxy", "https_proxy", "http_proxy", "wss_proxy", "ws_proxy", "socks_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("url", ["wss://gateway.invalid", "ws://gateway.invalid"])
@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        ("socks5://127.0.0.1:9", "python-socks is missing"),
        ("bogus://user:hunter2@127.0.0.1", "its address is malformed"),
        ("http://user:hunter2@127.0.0.1:9", "cannot be reached"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_said_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str, why: str
) -> None:
    monkeypatch.setitem(sys.modules, "python_socks", None)
    monkeypatch.setitem(sys.modules, "python_socks.async_.asyncio", None)
    monkeypatch.setenv("all_proxy", proxy)
    for scheme in ("https_proxy", "http_proxy"):
        monkeypatch.setenv(scheme, proxy)
    profile = Profile("prod", url, lambda: "t", insecure=True)
    link = Link(dialer(profile), HelloRequest(), clock=SystemClock(), name="prod", address=url)
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match=why) as told:
                await link.open()
        assert "hunter2" not in told.value.message
        assert link.connection.state == ("connecting" if "9" in proxy and "http" in proxy else "refused")
        assert link.connection.retry_at is not None
    finally:
        await link.close()


async def test_this_machine_is_never_reached_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES[:-1]:
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")

    async def script(conversation: Conversation) -> None:
        await conversation.greet()
        await conversation.stay()

    async with scripted(script) as gateway, linked(gateway.port, tmp_path, SystemClock()) as link:
        await link.open()


async def test_an_attempt_that_breaks_in_a_way_nobody_foresaw_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    attempts: list[int] = []

    async def dial() -> Transport:
        attempts.append(1)
        raise RuntimeError("the library is broken")

    link = Link(dial, HelloRequest(), clock=clock, name="prod")
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match="prod cannot be reached: the attempt failed \\(RuntimeError\\)"):
                await link.open()
        await comes(clock, link, lambda: len(attempts) > 3)
        assert link.connection.state == "connecting"
    finally:
        await link.close()
    assert "the library is broken" in caplog.text
