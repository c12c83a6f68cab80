"""What each command does, and that --json is exactly the tool's result (architecture#command-line)."""

from pathlib import Path

import pytest

from tests.cli.program import Cli, program

OPS = "agent:main:discord:group:ops"


def test_a_send_answers_and_list_and_history_show_it(cli: Cli) -> None:
    sent = cli("send", "main", "say good morning")
    assert (sent.code, sent.out) == (0, "good morning\n")
    assert sent.err.splitlines()[0] == "main: at work"
    assert sent.err.splitlines()[1].startswith("main: done after 0.")
    listed = cli("list")
    assert (listed.code, listed.err) == (0, "")
    head, row = listed.out.splitlines()
    assert head.split() == ["KEY", "LABEL", "KIND", "CHANNEL", "STATE", "AGE", "TOKENS", "COST", "POLICY"]
    assert row.split()[:4] == ["main", "main", "webchat", "done"]
    history = cli("history", "main")
    assert (history.code, history.err) == (0, "")
    lines = history.out.splitlines()
    assert [line.split()[0] + " " + line.split()[-1] for line in lines[::2]] == ["1 user", "2 assistant"]
    assert lines[1::2] == ["    say good morning", "    good morning"]


@pytest.mark.spec("L1", "L5")
def test_list_as_json(cli: Cli) -> None:
    assert cli("list", "--json").document == {"count": 0, "sessions": []}
    cli("send", "main", "say hi")
    cli("send", "cron:nightly", "say ho")
    found = cli("list", "--json").document
    assert found["count"] == 2
    assert [row["key"] for row in found["sessions"]] == ["cron:nightly", "main"]
    main = found["sessions"][1]
    assert (main["kind"], main["channel"], main["status"]) == ("main", "webchat", "done")
    assert [row["key"] for row in cli("list", "--json", "--kinds", "cron", "hook").document["sessions"]] == [
        "cron:nightly"
    ]
    assert cli("list", "--json", "--limit", "1").document["count"] == 1
    assert cli("list", "--json", "--search", "nightly").document["count"] == 1
    assert cli("list", "--json", "--archived").document["count"] == 0
    assert cli("list", "--json", "--active", "5").document["count"] == 2


def test_a_list_that_is_empty_says_why(cli: Cli) -> None:
    assert cli("list").out == "no sessions yet: `switchboard send main hello` makes one\n"
    cli("send", "main", "say hi")
    for flags in (["--archived"], ["--search", "zzz"], ["--kinds", "hook"]):
        assert cli("list", *flags).out == "no session matches\n"
    cli("send", "cron:nightly", "say hi")
    assert cli("list", "--limit", "1").out.endswith("\n… more: --limit 2\n")


@pytest.mark.spec("H1", "H2", "H3")
def test_history_as_json(cli: Cli) -> None:
    cli("send", "main", "list sessions")
    found = cli("history", "main", "--json").document
    assert list(found) == ["sessionKey", "sessionId", "messages"]
    assert found["sessionKey"] == "main"
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "assistant"]
    by_id = cli("history", found["sessionId"], "--json", "--tools").document
    assert by_id["sessionId"] == found["sessionId"]
    assert [message["role"] for message in by_id["messages"]] == ["user", "assistant", "toolResult", "assistant"]
    assert [message["seq"] for message in cli("history", "main", "--json", "--limit", "1").document["messages"]] == [4]


def test_history_shows_tools_and_who_sent(cli: Cli) -> None:
    cli("send", "main", "list sessions")
    said = cli("history", "main", "--tools").out
    assert '    ▸ sessions_list {"limit": 20}\n' in said
    assert "  sessions_list answered\n" in said
    cli("send", "cron:nightly", "say hi")
    cli("send", "main", "say one\n\ntwo", "--from", "cron:nightly")
    said = cli("history", "main").out
    assert "  cron:nightly → user\n    say one\n\n    two\n" in said


@pytest.mark.spec("S2", "S3", "S4", "S12")
def test_send_as_json(cli: Cli) -> None:
    sent = cli("send", "main", "say hi", "--json")
    assert (sent.code, sent.document["status"], sent.document["reply"]) == (0, "ok", "hi")
    assert list(sent.document) == ["runId", "status", "reply"]
    failed = cli("send", "main", "fail: no power", "--json")
    assert (failed.code, failed.document["status"]) == (1, "error")
    assert failed.document["error"] == "the builtin agent failed as asked: no power"
    accepted = cli("send", "main", "say hi", "--timeout", "0", "--json")
    assert (accepted.code, accepted.document["status"]) == (0, "accepted")
    assert cli("history", "main", "--limit", "1", "--json").document["messages"][0]["role"] == "assistant"


@pytest.mark.spec("S3", "S12")
def test_a_wait_that_runs_out_ends_with_5_and_the_work_is_done_all_the_same(cli: Cli) -> None:
    late = cli("send", "main", "be slow 0.4", "--timeout", "0.1", "--json")
    assert (late.code, late.document["status"]) == (5, "timeout")
    assert cli("list", "--json").document["sessions"][0]["status"] == "done"
    late = cli("send", "main", "be slow 0.4", "--timeout", "0.1")
    assert (late.code, late.out) == (5, "1 done\n")
    assert "no reply within 0.1 s; staying until the run has ended\n" in late.err


def test_work_that_was_not_waited_for_is_told_all_the_same(cli: Cli) -> None:
    assert cli("send", "main", "say hi", "--timeout", "0").out == "hi\n"
    failed = cli("send", "main", "fail: no power", "--timeout", "0")
    assert (failed.code, failed.out) == (1, "")
    assert "no power" in failed.err


def test_send_reads_a_long_message_from_stdin(home: Path) -> None:
    text = "say " + "ä" * 100_000
    assert program("send", "main", "-", stdin=text.encode()).out == "ä" * 100_000 + "\n"
    wrong = program("send", "main", "-", stdin=b"say \xff")
    assert (wrong.code, wrong.sentence) == (2, "the message on stdin is not UTF-8 text")


@pytest.mark.spec("K6")
def test_a_full_key_that_is_new_makes_the_session(cli: Cli) -> None:
    assert cli("send", OPS, "say hi").code == 0
    row = cli("list", "--json").document["sessions"][0]
    assert (row["key"], row["kind"], row["channel"]) == (OPS, "group", "discord")
    assert cli("send", row["sessionId"], "say again").out == "again\n"
    missing = cli("send", "ops", "say hi")
    assert missing.code == 3
    assert 'no session has the key or id "ops"' in missing.sentence


@pytest.mark.spec("P3", "P4", "P5")
def test_policy_and_the_command_of_a_session(cli: Cli) -> None:
    assert cli("send", OPS, "/send off").out == "send policy deny\n"
    refused = cli("send", OPS, "hi", "--json")
    assert (refused.code, refused.document["status"]) == (4, "forbidden")
    assert refused.document["decidedBy"] == ["sendPolicy override"]
    assert "denies messages" in cli("send", OPS, "hi").sentence
    assert cli("policy", OPS, "--json").document == {
        "key": OPS,
        "effective": "deny",
        "override": "deny",
        "decidedBy": ["sendPolicy override"],
    }
    assert cli("policy", OPS, "inherit").out == f"{OPS}: allow by default\n"
    assert cli("send", OPS, "say hi").code == 0
    assert cli("policy", OPS, "on", "--json").document["override"] == "allow"
    assert "usage: /send on|off|inherit" in cli("send", OPS, "/send perhaps").sentence


def test_policy_by_a_rule_of_the_configuration(cli: Cli, config: Path) -> None:
    config.write_text('{session: {sendPolicy: {rules: [{action: "deny", match: {channel: "discord"}}]}}}')
    assert cli("send", OPS, "/label ops").code == 0
    assert cli("policy", OPS).out == f"{OPS}: deny by rule 1: discord\n"
    assert cli("policy", OPS, "--json").document["decidedBy"] == ["session.sendPolicy.rules[0]"]
    assert cli("send", OPS, "hi").code == 4


@pytest.mark.spec("W1", "W4", "W6")
def test_spawn(cli: Cli, config: Path) -> None:
    config.write_text('{agents: {list: [{id: "main"}, {id: "helper"}]}}')
    done = cli("spawn", "say found it", "--label", "search")
    assert (done.code, done.out) == (0, "found it\n")
    assert "done after" in done.err
    assert done.err.endswith("\nannounce to webchat: sent\n")
    told = cli("history", "main", "--json").document["messages"][-1]
    assert "found it" in told["content"][0]["text"]
    accepted = cli("spawn", "say x", "--json")
    assert list(accepted.document) == ["status", "runId", "childSessionKey"]
    assert (accepted.code, accepted.document["status"]) == (0, "accepted")
    failed = cli("spawn", "fail: no", "--json")
    assert (failed.code, failed.document["status"]) == (1, "accepted")
    assert "failed as asked: no" in failed.err
    refused = cli("spawn", "say x", "--agent", "helper", "--json")
    assert (refused.code, refused.document["status"]) == (4, "forbidden")
    stopped = cli("spawn", "be slow 30", "--run-timeout", "0.2")
    assert stopped.code == 1
    assert "stopped after its limit of 0.2 s" in stopped.err
    missing = cli("spawn", "say x", "--from", "nobody")
    assert missing.code == 3


def test_detached_work_waits_for_an_owner_and_can_be_dropped(cli: Cli, home: Path) -> None:
    left = cli("send", "main", "say later", "--detach")
    assert (left.code, left.err) == (0, "")
    assert left.out.startswith("accepted as run ")
    assert left.out.endswith(f"; it runs when a console is opened on {home / 'state'}\n")
    assert cli("list", "--json").document["sessions"][0]["status"] == "queued"
    spawned = cli("spawn", "say later", "--detach", "--json")
    assert (spawned.code, spawned.document["status"]) == (0, "accepted")
    stopped = cli("abort", "main", "--json")
    assert stopped.code == 0
    assert stopped.document["aborted"]
    own = left.out.split()[3].rstrip(";")
    assert stopped.document["runIds"] == [own, spawned.document["runId"]], "what it spawned is stopped with it"
    assert cli("abort", "main").out == "main: nothing to stop\n"


def test_a_command_runs_what_was_left_in_its_own_session(cli: Cli) -> None:
    cli("send", "main", "say first", "--detach")
    cli("send", "cron:nightly", "say elsewhere", "--detach")
    assert cli("send", "main", "say second").out == "second\n"
    texts = [m["content"][0]["text"] for m in cli("history", "main", "--json").document["messages"]]
    assert texts == ["say first", "say second", "first", "second"]
    assert cli("list", "--json", "--kinds", "cron").document["sessions"][0]["status"] == "queued"


def test_search(cli: Cli) -> None:
    cli("send", "main", "say the needle is here")
    found = cli("search", "needle", "--json")
    assert found.code == 0
    assert [hit["sessionKey"] for hit in found.document["results"]] == ["main", "main"]
    head, first, _ = cli("search", "the", "needle").out.splitlines()
    assert head.split() == ["KEY", "SEQ", "AGE", "WORDS"]
    assert first.split()[:2] == ["main", "2"]
    assert cli("search", "nowhere").out == "no match\n"
    cli("send", "agent:main:other", "say another needle")
    assert cli("search", "needle", "--json").document["count"] == 4
    inside = cli("search", "needle", "--in", "agent:main:other", "--json").document["results"]
    assert {hit["sessionKey"] for hit in inside} == {"agent:main:other"}
    assert cli("search", "needle", "--in", "agent:main:nope").code == 3


def test_export_prints_every_message_whatever_their_number(cli: Cli) -> None:
    for number in range(3):
        cli("send", "main", f"say {number}")
    whole = cli("export", "main", "--json").document
    assert list(whole) == ["sessionKey", "sessionId", "messages"]
    assert [message["seq"] for message in whole["messages"]] == [1, 2, 3, 4, 5, 6]
    text = cli("export", "main").out
    assert text.startswith("## 1 · user\n\nsay 0\n\n## 2 · assistant\n\n0\n\n## 3 · user\n")
    assert cli("export", "nobody").code == 3


def test_doctor_says_what_it_found_and_where(cli: Cli, home: Path, config: Path) -> None:
    config.write_text("{channels: {telegram: {}}}")
    found = cli("doctor")
    assert found.code == 0
    for words in (str(config), "SWITCHBOARD_HOME", str(home / "state" / "switchboard.log"), "ignored", "nobody"):
        assert words in found.out
    as_json = cli("doctor", "--json").document
    assert as_json["ok"] is True
    assert {finding["verdict"] for finding in as_json["findings"]} <= {"ok", "note"}


def test_doctor_tells_what_is_wrong(cli: Cli, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("{session: 1}")
    broken = cli("doctor", "--json")
    assert broken.code == 1
    assert [f["found"] for f in broken.document["findings"] if f["verdict"] == "wrong"] == [
        f"{config} line 1: session is 1: expected an object: {{ … }}"
    ]
    config.write_text(
        '{models: {providers: {p: {baseUrl: "http://me:hidden@h/v1?k=hidden", apiKey: {env: "NO_KEY"},'
        ' models: [{id: "m"}]}}}}'
    )
    keyless = cli("doctor")
    assert keyless.code == 1
    assert "NO_KEY, which holds the model's key, is not set" in keyless.out
    assert "hidden" not in keyless.out
    monkeypatch.setenv("NO_KEY", "sk-1")
    assert "key from env NO_KEY" in cli("doctor").out


@pytest.mark.parametrize(
    "words",
    [
        ["--state", "{s}", "--config", "{c}", "--json", "list"],
        ["list", "--json", "--config", "{c}", "--state", "{s}"],
        ["--json", "list", "--state={s}", "--config={c}"],
        ["--state={s}", "--config={c}", "list", "--json"],
    ],
)
def test_flags_stand_before_or_after_the_command(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    elsewhere, config = tmp_path / "elsewhere", tmp_path / "other.json5"
    config.write_text('{agents: {list: [{id: "boss"}]}}')
    cli("--state", str(elsewhere), "--config", str(config), "send", "main", "say hi")
    line = [word.replace("{s}", str(elsewhere)).replace("{c}", str(config)) for word in words]
    row = cli(*line).document["sessions"][0]
    assert row["key"] == "main", "of the agent that the configuration names; without it: agent:boss:main"
    assert cli("list", "--json").document["count"] == 0


@pytest.mark.spec("S9", "S11")
def test_a_send_from_a_session_stays_until_its_exchange_is_over(cli: Cli) -> None:
    cli("send", "main", "say hi")
    cli("send", OPS, "say hi")
    sent = cli("send", OPS, "say from afar", "--from", "main")
    told = "announce to discord group:ops: failed: no route to discord:group:ops: the channel is not configured"
    assert (sent.code, sent.out) == (0, "from afar\n")
    progress = [line for line in sent.err.splitlines() if line.startswith(("exchange", "announce"))]
    assert progress == [
        f"exchange main → {OPS}: turn 1 of 5, main is next",
        f"exchange main → {OPS}: turn 2 of 5, {OPS} is next",
        f"exchange main → {OPS}: turn 2 of 5, {OPS} writes the announce",
        "announce to discord group:ops: pending",
        f"exchange main → {OPS}: done: REPLY_SKIP in turn 2",
        told,
    ]


@pytest.mark.spec("S9", "S11")
def test_a_send_from_a_session_as_json_is_the_tools_result(cli: Cli) -> None:
    cli("send", "main", "say hi")
    cli("send", "cron:nightly", "say hi")
    sent = cli("send", "main", "say back", "--from", "cron:nightly", "--json")
    assert set(sent.document) == {"runId", "status", "reply", "exchange", "delivery"}
    assert (sent.code, sent.document["status"], sent.document["reply"]) == (0, "ok", "back")


@pytest.mark.spec("S9", "W6")
def test_what_was_not_announced_is_told_in_a_line(cli: Cli) -> None:
    cli("send", "main", "say hi")
    skipped = cli("send", "cron:nightly", "say hi", "--from", "main")
    assert skipped.out == "hi\n", "stdout is the reply alone"
    told = "\nannounce to internal: skipped: the session has no channel of its own (internal)\n"
    assert skipped.err.endswith(told)
    failed = cli("send", "cron:nightly", "fail now", "--from", "main")
    assert failed.code == 1
    told = "\nexchange with main: error, nothing is announced: the first run ended: error\n"
    assert (failed.out, failed.err.endswith(told)) == ("", True)
    assert cli("spawn", "say found").out == "found\n"
