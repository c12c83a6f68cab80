"""What a client hears over WebSocket, in which order, and who hears what (protocol#watchers, protocol#events,
protocol#our-events; G4-G6)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import websockets

from core.agents.port import AgentEvent, Reply, TextDelta, ToolEnded, ToolStarted, Turn
from core.model.access import OPERATOR
from core.model.messages import Usage, text_block, tool_call_block
from core.model.sessions import NewSession
from core.server.conversation import conversation, requests, sender
from core.server.openclaw.reply import ToldReply as Words
from tests.support.runtimes import MAIN, Agent, begin, until, words
from tests.support.web_socket import Client, Refused, connect_params, connected, listening, running, serving

OTHER = "agent:main:other"


async def with_tool(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Look at the sessions, then answer."""
    arguments = {"limit": 3}
    yield TextDelta("looking")
    calls = (text_block("looking"), tool_call_block("c1", "sessions_list", arguments))
    yield Reply(calls, Usage(10, 5), "test", "toolUse")
    await asyncio.sleep(0.25)
    yield ToolStarted("c1", "sessions_list")
    yield ToolEnded("c1", "sessions_list", await turn.call_tool("c1", "sessions_list", arguments))
    yield TextDelta("there it is")
    await asyncio.sleep(0.25)
    yield Reply((text_block("there it is"),), Usage(10, 5), "test")


def kinds(client: Client, *, key: str | None = None) -> list[str]:
    """Return a word for each event so far."""
    found: list[str] = []
    for frame in client.events:
        body = frame["payload"]
        if frame["event"] in {"presence", "tick", "health"} or key not in {None, body.get("sessionKey")}:
            continue
        detail = body.get("state") or body.get("stream") or body.get("phase") or body.get("reason") or ""
        found.append(f"{frame['event']}:{detail}".rstrip(":"))
    return found


async def turn(client: Client, message: str = "hello", key: str = "main", run_id: str | None = None) -> str:
    """Send a message and wait for the end of its run."""
    run_id = run_id or f"run-{key}-{message}"
    await client.ask("chat.send", sessionKey=key, message=message, idempotencyKey=run_id)
    return run_id


@pytest.mark.spec("G4", "G5", "G6")
async def test_one_turn_as_each_kind_of_client_hears_it(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, None, Agent(with_tool)) as served,
        connected(served, caps=["tool-events"]) as driver,
        connected(served) as plain,
        connected(served, caps=["tool-events"]) as lists,
        connected(served) as follower,
        connected(served, caps=["session-scoped-events"]) as scoped,
        connected(served, caps=["session-scoped-events"]) as chosen,
        connected(served, caps=["port-v1"]) as native,
    ):
        assert (await lists.ask("sessions.subscribe"))["subscribed"] is True
        for client in (follower, chosen):
            assert await client.ask("sessions.messages.subscribe", key="main") == {"subscribed": True, "key": MAIN}
        run_id = await turn(driver)
        for client in (driver, plain, lists, follower, chosen):
            await client.until_chat("final", run_id)
        await lists.until(lambda f: f["event"] == "sessions.changed" and f["payload"].get("phase") == "end")

        talk = [
            "agent:lifecycle",
            "chat:status",
            "agent:assistant",
            "chat:delta",
            "agent:item",
            "agent:item",
            "agent:assistant",
            "chat:delta",
            "agent:lifecycle",
            "chat:final",
        ]
        assert kinds(plain) == talk
        assert "agent:tool" in kinds(driver), "it began the run and wants to hear of tools"
        assert "agent:tool" not in kinds(lists), "the run is somebody else's"
        assert kinds(driver).count("agent:tool") == 2
        assert not any(kind.startswith("session") for kind in kinds(driver) + kinds(plain))
        assert kinds(lists).count("session.tool:tool") == 2
        assert [b["message"]["role"] for b in lists.of("session.message")] == _roles()
        assert [b["message"]["role"] for b in follower.of("session.message")] == _roles()
        assert "sessions.changed:create" not in kinds(follower)
        assert [k for k in kinds(lists) if k.startswith("sessions.changed")] == [
            "sessions.changed:create",
            "sessions.changed:message",
            "sessions.changed:start",
            "sessions.changed:message",
            "sessions.changed:message",
            "sessions.changed:message",
            "sessions.changed:end",
        ]
        assert kinds(scoped) == [], "it wants only what it has subscribed to"
        assert {"chat:final", "session.message"} <= set(kinds(chosen))
        assert kinds(native) == [], "it hears the port's own events"


def _roles() -> list[str]:
    return ["user", "assistant", "toolResult", "assistant"]


@pytest.mark.spec("G4")
async def test_events_are_numbered_without_holes(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent(with_tool)) as served, connected(served) as client:
        await client.ask("sessions.subscribe")
        for number in range(5):
            run_id = await turn(client, f"{number}")
            await client.until_chat("final", run_id)
        assert [frame["seq"] for frame in client.events] == list(range(1, len(client.events) + 1))
        for run_id in {body["runId"] for body in client.of("chat")}:
            seqs = [
                f["payload"]["seq"]
                for f in client.events
                if f["payload"].get("runId") == run_id and "seq" in f["payload"]
            ]
            assert seqs == sorted(seqs)


@pytest.mark.spec("G6")
async def test_a_message_carries_its_place_and_the_row_that_it_changed(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.ask("sessions.subscribe")
        run_id = await turn(client)
        await client.until_chat("final", run_id)
        user, answer = client.of("session.message")
        assert [user["messageSeq"], answer["messageSeq"]] == [1, 2]
        assert answer["message"]["usage"]["totalTokens"] == 15
        assert answer["totalTokens"] == 15
        assert answer["messageId"] == answer["message"]["id"] == answer["message"]["__openclaw"]["id"]
        appends = [body for body in client.of("sessions.changed") if body.get("phase") == "message"]
        assert [body["messageSeq"] for body in appends] == [1, 2]
        assert appends[-1]["session"]["lastMessagePreview"] == "echo hello"
        assert appends[-1]["session"]["messageCount"] == 2
        assert [body["message"]["role"] for body in client.of("session.message")] == ["user", "assistant"]


@pytest.mark.spec("G5")
async def test_subscriptions_end(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.ask("sessions.subscribe")
        await client.ask("sessions.messages.subscribe", key="main")
        assert await client.ask("sessions.unsubscribe") == {"subscribed": False}
        await client.until_chat("final", await turn(client, "one"))
        assert len(client.of("session.message")) == 2, "the session is still followed by itself"
        assert client.of("sessions.changed") == []
        assert await client.ask("sessions.messages.unsubscribe", key="main") == {"subscribed": False, "key": MAIN}
        await client.until_chat("final", await turn(client, "two"))
        assert len(client.of("session.message")) == 2


async def test_the_list_comes_with_the_subscription(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.until_chat("final", await turn(client))
        answer = await client.ask("sessions.subscribe", limit=5)
        assert [row["key"] for row in answer["list"]["sessions"]] == [MAIN]


async def test_lists_hear_of_every_change(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.until_chat("final", await turn(client))
        await client.ask("sessions.subscribe")
        await client.ask("sessions.patch", key="main", label="L")
        changed = await client.until(lambda f: f["event"] == "sessions.changed")
        assert (changed["payload"]["reason"], changed["payload"]["session"]["label"]) == ("patch", "L")
        await client.ask("sessions.reset", key="main")
        await client.until(lambda f: f["payload"].get("reason") == "reset")
        made = await client.ask("sessions.create", label="New")
        await client.until(lambda f: f["payload"].get("reason") == "create")
        await client.ask("sessions.delete", key=made["key"])
        gone = await client.until(lambda f: f["payload"].get("reason") == "delete")
        assert (gone["payload"]["sessionKey"], gone["payload"]["sessionId"]) == (made["key"], made["sessionId"])
        assert "session" not in gone["payload"]


@pytest.mark.spec("P3")
async def test_a_command_is_answered_like_a_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.until_chat("final", await turn(client))
        await turn(client, "/send off", run_id="cmd")
        final = await client.until_chat("final", "cmd")
        assert "deny" in final["message"]["content"][0]["text"]


async def test_words_come_as_they_are_said_and_all_of_them_at_the_end(tmp_path: Path) -> None:
    said = [f"w{number} " for number in range(40)]

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        for word in said:
            yield TextDelta(word)
            await asyncio.sleep(0.01)
        yield Reply((text_block("".join(said)),), Usage(1, 1), "test")

    async with serving(tmp_path, None, Agent(play)) as served, connected(served) as client:
        run_id = await turn(client)
        final = await client.until_chat("final", run_id)
        assert final["message"]["content"][0]["text"] == "".join(said)
        deltas = [body for body in client.of("chat") if body["state"] == "delta"]
        assert 2 <= len(deltas) < 20, "not a frame for every word"
        heard = ""
        for body in deltas:
            heard = body["deltaText"] if body.get("replace") else heard + body["deltaText"]
            assert body["message"]["content"][0]["text"] == heard


async def test_what_was_said_before_a_tool_stays(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent(with_tool)) as served, connected(served) as client:
        final = await client.until_chat("final", await turn(client))
        assert final["message"]["content"][0]["text"] == "looking\n\nthere it is"


async def test_a_tool_is_told_with_what_it_was_given_and_gave(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent(with_tool)) as served, connected(served, caps=["tool-events"]) as client:
        await client.until_chat("final", await turn(client))
        began, ended = [body["data"] for body in client.of("agent") if body["stream"] == "tool"]
        assert (began["phase"], began["name"], began["args"]) == ("start", "sessions_list", {"limit": 3})
        assert (ended["phase"], ended["isError"], ended["toolCallId"]) == ("result", False, "c1")
        assert json.loads(ended["result"]["content"][0]["text"])["sessions"][0]["key"] == "main"
        items = [body["data"]["status"] for body in client.of("agent") if body["stream"] == "item"]
        assert items == ["running", "completed"]


async def test_a_run_that_fails_and_one_that_says_nothing(tmp_path: Path) -> None:
    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.transcript[-1].text == "fail":
            raise RuntimeError("broken")
        yield Reply((text_block("NO_REPLY"),), Usage(1, 1), "test")

    async with serving(tmp_path, None, Agent(play)) as served, connected(served) as client:
        run_id = await turn(client, "fail")
        assert (await client.until_chat("error", run_id))["errorMessage"]
        final = await client.until_chat("final", await turn(client, "silent"))
        assert "message" not in final


async def test_who_comes_late_gets_the_words_so_far(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta("the first half")
        await go.wait()
        yield TextDelta(" and the second")
        yield Reply((text_block("the first half and the second"),), Usage(1, 1), "test")

    async with serving(tmp_path, None, Agent(play)) as served:
        async with connected(served) as first:
            run_id = await turn(first)
            await first.until_chat("delta", run_id)
        async with connected(served) as second:
            delta = await second.until_chat("delta", run_id)
            assert delta["deltaText"] == "the first half"
            history = await second.ask("chat.history", sessionKey="main")
            assert history["inFlightRun"]["text"] == "the first half"
            go.set()
            final = await second.until_chat("final", run_id)
            assert final["message"]["content"][0]["text"] == "the first half and the second"


async def test_who_missed_the_words_gets_them_with_the_end(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((text_block("before"), tool_call_block("c1", "sessions_list", {})), Usage(1, 1), "test", "toolUse")
        await go.wait()
        yield ToolEnded("c1", "sessions_list", await turn.call_tool("c1", "sessions_list", {}))
        yield Reply((text_block("after"),), Usage(1, 1), "test")

    async with serving(tmp_path, None, Agent(play)) as served:
        await begin(served.runtime, MAIN, "hello", run_id="k")
        await until(lambda: len(served.runtime.active_runs) == 1)
        while len(await words(served.runtime, MAIN)) < 2:
            await asyncio.sleep(0.005)
        async with connected(served) as client:
            go.set()
            final = await client.until_chat("final", "k")
            assert final["message"]["content"][0]["text"] == "before\n\nafter"


async def test_a_cursor_brings_back_what_changed_meanwhile(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served:
        async with connected(served) as client:
            cursor = (await client.ask("sessions.subscribe"))["cursor"]
            await client.until_chat("final", await turn(client, "one"))
            cursor = client.of("sessions.changed")[-1]["rev"]
        async with connected(served) as client:
            await client.until_chat("final", await turn(client, "two", OTHER))
        async with connected(served) as client:
            answer = await client.ask("sessions.subscribe", after=cursor, storeId="store-for-tests")
            assert answer["reset"] is False
            await client.until(lambda f: f["payload"].get("sessionKey") == OTHER and f["event"] == "sessions.changed")
            await client.until(lambda f: f["event"] == "session.message" and f["payload"]["messageSeq"] == 2)
            assert {body["sessionKey"] for body in client.of("session.message")} == {OTHER}
            assert not [body for body in client.of("chat") if body["state"] == "delta"], "words are never told again"
        async with connected(served) as client:
            assert (await client.ask("sessions.subscribe", after=10**9))["reset"] is True
            answer = await client.ask("sessions.subscribe", after=cursor, storeId="another")
            assert answer["reset"] is True


async def test_following_too_many_sessions(tmp_path: Path) -> None:
    async with serving(tmp_path, subscriptions=2) as served, connected(served) as client:
        for number in (1, 2, 3):
            await served.runtime.create(NewSession(f"agent:main:s{number}"), OPERATOR)
        for number in (1, 2, 2):
            await client.ask("sessions.messages.subscribe", key=f"agent:main:s{number}")
        error = await client.error("sessions.messages.subscribe", key="agent:main:s3")
        assert "sessions.subscribe" in error["message"]


async def test_frames_that_are_wrong_do_not_end_the_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        await client.socket.send("not JSON")
        await client.socket.send('{"half":')
        await client.socket.send(json.dumps({"type": "event", "event": "x", "payload": {}}))
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"type": "req", "id": "x"}, "must have required property 'method'"),
            ({"type": "req", "id": "x", "method": "health", "params": []}, "params must be an object"),
            ({"type": "nonsense", "id": "x"}, "type must be req"),
        ]
        for frame, sentence in wrong:
            await client.socket.send(json.dumps(frame))
            assert sentence in (await _error(client, "x"))["message"]
        await client.socket.send(json.dumps({"type": "req", "method": "health"}))
        assert "'id'" in (await _error(client, "invalid"))["message"]
        await client.socket.send(json.dumps({"type": "req", "id": "b", "method": "health"}).encode())
        assert (await client.answer("b"))["ok"] is True, "a binary message is read as text"
        await client.socket.send(['{"type":"req","id":"p",', '"method":', '"health"}'])
        assert (await client.answer("p"))["ok"] is True, "a frame may come in parts"


async def _error(client: Client, frame_id: str) -> dict[str, Any]:
    with pytest.raises(Refused) as refused:
        await client.answer(frame_id)
    return refused.value.error


async def test_a_frame_that_is_too_large_ends_it(tmp_path: Path) -> None:
    async with serving(tmp_path, frame=100_000) as served, connected(served) as client:
        assert client.hello["policy"]["maxPayload"] == 100_000
        await client.socket.send("x" * 100_001)
        assert (await client.closed())[0] == 1009


async def test_requests_are_answered_in_any_order_and_not_too_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_REQUESTS", 3)
    agent = Agent(held=True)
    async with serving(tmp_path, None, agent) as served, connected(served) as client:
        await client.ask("chat.send", sessionKey="main", message="hi", idempotencyKey="k")
        waits = [await client.send("agent.wait", {"runId": "k", "timeoutMs": 60_000}) for _ in range(2)]
        assert (await client.ask("health"))["ok"] is True, "the waits do not hold it up"
        waits.append(await client.send("agent.wait", {"runId": "k", "timeoutMs": 60_000}))
        error = await client.error("health")
        assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
        agent.release()
        for wait in waits:
            assert (await client.answer(wait))["status"] == "ok"


async def test_the_clock_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "TICK_SECONDS", 0.02)
    async with serving(tmp_path) as served, connected(served) as client:
        await client.until(lambda frame: frame["event"] == "tick" and frame["payload"]["ts"] > 0)
        await client.until(lambda frame: frame["event"] == "health" and frame["payload"]["ok"])


async def test_the_end_of_the_server_is_announced(tmp_path: Path) -> None:
    async with running(tmp_path) as runtime, listening(runtime, tmp_path) as served, connected(served) as client:
        await served.close("an upgrade")
        code, reason = await client.closed()
        assert (code, reason) == (1012, "service restart")
        assert client.of("shutdown")[-1]["reason"] == "an upgrade"
        assert served.context.metrics.value("conversations") == 0


async def test_a_client_that_reads_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "STALLED_SECONDS", 0.2)
    big = "x" * 400_000

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        yield Reply((text_block(big),), Usage(1, 1), "test")

    async with serving(tmp_path, None, Agent(play)) as served, connected(served) as reader:
        stuck = await websockets.connect(served.url, proxy=None, compression=None, max_queue=1, max_size=None)
        try:
            await stuck.recv()
            connect = {"type": "req", "id": "c", "method": "connect", "params": connect_params()}
            await stuck.send(json.dumps(connect))
            await stuck.recv()
            await stuck.send(json.dumps({"type": "req", "id": "s", "method": "sessions.subscribe", "params": {}}))
            metrics = served.context.metrics
            number = 0
            while not metrics.value("conversations_dropped"):
                number += 1
                await reader.until_chat("final", await turn(reader, f"{number}"))
                assert number < 200, "it must be let go"
            await until(lambda: metrics.value("conversations") == 1)
            assert (await reader.ask("health"))["ok"] is True, "others do not notice"
        finally:
            stuck.transport.abort()


async def test_a_slow_client_falls_behind_and_loses_no_message(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await client.ask("sessions.subscribe")
        count = 60
        for number in range(count):
            await begin(served.runtime, f"agent:main:s{number % 7}", f"message {number}")
        await client.until(lambda f: f["event"] == "chat" and len(client.of("session.message")) == 2 * count)
        seen = {(body["sessionKey"], body["messageSeq"]) for body in client.of("session.message")}
        assert len(seen) == 2 * count, "none twice, none lost"


def test_words_are_told_less_often_when_there_are_many() -> None:
    from core.model.events import Delta

    reply = Words("k", "r", "main", whole=True)
    reply.add(Delta("k", "r", 0, "text", 0, "x" * 640_000))
    assert reply.tell(100.0) is not None
    reply.add(Delta("k", "r", 0, "text", 640_000, "y"))
    assert reply.due() == 110.0
    told = reply.tell(110.0)
    assert told is not None
    assert told[1] == {"deltaText": "y"}
    reply.add(Delta("k", "r", 0, "text", 900_000, "lost in between"))
    assert reply.due() is None
    reply.add(Delta("k", "r", 0, "text", 0, "anew"))
    assert reply.tell(200.0) == ("anew", {"deltaText": "anew", "replace": True})
