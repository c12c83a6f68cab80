"""The port over OpenClaw's protocol: what those gateways leave out, say twice, or say oddly."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.gateway import Action, Feed
from core.model.access import ALL, OPERATOR, Operator
from core.model.errors import Forbidden, NotFound, Unavailable
from core.model.events import Activity, Delta, Event, MessageAppended, Reloaded, RunChanged, SessionChanged, SessionGone
from core.model.messages import Provenance
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch, SessionQuery
from core.remote.openclaw.rows import HIDDEN, read_message, read_row
from core.remote.openclaw.rules import read_rules
from core.tools.dispatch import dispatch
from tests.remote.generations import PROTOCOL_3
from tests.remote.scripted import NOW, comes
from tests.remote.theirs import KEY, Theirs, row, serving
from tests.support.clock import FakeClock
from tests.support.runtimes import until


class Ear:
    """Listens to a feed."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.events: list[Event] = []
        self._task = asyncio.get_running_loop().create_task(self._listen())

    def told(self) -> list[tuple[int, str, str]]:
        """Return place, role and words of the messages that were told."""
        messages = [event.message for event in self.events if isinstance(event, MessageAppended)]
        return [(message.seq, message.role, message.text) for message in messages]

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def _listen(self) -> None:
        async for event in self.feed:
            self.events.append(event)


async def test_a_tool_result_that_is_never_told_stands_in_its_place(tmp_path: Path) -> None:
    theirs = Theirs()
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        assert (await gateway.get_session(KEY, ALL)).last_seq == 0
        theirs.say("user", "look")
        await theirs.hint()
        await until(lambda: ear.told() == [(1, "user", "look")])
        call: dict[str, Any] = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
        theirs.say("assistant", [call])
        await theirs.hint()
        theirs.say("toolResult", [{"type": "text", "text": "found"}], toolCallId="c1", toolName="read")
        theirs.say("assistant", [{"type": "text", "text": "done"}])
        for _ in range(3):
            await theirs.hint()
        await until(lambda: len(ear.told()) == 4)
        assert ear.told()[1:] == [(2, "assistant", ""), (3, "toolResult", "found"), (4, "assistant", "done")]
        row = (await gateway.list_sessions(SessionQuery(), ALL)).sessions[0]
        assert (row.last_seq, row.preview) == (4, "done")


async def test_what_is_hidden_keeps_its_place_and_what_came_meanwhile_is_not_lost(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.say("user", "one")
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        await gateway.get_session(KEY, ALL)
        for place in range(2, 90):
            if place != 40:
                theirs.say("assistant", f"n{place}", place)
        await theirs.hint()
        await until(lambda: len(ear.told()) == 88)
        assert [place for place, _, _ in ear.told()] == list(range(2, 90))
        assert ear.told()[38] == (40, "system", HIDDEN)
        page = await gateway.history(KEY, ALL, limit=5, before=42)
        assert [message.text for message in page.messages] == ["n37", "n38", "n39", HIDDEN, "n41"]
        assert page.before == 37
        first = await gateway.history(KEY, ALL, limit=50, before=37)
        assert (first.messages[0].text, first.before) == ("one", None)


async def test_an_older_gateway_gives_the_newest_thousand_and_its_wrappers_are_taken_off(tmp_path: Path) -> None:
    theirs = Theirs(PROTOCOL_3)
    for place in range(1, 1206):
        theirs.say("assistant", f"n{place}", place)
    wrapped = 'Sender (untrusted metadata):\n```json\n{\n  "label": "cli"\n}\n```\n\n[Fri 2026-11-20 22:05 UTC] hello'
    theirs.say("user", [{"type": "text", "text": wrapped}])
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        session = await gateway.get_session(KEY, ALL)
        assert (session.first_seq, session.last_seq) == (207, 1206)
        page = await gateway.history(KEY, ALL, limit=3)
        assert [message.text for message in page.messages] == ["n1204", "n1205", "hello"]
        oldest = await gateway.history(KEY, ALL, limit=50, before=210)
        assert ([message.seq for message in oldest.messages], oldest.before) == ([207, 208, 209], None)
        early = {"role": "user", "content": "again", "timestamp": 5}
        await theirs.tell("session.message", {"sessionKey": KEY, "message": early, "messageSeq": 1206})
        theirs.say("user", "again")
        await theirs.hint()
        await until(lambda: ear.told() == [(1207, "user", "again")])


async def test_a_transcript_that_begins_anew_under_the_same_id_is_another_one(tmp_path: Path) -> None:
    theirs = Theirs()
    for n in range(3):
        theirs.say("assistant", f"old {n}")
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        before = await gateway.get_session(KEY, ALL)
        theirs.transcript.clear()
        theirs.say("system", "Reset", __openclaw={"id": "fresh", "seq": 1})
        await theirs.tell("sessions.changed", {"sessionKey": KEY, "reason": "reset", "session": theirs.rows[0]})
        await until(lambda: ear.told() == [(4, "system", "Reset")])
        after = await gateway.get_session(KEY, ALL)
        assert after.session_id != before.session_id
        assert (after.first_seq, after.last_seq) == (4, 4)
        moved = [event.session for event in ear.of(SessionChanged) if event.session.session_id == after.session_id]
        assert moved[0].last_seq == 3, "whoever shows the session starts anew before the first message"
        with pytest.raises(NotFound):
            await gateway.history(before.session_id, ALL, limit=5)


async def test_words_are_told_once_and_go_on_after_a_tool(tmp_path: Path) -> None:
    theirs = Theirs()
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)

        async def says(words: str) -> None:
            message = {"role": "assistant", "content": [{"type": "text", "text": words}]}
            await theirs.tell("chat", {"runId": "r", "sessionKey": KEY, "state": "delta", "message": message})

        for words in ("Let", "Let me", "Let me look"):
            await says(words)
        await until(lambda: len(ear.of(Delta)) == 3)
        assert [(delta.offset, delta.text) for delta in ear.of(Delta)] == [(0, "Let"), (3, " me"), (6, " look")]
        late = Ear(gateway.subscribe())
        late.feed.watch(KEY)
        await until(lambda: late.of(Delta))
        assert (late.of(Delta)[0].offset, late.of(Delta)[0].text) == (0, "Let me look")
        await gateway.get_session(KEY, ALL)
        theirs.say("assistant", [{"type": "text", "text": "Let me look"}])
        await theirs.hint()
        await until(ear.told)
        await says("Let me look\n\nFound it")
        await until(lambda: len(ear.of(Delta)) == 4)
        assert (ear.of(Delta)[3].offset, ear.of(Delta)[3].text) == (0, "Found it")
        await says("Anew")
        await until(lambda: len(ear.of(Delta)) == 5)
        assert (ear.of(Delta)[4].offset, ear.of(Delta)[4].text) == (0, "Anew")
        assert len(ear.of(Activity)) == 1, "the row is told of words at most twice a second"


async def test_words_after_a_tool_that_came_before_the_first_ones_were_stored_are_told_anew(tmp_path: Path) -> None:
    theirs = Theirs()
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        await gateway.get_session(KEY, ALL)
        said = {"role": "assistant", "content": [{"type": "text", "text": "Let me look\n\nFound it"}]}
        await theirs.tell("chat", {"runId": "r", "sessionKey": KEY, "state": "delta", "message": said})
        theirs.say("assistant", [{"type": "text", "text": "Let me look"}])
        await theirs.hint()
        await until(lambda: len(ear.of(Delta)) == 2)
        kinds = [type(event) for event in ear.events if isinstance(event, MessageAppended | Delta)]
        assert kinds == [Delta, MessageAppended, Delta]
        assert (ear.of(Delta)[1].offset, ear.of(Delta)[1].text) == (0, "Found it")


async def test_the_first_word_of_an_end_is_the_end(tmp_path: Path) -> None:
    theirs = Theirs()
    clock = FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ticket = await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        life = {"runId": ticket.run_id, "sessionKey": KEY, "stream": "lifecycle"}
        await theirs.tell("agent", life | {"data": {"phase": "start"}})
        await theirs.tell("agent", life | {"data": {"phase": "end"}})
        final = {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
        end = {"runId": ticket.run_id, "sessionKey": KEY}
        await theirs.tell("chat", end | {"state": "final", "message": final})
        await theirs.tell("chat", end | {"state": "error", "errorMessage": "late"})
        outcome = await gateway.wait_run(ticket.run_id, 30)
        assert (outcome.status, outcome.reply, outcome.error) == ("ok", "hi", None)
        await clock.advance(5)
        states = [event.run.state for event in ear.of(RunChanged)]
        assert states == ["running", "done"]
        assert (await gateway.list_sessions(SessionQuery(), ALL)).sessions[0].status == "done"


async def test_rows_that_stay_running_after_an_end_are_not_believed(tmp_path: Path) -> None:
    theirs = Theirs(PROTOCOL_3)
    async with serving(theirs, tmp_path, FakeClock(5_000)) as (gateway, _):
        ear = Ear(gateway.subscribe())
        end = {"runId": "r", "sessionKey": KEY, "state": "aborted"}
        await theirs.tell("chat", end)
        await theirs.tell("sessions.changed", {"sessionKey": KEY, "session": row(KEY, status="running", startedAt=1)})
        await theirs.tell("sessions.changed", {"sessionKey": "x:y", "session": row("x:y")})
        await until(lambda: any(event.session.key == "x:y" for event in ear.of(SessionChanged)))
        sessions = {session.key: session for session in (await gateway.list_sessions(SessionQuery(), ALL)).sessions}
        assert sessions[KEY].status == "aborted"


async def test_an_older_gateway_that_lists_an_old_run_as_running_is_not_believed(tmp_path: Path) -> None:
    theirs = Theirs(PROTOCOL_3)
    long_ago = {"status": "running", "startedAt": 1, "updatedAt": 1}
    theirs.rows = [row(KEY, **long_ago), row("agent:main:now", **long_ago | {"updatedAt": 4_000_000_000_000})]
    theirs.rows += [row("agent:main:counted", **long_ago, hasActiveRun=True)]
    async with serving(theirs, tmp_path, FakeClock(1_000_000)) as (gateway, _):
        page = await gateway.list_sessions(SessionQuery(), ALL)
        states = {session.key.rpartition(":")[2]: session.status for session in page.sessions}
        assert states == {"view_model": None, "now": "running", "counted": "running"}


async def test_after_a_lost_connection_only_what_is_new_is_told(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.rows.append(row("agent:main:gone", sessionId="t-2"))
    theirs.say("user", "one")
    clock = FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        await gateway.get_session(KEY, ALL)
        await until(lambda: ear.of(SessionChanged))
        seen = len(ear.events)
        await theirs.hang_up()
        await until(lambda: gateway.connection.state == "lost")
        theirs.say("assistant", "two")
        theirs.rows = [row(KEY), row("agent:main:fresh", sessionId="t-3")]
        assert len((await gateway.list_sessions(SessionQuery(), ALL)).sessions) == 2, "what is known stays readable"
        await comes(clock, gateway, lambda: gateway.connection.state == "live" and ear.told())
        assert ear.told() == [(2, "assistant", "two")]
        assert [event.key for event in ear.of(SessionGone)] == ["agent:main:gone"]
        changed = {event.session.key for event in ear.events[seen:] if isinstance(event, SessionChanged)}
        assert changed == {KEY, "agent:main:fresh"}
        assert not ear.of(Reloaded)


async def test_a_connection_that_may_only_read_says_so_before_anything_is_sent(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.scopes = ["operator.read"]
    refused = {"code": "FORBIDDEN", "message": "missing scope: operator.admin"}
    theirs.refuses["config.get"] = refused
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        asked = len(theirs.asked)
        tries: list[Callable[[], Awaitable[object]]] = [
            lambda: gateway.start_run(RunRequest(KEY, "hello"), OPERATOR),
            lambda: gateway.patch(KEY, SessionPatch({"label": "x"}), OPERATOR),
            lambda: gateway.reset(KEY, OPERATOR),
            lambda: gateway.delete(KEY, OPERATOR),
            lambda: gateway.abort(KEY, OPERATOR),
        ]
        for attempt in tries:
            with pytest.raises(Forbidden, match="did not grant it operator"):
                await attempt()
        assert len(theirs.asked) == asked
        session = await gateway.get_session(KEY, ALL)
        assert gateway.policy_of(session) is None, "rules that are not told are not known"
        denied = gateway.policy_of(session._replace(send_policy="deny"))
        assert denied is not None
        assert denied.effective == "deny"


async def test_a_connection_without_admin_sends_and_does_not_change_what_is_the_owners(tmp_path: Path) -> None:
    theirs = Theirs(PROTOCOL_3)
    theirs.scopes = ["operator.read", "operator.write"]
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        assert gateway.refusal("send") is None
        theirs.refuses["sessions.patch"] = {"code": "INVALID_REQUEST", "message": "missing scope: operator.admin"}
        with pytest.raises(Forbidden, match=r"operator\.admin"):
            await gateway.patch(KEY, SessionPatch({"label": "x"}), OPERATOR)
        for action in ("policy", "reset", "delete", "append", "patch"):
            refusal = gateway.refusal(action)
            assert refusal is not None
            assert "operator.admin" in refusal
        await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        assert theirs.methods()[-1] in {"chat.send", "chat.history"}


async def test_a_gateway_that_denies_its_tools_says_what_opens_them(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.rows.append(row("agent:main:other", sessionId="t-2"))
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        needed: dict[Action, str] = {"spawn": "sessions_spawn", "exchange": "sessions_send"}
        for action, tool in needed.items():
            refusal = gateway.refusal(action)
            assert refusal is not None
            assert f'gateway.tools.allow to include "{tool}"' in refusal
        with pytest.raises(Unavailable, match="sessions_spawn"):
            await dispatch(gateway, OPERATOR, "sessions_spawn", {"task": "anything"})
        arguments = {"sessionKey": KEY, "message": "from there", "timeoutSeconds": 0}
        result = await dispatch(gateway, Operator("agent:main:other"), "sessions_send", arguments)
        assert (result["status"], result["exchange"]) == ("accepted", {"state": "unavailable"})
        sent = [request for request in theirs.asked if request["method"] in {"agent", "chat.send"}]
        assert [request["method"] for request in sent] == ["agent"]
        provenance = sent[0]["params"]["inputProvenance"]
        assert (provenance["kind"], provenance["sourceSessionKey"]) == ("inter_session", "agent:main:other")


async def test_a_tool_that_turns_out_to_be_denied_runs_here(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.rows.append(row("agent:main:other", sessionId="t-2"))
    theirs.refuses["config.get"] = {"code": "FORBIDDEN", "message": "missing scope: operator.admin"}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        assert gateway.native_tool("sessions_send") is not None, "it does not tell, so it is tried"
        denied = {"ok": False, "error": {"code": "not_found", "message": "Tool not available: sessions_send"}}
        theirs.answer = _answering(theirs, {"tools.invoke": denied})  # type: ignore[method-assign]
        arguments = {"sessionKey": KEY, "message": "from there", "timeoutSeconds": 0}
        result = await dispatch(gateway, Operator("agent:main:other"), "sessions_send", arguments)
        assert result["exchange"] == {"state": "unavailable"}
        assert gateway.native_tool("sessions_send") is None, "it is remembered"
        assert theirs.methods().count("tools.invoke") == 1


async def test_a_run_counts_from_when_it_began_by_the_gateways_clock_and_not_from_the_one_before(
    tmp_path: Path,
) -> None:
    theirs = Theirs()
    ours = FakeClock(NOW - 3_600_000)  # the gateway's clock is an hour ahead of ours
    theirs.rows = [row(KEY, status="done", startedAt=NOW - 24_000, endedAt=NOW - 23_000, updatedAt=NOW - 23_000)]
    async with serving(theirs, tmp_path, ours) as (gateway, _):
        await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)
        session = await gateway.get_session(KEY, ALL)
        assert session.started_at is not None
        assert (session.status, gateway.now_ms() - session.started_at) == ("running", 0)
        await ours.advance(2)
        behind = theirs.rows[0] | {"status": "running", "hasActiveRun": True}
        await theirs.tell("sessions.changed", {"sessionKey": KEY, "reason": "send", "session": behind})
        await theirs.tell("sessions.changed", {"sessionKey": "x:y", "session": row("x:y")})
        session = await gateway.get_session(KEY, ALL)
        assert session.started_at is not None
        assert gateway.now_ms() - session.started_at == 2000


async def test_old_generation_never_lists_twice_on_one_connection(tmp_path: Path) -> None:
    theirs = Theirs(PROTOCOL_3)
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        for _ in range(5):
            await gateway.list_sessions(SessionQuery(), ALL)
            await gateway.get_session(KEY, ALL)
        assert theirs.taken("sessions.list") == [{"includeGlobal": True, "includeUnknown": True}]
        assert theirs.methods().count("sessions.list") == 2, "what was refused once is not asked for again"


def _answering(theirs: Theirs, answers: dict[str, object]) -> Callable[[str, dict[str, Any]], object]:
    usual = theirs.answer
    return lambda method, params: answers[method] if method in answers else usual(method, params)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    *("sessionId", "updatedAt", "status", "hasActiveRun", "label", "displayName", "sendPolicy", "archived", "origin"),
    *(
        "totalTokens",
        "estimatedCostUsd",
        "deliveryContext",
        "modelProvider",
        "model",
        "spawnedBy",
        "chatType",
        "agents",
    ),
    *("lastMessagePreview", "role", "content", "timestamp", "provenance", "usage", "senderSession", "__openclaw"),
    *("stopReason", "toolCallId", "session", "defaultId", "rules", "gateway"),
]


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_rows_and_messages_of_any_shape_can_be_read(data: dict[str, Any]) -> None:
    session = read_row({**data, "key": KEY}, "main", None)
    assert session is not None
    assert read_row({**data, "key": KEY}, "main", session) is not None
    assert read_message(data, 10, 3).seq > 10
    assert read_rules(data, data).default_agent


@pytest.mark.parametrize("key", ["", "a::b", "bad\x1bkey", 7, None, "x" * 600])
def test_a_row_whose_key_cannot_be_shown_is_left_out(key: object) -> None:
    assert read_row({"key": key}, "main", None) is None


def test_what_came_from_another_session_is_never_a_bare_message() -> None:
    sender = {"sessionKey": "agent:main:other", "agentId": "main"}
    projected = read_message({"role": "assistant", "content": "hi", "senderSession": sender}, 0, 1)
    assert (projected.role, projected.provenance) == ("user", Provenance("agent:main:other", "", "sessions_send"))
    stored = {"kind": "inter_session", "sourceSessionKey": "agent:main:other", "sourceTool": "subagent_announce"}
    announced = read_message({"role": "assistant", "content": "hi", "provenance": stored}, 0, 1)
    assert announced.role == "user"
    assert announced.provenance is not None
    assert announced.provenance.source_tool == "subagent_announce"
