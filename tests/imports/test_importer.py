"""What an import brings in, of both generations, and what a second one does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.imports.importer import Progress, import_directory
from core.imports.writing import CONTINUED, DELETED_HERE, DIFFERENT, TAKEN
from core.model.access import ALL, OPERATOR
from core.model.sessions import Session
from core.store import gone, search, sessions
from core.store.database import Store
from tests.imports.folders import SID, START, Newer, Older, Talk
from tests.imports.here import MAIN, bring, found, reasons, said
from tests.support.runtimes import running, send
from tests.support.stores import opened, say

FROM_MAIN = {
    "kind": "inter_session",
    "sourceSessionKey": MAIN,
    "sourceChannel": "webchat",
    "sourceTool": "sessions_send",
}


async def test_a_session_comes_with_all_that_is_known_of_it(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.add("model_change", provider="lab", modelId="small")
    asked = talk.user("Sender (untrusted metadata):\n```json\n{}\n```\n\n[Fri 2026-11-20 22:05 UTC] what is on?")
    talk.tool("sessions_list", {"limit": 3}, "two sessions")
    talk.reply(
        "two things",
        content=[{"type": "thinking", "thinking": "hm", "thinkingSignature": "x"}, {"type": "text", "text": "two"}],
    )
    talk.user("[Inter-session message] sourceSession=agent:main:main isUser=false\nping", provenance=FROM_MAIN)
    talk.add("custom", customType="model-snapshot", data={})
    theirs.put(
        "agent:main:discord:group:ops",
        talk,
        label="Ops",
        display_name="the ops room",
        displayName="the ops room",
        status="done",
        sendPolicy="deny",
        providerOverride="lab",
        modelOverride="large",
        modelProvider="lab",
        model="small",
        thinkingLevel="low",
        verboseLevel="on",
        lastChannel="discord",
        lastTo="channel:7",
        lastAccountId="bot",
        startedAt=START + 1,
        endedAt=START + 9,
        runtimeMs=8,
        contextTokens=1000,
        totalTokens=110,
        systemSent=True,
        createdAt=START,
    )
    report = await bring(store, theirs)
    assert (report.imported, report.messages, report.transcripts, report.failed) == (1, 5, 1, [])
    session = found(store, "agent:main:discord:group:ops")
    assert (session.session_id, session.kind, session.chat_type, session.channel) == (SID, "group", "group", "discord")
    assert (session.label, session.display_name, session.send_policy) == ("Ops", "the ops room", "deny")
    assert (session.model, session.used_model) == ("lab/large", "lab/small")
    assert (session.thinking_level, session.verbose_level, session.system_sent) == ("low", "on", True)
    assert (session.last_channel, session.last_to, session.last_account_id) == ("discord", "channel:7", "bot")
    assert (session.status, session.started_at, session.ended_at, session.runtime_ms) == (
        "done",
        START + 1,
        START + 9,
        8,
    )
    assert (session.context_tokens, session.total_tokens, session.spent_tokens) == (1000, 110, 220)
    assert (session.cost_usd, session.preview) == (1.0, "ping")
    assert (session.created_at, session.updated_at, session.archived_at) == (START, START + 60_000, None)
    assert (session.first_seq, session.last_seq, session.queued) == (1, 5, 0)
    question, call, result, reply, ping = said(store, session.key)
    assert (question.id, question.role, question.text) == (asked, "user", "what is on?")
    assert call.content == ({"type": "toolCall", "id": "call_3", "name": "sessions_list", "arguments": {"limit": 3}},)
    assert (call.stop_reason, call.model) == ("toolUse", "lab/small")
    assert call.usage is not None
    assert (call.usage.context, call.usage.cost_usd) == (110, 0.5)
    assert (result.role, result.tool_call_id, result.tool_name) == ("toolResult", "call_3", "sessions_list")
    assert (result.text, result.is_error) == ("two sessions", False)
    assert reply.content == ({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "two"})
    assert (ping.text, ping.provenance and ping.provenance.as_json()) == ("ping", FROM_MAIN)
    assert [message.seq for message in said(store, session.key)] == [1, 2, 3, 4, 5]
    assert question.timestamp == START + 1000 + 1
    assert [hit.seq for hit in search.messages(store.db, "sessions two", ALL, limit=9)] == [3]
    assert reasons(report) == {"entries that only a program reads: they say nothing to an operator": 1}


async def test_a_second_import_adds_what_is_new_and_doubles_nothing(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.user("one")
    theirs.put(MAIN, talk, label="first")
    await bring(store, theirs)
    before = found(store)
    again = await bring(store, theirs)
    assert (again.imported, again.extended, again.unchanged, again.messages) == (0, 0, 1, 0)
    assert found(store) == before
    await store.write(lambda tx: sessions.update(tx, MAIN, label="mine"))
    talk.reply("two")
    theirs.put(MAIN, talk, label="theirs", status="done", updatedAt=START + 99_000)
    third = await bring(store, theirs)
    assert (third.imported, third.extended, third.unchanged, third.messages) == (0, 1, 0, 1)
    assert [message.text for message in said(store)] == ["one", "two"]
    session = found(store)
    assert (session.label, session.status, session.updated_at, session.preview) == (
        "mine",
        "done",
        START + 99_000,
        "two",
    )
    assert (session.spent_tokens, session.cost_usd) == (110, 0.5)
    assert session.rev > before.rev


async def test_a_reset_leaves_an_older_transcript_that_stays_readable(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    talk = Talk()
    talk.user("before")
    theirs.put(MAIN, talk)
    await bring(store, theirs)
    talk.add("reset", reason="reset")
    talk.user("after")
    theirs.put(MAIN, talk)
    report = await bring(store, theirs)
    assert (report.extended, report.messages, report.transcripts) == (1, 1, 1)
    assert [message.text for message in said(store)] == ["after"]
    assert [message.text for message in said(store, transcript=SID)] == ["before"]
    talk.add("reset", reason="new")
    theirs.put(MAIN, talk)
    await bring(store, theirs)
    assert said(store) == []
    assert found(store).preview is None
    assert (await bring(store, theirs)).unchanged == 1
    # the same in one go
    async with opened(tmp_path / "other") as other:
        await bring(other, theirs)
        assert found(other)[: Session._fields.index("rev")] == found(store)[: Session._fields.index("rev")]
        assert [message.text for message in said(other, transcript=SID)] == ["before"]


async def test_transcripts_of_earlier_windows_come_in_their_order(store: Store, tmp_path: Path) -> None:
    theirs = Newer(tmp_path / "oc")
    talks = [Talk(f"{number}1111111-2222-4333-8444-555555555555") for number in (3, 1, 2)]
    for number, talk in enumerate(talks):
        talk.user(f"words {number}")
    theirs.put(MAIN, talks)
    report = await bring(store, theirs)
    assert (report.messages, report.transcripts) == (3, 3)
    assert [[m.text for m in said(store, transcript=talk.session_id)] for talk in talks] == [
        ["words 0"],
        ["words 1"],
        ["words 2"],
    ]
    assert found(store).session_id == talks[-1].session_id


async def test_files_put_aside_by_a_reset_belong_to_the_session_whose_file_has_their_name(
    store: Store, tmp_path: Path
) -> None:
    theirs = Older(tmp_path / "oc")
    old, new, lost = Talk(), Talk("22222222-2222-4333-8444-555555555555"), Talk("33333333-2222-4333-8444-555555555555")
    old.user("before")
    new.user("after")
    lost.user("nobody knows whose")
    theirs.put(MAIN, new, name=f"{SID}.jsonl")
    theirs.write(old, f"{SID}.jsonl.reset.2026-11-21T06-34-37.596Z")
    theirs.write(lost, f"{lost.session_id}.jsonl.reset.2026-11-21T06-34-45.394Z")
    theirs.write(lost, "44444444.jsonl.deleted.2026-11-21T06-34-38.475Z")
    theirs.write(lost, "44444444.jsonl.bak.2026-11-21T06-34-38.475Z")
    theirs.write(lost, "notes.txt")
    report = await bring(store, theirs)
    assert (report.imported, report.messages, report.transcripts) == (2, 3, 3)
    assert [message.text for message in said(store)] == ["after"]
    assert [message.text for message in said(store, transcript=SID)] == ["before"]
    orphan = found(store, f"agent:main:import:{lost.session_id}")
    assert orphan.archived_at is not None
    assert [message.text for message in said(store, orphan.key)] == ["nobody knows whose"]
    assert list(reasons(report).values()) == [1, 1, 1]
    assert (await bring(store, theirs)).unchanged == 2


async def test_only_the_active_branch_comes(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    first = talk.user("ask")
    talk.reply("worse")
    talk.add("message", parentId=first, message={"role": "assistant", "content": "better"})
    theirs.put(MAIN, talk)
    report = await bring(store, theirs)
    assert [message.text for message in said(store)] == ["ask", "better"]
    assert reasons(report) == {"messages on branches that were left": 1}


async def test_what_an_operator_would_miss_becomes_a_note(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.user("work")
    talk.add("custom", customType="openclaw:prompt-error", data={"error": "no such model"})
    talk.add("compaction", summary="much was said", firstKeptEntryId="x", tokensBefore=9)
    talk.add("branch_summary", summary="a wrong way", fromId="x")
    talk.add("custom_message", customType="p", content="a plugin speaks", display=True)
    talk.add("custom_message", customType="p", content="to itself", display=False)
    talk.add("message", message={"role": "bashExecution", "command": "ls", "output": "a b"})
    talk.reply("", errorMessage="overloaded", stopReason="error")
    talk.reply("[note]\n\nby hand", provider="openclaw", model="gateway-injected")
    talk.reply("w0 w1", openclawAbort={"aborted": True})
    theirs.put(MAIN, talk, status="running", startedAt=START)
    await bring(store, theirs)
    notes = [message for message in said(store) if message.role == "system"]
    assert [message.text for message in notes] == [
        "the run failed: no such model",
        "the transcript was compacted here; its summary:\n\nmuch was said",
        "another branch was left here; its summary:\n\na wrong way",
        "a plugin speaks",
        "$ ls\na b",
        "the run failed: overloaded",
    ]
    assert [message.stop_reason for message in notes] == ["error", None, None, None, None, "error"]
    by_hand, aborted = said(store)[-2:]
    assert (by_hand.model, by_hand.usage) == (None, None)
    assert (aborted.text, aborted.stop_reason) == ("w0 w1", "aborted")
    assert (found(store).status, found(store).aborted_last_run) == ("aborted", True)


@pytest.mark.parametrize(
    ("theirs_says", "more", "ours"),
    [
        ("done", {}, "done"),
        ("failed", {}, "error"),
        ("killed", {}, "aborted"),
        ("timeout", {}, "timed_out"),
        ("running", {}, "interrupted"),
        ("running", {"startedAt": START, "endedAt": START + 5}, "done"),
        ("odd", {}, None),
    ],
)
async def test_how_the_last_run_ended(
    store: Store, theirs: Older | Newer, theirs_says: str, more: dict[str, Any], ours: str | None
) -> None:
    theirs.put(MAIN, Talk(), status=theirs_says, **more)
    await bring(store, theirs)
    assert found(store).status == ours


async def test_lineage_and_kinds(store: Store, theirs: Older | Newer) -> None:
    child = Talk("22222222-2222-4333-8444-555555555555")
    child.user("a task")
    key = "agent:main:subagent:9e0a1fbb-7fd2-4d3f-8d55-0b8ad2f0b6a1"
    theirs.put("Agent:MAIN:main", Talk())
    theirs.put(key, child, spawnedBy="agent:Main:main")
    theirs.put("agent:main:cron:nightly", Talk("33333333-2222-4333-8444-555555555555"))
    await bring(store, theirs)
    assert found(store, key).spawned_by == MAIN
    nightly = found(store, "agent:main:cron:nightly")
    assert (nightly.kind, nightly.channel) == ("cron", "internal")
    assert found(store).kind == "main"


async def test_keys_that_cannot_be_ours_are_left_out_with_the_reason(store: Store, theirs: Older | Newer) -> None:
    keys = ("agent:main:a::b", "agent:main:../up", "global", "unknown", MAIN)
    for number, name in enumerate(keys):
        theirs.put(name, Talk(f"{number}1111111-2222-4333-8444-555555555555"))
    report = await bring(store, theirs)
    assert report.imported == 1
    assert sorted(reasons(report).values()) == [2, 2]
    assert any(
        "has an empty part" in example for reason in report.skipped.reasons.values() for example in reason.examples
    )
    assert (await bring(store, theirs, global_agent="main")).imported == 1
    assert found(store, "main").kind == "main"


async def test_a_hostile_session_id_never_becomes_a_path_or_a_key(store: Store, theirs: Older | Newer) -> None:
    for number, session_id in enumerate(("../../etc/x", "main", MAIN, "a\u202eb")):
        talk = Talk(session_id)
        talk.user("words")
        if isinstance(theirs, Older):
            theirs.put(f"agent:main:s{number}", talk, name=f"{number}.jsonl")
        else:
            theirs.put(f"agent:main:s{number}", talk)
    report = await bring(store, theirs)
    assert (report.imported, report.failed) == (4, [])
    ids = [found(store, f"agent:main:s{number}").session_id for number in range(4)]
    assert all(len(session_id) == 36 and session_id.replace("-", "").isalnum() for session_id in ids)
    assert (await bring(store, theirs)).unchanged == 4


async def test_a_session_that_was_continued_here_is_left_alone(state: Path, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.user("one")
    theirs.put(MAIN, talk)
    async with opened(state) as store:
        await bring(store, theirs)
    async with running(state) as runtime:
        assert (await send(runtime, MAIN, "say two"))["status"] == "ok"
    talk.reply("another two")
    theirs.put(MAIN, talk)
    async with opened(state) as store:
        before = found(store)
        report = await bring(store, theirs)
        assert reasons(report) == {CONTINUED: 1}
        assert (report.failed, found(store)) == ([], before)
        assert [message.text for message in said(store)] == ["one", "say two", "two"]


async def test_a_key_that_is_in_use_here_stays_whose_it_is(state: Path, theirs: Older | Newer) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hi")
    talk = Talk()
    talk.user("theirs")
    theirs.put(MAIN, talk)
    async with opened(state) as store:
        assert reasons(await bring(store, theirs)) == {TAKEN: 1}
        assert [message.text for message in said(store)] == ["say hi", "hi"]


async def test_a_transcript_that_was_rewritten_there_is_not_mixed_with_what_is_here(
    store: Store, theirs: Older | Newer
) -> None:
    talk = Talk()
    talk.user("one")
    talk.user("two")
    theirs.put(MAIN, talk)
    await bring(store, theirs)
    shorter = Talk()
    shorter.user("one")
    theirs.put(MAIN, shorter)
    assert reasons(await bring(store, theirs)) == {DIFFERENT: 1}
    await store.write(lambda tx: say(tx, MAIN, "appended here"))
    theirs.put(MAIN, talk)
    assert reasons(await bring(store, theirs)) == {DIFFERENT: 1}
    assert [message.text for message in said(store)] == ["one", "two", "appended here"]


async def test_what_was_deleted_here_does_not_come_back(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.user("one")
    theirs.put("agent:main:old", talk)
    await bring(store, theirs)
    session = found(store, "agent:main:old")
    await store.write(lambda tx: gone.delete(tx, session))
    assert reasons(await bring(store, theirs)) == {DELETED_HERE: 1}
    assert sessions.by_key(store.db, "agent:main:old") is None


async def test_a_long_transcript_is_written_whole_or_not_at_all(store: Store, theirs: Older | Newer) -> None:
    short, long = Talk("22222222-2222-4333-8444-555555555555"), Talk()
    short.user("short")
    for number in range(2400):
        long.user(f"line {number}")
    theirs.put("agent:main:short", short, updatedAt=START)
    theirs.put("agent:main:long", long, updatedAt=START + 5)
    progress = Progress()
    importing = asyncio.create_task(import_directory(store, theirs.path, progress))
    while progress.messages < 1000:
        await asyncio.sleep(0)
    importing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await importing
    await store.write(lambda tx: None)
    assert [message.text for message in said(store, "agent:main:short")] == ["short"]
    assert sessions.by_key(store.db, "agent:main:long") is None
    assert store.db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    report = await bring(store, theirs)
    assert (report.imported, report.unchanged, report.messages) == (1, 1, 2400)
    seqs = [row[0] for row in store.db.execute("SELECT seq FROM messages WHERE session = 2 ORDER BY id")]
    assert seqs == list(range(1, 2401))


async def test_an_imported_session_goes_on_like_any_other(state: Path, theirs: Older | Newer) -> None:
    talk = Talk()
    talk.user("one")
    theirs.put(MAIN, talk, status="done")
    async with opened(state) as store:
        await bring(store, theirs)
    async with running(state) as runtime:
        assert (await send(runtime, MAIN, "say two"))["reply"] == "two"
        session = await runtime.get_session(MAIN, ALL)
        assert (session.session_id, session.last_seq, session.status) == (SID, 3, "done")
        await runtime.reset(MAIN, OPERATOR)
        page = await runtime.history(SID, ALL, limit=10)
        assert [message.seq for message in page.messages] == [1, 2, 3]
