"""The commands on a gateway elsewhere, the gateways that are known by name, and how one gets among them
(architecture#command-line)."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.profiles import FILE_NAME, TOKEN_VARIABLE
from tests.cli.program import Cli, Result, Started, program, started
from tests.remote.scripted import Conversation, scripted
from tests.remote.theirs import Theirs, row
from tests.support.runtimes import MAIN, running, send
from tests.support.terminal import Terminal

TOKEN = "a-token-that-nobody-may-see"
READING = "a-token-that-may-only-read"


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that runs in a process of its own.

    Attributes:
        home: Where its state and configuration are.
    """

    url: str
    home: Path
    process: Started


@contextmanager
def serving(home: Path, port: int = 0) -> Generator[Served]:
    """Serve a state directory of its own."""
    home.mkdir(exist_ok=True)
    tokens = {"token": TOKEN, "readOnlyToken": READING}
    (home / "config.json5").write_text(json.dumps({"gateway": {"auth": tokens}}))
    with started("serve", "--port", str(port), "--json", environment={"SWITCHBOARD_HOME": str(home)}) as process:
        assert process.process.stdout is not None
        told = json.loads(process.process.stdout.readline())
        yield Served(told["wsUrl"], home, process)
        process.end(signal.SIGTERM)


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    """Return a gateway with a few sessions."""
    home = tmp_path / "far"
    asyncio.run(_fill(home / "state"))
    with serving(home) as found:
        yield found


async def _fill(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say far away")
        await send(runtime, "cron:nightly", "say at night")


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def ageless(text: str) -> str:
    """Return what a command said without how long ago things were, which the time between two commands can change."""
    return re.sub(r" +(?:now|\d+[smhd])\b", " …", text)


def near(cli: Cli, served: Served, *arguments: str) -> Result:
    """Run a command in this process on what the gateway owns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWITCHBOARD_HOME", str(served.home))
        return cli(*arguments)


def at(served: Served, *arguments: str) -> Result:
    """Run a command where the gateway runs."""
    done = program(*arguments, environment={"SWITCHBOARD_HOME": str(served.home)})
    assert done.code == 0, done.err
    return done


@pytest.fixture
def known(cli: Cli, served: Served, tmp_path: Path) -> str:
    """Connect to the gateway, and return its name."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert cli("connect", served.url, "--name", "far", "--token-file", str(file)).code == 0
    return "far"


def test_connect_tells_what_it_found_and_stores_it(cli: Cli, home: Path, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    done = cli("connect", served.url, "--token-file", str(file))
    assert done.code == 0
    for words in (served.url, "switchboard ", "operator.admin", "it has 2 sessions", "stored as 127.0.0.1"):
        assert words in done.out
    stored = home / "state" / FILE_NAME
    assert stored.stat().st_mode & 0o777 == 0o600
    again = cli("connect", "127.0.0.1", "--name", "far", "--json").document
    assert (again["name"], again["url"], again["sessions"], again["stored"]) == ("far", served.url, 2, True)
    assert cli("gateways").out.splitlines()[1:] == [
        f"127.0.0.1  {served.url}  stored  stored",
        f"far        {served.url}  stored  stored",
    ]
    assert cli("connect", "--forget", "far").out == "far is forgotten, with its token\n"
    assert [row["name"] for row in cli("gateways", "--json").document["gateways"]] == ["127.0.0.1"]
    assert cli("connect", "--forget", "127.0.0.1", "--json").document == {"name": "127.0.0.1", "stored": False}
    assert TOKEN not in stored.read_text()
    assert cli("gateways").out == "no gateway is known by name yet: `switchboard connect URL` stores one\n"


def test_every_command_works_there_with_the_same_answers(cli: Cli, served: Served, known: str) -> None:
    for line in (["list"], ["history", "main"], ["export", "main"], ["policy", "main"], ["search", "far"]):
        here, there = near(cli, served, *line), cli(*line, "--gateway", known)
        assert (there.code, ageless(there.out)) == (0, ageless(here.out)), line
        documents = near(cli, served, *line, "--json").document, cli("--gateway", known, *line, "--json").document
        if line[0] != "history":
            assert documents[0] == documents[1], line
    sent = cli("--gateway", known, "send", "main", "say sent from afar")
    assert (sent.code, sent.out) == (0, "sent from afar\n")
    assert "main: at work\nmain: done after" in sent.err
    answer = cli("send", "main", "say hi", "--json", "--gateway", known).document
    assert (answer["status"], answer["reply"]) == ("ok", "hi")
    assert cli("policy", "main", "off", "--gateway", known).out == "main: deny by override\n"
    refused = cli("send", "main", "hi", "--from", "cron:nightly", "--gateway", known)
    assert refused.code == 4
    assert cli("abort", "main", "--gateway", known).out == "main: nothing to stop\n"
    assert cli("spawn", "say below", "--gateway", known).out == "below\n"
    left = cli("send", "cron:nightly", "say later", "--detach", "--gateway", known)
    assert left.out.endswith("; the gateway far runs it\n")
    assert cli("history", "nowhere", "--gateway", known).code == 3
    assert "ok" in cli("doctor", "--gateway", known, "--json").out
    assert not cli("list", "--json").document["sessions"], "nothing of that happened here"


def test_work_goes_on_there_when_its_command_is_stopped(cli: Cli, served: Served, known: str) -> None:
    with started("send", "main", "be slow 30", "--gateway", known) as sending:
        sending.wait_for("main: at work")
        ended = sending.end(signal.SIGINT)
    assert ended.code == 130
    assert ended.err.endswith("stopped by SIGINT; what is at work goes on at the gateway far\n")
    assert cli("abort", "main", "--gateway", known).out == "main: stopped 1 run\n"


def test_follow_hears_what_is_said_there(cli: Cli, served: Served, known: str) -> None:
    with started("follow", "main", "--json", "--gateway", known) as following:
        following.wait_for("following main")
        at(served, "send", "main", "say news")
        assert following.process.stdout is not None
        lines = [json.loads(following.process.stdout.readline()) for _ in range(2)]
        assert following.end(signal.SIGINT).code == 130
    assert [line["content"][0]["text"] for line in lines] == ["say news", "news"]


def test_an_address_works_with_the_token_of_the_environment(
    cli: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli("list", "--gateway", served.url)
    assert refused.code == 1
    assert "token" in refused.sentence
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert cli("list", "--gateway", served.url).code == 0
    assert cli("gateways").out.startswith("no gateway"), "what is not asked for is not stored"


def test_a_token_that_may_only_read_is_refused_what_it_may_not(
    cli: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, READING)
    assert cli("history", "main", "--gateway", served.url).code == 0
    for line in (["send", "main", "hi"], ["policy", "main", "off"]):
        refused = cli(*line, "--gateway", served.url)
        assert refused.code == 4, line
        assert "operator." in refused.sentence
    assert len(at(served, "history", "main", "--json").document["messages"]) == 2


def test_a_wrong_token_is_told_and_nothing_is_stored(cli: Cli, home: Path, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "wrong"
    file.write_text("another-secret-word")
    refused = cli("connect", served.url, "--token-file", str(file))
    assert refused.code == 1
    assert "does not accept this token" in refused.sentence
    assert "another-secret-word" not in refused.err
    assert not (home / "state" / FILE_NAME).exists()


async def test_a_device_that_must_be_approved_is_told_how_and_goes_on_afterwards(home: Path, tmp_path: Path) -> None:
    approved: list[str] = []

    async def script(conversation: Conversation) -> None:
        if not approved:
            await conversation.challenge()
            details = {"code": "PAIRING_REQUIRED", "requestId": "req-7"}
            await conversation.refuse(await conversation.next(), "NOT_PAIRED", "pairing required", details=details)
            return
        await conversation.greet()
        while True:
            await conversation.answer(await conversation.next(), {"sessions": []})

    file = tmp_path / "token"
    file.write_text(TOKEN)
    async with scripted(script) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}"
        refused = await asyncio.to_thread(program, "connect", url, "--name", "ops", "--token-file", str(file))
        assert refused.code == 1
        assert "approve it there with `openclaw devices approve req-7`" in refused.err
        assert "after the approval, `switchboard connect ops` goes on" in refused.err
        assert TOKEN not in refused.err + refused.out
        approved.append("req-7")
        connected = await asyncio.to_thread(program, "connect", "ops")
    assert connected.code == 0, connected.err
    assert connected.out.startswith(f"connected to {url}")
    first, last = (conversation.asked[0]["params"] for conversation in gateway.conversations)
    assert first["device"]["id"] == last["device"]["id"], "it is the device that was approved"
    assert last["auth"]["token"] == TOKEN


async def test_a_search_says_what_it_did_not_look_into(home: Path, tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.lacks["sessions.search"] = {"scope", "agentId", "sessionKeys"}
    theirs.rows.append(row("agent:helper:b", sessionId="t-2"))
    file = tmp_path / "token"
    file.write_text(TOKEN)
    async with scripted(theirs.script) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}"
        connected = await asyncio.to_thread(program, "connect", url, "--name", "ops", "--token-file", str(file))
        assert connected.code == 0, connected.err
        told = await asyncio.to_thread(program, "--gateway", "ops", "search", "zebra")
        data = await asyncio.to_thread(program, "--gateway", "ops", "search", "zebra", "--json")
    assert "not searched: agent helper: this gateway searches its default agent only" in told.out
    assert [each["place"] for each in json.loads(data.out)["unsearched"]] == ["agent helper"]


def test_a_gateway_that_is_down_is_one_sentence(cli: Cli, served: Served, known: str) -> None:
    served.process.end(signal.SIGTERM)
    for line in (["list"], ["send", "main", "hi"], ["follow", "main"]):
        down = cli(*line, "--gateway", known)
        assert down.code == 1
        assert down.sentence.startswith("far cannot be reached: ")
        assert cli(*line, "--gateway", known, "--json").document["code"] == "unavailable"


def test_names_come_from_the_configuration_first(cli: Cli, config: Path, served: Served) -> None:
    os.environ["FAR_TOKEN"] = TOKEN
    config.write_text(
        f"""{{gateways: {{
          far: {{url: "{served.url}", token: {{env: "FAR_TOKEN"}}}},
          other: {{url: "ws://127.0.0.1:1"}},
        }}}}"""
    )
    try:
        assert cli("list", "--gateway", "far").code == 0
        assert cli("connect", "far").out.splitlines()[-1].startswith("in the configuration as far")
        rows = cli("gateways", "--json").document["gateways"]
        assert [(row["name"], row["origin"], row["token"]) for row in rows] == [
            ("far", "configuration", "env FAR_TOKEN"),
            ("other", "configuration", None),
        ]
        kept = cli("connect", "--forget", "far")
        assert kept.code == 3
        assert "stands in the configuration" in kept.sentence
    finally:
        del os.environ["FAR_TOKEN"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("list --gateway othr", 3, 'no gateway is called "othr"; did you mean "other"?'),
        ("list --gateway a@b", 2, '"a@b" names no gateway'),
        ("list --gateway ftp://h", 2, '"ftp://h" cannot be a gateway\'s address: expected an address such as wss://'),
        ("list --gateway ws://me:s3cret@h", 2, "expected an address alone"),
        ("list --gateway ws://h?token=s3cret", 2, "expected an address alone"),
        ("list --gateway ws://elsewhere.example", 2, "say --insecure"),
        ("list --gateway other,local", 2, "only the console works on several gateways at once"),
        ("list --gateway=", 2, "expected a gateway's name or address"),
        ("demo --gateway other", 2, ""),
        ("connect", 2, "there is nothing to connect to"),
        ("connect ws://127.0.0.1:1 --name a/b", 2, '"a/b" cannot be a gateway\'s name'),
        ("connect ws://127.0.0.1:1 --fingerprint abc", 2, "64 hexadecimal digits"),
        ("connect ws://127.0.0.1:1 --token-file /nowhere", 2, "the token file /nowhere cannot be read"),
        ("connect ws://127.0.0.1:1", 1, "cannot be reached"),
        ("connect --forget nobody", 3, 'no gateway is called "nobody"'),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(cli: Cli, config: Path, line: str, code: int, words: str) -> None:
    config.write_text('{gateways: {other: {url: "ws://127.0.0.1:1"}}}')
    found = cli(*line.split(" "))
    assert (found.code, words in found.sentence) == (code, True), found.err
    assert "s3cret" not in found.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", ""),
        ("{", "that is not JSON"),
        ('{"a b": {}}', ""),
        ('{"far": {"url": "ftp://x"}}', ""),
        ('{"far": {"url": 1}}', ""),
        ('{"far": {"url": "ws://a"}, "far": {"url": "ws://b"}}', 'names "far" twice'),
        ('{"far": {"url": "ws://a", "x": NaN}}', "NaN is no number"),
        ('{"far": {"url": "ws://a", "x": 1e999}}', "1e999 is larger"),
        (f'{{"far": {"1" * 5000}}}', "more than 4,300 digits"),
    ],
    ids=lambda each: str(each)[:25],
)
def test_damaged_stored_gateways_are_named(cli: Cli, home: Path, text: str, why: str) -> None:
    file = home / "state" / FILE_NAME
    file.parent.mkdir(parents=True)
    file.write_text(text)
    found = cli("gateways")
    assert found.code == 1
    assert f"the stored gateways {file} are damaged" in found.sentence
    assert why in found.sentence


def test_the_console_works_on_a_gateway_elsewhere_alone_or_beside_the_runtime_here(
    cli: Cli, home: Path, served: Served, known: str
) -> None:
    assert cli("send", "cron:here", "say here").code == 0
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    command = [str(Path(sys.executable).with_name("switchboard")), "--gateway"]
    for gateways, words in ((known, ["night"]), (f"{known},local", ["night", "here"])):
        with Terminal(
            [*command, gateways], plain | {"SWITCHBOARD_HOME": str(home)}, columns=160, preloaded=True
        ) as console:
            for word in words:
                console.wait_for(word)
            console.settle(0.3)
            since = len(console.output)
            at(served, "send", "cron:nightly", f"say news for {gateways}")
            console.wait_for("news for", since=since)
            console.press("q")
            assert console.wait_end() == 0, console.text[-600:]
            assert TOKEN not in console.text
    assert (home / "state" / "owner.lock").read_text() == "", "what it owned here it gave free"
