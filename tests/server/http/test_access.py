"""Who is let in, by which name, and what everybody else is told (G8, architecture#threats)."""

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

from core.model.access import OPERATOR
from core.model.errors import Invalid, Unavailable
from core.model.messages import Draft, text_block
from core.runtime.gateway import Runtime
from core.server import auth as auth_module
from core.server.auth import (
    LOCKED_SECONDS,
    MAX_ALL_FAILURES,
    MAX_FAILURES,
    REFUSAL_SECONDS,
    WINDOW_SECONDS,
    Auth,
    Sites,
    TokenRefused,
)
from core.server.context import Limits
from core.server.guests import Budget, Guests
from core.server.http import protocols
from core.server.http.listen import MOST, SPARING, Door, Place, Sparing
from core.server.metrics import METRICS
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, running, send, until
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
async def test_who_guesses_is_slowed_down_and_the_right_token_always_let_in() -> None:
    clock = FakeClock()
    auth = Auth(TOKEN, READ_ONLY, clock)
    for _ in range(MAX_FAILURES):
        with pytest.raises(TokenRefused, match="wrong") as refused:
            await auth.admit("guess", peer="127.0.0.1")
        assert (refused.value.reason, refused.value.retry_after) == ("mismatch", None)
    assert clock.slept == [], "a few wrong ones are answered at once"
    guessing = asyncio.ensure_future(auth.admit("guess", peer="127.0.0.1"))
    while not clock.slept:
        await asyncio.sleep(0)
    assert (await auth.admit(TOKEN, peer="127.0.0.1")).owner, "the owner is not kept waiting for a guesser"
    assert (await auth.admit(READ_ONLY, peer="127.0.0.1")).scopes == {"operator.read"}
    assert not guessing.done()
    await clock.advance(REFUSAL_SECONDS)
    with pytest.raises(TokenRefused, match="try again in 60 s") as locked:
        await guessing
    assert (locked.value.reason, locked.value.retry_after) == ("locked", 60)
    with pytest.raises(TokenRefused, match="wrong") as elsewhere:
        auth.check("guess", peer="10.0.0.1")
    assert elsewhere.value.reason == "mismatch", "another network is another sender"
    await clock.advance(LOCKED_SECONDS)
    with pytest.raises(TokenRefused) as forgiven:
        auth.check("guess", peer="127.0.0.1")
    assert forgiven.value.reason == "mismatch"
    for _ in range(3 * MAX_FAILURES):  # a token that is missing is no guess
        with pytest.raises(TokenRefused, match="missing"):
            auth.check(None, peer="10.0.0.1")


@pytest.mark.spec("G8")
async def test_wrong_tokens_that_come_seldom_are_no_guessing() -> None:
    clock = FakeClock()
    auth = Auth(TOKEN, None, clock)
    for _ in range(3 * MAX_FAILURES):
        with pytest.raises(TokenRefused) as refused:
            auth.check("guess", peer="127.0.0.1")
        assert refused.value.reason == "mismatch"
        await clock.advance(WINDOW_SECONDS / (MAX_FAILURES - 2))


@pytest.mark.spec("G8")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("127.0.0.1", "127.1.2.3", True),
        ("127.0.0.1", "::1", True),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("", "unix", False),
    ],
)
def test_a_network_of_one_customer_is_one_sender(one: str, other: str, same: bool) -> None:
    auth = Auth(TOKEN, None, FakeClock())
    for _ in range(MAX_FAILURES):
        with pytest.raises(TokenRefused):
            auth.check("guess", peer=one)
    with pytest.raises(TokenRefused) as refused:
        auth.check("guess", peer=other)
    assert refused.value.reason == ("locked" if same else "mismatch")


@pytest.mark.spec("G8")
def test_who_guesses_from_everywhere_is_slowed_everywhere() -> None:
    auth = Auth(TOKEN, None, FakeClock())
    for n in range(MAX_ALL_FAILURES):
        with pytest.raises(TokenRefused):
            auth.check("guess", peer=f"10.0.{n % 250}.{n // 250}")
    with pytest.raises(TokenRefused) as refused:
        auth.check("guess", peer="192.0.2.1")
    assert refused.value.reason == "locked"
    assert auth.check(TOKEN, peer="192.0.2.1").owner


def test_a_right_token_is_no_guess() -> None:
    auth = Auth(TOKEN, READ_ONLY, FakeClock())
    for given in (TOKEN, READ_ONLY) * MAX_FAILURES:
        auth.check(given, peer="192.0.2.1")
    for reason in ["mismatch"] * MAX_FAILURES + ["locked"]:
        with pytest.raises(TokenRefused) as refused:
            auth.check("wrong", peer="192.0.2.1")
        assert refused.value.reason == reason


@pytest.mark.spec("G8")
async def test_who_guesses_too_often_is_told_when_to_come_back(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module, "REFUSAL_SECONDS", 0.01)
    async with server.client("guess") as client:
        answers = [(await client.get(history_path("main"))).status_code for _ in range(MAX_FAILURES + 1)]
        assert answers == [401] * MAX_FAILURES + [429]
        locked = await client.post("/tools/invoke", json={"tool": "sessions_list"})
    assert (locked.status_code, locked.json()["error"]["type"]) == (429, "unauthorized")
    assert 1 <= int(locked.headers["retry-after"]) <= LOCKED_SECONDS
    assert (await asked(server)).status_code == 200, "the right token is let in all the same"


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
        ("http://[", 403),
        ("http://[::1", 403),
        ("http://a]b", 403),
        ("//[/", 403),
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
        async with server.client("guess", headers={"x-forwarded-for": "203.0.113.8"}) as other:
            assert (await other.get("/metrics")).status_code == (401 if trusted else 429)


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
            assert answer.status_code == 503
            assert answer.json()["failing"] == [reading.unready() or reading.connection.detail]
    finally:
        await reading.close()
    async with serving(state) as server:
        server.context.closing.set()
        assert (await asked(server, "/readyz")).json()["failing"] == ["the gateway is closing"]
        assert (await asked(server, "/health")).status_code == 200
        answer = await asked(server)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "unavailable")
        assert "retry-after" in answer.headers


async def test_why_it_is_not_ready_is_for_those_who_have_a_token(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_runtime: Runtime) -> str:
        return "the disk is full: 3 bytes are free"

    monkeypatch.setattr(Runtime, "unready", full)
    for token, failing in ((READ_ONLY, ["the disk is full: 3 bytes are free"]), (None, ["unready"])):
        async with server.client(token) as client:
            answer = await client.get("/ready")
        assert (answer.status_code, answer.json()["failing"]) == (503, failing)
        assert (await asked(server, "/health")).status_code == 200, "it lives"


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


async def opened(server: Served, count: int, sent: bytes = b"") -> list[tuple[asyncio.StreamReader, Any]]:
    """Return connections that have sent no whole request, once the server knows of them."""
    found = list[tuple[asyncio.StreamReader, Any]]()
    for _ in range(count):
        found.append(await asyncio.open_connection("127.0.0.1", server.door.port))
        found[-1][1].write(sent)
    return found


async def test_the_oldest_half_request_makes_room(state: Path) -> None:
    limits = Limits(guests=5)
    async with serving(state, limits=limits) as server:
        half = await opened(server, 20, b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        assert (await asked(server, "/health")).status_code == 200
        assert (await asked(server, "/metrics")).status_code == 200
        for reader, writer in half[:15]:
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        for _, writer in half[15:]:
            writer.close()
        await until(lambda: server.context.guests.waiting == 0)


class Line:
    """A connection that notes its end."""

    def __init__(self, name: str, gone: list[str]) -> None:
        self._name, self._gone = name, gone

    def abort(self) -> None:
        self._gone.append(self._name)

    def is_closing(self) -> bool:
        return self._name in self._gone


def test_a_network_elsewhere_has_room_of_its_own() -> None:
    guests = Guests(Budget(100), most=4, most_of_network=2, most_admitted=1, outside=10)
    gone = list[str]()
    for name in ("a1", "a2", "b1", "a3", "b2", "c1"):
        guests.enter(name[0], Line(name, gone))
    assert gone == ["a1", "a2"], "its own oldest first, then the oldest of all"
    assert guests.waiting == 4


def test_whoever_holds_most_is_dropped_when_all_hold_too_much() -> None:
    guests = Guests(Budget(100), most=9, most_of_network=9, most_admitted=9, outside=10)
    gone = list[str]()
    one, other, inside = (guests.enter("a", Line(name, gone)) for name in ("one", "other", "inside"))
    inside.hold(9)
    inside.admit()
    assert (guests.outside.total, guests.inside.total) == (0, 9)
    one.hold(4)
    other.hold(6)
    assert gone == []
    one.hold(5)
    assert gone == ["other"]
    inside.hold(101)
    assert gone == ["other", "inside"]
    assert (guests.outside.total, guests.inside.total) == (5, 0)


async def test_too_many_that_are_let_in_are_told_so_as_json(state: Path) -> None:
    async with serving(state, limits=Limits(connections=1)) as server:
        await send(server.runtime, MAIN, "say one")
        async with server.client() as first, first.stream("GET", f"{history_path('main')}?follow=1") as stream:
            assert stream.status_code == 200
            answer = await asked(server)
            assert (answer.status_code, answer.json()["error"]["type"]) == (503, "unavailable")
            assert "retry-after" in answer.headers
            assert (await asked(server, "/health")).status_code == 200, "strangers have room of their own"
        await until(lambda: not server.context.guests.full)
        assert (await asked(server)).status_code == 200


@pytest.mark.parametrize("first", ["Content-Length: 4", "Transfer-Encoding: chunked"])
async def test_a_request_with_two_ends_is_refused_and_nothing_behind_it_is_read(server: Served, first: str) -> None:
    second = "Transfer-Encoding: chunked" if first.startswith("C") else "Content-Length: 4"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port)
    head = f"POST /tools/invoke HTTP/1.1\r\nHost: localhost\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\n"
    writer.write(f"{head}GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"not both" in answer
    assert answer.count(b"HTTP/1.1") == 1
    writer.close()


async def test_2800_requests_that_fail_leave_the_log_as_it_was(
    server: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object) -> None:
        raise ValueError("made by the test")

    monkeypatch.setattr(Runtime, "unready", broken)
    SPARING.begin()
    async with server.client() as client:
        for _ in range(MOST + 20):
            assert (await client.get("/ready")).status_code == 500
    assert len([record for record in caplog.records if record.name == "switchboard.server"]) <= MOST


def test_a_log_that_spares_lines_says_how_many() -> None:
    passed = [0.0]
    sparing = Sparing(lambda: passed[0])
    records = [logging.LogRecord("s", logging.ERROR, "", n, "line %s", (n,), None) for n in range(MOST + 6)]
    assert [sparing.filter(each) for each in records[:-1]] == [True] * MOST + [False] * 5
    passed[0] = 61.0
    assert sparing.filter(records[-1])
    assert records[-1].getMessage() == f"line {MOST + 5} (5 more lines of the server were not written)"


@pytest.mark.parametrize("reset", [False, True], ids=["hung up", "reset"])
async def test_a_follower_that_hangs_up_is_no_cause_for_a_warning(
    server: Served, caplog: pytest.LogCaptureFixture, reset: bool
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port, limit=1024)
    head = f"GET {history_path('main')}?follow=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"data:")
    big = text_block("x" * 3_000_000)
    for _ in range(3):  # it reads none of that
        await server.runtime.append(MAIN, Draft("user", (big,)), OPERATOR)
    if reset:
        writer.transport.abort()
    else:
        writer.write_eof()
    for n in range(20):
        await server.runtime.append(MAIN, Draft("user", (text_block(str(n)),)), OPERATOR)
    await until(lambda: server.context.metrics.value("followers") == 0)
    writer.transport.abort()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
async def test_half_a_request_is_not_waited_for(server: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(protocols, "IDLE_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.door.port)
    writer.write(sent)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_busy_connection_is_not_cut_off(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "IDLE_SECONDS", 0.02)
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
