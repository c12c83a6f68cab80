"""A command line that cannot be meant is one sentence with what was probably meant, and exit code 2
(architecture#command-line)."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Cli, program


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("lst", 'there is no command "lst"; did you mean "list"?'),
        ("List", 'there is no command "List"; did you mean "list"?'),
        ("xyzzy", 'there is no command "xyzzy": use one of demo, list, history, follow, send,'),
        ("--json --state X hisory main", 'there is no command "hisory"; did you mean "history"?'),
        ("list --limt 3", 'there is no flag "--limt"; did you mean "--limit"?'),
        ("list --lim 3", 'there is no flag "--lim"; did you mean "--limit"?'),
        ("send main hi --detatch", 'there is no flag "--detatch"; did you mean "--detach"?'),
        ("spawn hi --run-timout=3", 'there is no flag "--run-timout"; did you mean "--run-timeout"?'),
        ("--jsn list", 'there is no flag "--jsn"; did you mean "--json"?'),
        ("list --kinds grup", '--kinds: expected main, group, cron, hook, node or other, not "grup"; did you mean "gr'),
        ("list --kinds main \x1b]2;x\x07", 'not "\\x1b]2;x\\x07"'),
        ("policy main of", 'expected on, off or inherit, not "of"; did you mean "off"?'),
        ("spawn x --thinking hig", 'expected off, minimal, low, medium or high, not "hig"; did you mean "high"?'),
        ("list --limit 0", '--limit: expected a whole number from 1 to 999999999, not "0"'),
        ("list --limit 99999999999999999999", "--limit: expected a whole number"),
        ("list --limit ٣", "--limit: expected a whole number"),
        ("history main --limit 1.5", '--limit: expected a whole number from 1 to 999999999, not "1.5"'),
        ("search x --limit=-1", "--limit: expected a whole number"),
        ("list --active 0", '--active: expected minutes, more than 0 and up to 52704000, not "0"'),
        ("list --active nan", '--active: expected minutes, more than 0 and up to 52704000, not "nan"'),
        ("list --active soon", "--active: expected minutes"),
        ("send main x --timeout=-1", '--timeout: expected seconds from 0 to 86400, not "-1"'),
        ("send main x --timeout inf", "--timeout: expected seconds from 0 to 86400"),
        ("spawn x --run-timeout nan", "--run-timeout: expected seconds from 0 to 86400"),
        ("--state", "--state: expected one argument"),
        ("list --state=", '--state: expected a path, not ""'),
        ("--config= list", '--config: expected a path, not ""'),
        ("send", "missing: KEY, MESSAGE: see `switchboard send --help`"),
        ("spawn", "missing: TASK: see `switchboard spawn --help`"),
        ("search", "missing: TEXT"),
        ("send main two words", '"words" is one word too many, a text of several words needs quotes'),
        ("list main", '"main" is one word too many'),
    ],
)
def test_what_is_not_understood_is_one_sentence(cli: Cli, home: Path, line: str, sentence: str) -> None:
    found = cli(*line.split(" "))
    if "--json" in line.split():
        assert found.err == ""
        assert found.document["code"] == "invalid"
        said = found.document["error"]
    else:
        said = found.sentence
    assert sentence in said
    assert found.code == 2
    assert not home.exists(), "nothing was touched"


@pytest.mark.parametrize(
    ("line", "code", "kind", "sentence"),
    [
        ("history nobody", 3, "not_found", 'no session has the key or id "nobody": list the sessions'),
        ("history 00000000-0000-4000-8000-000000000000", 3, "not_found", "no session has the key or id"),
        ("policy nobody on", 3, "not_found", "no session has the key or id"),
        ("abort nobody", 3, "not_found", "no session has the key or id"),
        ("export nobody", 3, "not_found", "no session has the key or id"),
        ("send agent:ghost:main hi", 3, "not_found", 'agent "ghost" is not configured: use one of main'),
        ("spawn hi --agent ghost", 3, "not_found", 'agent "ghost" is not configured: use one of main'),
        ("spawn hi --model ghost", 3, "not_found", 'model "ghost" is not configured: use one of builtin'),
        ("send main hi --from ghost", 3, "not_found", "no session has the key or id"),
        ("send main hi --from main", 3, "not_found", "no session has the key or id"),
        ("send agent:main:../../x hi", 2, "invalid", "session key"),
        ("history \x1b[2J", 2, "invalid", 'session key "\\x1b[2J" holds a control character: remove it'),
        ("send main \t", 2, "invalid", "the message is empty: write something to send"),
        ("spawn \t", 2, "invalid", "say what the sub-agent is to do"),
        ("send main /send", 2, "invalid", "usage: /send on|off|inherit"),
    ],
)
def test_what_does_not_exist_is_one_sentence(cli: Cli, line: str, code: int, kind: str, sentence: str) -> None:
    words = line.split(" ")
    said = cli(*words)
    assert said.code == code
    assert sentence in said.sentence
    as_json = cli(*words, "--json")
    assert as_json.code == code
    assert as_json.err == ""
    assert (as_json.document["status"], as_json.document["code"]) == ("error", kind)
    assert sentence in as_json.document["error"]
    assert cli("list", "--json").document["count"] == 0, "nothing was made"


def test_empty_words_are_refused(cli: Cli) -> None:
    assert cli("send", "main", "").sentence == "the message is empty: write something to send"
    assert cli("history", "").sentence.startswith("the session key is empty")
    assert cli("spawn", "").code == 2
    assert cli("search", "", " ").sentence == "there is nothing to search for: give a word"


def test_a_message_that_is_too_long_is_refused_by_its_size(home: Path) -> None:
    refused = program("send", "main", "-", stdin=b"x" * 1_000_000)
    assert refused.code == 2
    assert refused.sentence == (
        "the message is 1,000,000 bytes long and at most 524,288 fit: put it in a file and name that"
    )
    assert json.loads(program("list", "--json").out)["count"] == 0
    assert program("send", "main", "-", "--json", stdin=b"say " + b"x" * 520_000).document["reply"] == "x" * 520_000


@pytest.mark.parametrize("command", ["", "list", "history", "send", "spawn", "policy", "abort", "search", "export"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    with pytest.raises(SystemExit) as left:
        cli(*command.split(), "--help")
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: switchboard {command}".strip())
    assert "--json" in said


def test_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("switchboard 0.")
