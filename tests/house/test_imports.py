"""What is not loaded before it is needed. Each import is looked at in a process of its own (B1)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stores import ROOT

AFTER_THE_COMMAND = """
import contextlib, io, json, sys
from console.cli.parser import run
said = io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
    run(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""

AT_THE_FIRST_PICTURE = """
import json, sys
from pathlib import Path
from console.app import SwitchboardApp
from console.hosts.host import Host
from core.config.paths import find_places

def look():
    words = "\\n".join(strip.text for strip in app.screen._compositor.render_strips())
    print(json.dumps({"modules": sorted(sys.modules), "words": words}))
    app.exit()

app = SwitchboardApp(Host(find_places()))
app.startup.go_live = look
app.run(headless=True, size=(120, 36))
"""


def run_python(code: str, *arguments: str) -> str:
    """Run Python code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(modules: list[str], *unwanted: str) -> list[str]:
    """Return those modules that are, or are inside of, an unwanted one."""
    return [name for name in modules if any(name == bad or name.startswith(f"{bad}.") for bad in unwanted)]


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a state with one session."""
    monkeypatch.setenv("SWITCHBOARD_HOME", str(tmp_path))
    run_python(AFTER_THE_COMMAND, "send", "main", "say first words")


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("line", "unwanted"),
    [
        (["--help"], ["textual", "rich", "httpx", "pydantic", "pyjson5", "sqlite3", "asyncio", "core.runtime"]),
        (["--version"], ["textual", "rich", "httpx", "pydantic", "pyjson5", "sqlite3", "core.runtime"]),
        (["lst"], ["textual", "rich", "httpx", "pydantic", "pyjson5", "sqlite3", "core.runtime"]),
        (["list"], ["textual", "httpx", "httpx_sse", "json5", "core.runtime.work", "core.agents.model"]),
        (["history", "main"], ["textual", "rich", "httpx", "httpx_sse", "json5", "core.runtime.work"]),
        (["send", "main", "say hi"], ["textual", "rich", "httpx", "httpx_sse", "json5"]),
    ],
    ids=lambda value: value[0],
)
def test_a_command_loads_only_what_it_needs(line: list[str], unwanted: list[str]) -> None:
    modules: list[str] = json.loads(run_python(AFTER_THE_COMMAND, *line))
    assert "console.cli.parser" in modules
    assert loaded(modules, *unwanted) == []


@pytest.mark.usefixtures("filled")
def test_the_first_picture_needs_nothing_heavy() -> None:
    found = json.loads(run_python(AT_THE_FIRST_PICTURE).splitlines()[-1])
    assert "first words" in found["words"], "it is the picture with rows and transcript"
    unwanted = ["pydantic", "pydantic_core", "httpx", "httpx_sse", "pyjson5", "json5", "jsonfive", "logging.handlers"]
    unwanted += ["core.config.load", "core.config.schema", "core.config.build", "core.runtime.work", "core.agents"]
    unwanted += ["core.tools.dispatch", "console.log"]
    assert loaded(found["modules"], *unwanted) == []
