"""`switchboard serve` as a process: what it says, what it refuses, and how it ends (G8)."""

import asyncio
import contextlib
import json
import os
import pty
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse

from core.config.token import kept_token
from core.model.errors import Unavailable
from core.remote.native.local import attach
from core.store.lock import current_owner
from core.wire.local import SOCKET_NAME
from tests.cli.program import COMMAND, Started, program, started
from tests.support.stores import ROOT


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds state and configuration."""
    folder = tmp_path / "switchboard"
    folder.mkdir()
    monkeypatch.setenv("SWITCHBOARD_HOME", str(folder))
    return folder


class Service:
    """A server at work in a process of its own.

    Attributes:
        facts: What it said when it was ready.
    """

    def __init__(self, process: Started, facts: dict[str, Any], token: str) -> None:
        self.process = process
        self.facts = facts
        self.token = token

    def client(self) -> httpx.Client:
        """Return a client with the token."""
        return httpx.Client(
            base_url=self.facts["url"], headers={"authorization": f"Bearer {self.token}"}, trust_env=False, timeout=30
        )

    def send(self, client: httpx.Client, key: str, message: str, **args: Any) -> dict[str, Any]:
        """Run `sessions_send` and return its result."""
        body = {"tool": "sessions_send", "args": {"sessionKey": key, "message": message} | args}
        return client.post("/tools/invoke", json=body).raise_for_status().json()["result"]["details"]


@contextlib.contextmanager
def service(home: Path, *arguments: str) -> Generator[Service]:
    """Start a server on any free port."""
    with started("serve", "--json", "--port", "0", *arguments) as process:
        assert process.process.stdout is not None
        line = process.process.stdout.readline()
        assert line, process.end().err
        token = home / "state" / "gateway.token"
        yield Service(process, json.loads(line), token.read_text().strip() if token.exists() else "")


def words_of(home: Path, key: str) -> list[str]:
    """Return what stands in a transcript, read by another process."""
    found = program("history", key, "--json", "--limit", "200").document["messages"]
    return [block["text"] for message in found for block in message["content"] if block["type"] == "text"]


@pytest.mark.spec("G8")
def test_it_says_where_it_is_and_serves(home: Path) -> None:
    with service(home) as serving:
        facts = serving.facts
        assert facts["status"] == "serving"
        assert facts["pid"] == serving.process.process.pid
        assert facts["url"] == f"http://127.0.0.1:{facts['port']}"
        assert facts["wsUrl"] == f"ws://127.0.0.1:{facts['port']}"
        assert serving.token not in json.dumps(facts)
        token = home / "state" / "gateway.token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert len(serving.token) >= 40
        with serving.client() as client:
            assert client.get("/readyz").json()["ready"] is True
            assert serving.send(client, "main", "say hi")["reply"] == "hi"
        assert (owner := current_owner(home / "state")) is not None
        assert owner.pid == facts["pid"]
        ended = serving.process.end(signal.SIGTERM)
    assert ended.code == 0
    assert current_owner(home / "state") is None
    assert words_of(home, "main") == ["say hi", "hi"]


@pytest.mark.spec("G8")
def test_the_token_is_made_once_and_shown_once_to_a_person_only(home: Path) -> None:
    first, second = _on_a_terminal(), _on_a_terminal()
    token = (home / "state" / "gateway.token").read_text().strip()
    assert first.count(token) == 1
    assert token not in second
    for said in (first, second):
        assert f"the token is in {home}/state/gateway.token" in said
        assert "switchboard connect ws://127.0.0.1:" in said
        assert f'--token "$(cat {home}/state/gateway.token)"' in said
    with started("serve", "--port", "0") as piped:
        assert piped.process.stdout is not None
        assert token not in "".join(piped.process.stdout.readline() for _ in range(4))
        assert piped.end(signal.SIGINT).code == 0


def _on_a_terminal() -> str:
    """Serve with a terminal as stdout, until it has said how to connect; return what it said."""
    import subprocess

    master, slave = pty.openpty()
    command = [*COMMAND, "serve", "--port", "0"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):
            while b"openclaw tui" not in said or not said.endswith(b"\n"):
                said += os.read(master, 4096)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):
            while os.read(master, 4096):
                pass
        assert process.wait(30) == 0
    os.close(master)
    return said.decode().replace("\r\n", "\n")


def test_a_token_file_that_is_no_secret_is_refused(tmp_path: Path) -> None:
    token, is_new, was_empty = kept_token(tmp_path)
    assert (is_new, was_empty) == (True, False)
    assert kept_token(tmp_path) == (token, False, False)
    path = tmp_path / "gateway.token"
    path.chmod(0o644)
    with pytest.raises(Unavailable, match="can be read by others"):
        kept_token(tmp_path)
    path.chmod(0o600)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="cannot be read"):
        kept_token(tmp_path)


MAKE_TOKEN = """
import sys
from pathlib import Path
from core.config.token import kept_token
from core.model.errors import Unavailable
try:
    kept_token(Path(sys.argv[1]))
except Unavailable as error:
    print(error.message)
"""
KILLED_TOKEN = """
import os, signal, sys
from pathlib import Path
from core.config.token import kept_token
state, name, when = sys.argv[1:]
real = getattr(os, name)
def call(*args, **more):
    if when == "after":
        real(*args, **more)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, name, call)
kept_token(Path(state))
"""


@pytest.mark.parametrize("left", ["", "\n"])
def test_an_empty_token_file_is_made_anew_with_a_word(home: Path, left: str) -> None:
    path = home / "state" / "gateway.token"
    path.parent.mkdir(0o700)
    path.touch(0o600)
    path.write_text(left)
    with service(home) as serving:
        serving.process.wait_for(f"the token file {path} was empty: it holds a new token now")
        assert serving.process.end(signal.SIGTERM).code == 0
    assert len(path.read_text().strip()) == 43


def test_a_kill_while_the_token_is_made_leaves_a_whole_one_or_none(tmp_path: Path) -> None:
    whole: list[str] = []
    for call in ("open", "fsync", "link", "unlink"):
        for when in ("before", "after"):
            state = tmp_path / f"{call}-{when}"
            state.mkdir(0o700)
            line = [sys.executable, "-c", KILLED_TOKEN, str(state), call, when]
            done = subprocess.run(line, cwd=ROOT, check=False, capture_output=True, text=True)
            assert done.returncode == -signal.SIGKILL, done.stderr
            path = state / "gateway.token"
            if path.exists():
                whole.append(state.name)
                assert len(path.read_text().strip()) == 43
            assert len(kept_token(state).value) == 43
    assert whole == ["link-after", "unlink-before", "unlink-after"]


def test_a_token_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))

    done = subprocess.run(
        [sys.executable, "-c", MAKE_TOKEN, str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=no_room,
    )
    assert done.stdout == f"{tmp_path}/gateway.token cannot be written: File too large\n", done.stderr
    assert not list(tmp_path.iterdir())


def test_a_second_server_names_the_first(home: Path) -> None:
    with service(home) as serving:
        refused = program("serve", "--port", "0")
        assert refused.code == 1
        assert f"is owned by switchboard serve (process {serving.facts['pid']}, since " in refused.sentence
        assert refused.sentence.endswith(": close that first, then serve")
        assert serving.process.end(signal.SIGTERM).code == 0


def test_a_port_that_is_taken_is_said_before_anything_is_begun(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = program("serve", "--port", str(port))
    assert refused.code == 1
    assert refused.sentence == (
        f"the gateway cannot listen on 127.0.0.1 port {port}: something else listens there:"
        " stop that, or choose another port with --port"
    )
    assert not (home / "state" / "gateway.token").exists()


@pytest.mark.spec("G8")
@pytest.mark.parametrize("bind", ["lan", "0.0.0.0", "::"])
def test_beyond_loopback_it_wants_a_token_and_tls(home: Path, bind: str) -> None:
    refused = program("serve", "--port", "0", "--bind", bind, "--insecure")
    assert (refused.code, "needs a token" in refused.sentence) == (2, True)
    config = home / "config.json5"
    config.write_text('{gateway: {auth: {token: {env: "GATEWAY_TOKEN"}}}}')
    refused = program("serve", "--port", "0", "--bind", bind, environment={"GATEWAY_TOKEN": "x" * 30})
    assert (refused.code, "in the clear" in refused.sentence) == (2, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--bind", "somewhere"], "--bind takes loopback, lan or an IP address"),
        (["--port", "x"], "expected a port from 0 to 65535"),
        (["--port", "65536"], "expected a port from 0 to 65535"),
        (["now"], "one word too many"),
    ],
)
def test_wrong_words_are_named(home: Path, line: list[str], words: str) -> None:
    refused = program("serve", *line)
    assert refused.code == 2
    assert words in refused.sentence


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ('{token: {env: "GATEWAY_TOKEN"}}', "GATEWAY_TOKEN, which holds the gateway's token, is not set"),
        ('{token: "the-same-one", readOnlyToken: "the-same-one"}', "readOnlyToken is the same as gateway.auth.token"),
        ('{token: "two words"}', "no HTTP header can carry"),
        ('{token: "x"}', "gateway.auth.token has 1 of at least 8 characters: choose another, `openssl rand -hex 32`"),
        ('{token: "long-enough", readOnlyToken: "1234567"}', "gateway.auth.readOnlyToken has 7 of at least 8"),
        ('{mode: "none"}', 'expected "token"'),
        ('{token: {env: "A", file: "b"}}', "must be one of"),
    ],
)
def test_tokens_that_cannot_be_used_are_said(home: Path, auth: str, words: str) -> None:
    (home / "config.json5").write_text(f"{{gateway: {{auth: {auth}}}}}")
    refused = program("serve", "--port", "0")
    assert refused.code in {1, 2}
    assert words in refused.sentence
    assert "two words" not in refused.sentence


@pytest.mark.spec("G8")
def test_tokens_of_the_configuration_are_used(home: Path) -> None:
    (home / "full").write_text("the-configured-token\n")
    (home / "config.json5").write_text(
        '{gateway: {auth: {mode: "token", token: {file: "%s"}, readOnlyToken: "the-reading-one"}}}' % (home / "full")
    )
    with service(home) as serving:
        assert serving.facts["token"] == f"file {home}/full"
        assert not (home / "state" / "gateway.token").exists()
        answers: dict[str, int] = {}
        for serving.token in ("the-configured-token", "the-reading-one", "another"):
            with serving.client() as client:
                body = {"tool": "sessions_send", "args": {"sessionKey": "main", "message": "say hi"}}
                answers[serving.token] = client.post("/tools/invoke", json=body).status_code
        assert answers == {"the-configured-token": 200, "the-reading-one": 403, "another": 401}
        assert serving.process.end(signal.SIGTERM).code == 0


@pytest.mark.spec("G3", "G7")
def test_a_stop_in_mid_stream_loses_nothing_that_was_acknowledged(home: Path) -> None:
    acknowledged, followed = list[str](), list[str]()
    with service(home) as serving, serving.client() as client, serving.client() as other:
        serving.send(client, "main", "say ready")
        threads = [
            threading.Thread(target=_keep_sending, args=(serving, acknowledged)),
            threading.Thread(target=_follow, args=(serving, other, followed)),
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 20
        while (len(acknowledged) < 5 or len(followed) < 5) and time.monotonic() < deadline:
            time.sleep(0.01)
        ended = serving.process.end(signal.SIGTERM)
        for thread in threads:
            thread.join(20)
    assert ended.code == 0, ended.err
    assert len(acknowledged) >= 5
    stored = words_of(home, "main")
    assert [words for words in acknowledged if words not in stored] == []
    assert followed == stored[2 : 2 + len(followed)], "what was followed is the transcript, in order"
    with service(home) as again, again.client() as client:
        deadline = time.monotonic() + 20
        while _count(client) < 2 + 2 * len(acknowledged):
            assert time.monotonic() < deadline, "each was answered, or is now"
            time.sleep(0.01)
        assert again.process.end(signal.SIGTERM).code == 0


def _count(client: httpx.Client) -> int:
    return len(client.get("/sessions/main/history", params={"limit": 200}).json()["items"])


def _keep_sending(serving: Service, acknowledged: list[str]) -> None:
    """Send until the server refuses or is gone; note what it has taken."""
    with serving.client() as client, contextlib.suppress(httpx.HTTPError):
        for n in range(1000):
            serving.send(client, "main", f"say number {n}")
            acknowledged.append(f"say number {n}")


def _follow(serving: Service, client: httpx.Client, followed: list[str]) -> None:
    """Follow to the end of the stream, which must be a clean one."""
    with connect_sse(client, "GET", "/sessions/main/history", params={"follow": 1}) as source:
        messages = (event.json()["message"] for event in source.iter_sse() if event.event == "message")
        followed.extend(message["content"][0]["text"] for message in messages)


def test_a_run_at_work_may_end_and_its_follower_hears_of_it(home: Path) -> None:
    with service(home) as serving, serving.client() as client:
        serving.send(client, "main", "say ready")
        with connect_sse(client, "GET", "/sessions/main/history", params={"follow": 1}) as source:
            events = source.iter_sse()
            assert next(events).event == "history"
            with serving.client() as other:
                serving.send(other, "main", "be slow 1", timeoutSeconds=0)
            assert next(events).json()["message"]["role"] == "user"
            serving.process.process.send_signal(signal.SIGTERM)
            assert [event.json()["message"]["role"] for event in events] == ["assistant"]
        assert serving.process.end().code == 0
    assert program("list", "--json").document["sessions"][0]["status"] == "done"


def test_what_is_queued_when_it_ends_waits_for_the_next_start(home: Path) -> None:
    with service(home) as serving, serving.client() as client:
        serving.send(client, "main", "be slow 1", timeoutSeconds=0)
        queued = serving.send(client, "main", "say later", timeoutSeconds=0)
        ended = serving.process.end(signal.SIGTERM)
        assert ended.code == 0, ended.err
    assert program("list", "--json").document["sessions"][0]["status"] == "queued"
    with service(home) as again:
        deadline = time.monotonic() + 20
        while words_of(home, "main")[-1] != "later":
            assert time.monotonic() < deadline, f"run {queued['runId']} did not go on"
        assert again.process.end(signal.SIGTERM).code == 0


def test_a_second_signal_ends_it_at_once(home: Path) -> None:
    with service(home) as serving, serving.client() as client:
        serving.send(client, "main", "be slow 60", timeoutSeconds=0)
        serving.process.process.send_signal(signal.SIGTERM)
        serving.process.wait_for("closing: waiting")
        assert serving.process.end(signal.SIGTERM).code == -signal.SIGTERM
    assert words_of(home, "main")[0] == "be slow 60"


def test_whoever_works_on_the_socket_counts_as_connected_too(home: Path) -> None:
    async def on_the_socket(client: httpx.Client) -> None:
        async with asyncio.timeout(20):
            while not (home / "state" / SOCKET_NAME).exists():
                await asyncio.sleep(0.01)
        gateway = await attach(home / "state")
        try:
            told = (await asyncio.to_thread(client.get, "/metrics")).text
            assert "\nswitchboard_conversations 1\n" in told
            assert 'switchboard_requests_total{method="port.describe"} 1' in told
        finally:
            await gateway.close()

    with service(home) as serving, serving.client() as client:
        assert "\nswitchboard_conversations 0\n" in client.get("/metrics").text
        asyncio.run(on_the_socket(client))
