"""T1, V5: `switchboard mcp`, asked by the library's own client over the pipes of a real process."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from core.tools.dispatch import TOOL_NAMES, schemas
from tests.support.model_formats import Wait
from tests.support.model_server import ModelServer, stream
from tests.support.preloaded import Preloaded
from tests.support.runtimes import MAIN, running, send, words
from tests.support.stores import ROOT

COMMAND = (sys.executable, "-m", "console", "mcp")
GROUP = "agent:main:discord:group:ops"
CONFIG = """{
  session: { sendPolicy: { rules: [{ action: "deny", match: { channel: "discord" } }] } },
  agents: { list: [{ id: "main" }, { id: "ops", tools: { deny: ["sessions_spawn"] } }] },
}"""


@contextlib.asynccontextmanager
async def client(home: Path, *arguments: str, **more: str) -> AsyncGenerator[Client]:
    """Start the command in a home and connect to it."""
    (home / "config.json5").write_text(CONFIG)
    environment = {**os.environ, "SWITCHBOARD_HOME": str(home), **more}
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *arguments], env=environment, cwd=str(ROOT)
    )
    async with Client(parameters) as connected:
        yield connected


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """Return a home with a few sessions."""
    home = tmp_path / "switchboard"
    async with running(home / "state") as runtime:
        for key in ("main", GROUP):
            await send(runtime, key, "say copper")
    async with running(home / "state", _two_agents()) as runtime:
        await send(runtime, "agent:ops:main", "say tin")
    return home


def _two_agents() -> Any:
    from core.config.settings import AgentSettings, Settings
    from core.rules.ruleset import AgentRules, RuleSet

    agents = ("main", "ops")
    rules = RuleSet(agents={agent: AgentRules(agent) for agent in agents})
    return Settings(rules=rules, agents={agent: AgentSettings(agent) for agent in agents})


def of(result: CallToolResult) -> dict[str, Any]:
    """Return a tool's own result; text and structure say the same."""
    (content,) = result.content
    assert content.type == "text"
    if not result.is_error:
        assert json.loads(content.text) == result.structured_content
    return result.structured_content


@pytest.mark.spec("T1", "S3", "W2", "P4")
async def test_the_operator_lists_sends_and_spawns(home: Path) -> None:
    async with client(home) as connected:
        tools = (await connected.list_tools()).tools
        assert [tool.name for tool in tools] == list(TOOL_NAMES)
        assert [tool.input_schema for tool in tools] == [tool.parameters for tool in schemas()]
        listed = of(await connected.call_tool("sessions_list", {}))
        assert {row["key"] for row in listed["sessions"]} == {"main", GROUP, "agent:ops:main"}
        sent = await connected.call_tool("sessions_send", {"sessionKey": "main", "message": "say gold"})
        assert (sent.is_error, of(sent)["status"], of(sent)["reply"]) == (False, "ok", "gold")
        aloud = {"runtime": "subagent", "thread": False, "mode": "run", "label": None}
        spawned = of(await connected.call_tool("sessions_spawn", {"task": "say silver", **aloud}))
        child = spawned["childSessionKey"]
        assert spawned["status"] == "accepted"

        async def reply() -> list[dict[str, Any]]:
            history = of(await connected.call_tool("sessions_history", {"sessionKey": child}))
            return [message for message in history["messages"] if message["role"] == "assistant"]

        while not await reply():
            await asyncio.sleep(0.01)
        denied = await connected.call_tool("sessions_send", {"sessionKey": GROUP, "message": "x"})
        assert denied.is_error
        assert of(denied)["status"] == "forbidden"
        assert of(denied)["decidedBy"] == ["session.sendPolicy.rules[0]"]


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("sessions_spawn", {"task": "x", "runtime": "acp"}, "invalid", "Agent Client Protocol yet; use subagent"),
    ("sessions_spawn", {"task": "x", "thread": True}, "invalid", "no channel here has threads yet"),
    ("sessions_spawn", {"task": "x", "mode": "session"}, "invalid", "no channel here has threads yet"),
    ("sessions_spawn", {"task": " "}, "invalid", "task cannot be"),
    ("sessions_send", {"sessionKey": "main"}, "invalid", "sessions_send needs message"),
    ("sessions_list", {"kinds": ["x"]}, "invalid", '"x" is no kind of session'),
    ("sessions_history", {"sessionKey": "agent:main:no"}, "not_found", "agent:main:no"),
    ("sessions_fly", {}, "invalid", 'there is no tool "sessions_fly"'),
]


@pytest.mark.spec("T1")
async def test_what_is_wrong_is_an_error_of_one_sentence(home: Path) -> None:
    async with client(home) as connected:
        for tool, arguments, code, sentence in WRONG:
            result = await connected.call_tool(tool, arguments)
            (content,) = result.content
            assert content.type == "text"
            assert result.is_error
            assert of(result) == {"status": "error", "code": code, "error": content.text}
            assert sentence in content.text
            assert "\n" not in content.text


@pytest.mark.spec("T1", "S5")
async def test_a_run_that_fails_is_an_error_and_a_wait_that_runs_out_is_none(home: Path) -> None:
    async with client(home) as connected:
        failed = await connected.call_tool("sessions_send", {"sessionKey": "main", "message": "fail: on purpose"})
        assert (failed.is_error, of(failed)["status"]) == (True, "error")
        accepted = await connected.call_tool(
            "sessions_send", {"sessionKey": "main", "message": "say hi", "timeoutSeconds": 0}
        )
        assert (accepted.is_error, of(accepted)["status"]) == (False, "accepted")


@pytest.mark.spec("T1")
async def test_a_client_knows_before_a_call_what_a_tool_may_do(home: Path) -> None:
    async with client(home) as connected:
        about = {tool.name: tool.annotations for tool in (await connected.list_tools()).tools}
        for name, hints in about.items():
            assert hints is not None
            reads = name not in {"sessions_send", "sessions_spawn"}
            assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (reads, reads, not reads)
            assert hints.destructive_hint is False


@pytest.mark.spec("S3", "S6")
async def test_a_client_that_asks_is_told_that_a_wait_goes_on(tmp_path: Path) -> None:
    go, told = asyncio.Event(), list[tuple[float, str | None]]()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        assert total is None, "nobody knows how long a model takes"
        told.append((progress, message))
        if len(told) == 2:
            go.set()

    async with ModelServer() as server:
        server.script(stream("first ", Wait(go), "last"))
        model = {"SWITCHBOARD_MODEL_URL": server.url, "SWITCHBOARD_MODEL": "m"}
        async with client(tmp_path, **model) as connected:
            send = {"sessionKey": "main", "message": "begin", "timeoutSeconds": 60}
            sent = await connected.call_tool("sessions_send", send, progress_callback=tell)
            assert of(sent)["reply"] == "first last"
            count = len(told)
            await connected.call_tool("sessions_list", {})
    assert len(told) == count, "what was not asked for is not told"
    assert [seconds for seconds, _ in told] == sorted({seconds for seconds, _ in told})
    assert all(message and message.startswith("at work for ") for _, message in told)


@pytest.mark.spec("V5", "W3", "S8")
async def test_as_a_session_it_has_the_rights_of_that_session(home: Path) -> None:
    async with client(home, "--as", "agent:ops:main") as connected:
        assert "sessions_spawn" not in [tool.name for tool in (await connected.list_tools()).tools]
        withheld = of(await connected.call_tool("sessions_spawn", {"task": "x"}))
        assert (withheld["status"], withheld["decidedBy"]) == ("forbidden", ["agents.list[].tools"])
        listed = of(await connected.call_tool("sessions_list", {}))
        assert [row["key"] for row in listed["sessions"]] == ["main"]
        hidden = of(await connected.call_tool("sessions_history", {"sessionKey": GROUP}))
        assert (hidden["status"], hidden["decidedBy"]) == ("forbidden", ["tools.sessions.visibility=tree"])
    async with client(home, "--as", "main") as connected:
        child = of(await connected.call_tool("sessions_spawn", {"task": "say hi"}))["childSessionKey"]
        sent = of(await connected.call_tool("sessions_send", {"sessionKey": child, "message": "say more"}))
        assert sent["reply"] == "more"
        history = of(await connected.call_tool("sessions_history", {"sessionKey": child}))
        assert any(message.get("provenance", {}).get("sourceSessionKey") == MAIN for message in history["messages"])


async def test_beside_an_owner_it_reads_and_names_the_owner(home: Path) -> None:
    async with running(home / "state") as runtime, client(home) as connected:
        found = of(await connected.call_tool("sessions_search", {"query": "copper"}))
        assert found["count"] == 4
        refused = await connected.call_tool("sessions_send", {"sessionKey": "main", "message": "x"})
        assert refused.is_error
        assert of(refused)["code"] == "conflict"
        assert f"process {os.getpid()}" in of(refused)["error"]
        await send(runtime, "main", "say nickel")
        assert of(await connected.call_tool("sessions_search", {"query": "nickel"}))["count"] == 2


async def test_closing_its_input_ends_it_when_its_work_is_done(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with ModelServer() as server:
        server.script(stream("first ", Wait(go), "last"))
        model = {"SWITCHBOARD_MODEL_URL": server.url, "SWITCHBOARD_MODEL": "m"}
        with start(tmp_path, [], **model) as process:
            await asyncio.to_thread(say_hello, process)
            arguments = {"sessionKey": "main", "message": "begin", "timeoutSeconds": 0}
            say(process, id=2, method="tools/call", params={"name": "sessions_send", "arguments": arguments})
            answer = await asyncio.to_thread(heard, process)
            assert answer["result"]["structuredContent"]["status"] == "accepted"
            request = await server.request()
            assert process.stdin is not None
            process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 0.5)
            assert not request.gone.is_set()
            go.set()
            assert await asyncio.to_thread(process.wait, 20) == 0
    async with running(tmp_path / "state") as runtime:  # the state directory is free again
        assert await words(runtime, MAIN) == [("user", "begin"), ("assistant", "first last")]


def start(home: Path, arguments: Sequence[str], **more: str) -> "subprocess.Popen[str]":
    """Start the command on pipes."""
    pipe = subprocess.PIPE
    return Preloaded[str](
        [*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT,
        env={**os.environ, "SWITCHBOARD_HOME": str(home), **more},
    )  # fmt: skip


def say(process: "subprocess.Popen[str]", **message: Any) -> None:
    """Write one message to the command."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def heard(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Read one message of the command."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def say_hello(process: "subprocess.Popen[str]") -> None:
    """Begin the conversation."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    say(process, id=1, method="initialize", params=about)
    assert heard(process)["result"]["serverInfo"]["name"] == "switchboard"
    say(process, method="notifications/initialized")


@pytest.mark.parametrize(
    ("key", "code", "sentence"), [("agent:main:nobody", 3, "agent:main:nobody"), ("agent::x", 2, "agent::x")]
)
def test_a_session_that_is_not_there_is_one_sentence(home: Path, key: str, code: int, sentence: str) -> None:
    with start(home, ["--as", key]) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


async def test_a_signal_ends_it_while_its_input_is_open(home: Path) -> None:
    with start(home, []) as process:
        await asyncio.to_thread(say_hello, process)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 128 + signal.SIGTERM


def test_a_missing_library_is_one_sentence(home: Path) -> None:
    hide = "import sys; sys.modules['mcp'] = None; from console.cli.parser import run; sys.exit(run(['mcp']))"
    environment = {**os.environ, "SWITCHBOARD_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'switchboard-console[mcp]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_command_line_alone_does_not_import_it() -> None:
    load = "import console.cli.parser, console.cli.commands, sys"
    ask = f"{load}; print([name for name in sys.modules if name.startswith('mcp')])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_stdin_that_is_no_pipe_is_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "SWITCHBOARD_HOME": str(tmp_path)}
    with (tmp_path / "file").open("w+") as file:
        done = subprocess.run(
            COMMAND, stdin=file, capture_output=True, text=True, env=environment, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert "talks over pipes" in done.stderr
    assert len(done.stderr.splitlines()) == 1
