"""Who is let in, by which name, and what everybody else is told (G8, DESIGN 11)."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.model.errors import Invalid, Unavailable
from core.runtime.gateway import Runtime
from core.server import listen
from core.server.auth import LOCKED_SECONDS, MAX_FAILURES, WINDOW_SECONDS, Auth, Sites, TokenRefused
from core.server.context import Limits
from core.server.listen import Door, Place
from core.server.metrics import METRICS
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, running, send
from tests.support.servers import READ_ONLY, TOKEN, Served, history_path, served, serving

PROBES = ("/health", "/healthz", "/ready", "/readyz")


@pytest.fixture
async def server(state: Path) -> AsyncIterator[Served]:
    """Return a server with one session."""
    async with serving(state) as started:
        await send(started.runtime, MAIN, "say one")
        yield started


async def asked(server: Served, path: str = "/sessions/main/history", **headers: str) -> httpx.Response:
    """Ask for a path with the full token."""
    async with server.client() as client:
        return await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


# Tokens


@pytest.mark.spec("G8", "G1")
@pytest.mark.parametrize("path", ["/sessions/main/history", "/metrics", "/tools/invoke"])
async def test_without_the_token_nothing_is_told(server: Served, path: str) -> None:
    method = "POST" if path == "/tools/invoke" else "GET"
    for token in (None, "wrong", TOKEN[:-1], TOKEN + "x", READ_ONLY.upper()):
        async with server.client(token) as client:
            answer = await client.request(method, path)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "unauthorized"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text


@pytest.mark.spec("G8")
@pytest.mark.parametrize("header", [TOKEN, f"Basic {TOKEN}", f"Token {TOKEN}", "Bearer", f"Bearer{TOKEN}"])
async def test_only_a_bearer_header_carries_the_token(server: Served, header: str) -> None:
    async with server.client(None, headers={"authorization": header}) as client:
        assert (await client.get(history_path("main"))).status_code == 401
        assert (await client.get(history_path("main"), params={"token": TOKEN})).status_code == 401
    async with server.client(None, headers={"authorization": f"bearer  {TOKEN}"}) as client:
        assert (await client.get(history_path("main"))).status_code == 200


@pytest.mark.spec("G8")
async def test_the_reading_token_reads(server: Served) -> None:
    async with server.client(READ_ONLY) as client:
        assert (await client.get(history_path("main"))).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.spec("G8")
def test_who_guesses_is_locked_out_alone_and_for_a_while() -> None:
    asyncio.run(_guess(FakeClock()))


async def _guess(clock: FakeClock) -> None:
    auth = Auth(TOKEN, READ_ONLY, clock)
    for _ in range(MAX_FAILURES):
        with pytest.raises(TokenRefused, match="wrong") as refused:
            auth.check("guess", peer="127.0.0.1")
        assert (refused.value.reason, refused.value.retry_after) == ("mismatch", None)
    with pytest.raises(TokenRefused, match="try again in 60 s") as locked:
        auth.check(TOKEN, peer="127.0.0.1")
    assert (locked.value.reason, locked.value.retry_after) == ("locked", 60)
    assert auth.check(TOKEN, peer="127.0.0.2").owner, "another address is another sender"
    await clock.advance(LOCKED_SECONDS - 1)
    with pytest.raises(TokenRefused, match="try again in 1 s"):
        auth.check(TOKEN, peer="127.0.0.1")
    await clock.advance(1)
    assert auth.check(TOKEN, peer="127.0.0.1").owner
    for _ in range(3 * MAX_FAILURES):  # too far apart to be guessing
        with pytest.raises(TokenRefused, match="wrong"):
            auth.check("guess", peer="127.0.0.1")
        await clock.advance(WINDOW_SECONDS / (MAX_FAILURES - 1))
    for _ in range(3 * MAX_FAILURES):  # a token that is missing is no guess
        with pytest.raises(TokenRefused, match="missing"):
            auth.check(None, peer="10.0.0.1")
    assert auth.check(READ_ONLY, peer="10.0.0.1").scopes == {"operator.read"}


@pytest.mark.spec("G8")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("", "unix", False),
    ],
)
def test_an_ipv6_customer_is_one_sender(one: str, other: str, same: bool) -> None:
    auth = Auth(TOKEN, None, FakeClock())
    for _ in range(MAX_FAILURES):
        with pytest.raises(TokenRefused):
            auth.check("guess", peer=one)
    if same:
        with pytest.raises(TokenRefused):
            auth.check(TOKEN, peer=other)
    else:
        assert auth.check(TOKEN, peer=other).owner


@pytest.mark.spec("G8")
async def test_a_locked_out_sender_is_told_when_to_come_back(server: Served) -> None:
    async with server.client("guess") as client:
        answers = [(await client.get(history_path("main"))).status_code for _ in range(MAX_FAILURES + 1)]
        assert answers == [401] * MAX_FAILURES + [429]
        locked = await client.post("/tools/invoke", json={"tool": "sessions_list"})
    assert (locked.status_code, locked.json()["error"]["type"]) == (429, "unauthorized")
    assert 1 <= int(locked.headers["retry-after"]) <= LOCKED_SECONDS
    assert (await asked(server)).status_code == 429, "the right token does not help a sender that guesses"


# Names and pages


@pytest.mark.spec("G8")
@pytest.mark.parametrize("path", [*PROBES, "/sessions/main/history", "/metrics", "/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:18789", "127.0.0.1.evil.example", "a@localhost", "", "[::1"]
)
async def test_another_name_is_refused_on_every_route(server: Served, path: str, host: str) -> None:
    answer = await asked(server, path, host=host)
    assert answer.status_code == 403, answer.text
    assert "gateway.publicOrigin" in answer.json()["error"]["message"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9000", "[::1]:5", "gateway.example.com"])
async def test_its_own_names_are_accepted_through_any_tunnel(state: Path, host: str) -> None:
    async with serving(state, sites=Sites.of("https://gateway.example.com")) as server:
        assert (await asked(server, "/health", host=host)).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:7", 200),
        ("http://localhost:8", 403),
        ("http://localhost", 403),
        ("https://panel.example.com", 200),
        ("https://PANEL.example.com/", 200),
        ("http://panel.example.com", 403),
        ("https://gateway.example.com", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_a_page_elsewhere_is_refused_unless_it_is_named(state: Path, origin: str, status: int) -> None:
    sites = Sites.of("https://gateway.example.com", ["https://panel.example.com"])
    async with serving(state, sites=sites) as server:
        answer = await asked(server, "/health", host="localhost:7", origin=origin)
    assert answer.status_code == status
    if status == 403:
        assert "gateway.controlUi.allowedOrigins" in answer.json()["error"]["message"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_proxy_may_say_for_whom_it_asks(state: Path, trusted: bool) -> None:
    place = Place(proxies=("127.0.0.1",) if trusted else ())
    async with serving(state, place=place) as server:
        async with server.client("guess", headers={"x-forwarded-for": "203.0.113.7"}) as guesser:
            for _ in range(MAX_FAILURES):
                await guesser.get("/metrics")
            assert (await guesser.get("/metrics")).status_code == 429
        others = await asked(server, "/metrics", x_forwarded_for="203.0.113.8")
        assert others.status_code == (200 if trusted else 429)


# Probes, metrics, and what no route takes


@pytest.mark.parametrize("path", PROBES)
async def test_probes_need_no_token_and_tell_little(server: Served, path: str) -> None:
    async with server.client(None) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert set(answer.json()) == ({"ok", "status"} if "health" in path else {"ready", "failing", "uptimeMs"})


async def test_it_is_not_ready_while_it_closes_or_cannot_work(state: Path) -> None:
    reading = Runtime.open(state)
    try:
        async with served(reading) as server:
            answer = await asked(server, "/ready")
            assert (answer.status_code, answer.json()["failing"]) == (503, ["gateway"])
    finally:
        await reading.close()
    async with serving(state) as server:
        server.context.closing.set()
        assert (await asked(server, "/readyz")).json()["failing"] == ["closing"]
        assert (await asked(server, "/health")).status_code == 200
        answer = await asked(server)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "unavailable")
        assert "retry-after" in answer.headers


async def test_the_metrics_are_as_prometheus_reads_them(server: Served) -> None:
    await asked(server)
    text = (await asked(server, "/metrics")).text
    values: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert line.split(" ")[1] in {"HELP", "TYPE"}
            continue
        name, _, value = line.rpartition(" ")
        values[name] = float(value)
    assert values['switchboard_http_requests_total{status="200"}'] == 1
    assert values["switchboard_followers"] == 0
    assert values['switchboard_info{version="0.0.0"}'] == 1
    assert all(f"# TYPE switchboard_{name}" in text for name in METRICS)
    assert "followers_total" not in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/sessions", 404),
        ("GET", "/sessions/main", 404),
        ("POST", "/sessions/main/history", 405),
        ("DELETE", "/sessions/main/history", 405),
        ("GET", "/tools/invoke", 405),
        ("POST", "/health", 405),
        ("OPTIONS", "/metrics", 405),
        ("GET", "/", 404),
    ],
)
async def test_what_no_route_takes_is_said_in_json(server: Served, method: str, path: str, status: int) -> None:
    async with server.client() as client:
        answer = await client.request(method, path)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["type"] == ("not_found" if status == 404 else "invalid_request")
    assert status == 404 or answer.headers["allow"]


class _Broken(Runtime):
    """A runtime with a defect."""

    async def history(self, *args: Any, **more: Any) -> Any:
        """Break."""
        raise ZeroDivisionError("a secret of the session")


async def test_a_defect_is_logged_and_told_in_one_sentence(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say one")
    broken = _Broken.open(state)
    try:
        with caplog.at_level(logging.ERROR):
            async with served(broken) as server:
                answer = await asked(server)
                follow = await asked(server, "/sessions/main/history?follow=1")
                assert server.context.metrics.value("errors") == 2
                assert server.context.metrics.value("followers") == 0
    finally:
        await broken.close()
    for each in (answer, follow):
        assert (each.status_code, each.json()) == (
            500,
            {"error": {"type": "error", "message": "the gateway failed: its log says more"}},
        )
    assert [record.name for record in caplog.records] == ["switchboard.server"] * 2


# Where it listens


@pytest.mark.spec("G8")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1"])
def test_beyond_loopback_it_needs_a_token_and_tls(host: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="needs a token"):
        Place(host, insecure=True).check(has_token=False)
    with pytest.raises(Invalid, match="in the clear"):
        Place(host).check(has_token=True)
    Place(host, insecure=True).check(has_token=True)
    Place(host, certificate=tmp_path, key=tmp_path).check(has_token=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_on_loopback_it_needs_neither(host: str) -> None:
    Place(host).check(has_token=False)


def test_a_port_that_is_taken_is_named() -> None:
    door = Door(Place())
    try:
        with pytest.raises(Unavailable, match=f"127.0.0.1 port {door.port}: something else listens there"):
            Door(Place(port=door.port))
    finally:
        door.close()
    with pytest.raises(Unavailable, match="does not have that address"):
        Door(Place("192.0.2.1"))


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


@pytest.mark.spec("G8")
async def test_it_speaks_tls(state: Path, tmp_path: Path) -> None:
    cert_file, key_file = certificate(tmp_path)
    async with serving(state, place=Place(certificate=cert_file, key=key_file)) as server:
        assert server.door.url().startswith("https://127.0.0.1:")
        assert server.door.url("ws").startswith("wss://")
        trusting = ssl.create_default_context(cafile=str(cert_file))
        async with server.client(verify=trusting) as client:
            assert (await client.get("/health")).status_code == 200
        async with server.client(verify=ssl.create_default_context()) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")


def test_a_certificate_that_does_not_work_is_named(tmp_path: Path) -> None:
    cert_file, key_file = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, other_key = certificate(other)
    with pytest.raises(Invalid, match="key values mismatch"):
        Door(Place(certificate=cert_file, key=other_key))
    with pytest.raises(Invalid, match="No such file"):
        Door(Place(certificate=tmp_path / "none.pem", key=key_file))
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(Invalid, match="do not work"):
        Door(Place(certificate=tmp_path / "empty.pem", key=key_file))


# What strangers may cost


async def test_too_many_connections_are_turned_away(state: Path) -> None:
    async with serving(state, limits=Limits(connections=3)) as server, server.client(None) as client:
        waiting = [await asyncio.open_connection("127.0.0.1", server.door.port) for _ in range(3)]
        assert (await client.get("/health")).status_code == 503
        for _, writer in waiting:
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
async def test_half_a_request_is_not_waited_for(server: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(listen, "IDLE_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port)
    writer.write(sent)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_busy_connection_is_not_cut_off(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "IDLE_SECONDS", 0.02)
    async with server.client() as client:
        slow = await client.post(
            "/tools/invoke", json={"tool": "sessions_send", "args": {"sessionKey": "main", "message": "wait 1"}}
        )
        assert slow.status_code == 200


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000])
async def test_what_is_no_http_ends_the_connection(server: Served, junk: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port)
    writer.write(junk + b"\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)
    assert b"Traceback" not in answer
    writer.close()
    assert (await asked(server, "/health")).status_code == 200
