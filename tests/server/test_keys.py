"""K6: wherever a client may name a session, its id does too, and what names none is never taken for one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.model.access import ALL, OPERATOR
from core.model.sessions import NewSession
from core.server.methods import METHODS
from tests.support.runtimes import MAIN, Agent, begin, call, session
from tests.support.web_socket import connected, serving

OTHER = "agent:main:other"
KEYED = {
    name: field
    for name, method in METHODS.items()
    if not name.startswith("port.")
    for field in ("key", "session_key")
    if field in method.params.model_fields
}
"""The methods that take a key, and what they call it."""
MORE: dict[str, dict[str, Any]] = {
    "sessions.send": {"message": "x"},
    "chat.send": {"message": "x", "idempotencyKey": "k"},
    "chat.inject": {"message": "x"},
    "sessions.search": {"query": "hello"},
    "sessions.patch": {"label": "x"},
    "agent": {"message": "x", "idempotencyKey": "k2"},
    "tools.invoke": {"name": "agents_list"},
    "sessions.create": {},
}
SAYS_NOTHING: dict[str, dict[str, Any]] = {
    "sessions.describe": {"session": None},
    "sessions.get": {"messages": []},
    "sessions.delete": {"deleted": False},
    "sessions.messages.unsubscribe": {"subscribed": False},
    "sessions.abort": {"status": "no-active-run"},
    "chat.abort": {"aborted": False},
    "chat.history": {"messages": []},
    "chat.startup": {"messages": []},
}
"""What the methods answer of which clients of OpenClaw expect an answer, not an error; none of them claims a thing."""


def params(method: str, ref: str) -> dict[str, Any]:
    """Return parameters that name a session."""
    return {"key" if KEYED[method] == "key" else "sessionKey": ref, **MORE.get(method, {})}


@pytest.mark.spec("K6")
@pytest.mark.parametrize("method", sorted(KEYED.keys() - {"sessions.create"}))
async def test_an_id_means_the_same_session_as_its_key(tmp_path: Path, method: str) -> None:
    answers: list[Any] = []
    for by_id in (False, True):
        async with serving(tmp_path / str(by_id), None, Agent()) as served, connected(served) as client:
            await begin(served.runtime, OTHER, "hello")
            await served.runtime.drained()
            ref = (await session(served.runtime, OTHER)).session_id if by_id else OTHER
            answers.append(await client.ask(method, **params(method, ref)))
    by_key, by_id = answers
    assert by_key.keys() == by_id.keys()
    for name in ("key", "sessionKey", "status", "ok", "subscribed", "deleted", "decidedBy", "groups"):
        assert by_id.get(name) == by_key.get(name), name
    for name in ("messages", "sessions", "results"):
        assert len(by_id.get(name) or ()) == len(by_key.get(name) or ()), name


ANSWERED = {("chat.send", "nonsense"), ("agent", "nonsense"), ("policy.explain", "agent:nobody:main")}
"""A bare key is one of the agent's, and may begin with a message; policy is told for any key in full (P5)."""


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    ("method", "ref"),
    [
        (method, ref)
        for method in sorted(KEYED.keys() - {"sessions.create"})
        for ref in ("nonsense", "5c5d1a3e-0000-4000-8000-000000000000", "agent:nobody:main")
        if (method, ref) not in ANSWERED
    ],
)
async def test_what_names_no_session_is_an_error_that_names_it(tmp_path: Path, method: str, ref: str) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        if method in {"chat.send", "agent"} and ref == "nonsense":
            return  # a bare word of a message is a session of the default agent, which it makes
        if method == "policy.explain" and ref.startswith("agent:"):
            return  # it answers for a key that has no session yet
        if method in SAYS_NOTHING:
            answer = await client.ask(method, **params(method, ref))
            assert answer | SAYS_NOTHING[method] == answer
        else:
            error = await client.error(method, **params(method, ref))
            assert ref in error["message"] or "nobody" in error["message"]
        assert (await call(served.runtime, "sessions_list"))["count"] == 0


@pytest.mark.spec("K6", "G5")
async def test_a_session_is_followed_by_its_id(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, None, Agent()) as served,
        connected(served, caps=["session-scoped-events"]) as client,
    ):
        await begin(served.runtime, OTHER, "hello")
        await served.runtime.drained()
        ref = (await session(served.runtime, OTHER)).session_id
        assert await client.ask("sessions.messages.subscribe", key=ref) == {"subscribed": True, "key": OTHER}
        await begin(served.runtime, OTHER, "again")
        told = await client.until(lambda f: f["event"] == "session.message" and f["payload"]["messageSeq"] == 4)
        assert told["payload"]["sessionKey"] == OTHER
        assert await client.ask("sessions.messages.unsubscribe", key=ref) == {"subscribed": False, "key": OTHER}
        count = len(client.of("session.message"))
        await begin(served.runtime, OTHER, "more")
        await served.runtime.drained()
        await client.ask("health")
        assert len(client.of("session.message")) == count


@pytest.mark.spec("K6", "K1")
async def test_the_main_session_is_there_before_its_first_word(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        assert (await client.ask("sessions.messages.subscribe", key="main"))["key"] == MAIN
        assert (await client.ask("tools.effective", sessionKey="main"))["groups"][0]["tools"]
        await begin(served.runtime, MAIN, "hello")
        await client.until(lambda f: f["event"] == "session.message")


@pytest.mark.spec("K6", "L6")
async def test_children_are_found_by_the_id_of_their_parent(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await begin(served.runtime, MAIN, "hello")
        child = (await call(served.runtime, "sessions_spawn", task="look", label="scout"))["childSessionKey"]
        await served.runtime.drained()
        parent = (await session(served.runtime, MAIN)).session_id
        for ref in ("main", MAIN, parent):
            listed = await client.ask("sessions.list", spawnedBy=ref)
            assert [row["key"] for row in listed["sessions"]] == [child]
            subscribed = await client.ask("sessions.subscribe", spawnedBy=ref)
            assert [row["key"] for row in subscribed["list"]["sessions"]] == [child]
            assert (await client.ask("sessions.resolve", label="scout", spawnedBy=ref))["key"] == child
        for method, more in (("sessions.list", {}), ("sessions.resolve", {"label": "scout"})):
            assert "nonsense" in (await client.error(method, spawnedBy="nonsense", **more))["message"]


@pytest.mark.spec("K6")
async def test_a_parent_is_named_by_its_id(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await served.runtime.create(NewSession(OTHER), OPERATOR)
        parent = (await session(served.runtime, OTHER)).session_id
        made = await client.ask("sessions.create", key="made", parentSessionKey=parent)
        assert (await served.runtime.get_session(made["key"], ALL)).spawned_by == OTHER
        assert "nonsense" in (await client.error("sessions.create", parentSessionKey="nonsense"))["message"]


@pytest.mark.spec("K6", "W3")
async def test_the_tools_of_a_sub_agent_are_told_by_its_id(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        child = (await call(served.runtime, "sessions_spawn", task="look"))["childSessionKey"]
        await served.runtime.drained()
        ref = (await session(served.runtime, child)).session_id
        by_key, by_id = [await client.ask("tools.effective", sessionKey=each) for each in (child, ref)]
        assert by_id == by_key
        assert by_id["groups"][0]["tools"] == []


@pytest.mark.spec("T1")
async def test_null_is_nothing_where_a_value_has_a_default(tmp_path: Path) -> None:
    async with serving(tmp_path, None, Agent()) as served, connected(served) as client:
        await begin(served.runtime, MAIN, "hello")
        await served.runtime.drained()
        for method, given in (
            ("chat.history", {"sessionKey": "main", "limit": None, "offset": None, "maxChars": None}),
            ("sessions.list", {"limit": None, "archived": None, "sortBy": None, "includeGlobal": None}),
            ("sessions.get", {"key": "main", "limit": None, "agentId": None}),
            ("tools.invoke", {"name": "sessions_list", "args": None, "sessionKey": None}),
            ("deliveries.list", {"states": None, "limit": None}),
        ):
            await client.ask(method, **given)
        await client.ask("sessions.patch", key="main", label="boss")
        assert (await client.ask("sessions.patch", key="main", label=None, thinkingLevel="high"))["entry"].get(
            "label"
        ) is None


@pytest.mark.spec("T1", "L2")
@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5"])
async def test_a_limit_is_a_whole_number_from_one(tmp_path: Path, limit: object) -> None:
    async with serving(tmp_path) as served, connected(served) as client:
        for method, given in (
            ("sessions.list", {}),
            ("sessions.get", {"key": "main"}),
            ("sessions.usage", {}),
            ("sessions.search", {"query": "x"}),
            ("chat.history", {"sessionKey": "main"}),
            ("deliveries.list", {}),
        ):
            error = await client.error(method, **given, limit=limit)
            assert "limit" in error["message"], method
        answer = await client.ask("tools.catalog")
        assert answer["groups"]


@pytest.mark.spec("S6")
async def test_a_wait_for_a_run_that_there_is_not_ends_at_once_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, connected(served) as client, asyncio.timeout(10):
        answer = await client.ask("agent.wait", runId="nope", timeoutMs=3_600_000)
        assert (answer["runId"], answer["status"]) == ("nope", "timeout")
        assert 'no run has the id "nope"' in answer["error"]
        error = await client.error("port.wait_run", run_id="nope", timeout=3_600.0)
        assert (error["details"]["code"], error["message"][:24]) == ("NOT_FOUND", 'no run has the id "nope"')
