"""Whatever is wrong around the program is one sentence with what to do, and nothing is lost
(architecture#command-line, architecture#threats)."""

import asyncio
import os
import resource
import signal
import sqlite3
from pathlib import Path

import pytest

from core.store.explain import DATABASE_NAME
from tests.cli.program import COMMAND, Cli, Result, program
from tests.support.model_server import Answer, ModelServer, Plain, Silence, closed_url, refuse, stream
from tests.support.stores import NOBODY, ROOT, as_nobody

SECRET = "sk-very-secret-0123456789"


# Configuration


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{sesion: {}}", 'line 1: sesion is not known; did you mean "session"?'),
        ('{\n session: {scope: "gobal"}}', 'line 2: session.scope is "gobal": expected "per-sender" or "global"'),
        ("{a: 1", "line 1: the object that starts here is never closed"),
        ("[]", "must hold one object"),
    ],
)
@pytest.mark.parametrize("line", [["list"], ["send", "main", "hi"], ["send", "main", "hi", "--detach"]])
def test_a_wrong_configuration_stops_every_command(
    cli: Cli, config: Path, text: str, sentence: str, line: list[str]
) -> None:
    config.write_text(text)
    said = cli(*line)
    assert said.code == 2
    assert said.sentence.startswith(str(config))
    assert sentence in said.sentence
    assert cli(*line, "--json").document["code"] == "invalid"
    config.unlink()
    assert cli("list", "--json").document["count"] == 0


def test_a_configuration_that_was_named_must_be_there(cli: Cli, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json5"
    said = cli("list", "--config", str(missing))
    assert (said.code, said.sentence) == (2, f"the configuration {missing} does not exist: check --config")


# The state directory


@pytest.mark.parametrize("line", [["send", "main", "hi"], ["serve", "--port", "0"]], ids=lambda line: line[0])
@pytest.mark.parametrize("files", [7, 8, 9, 11])
def test_a_process_that_may_open_too_few_files_says_so(cli: Cli, home: Path, line: list[str], files: int) -> None:
    assert cli("send", "main", "hello").code == 0
    said = program(*line, prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert said.code == 1
    assert "too many files are open" in said.sentence
    assert "ulimit -n 1024" in said.sentence
    assert str(home / "state") in said.sentence or "to go on" in said.sentence
    assert [row["key"] for row in cli("list", "--json").document["sessions"]] == ["main"]


def test_a_path_that_starts_nowhere(cli: Cli, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in ("--state", "--config"):
        said = cli("list", flag, "~nobody-of-that-name/x")
        assert (said.code, said.sentence) == (
            2,
            "nobody knows where ~nobody-of-that-name/x is: give a path that starts with /",
        )
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli("list").code == 0
    assert cli("list", "--state", "here").sentence == "nobody knows where here is: give a path that starts with /"
    config.write_text(
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: {file: "~nobody-of-that-name/k"},'
        ' models: [{id: "m"}]}}}, agents: {defaults: {model: "p/m"}}}'
    )
    assert "key file ~nobody-of-that-name/k cannot be read" in cli("doctor").out
    assert "key file ~nobody-of-that-name/k cannot be read" in cli("send", "main", "hi").err


def test_a_state_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        said = cli("list", "--state", str(place))
        assert said.code == 1
        assert said.sentence.startswith(f"the state directory {place} ")
        assert "--state DIR" in said.sentence
    assert file.read_text() == "mine"


AS_NOBODY = """
    import contextlib, io, sys, tempfile
    from console.cli.parser import run
    with tempfile.TemporaryDirectory() as warm, contextlib.redirect_stdout(io.StringIO()):
        file = warm + "/b.tar"
        saved = ["backup", file], ["restore", file, "--force"]
        for command in (["list"], ["send", "main", "say hi", "--timeout", "0"], ["doctor"], *saved):
            run([*command, "--json", "--state", warm + "/state"])  # what it imports may lie where only root can read
    drop_rights()
    sys.exit(run(sys.argv[1:]))
"""


def nobody_runs(*line: str) -> Result:
    """Run a command line without any rights."""
    done = as_nobody(AS_NOBODY, *line)
    return Result(done.returncode, done.stdout, "".join(done.stderr.splitlines(keepends=True)[2:]))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory of somebody else")
def test_a_state_that_belongs_to_somebody_else(public: Path) -> None:
    state = public / "state"
    program("send", "main", "say hi", "--state", str(state))
    theirs = (
        f"the folder {state} belongs to root, not to nobody: work as that user or, if it is yours,"
        f" `sudo chown -R nobody {state}`"
    )
    new = public / "new"
    closed = f"the state directory {new} cannot be used: check its permissions, or choose another with --state DIR"
    for place, line, sentence in ((state, ["list"], theirs), (new, ["send", "main", "hi"], closed)):
        said = nobody_runs(*line, "--state", str(place))
        assert (said.code, said.sentence) == (1, sentence)
    examined = nobody_runs("doctor", "--state", str(state), "--config", str(public / "none" / "c"))
    assert examined.code == 1
    assert theirs in examined.out
    for line in (["check"], ["backup", str(public / "b.tar")]):
        said = nobody_runs(*line, "--state", str(state))
        assert (said.code, said.sentence) == (1, theirs)
    assert examined.err == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory of somebody else")
def test_a_configuration_that_nobody_may_read(public: Path) -> None:
    config, state = public / "c.json5", public / "state"
    config.write_text("{}")
    config.chmod(0o600)
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    said = nobody_runs("list", "--state", str(state), "--config", str(config))
    assert (said.code, said.sentence) == (2, f"the configuration {config} cannot be read: Permission denied")


def test_a_database_that_is_newer(cli: Cli, home: Path) -> None:
    cli("send", "main", "say hi")
    with sqlite3.connect(home / "state" / DATABASE_NAME) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    said = cli("list")
    assert said.code == 1
    assert "was written by a newer version (schema 99" in said.sentence
    assert "upgrade switchboard" in said.sentence


@pytest.mark.parametrize("damage", ["not a database", "torn"])
def test_a_database_that_is_damaged(cli: Cli, home: Path, damage: str) -> None:
    for number in range(5):
        cli("send", "main", f"say {number} {'x' * 5000}")
    file = home / "state" / DATABASE_NAME
    content = file.read_bytes()
    damaged = b"nonsense" * 1000 if damage == "not a database" else content[:4096] + b"\xa5" * (len(content) - 4096)
    file.write_bytes(damaged)
    for line in (["list"], ["history", "main"], ["send", "main", "hi"]):
        said = cli(*line)
        assert said.code == 1
        assert f"the state directory {home / 'state'} holds a " in said.sentence
        assert "move it away to start anew" in said.sentence
    assert file.read_bytes() == damaged, "what can be rescued is still there"
    examined = cli("doctor")
    assert (examined.code, examined.err) == (1, "")
    assert "move it away to start anew" in examined.out


def test_a_disk_that_is_full(cli: Cli, home: Path) -> None:
    for number in range(3):
        cli("send", "main", f"say {number}")
    size = (home / "state" / DATABASE_NAME).stat().st_size

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    said = program("send", "main", "-", stdin=b"x" * 400_000, prepare=fill)
    assert said.code == 1
    assert said.sentence.startswith(f"the state directory {home / 'state'} ")
    assert len(cli("history", "main", "--json").document["messages"]) == 6
    assert cli("send", "main", "say on").out == "on\n"


# Models


async def ask(server_url: str, *more: str, model: str = "m") -> Result:
    """Send a message that a model at this address is to answer."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("send", "main", "hello", *more),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "SWITCHBOARD_MODEL_URL": server_url,
            "SWITCHBOARD_MODEL": model,
            "SWITCHBOARD_MODEL_KEY": SECRET,
        },
        cwd=ROOT,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), err.decode())


def nothing_tells(folder: Path, secret: str = SECRET) -> bool:
    """Whether no file below a folder holds the secret."""
    return not any(secret.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (refuse(401, f"the key {SECRET} is wrong"), "401"),
        (refuse(400, "no such model"), "no such model"),
        (Plain(404, "<html><h1>Nothing here</h1></html>", content_type="text/html"), "404"),
        (Plain(200, "<html>Please log in</html>", content_type="text/html"), "model env/m "),
        (Plain(200, "certainly not JSON"), "model env/m "),
        (Plain(302, "", {"Location": "http://127.0.0.1:1/"}), "redirect"),
        (stream(f"half an answer with {SECRET}", ended=False), "model env/m "),
    ],
    ids=range(7),
)
async def test_a_model_that_answers_nonsense_fails_in_one_sentence(home: Path, answer: Answer, sentence: str) -> None:
    async with ModelServer() as server:
        server.handler = lambda request: answer
        said = await ask(f"{server.url}/v1")
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}", "it was asked with the key"
    assert said.code == 1
    (told,) = [line for line in said.err.splitlines() if line.startswith("switchboard: ")]
    assert "model env/m" in told
    assert sentence in told
    assert "Traceback" not in said.err
    if not isinstance(answer, Plain):
        return  # what the model itself says is the transcript, whatever it is
    assert SECRET not in said.err + said.out
    assert nothing_tells(home)
    assert not (home / "state" / "switchboard.log").exists(), "that a model fails is not unexpected"


async def test_a_model_that_is_not_there(home: Path) -> None:
    said = await ask(f"{closed_url()}/v1")
    assert said.code == 1
    assert "cannot be reached at http://127.0.0.1:" in said.err
    assert "is it running?" in said.err
    assert nothing_tells(home)


async def test_a_model_that_says_nothing_can_be_waited_for_or_stopped(home: Path) -> None:
    async with ModelServer() as server:
        server.handler = lambda request: Silence()
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("spawn", "hello", "--run-timeout", "0.5"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "SWITCHBOARD_MODEL_URL": f"{server.url}/v1", "SWITCHBOARD_MODEL": "m"},
            cwd=ROOT,
        )
        out, err = await process.communicate()
    assert process.returncode == 1
    assert out == b""
    assert b"The run was stopped after its limit of 0.5 s." in err


@pytest.mark.parametrize("form", ["environment", "file", "literal"])
async def test_a_key_appears_nowhere(
    home: Path, config: Path, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("THE_KEY", SECRET if form == "environment" else "")
    api_key = {"environment": '{env: "THE_KEY"}', "file": f'{{file: "{key_file}"}}', "literal": f'"{SECRET}"'}[form]
    async with ModelServer() as server:
        server.handler = lambda request: stream("good morning")
        config.write_text(
            f'{{models: {{providers: {{p: {{baseUrl: "{server.url}/v1", apiKey: {api_key}, models: [{{id: "m"}}]}}}}}},'
            ' agents: {defaults: {model: "p/m"}}}'
        )
        lines = (["send", "main", "hello"], ["doctor"], ["history", "main", "--json"])
        said = [await asyncio.to_thread(program, *line) for line in lines]
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert [result.code for result in said] == [0, 0, 0]
    assert said[0].out == "good morning\n"
    for result in said:
        assert SECRET not in result.out + result.err
    assert nothing_tells(home / "state")
    config.write_text(config.read_text().replace("apiKey", "apikey"))
    refused = await asyncio.to_thread(program, "list")
    assert refused.code == 2
    assert SECRET not in refused.sentence


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory of somebody else")
def test_a_restore_where_nothing_may_be_put_beside_the_state(public: Path) -> None:
    state, backup = public / "state", public / "b.tar"
    program("send", "main", "say hi", "--state", str(state))
    assert program("backup", str(backup), "--state", str(state)).code == 0
    backup.chmod(0o644)
    for path in [state, *state.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    before = sorted(public.rglob("*"))
    said = nobody_runs("restore", str(backup), "--state", str(state), "--force")
    assert said.code == 1
    assert said.sentence.startswith(f"nothing can be restored beside {state}: Permission denied: choose a folder with")
    assert sorted(public.rglob("*")) == before
    said = nobody_runs("backup", str(public / "other.tar"), "--state", str(state))
    assert (said.code, said.sentence) == (1, f"the backup {public}/other.tar cannot be written: Permission denied")
