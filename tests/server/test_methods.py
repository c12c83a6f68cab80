"""Every method over WebSocket: what it answers and refuses, and the scope it needs (protocol#methods,
protocol#our-methods, protocol#our-send-policy, protocol#roles, protocol#status-words)."""

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import pytest

from core.config.settings import Settings
from core.model.access import OPERATOR
from core.model.sessions import NewSession
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import RuleSet
from core.server.auth import ADMIN, PAIRING, READ, WRITE
from core.server.methods import METHODS
from core.server.openclaw.chat import MAX_HISTORY
from tests.support.runtimes import MAIN, Agent, call, words
from tests.support.stores import create, say
from tests.support.web_socket import READ_TOKEN, Client, Refused, connected, serving

COMPAT = sorted(name for name in METHODS if not name.startswith("port."))
NEEDS: dict[str, dict[str, Any]] = {
    "sessions.messages.subscribe": {"key": "main"},
    "sessions.messages.unsubscribe": {"key": "main"},
    "sessions.preview": {"keys": ["main"]},
    "sessions.resolve": {"key": "main"},
    "sessions.describe": {"key": "main"},
    "sessions.get": {"key": "main"},
    "sessions.patch": {"key": "main", "label": "x"},
    "sessions.reset": {"key": "main"},
    "sessions.delete": {"key": "agent:main:nothing"},
    "sessions.search": {"query": "word"},
    "sessions.send": {"key": "main", "message": "hi"},
    "sessions.abort": {"key": "main"},
    "chat.history": {"sessionKey": "main"},
    "chat.send": {"sessionKey": "main", "message": "hi", "idempotencyKey": "scope"},
    "chat.abort": {"sessionKey": "main"},
    "chat.inject": {"sessionKey": "main", "message": "note"},
    "agent": {"message": "hi", "idempotencyKey": "scope-agent"},
    "agent.wait": {"runId": "nope", "timeoutMs": 0},
    "tools.effective": {"sessionKey": "main"},
    "tools.invoke": {"name": "sessions_list"},
    "policy.explain": {"key": "main"},
    "deliveries.retry": {"id": "nope"},
    "deliveries.drop": {"id": "nope"},
    "exchanges.list": {"key": "main"},
    "device.pair.remove": {"deviceId": "nope"},
    "device.token.revoke": {"deviceId": "nope"},
}


async def talk(client: Client, message: str = "hello", key: str = "main") -> str:
    """Send a message, wait for its reply, and return the run's id."""
    run_id = f"run-{message}-{key}"
    await client.ask("chat.send", sessionKey=key, message=message, idempotencyKey=run_id)
    await client.until_chat("final", run_id)
    return run_id


def denying() -> Settings:
    """Return settings under which no message may go into a session of Discord."""
    policy = SendPolicy((Rule("deny", Match(key_prefix="discord:")),))
    return Settings(rules=RuleSet(send_policy=policy))


@pytest.mark.spec("G4")
async def test_the_facts(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        health = await client.ask("health")
        assert health["ok"] is True
        assert health["sessions"]["recent"][0]["key"] == MAIN
        status = await client.ask("status")
        assert status["runtimeVersion"] == "0.0.test"
        assert status["clients"] == 1
        presence = await client.ask("system-presence")
        assert [each["mode"] for each in presence] == ["gateway", "cli"]
        agents = await client.ask("agents.list")
        assert (agents["defaultId"], agents["agents"][0]["id"]) == ("main", "main")
        assert "builtin" in [model["id"] for model in (await client.ask("models.list"))["models"]]
        commands = {command["name"]: command for command in (await client.ask("commands.list"))["commands"]}
        assert commands["send"]["textAliases"] == ["/send"]
        config = await client.ask("config.get")
        assert config["parsed"]["gateway"]["auth"]["token"] == "__REDACTED__"
        assert await client.ask("question.list") == {"questions": []}
        assert await client.ask("plugin.approval.list") == []
        assert await client.ask("taskSuggestions.list") == {"suggestions": []}


async def test_the_log_goes_on_where_the_last_answer_ended(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        first = await client.ask("logs.tail", limit=2)
        assert first["lines"] == ["line 3", "line 4"]
        more = await client.ask("logs.tail", cursor=first["cursor"])
        assert (more["lines"], more["reset"]) == ([], False)
        lost = await client.ask("logs.tail", cursor=1)
        assert (len(lost["lines"]), lost["reset"]) == (5, True)
        short = await client.ask("logs.tail", maxBytes=7)
        assert (short["lines"], short["truncated"]) == (["line 4"], True)


async def test_a_list_has_pages_and_filters(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        for name in ("a", "b", "c"):
            await talk(client, key=f"agent:main:{name}")
        await client.ask("sessions.patch", key="agent:main:b", label="The label")
        first = await client.ask("sessions.list", limit=2)
        assert (first["count"], first["hasMore"], first["nextOffset"]) == (2, True, 2)
        rest = await client.ask("sessions.list", limit=2, offset=2)
        assert (rest["count"], rest["hasMore"], rest["totalCount"]) == (1, False, 3)
        keys = [row["key"] for row in first["sessions"] + rest["sessions"]]
        assert sorted(keys) == ["agent:main:a", "agent:main:b", "agent:main:c"]

        async def found(**params: Any) -> list[str]:
            return [row["key"] for row in (await client.ask("sessions.list", **params))["sessions"]]

        assert await found(label="The label") == ["agent:main:b"]
        assert await found(search="label") == ["agent:main:b"]
        assert len(await found(activeMinutes=1)) == 3
        assert await found(activeOnly=True) == []
        assert await found(agentId="nobody") == []
        await client.ask("sessions.patch", key="agent:main:a", archived=True)
        assert len(await found()) == 2
        assert await found(archived=True) == ["agent:main:a"]
        assert len(await found(archived="all")) == 3
        assert await found(archived="all", activeOnly=False, excludeSubagents=True, limit=1, offset=2) != []


async def test_an_older_client_gets_every_row(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for number in range(120):
            await served.runtime.create(NewSession(f"agent:main:s{number}"), OPERATOR)
        async with connected(served) as client:
            assert (await client.ask("sessions.list"))["count"] == 100
        async with connected(served, maxProtocol=3) as client:
            assert (await client.ask("sessions.list"))["count"] == 120


async def test_a_row_is_of_their_shape(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        await talk(client, key="discord:group:9")
        rows = {row["key"]: row for row in (await client.ask("sessions.list"))["sessions"]}
        row = rows[MAIN]
        assert row["kind"] == "direct"
        assert rows["agent:main:discord:group:9"]["kind"] == "group"
        assert (row["status"], row["hasActiveRun"], row["isMain"], row["archived"]) == ("done", False, True, False)
        assert row["lastMessagePreview"] == "echo hello"
        assert row["totalTokens"] == 15
        assert row["messageCount"] == 2
        described = await client.ask("sessions.describe", key="main")
        assert described["session"] == row
        assert await client.ask("sessions.describe", key="agent:main:none") == {"session": None}


async def test_a_session_is_made_found_changed_emptied_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        made = await client.ask("sessions.create", agentId="main", label="Alpha")
        key = made["key"]
        assert key.startswith("agent:main:dashboard:")
        assert (made["runStarted"], made["entry"]["label"]) == (False, "Alpha")
        named = await client.ask("sessions.create", key="tui-1", agentId="main", message="hello")
        assert named["key"] == "agent:main:tui-1", "a word without a form is one of the agent's sessions"
        assert (named["runStarted"], named["status"]) == (True, "started")
        await client.until_chat("final", named["runId"])

        for wanted in ({"key": key}, {"sessionId": made["sessionId"]}, {"label": "Alpha"}):
            assert await client.ask("sessions.resolve", **wanted) == {"ok": True, "key": key, "agentId": "main"}
        assert (await client.error("sessions.resolve", key="nope"))["message"] == "No session found: nope"
        assert await client.ask("sessions.resolve", key="nope", allowMissing=True) == {"ok": False}

        changed = await client.ask("sessions.patch", key=key, label="Beta", thinkingLevel="low")
        assert (changed["entry"]["label"], changed["entry"]["thinkingLevel"]) == ("Beta", "low")
        cleared = await client.ask("sessions.patch", key=key, label=None)
        assert "label" not in cleared["entry"]
        assert cleared["entry"]["thinkingLevel"] == "low", "what is not named stays"

        before = named["sessionId"]
        emptied = await client.ask("sessions.reset", key=named["key"], reason="new")
        assert emptied["entry"]["sessionId"] != before
        old = await client.ask("chat.history", sessionKey=named["key"], sessionId=before)
        assert len(old["messages"]) == 2, "the old transcript stays readable by its id"

        assert (await client.ask("sessions.delete", key=key))["deleted"] is True
        assert (await client.ask("sessions.delete", key=key))["deleted"] is False
        await talk(client)
        error = await client.error("sessions.delete", key="main")
        assert error["code"] == "INVALID_REQUEST"


async def test_what_cannot_be_made_or_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        await client.ask("sessions.create", label="Taken")
        assert (await client.error("sessions.create", agentId="nope"))["message"] == 'Unknown agent id "nope"'
        assert "Taken" in (await client.error("sessions.create", label="Taken"))["message"]
        key = (await client.ask("sessions.create"))["key"]
        assert (await client.error("sessions.patch", key=key, model="no/model"))["code"] == "INVALID_REQUEST"
        assert (await client.error("sessions.patch", key=key, thinkingLevel="bogus"))["code"] == "INVALID_REQUEST"
        error = await client.error("sessions.patch", key=key, responseUsage="full")
        assert "responseUsage" in error["message"]
        assert (await client.error("sessions.delete", key=key, deleteTranscript=False))["code"] == "INVALID_REQUEST"
        error = await client.error("sessions.send", key="agent:main:missing", message="hi")
        assert error["message"] == "session not found: agent:main:missing"
        assert error["details"]["code"] == "NOT_FOUND"


async def test_history_has_pages_and_can_be_cut(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        for number in range(3):
            await talk(client, f"{number} {'x' * 50}")
        whole = await client.ask("chat.history", sessionKey="main")
        assert [message["__openclaw"]["seq"] for message in whole["messages"]] == [1, 2, 3, 4, 5, 6]
        assert whole["messages"][0]["__openclaw"]["id"] == whole["messages"][0]["id"]
        assert (whole["hasMore"], whole["totalMessages"], whole["sessionInfo"]["key"]) == (False, 6, MAIN)
        page = await client.ask("chat.history", sessionKey="main", limit=2)
        assert ([m["seq"] for m in page["messages"]], page["nextOffset"]) == ([5, 6], 2)
        page = await client.ask("chat.history", sessionKey="main", limit=2, offset=2)
        assert ([m["seq"] for m in page["messages"]], page["nextOffset"]) == ([3, 4], 4)
        page = await client.ask("chat.history", sessionKey="main", limit=10, offset=4)
        assert ([m["seq"] for m in page["messages"]], page["hasMore"]) == ([1, 2], False)
        cut = await client.ask("chat.history", sessionKey="main", limit=1, maxChars=10)
        block = cut["messages"][0]["content"][0]
        assert block["text"].startswith("echo 2 xxx\n")
        assert block["cut"] > 0
        nothing = await client.ask("chat.history", sessionKey="agent:main:does-not-exist")
        assert (nothing["messages"], nothing["hasMore"]) == ([], False)
        assert len((await client.ask("sessions.get", key="main"))["messages"]) == 6
        assert (await client.ask("sessions.get", key="agent:main:none"))["messages"] == []
        previews = (await client.ask("sessions.preview", keys=["main", "agent:main:no"], maxChars=20))["previews"]
        assert [each["status"] for each in previews] == ["ok", "missing"]
        assert previews[0]["items"][-1] == {"role": "assistant", "text": "echo 2 xxxxxxxxxx..."}


async def test_search_and_usage(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client, "needle")
        results = (await client.ask("sessions.search", query="needle"))["results"]
        assert {each["sessionKey"] for each in results} == {MAIN}
        assert {each["role"] for each in results} == {"user", "assistant"}
        usage = await client.ask("sessions.usage", key="main")
        assert usage["totals"]["totalTokens"] == 15
        assert usage["sessions"][0]["usage"]["totalTokens"] == 15
        assert (await client.ask("sessions.usage"))["totals"]["totalTokens"] == 15


async def test_the_same_key_is_the_same_run(tmp_path: Path) -> None:
    agent = Agent(held=True)
    async with serving(tmp_path, None, agent) as served, connected(served) as client:
        message = {"sessionKey": "main", "message": "once", "idempotencyKey": "k"}
        assert await client.ask("chat.send", **message) == {"runId": "k", "status": "started"}
        assert await client.ask("chat.send", **message) == {"runId": "k", "status": "in_flight"}
        agent.release()
        await client.until_chat("final", "k")
        assert await client.ask("chat.send", **message) == {"runId": "k", "status": "ok"}
        assert (await client.error("chat.send", **(message | {"message": "other"})))["details"]["code"] == "CONFLICT"
        assert await words(served.runtime, MAIN) == [("user", "once"), ("assistant", "echo once")]


async def test_a_run_is_aborted(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent(held=True)) as served, connected(served) as client:
        assert await client.ask("chat.abort", sessionKey="main") == {"ok": True, "aborted": False, "runIds": []}
        await client.ask("chat.send", sessionKey="main", message="hi", idempotencyKey="k")
        await client.until(lambda frame: frame["event"] == "agent")
        stopped = await client.ask("chat.abort", sessionKey="main", preserveSideRuns=True)
        assert stopped == {"ok": True, "aborted": True, "runIds": ["k"]}
        assert (await client.until_chat("aborted", "k"))["stopReason"] == "rpc"
        sent = await client.ask("sessions.send", key="main", message="again")
        await client.until(lambda frame: frame["event"] == "agent" and frame["payload"]["runId"] == sent["runId"])
        stopped = await client.ask("sessions.abort", key="main")
        assert (stopped["abortedRunId"], stopped["status"]) == (sent["runId"], "aborted")
        assert (await client.ask("sessions.abort", key="main"))["status"] == "no-active-run"


async def test_words_are_put_in_without_a_run(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        put = await client.ask("chat.inject", sessionKey="main", message="a note", label="ops")
        last = (await client.ask("chat.history", sessionKey="main"))["messages"][-1]
        assert (last["id"], last["role"]) == (put["messageId"], "assistant")
        assert last["content"][0]["text"] == "[ops]\n\na note"


async def test_agent_answers_twice(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        frame_id = await client.send("agent", {"message": "hi", "sessionKey": "main", "idempotencyKey": "k"})
        accepted = await client.answer(frame_id)
        assert (accepted["status"], accepted["runId"], accepted["sessionKey"]) == ("accepted", "k", MAIN)
        final = await client.answer(frame_id)
        assert (final["status"], final["result"]["payloads"]) == ("ok", [{"text": "echo hi"}])
        assert final["result"]["meta"]["durationMs"] >= 0
        frame_id = await client.send("agent", {"message": "hi", "agentId": "main", "idempotencyKey": "k2"})
        assert (await client.answer(frame_id))["sessionKey"] == MAIN
        assert (await client.answer(frame_id))["status"] == "ok"
        assert "nope" in (await client.error("agent", message="hi", agentId="nope", idempotencyKey="k3"))["message"]


@pytest.mark.spec("S6")
async def test_a_wait_goes_on_over_another_connection(tmp_path: Path) -> None:
    agent = Agent(held=True)
    async with serving(tmp_path, None, agent) as served:
        async with connected(served) as client:
            await client.ask("chat.send", sessionKey="main", message="hi", idempotencyKey="k")
            assert await client.ask("agent.wait", runId="k", timeoutMs=0) == {"runId": "k", "status": "timeout"}
            await client.send("agent.wait", {"runId": "k", "timeoutMs": 60_000})
        async with connected(served) as client:
            waiting = await client.send("agent.wait", {"runId": "k", "timeoutMs": 60_000})
            agent.release()
            found = await client.answer(waiting)
            assert (found["status"], found["terminalReply"]["text"]) == ("ok", "echo hi")
            assert found["endedAt"] >= found["startedAt"]
        async with connected(served) as client:
            assert (await client.ask("agent.wait", runId="k", timeoutMs=60_000))["status"] == "ok", "answers at once"
            assert (await client.ask("agent.wait", runId="nope", timeoutMs=10))["status"] == "timeout"


async def test_tools_are_listed_and_run(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        groups = (await client.ask("tools.catalog"))["groups"]
        assert "sessions_list" in [tool["id"] for tool in groups[0]["tools"]]
        found = await client.ask("tools.invoke", name="sessions_list", args={"limit": 5})
        assert (found["ok"], found["toolName"]) == (True, "sessions_list")
        assert found["output"]["details"]["sessions"][0]["key"] == "main"
        sent = await client.ask(
            "tools.invoke", name="sessions_send", args={"sessionKey": "main", "message": "more", "timeoutSeconds": 10}
        )
        assert (sent["output"]["details"]["status"], sent["output"]["details"]["reply"]) == ("ok", "echo more")
        child = (await call(served.runtime, "sessions_spawn", task="look"))["childSessionKey"]
        own = (await client.ask("tools.effective", sessionKey=child))["groups"]
        assert "sessions_spawn" not in [tool["id"] for tool in own[0]["tools"]]
        missing = await client.ask("tools.invoke", name="exec", args={})
        assert (missing["ok"], missing["error"]["code"]) == (False, "not_found")
        error = await client.error("tools.invoke", name="sessions_history", args={})
        assert error["code"] == "INVALID_REQUEST"
    async with serving(tmp_path) as served, connected(served, scopes=["operator.read"]) as client:
        error = await client.error("tools.invoke", name="sessions_send", args={"sessionKey": "main", "message": "x"})
        assert error["details"]["missingScope"] == WRITE


@pytest.mark.spec("P4", "P5")
async def test_a_denied_message_is_refused_and_says_what_decided(tmp_path: Path) -> None:
    key = "agent:main:discord:group:9"
    async with serving(tmp_path, denying(), Agent()) as served, connected(served) as client:
        await client.ask("sessions.create", key=key)
        for method, params in (
            ("chat.send", {"sessionKey": key, "message": "hi", "idempotencyKey": "1"}),
            ("sessions.send", {"key": key, "message": "hi"}),
            ("agent", {"sessionKey": key, "message": "hi", "idempotencyKey": "2"}),
        ):
            error = await client.error(method, **params)
            assert (error["code"], error["message"]) == ("INVALID_REQUEST", "send blocked by session policy")
            assert error["details"]["code"] == "SEND_POLICY_DENIED"
            assert error["details"]["decidedBy"] == ["session.sendPolicy.rules[0]"]
        assert await words(served.runtime, key) == [], "a refused message is not stored"
        explained = await client.ask("policy.explain", key=key)
        assert (explained["effective"], explained["allowed"]) == ("deny", False)
        assert explained["decidedBy"] == ["session.sendPolicy.rules[0]"]
        args = {"sessionKey": key, "message": "hi"}
        refused = await client.ask("tools.invoke", name="sessions_send", args=args)
        assert refused["output"]["details"]["status"] == "forbidden"


@pytest.mark.spec("P3")
async def test_the_owner_changes_the_policy_and_cannot_lock_himself_out(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        patched = await client.ask("sessions.patch", key="main", sendPolicy="deny")
        assert patched["entry"]["sendPolicy"] == "deny"
        error = await client.error("chat.send", sessionKey="main", message="hi", idempotencyKey="1")
        assert error["details"]["decidedBy"] == ["sendPolicy override"]
        answer = await client.ask("chat.send", sessionKey="main", message="/send on", idempotencyKey="2")
        assert answer == {"runId": "2", "status": "started"}
        said = await client.until_chat("final", "2")
        assert "allow" in said["message"]["content"][0]["text"]
        await talk(client, "again")
        assert "sendPolicy" not in (await client.ask("sessions.patch", key="main", sendPolicy=None))["entry"]
        async with connected(served, scopes=["operator.read", "operator.write"]) as other:
            error = await other.error("sessions.patch", key="main", sendPolicy="deny")
            assert (error["code"], error["details"]["missingScope"]) == ("FORBIDDEN", ADMIN)
            assert (await other.ask("sessions.patch", key="main", label="mine"))["entry"]["label"] == "mine"
            error = await other.error("chat.send", sessionKey="main", message="/send off", idempotencyKey="3")
            assert error["code"] == "FORBIDDEN"
        row = (await client.ask("sessions.describe", key="main"))["session"]
        assert "sendPolicy" not in row


async def test_deliveries_and_exchanges(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        await talk(client, key="agent:main:other")
        sent = await client.ask(
            "tools.invoke",
            name="sessions_send",
            args={"sessionKey": "agent:main:other", "message": "ping", "timeoutSeconds": 10},
            sessionKey="main",
        )
        run_id = sent["output"]["details"]["runId"]
        exchanges = (await client.ask("exchanges.list", key="main"))["exchanges"]
        assert [(each["exchangeId"], each["requester"]) for each in exchanges] == [(run_id, MAIN)]
        assert isinstance((await client.ask("deliveries.list"))["deliveries"], list)
        assert (await client.error("deliveries.retry", id="nope"))["details"]["code"] == "NOT_FOUND"


CLOSED = [name for name in COMPAT if METHODS[name].params.model_config.get("extra") == "forbid"]


@pytest.mark.parametrize("method", CLOSED)
async def test_a_change_is_not_done_in_part(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        error = await client.error(method, **NEEDS.get(method, {}), bogus=1)
        assert error["code"] == "INVALID_REQUEST"
        assert error["message"] == f"invalid {method} params: at root: unexpected property 'bogus'"


async def test_what_clients_of_other_generations_say_beside_is_ignored_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert CLOSED == ["sessions.delete", "sessions.patch", "sessions.reset"]
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        for method in COMPAT:
            if method not in CLOSED:
                more = {"cleanupBundleMcpOnRunEnd": True, "\x1b[31m" * 40: None}
                with contextlib.suppress(Refused):
                    await client.ask(method, **NEEDS.get(method, {}), **more)
                assert "unexpected" not in str(client.refused), method
        metrics = served.context.metrics
        assert metrics.value("parameters_ignored", label="agent") == 2
        assert metrics.value("parameters_ignored", label="chat.history") == 2
        told = [line for line in caplog.messages if "means nothing here" in line]
        assert 'the parameter "cleanupBundleMcpOnRunEnd" of agent means nothing here: it is ignored' in told
        assert len(told) == len(set(told))
        assert "\x1b" not in "".join(told)
        before = len(caplog.messages)
        await client.ask("chat.history", sessionKey="main", cleanupBundleMcpOnRunEnd=True)
        assert len(caplog.messages) == before


async def test_a_bare_key_is_one_of_the_agents(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        for key in ("foo", "acp-bridge:x"):
            sent = await client.ask("chat.send", sessionKey=key, message="hello", idempotencyKey=f"to {key}")
            await client.ask("agent.wait", runId=sent["runId"])
            full = f"agent:main:{key}"
            assert (await client.ask("chat.history", sessionKey=key))["sessionKey"] == full
            assert (await client.ask("sessions.describe", key=key))["session"]["key"] == full
            assert (await client.ask("sessions.messages.subscribe", key=key))["key"] == full
        run = await client.ask("agent", sessionKey="bar", message="hello", idempotencyKey="bar")
        assert run["sessionKey"] == "agent:main:bar"
        nobody = "11111111-2222-4333-8444-555555555555"
        error = await client.error("chat.send", sessionKey=nobody, message="hello", idempotencyKey="nobody")
        assert nobody in error["message"]
        listed = await client.ask("sessions.list")
        assert sorted(row["key"] for row in listed["sessions"]) == [
            "agent:main:acp-bridge:x",
            "agent:main:bar",
            "agent:main:foo",
        ]


async def test_a_history_is_bounded_without_being_asked_to_and_goes_on_where_it_ends(tmp_path: Path) -> None:
    """The store ends a page after the message that fills it, which the answer leaves out when it is too long."""
    sizes = [MAX_HISTORY + 1, 3_000_000, 5_000_000, 900_000, 900_000, 900_000]
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await served.runtime.store.write(lambda tx: create(tx, MAIN))
        for size in sizes:
            await served.runtime.store.write(lambda tx, size=size: say(tx, MAIN, "x" * size))
        seqs: list[list[int]] = []
        page: dict[str, Any] = {}
        for _ in range(4):
            offset = sum(map(len, seqs))
            page = await client.ask("chat.history", sessionKey="main", offset=offset)
            assert page == await client.ask("chat.history", sessionKey="main", offset=offset, maxBytes=100_000_000)
            seqs.append([message["seq"] for message in page["messages"]])
            assert page.get("nextOffset") == (offset + len(seqs[-1]) if page["hasMore"] else None)
        assert seqs == [[4, 5, 6], [3], [2], [1]], "one is given however long it is"
        assert not page["hasMore"]


async def test_a_web_ui_starts_with_what_it_asks_for(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        for number in range(5):
            await client.ask(
                "chat.send", sessionKey="main", message=f"{'x' * 2000} {number}", idempotencyKey=str(number)
            )
            await client.ask("agent.wait", runId=str(number))
        start = await client.ask("chat.startup", sessionKey="agent:main:main", limit=80, maxBytes=9_000)
        assert 1 < len(start["messages"]) < 10
        assert (start["hasMore"], start["nextOffset"]) == (True, len(start["messages"]))
        older = await client.ask("chat.history", sessionKey="main", offset=start["nextOffset"])
        assert len(older["messages"]) + len(start["messages"]) == 10
        assert len((await client.ask("chat.history", sessionKey="main", maxBytes=1))["messages"]) == 1
        beside = await client.ask("chat.metadata", agentId="main", sessionKey="agent:main:main")
        assert [model["id"] for model in beside["models"]] == ["builtin"]
        assert "send" in [command["name"] for command in beside["commands"]]
        assert (await client.ask("agent.identity.get", agentId="main"))["name"] == "main"
        assert "Unknown agent" in (await client.error("agent.identity.get", agentId="nobody"))["message"]
        assert (await client.ask("usage.cost"))["totals"]["totalTokens"] > 0
        assert (await client.ask("cron.list", compact=True))["jobs"] == []


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("sessions.list", {"limit": 0}, "at /limit: must be >= 1"),
        ("sessions.list", {"limit": "5"}, "at /limit: must be integer"),
        ("sessions.patch", {"key": "main", "kind": "main"}, "at root: unexpected property 'kind'"),
        ("chat.history", {"sessionKey": "main", "limit": 1001}, "at /limit: must be <= 1000"),
        ("chat.send", {"sessionKey": "main", "message": "x"}, "must have required property 'idempotencyKey'"),
        ("sessions.patch", {"key": "main", "sendPolicy": "maybe"}, "at /sendPolicy: must be one of"),
        ("sessions.patch", {"key": 5}, "at /key: must be string"),
        ("sessions.preview", {"keys": "main"}, "at /keys: must be array"),
    ],
)
async def test_what_is_wrong_is_named(tmp_path: Path, method: str, params: dict[str, Any], words: str) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        assert words in (await client.error(method, **params))["message"]


@pytest.mark.parametrize("method", [name for name in COMPAT if METHODS[name].scope is not None])
async def test_every_method_needs_its_scope(tmp_path: Path, method: str) -> None:
    """A client that lacks exactly the scope is refused; one that has it gets past that."""
    needed = METHODS[method].scope
    less: dict[str | None, list[str]] = {READ: [], WRITE: [READ], ADMIN: [READ, WRITE], PAIRING: [READ, WRITE]}
    params = NEEDS.get(method, {})
    async with serving(tmp_path, None, Agent()) as served:
        async with connected(served, scopes=less[needed]) as client:
            error = await client.error(method, **params)
            assert (error["code"], error["message"]) == ("FORBIDDEN", f"missing scope: {needed}")
            assert error["details"]["code"] == "MISSING_SCOPE"
            assert (error["details"]["missingScope"], error["details"]["requiredScopes"]) == (needed, [needed])
        async with connected(served, scopes=[str(needed)]) as client:
            with contextlib.suppress(Refused):
                await client.ask(method, **params)
            assert "scope" not in str(client.refused), "it may be refused, for another reason"


@pytest.mark.parametrize("method", ["sessions.bogus", "connect"])
async def test_a_method_there_is_not(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        error = await client.error(method)
        assert (error["code"], error["message"]) == ("INVALID_REQUEST", f"unknown method: {method}")


async def test_the_owner_has_a_backup_written_where_the_gateway_is(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await talk(client)
        told = await client.ask("backup.create")
        path = Path(told["path"])
        assert path.parent == served.runtime.store.directory / "backups"
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        data = path.read_bytes()
        assert (told["bytes"], told["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert (told["sessions"], told["messages"]) == (1, 2)
        assert (await client.ask("backup.create"))["path"] != str(path)
    async with serving(tmp_path, None, Agent()) as served, connected(served, auth={"token": READ_TOKEN}) as client:
        with pytest.raises(Refused, match=r"operator\.admin"):
            await client.ask("backup.create")
