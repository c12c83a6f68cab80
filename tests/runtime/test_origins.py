"""K3, K4, K7: what a session is for, said by its key or when it is made, and the keys of external harnesses."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR, SessionCaller
from core.model.errors import Invalid, NotFound
from core.model.messages import Draft, text_block
from core.model.runs import RunRequest
from core.model.sessions import NewSession, SessionPatch
from core.runtime.gateway import Runtime
from core.store import sessions
from tests.support.runtimes import Agent, begin, call, running, send, session, words
from tests.support.web_socket import connected, serving

ACP = "agent:main:acp:0b9cf1f0-5b1e-4c53-8f0a-3c6f8b2d7a11"


@pytest.fixture
async def runtime(state: Path) -> AsyncIterator[Runtime]:
    """Run a runtime whose agents only echo."""
    async with running(state, backends=Agent()) as started:
        yield started


@pytest.mark.spec("K3", "K7", "L1", "L5")
@pytest.mark.parametrize("kind", ["cron", "hook", "node"])
async def test_jobs_are_known_by_their_key_or_by_what_they_were_made_for(runtime: Runtime, kind: str) -> None:
    plain = f"{kind}-7" if kind == "node" else f"{kind}:7"
    await send(runtime, plain, "by its key")
    explicit = [f"the-{kind}", f"agent:main:the-{kind}", f"agent:main:telegram:direct:{kind}"]
    for key in explicit:
        made = await runtime.create(NewSession(key, origin=kind), OPERATOR)  # pyright: ignore[reportArgumentType]
        assert (made.key, made.kind, made.origin, made.channel) == (key, kind, kind, "internal")
        assert (await send(runtime, key, "hello"))["status"] == "ok", "it is an ordinary session besides"
    rows = (await call(runtime, "sessions_list", kinds=[kind]))["sessions"]
    assert {row["key"] for row in rows} == {plain, *explicit}
    assert {(row["kind"], row["channel"]) for row in rows} == {(kind, "internal")}
    other = await runtime.create(NewSession("agent:main:plain"), OPERATOR)
    assert other.kind == "other"


@pytest.mark.spec("K3", "K7")
@pytest.mark.parametrize("key", ["agent:main:main", "agent:main:discord:group:a", "cron:7", None])
async def test_what_a_key_says_is_not_said_otherwise(runtime: Runtime, key: str | None) -> None:
    with pytest.raises(Invalid, match="a hook session needs a key that is no other kind's"):
        await runtime.create(NewSession(key, origin="hook"), OPERATOR)


@pytest.mark.spec("K3", "K7")
async def test_a_client_says_what_a_session_is_for(state: Path) -> None:
    async with serving(state, backends=Agent()) as server, connected(server) as socket:
        made = await socket.ask("sessions.create", key="hook-explicit", origin="hook", message="hello")
        assert made["key"] == "hook-explicit"
        assert (await session(server.runtime, "hook-explicit")).kind == "hook"
        shown = await call(server.runtime, "sessions_list", kinds=["hook"])
        assert [row["key"] for row in shown["sessions"]] == ["hook-explicit"]
        other = await socket.ask("sessions.create", key="hook-plain")
        assert other["key"] == "agent:main:hook-plain"
        refused = await socket.error("sessions.create", key="x", origin="bogus")
        assert "origin" in refused["message"]


@pytest.mark.spec("K2", "K6", "K7")
async def test_a_group_in_another_case_is_the_same_group(runtime: Runtime) -> None:
    for key in ("agent:main:discord:Group:ops", "Agent:MAIN:Discord:GROUP:ops", "agent:main:discord:group:ops"):
        await send(runtime, key, "hello")
    rows = (await call(runtime, "sessions_list"))["sessions"]
    assert [(row["key"], row["kind"], row["channel"]) for row in rows] == [
        ("agent:main:discord:group:ops", "group", "discord")
    ]
    other = (await send(runtime, "agent:main:discord:Group:OPS", "hello"))["status"]
    assert other == "ok"
    assert (await call(runtime, "sessions_list"))["count"] == 2, "ids keep their case"


@pytest.mark.spec("K4", "K6")
async def test_no_agent_of_ours_poses_as_a_harness(runtime: Runtime) -> None:
    await send(runtime, "main", "hello")
    sentence = "nothing here runs harnesses yet"
    for target in (ACP, ACP.upper().replace("AGENT", "agent").replace("MAIN", "main"), f"{ACP}:thread:7"):
        with pytest.raises(Invalid, match=sentence):
            await send(runtime, target, "hello")
        with pytest.raises(Invalid, match=sentence):
            await send(runtime, target, "/label x")
    with pytest.raises(Invalid, match=sentence):
        await runtime.create(NewSession(ACP), OPERATOR)
    assert (await call(runtime, "sessions_list"))["count"] == 1
    with pytest.raises(NotFound):
        await send(runtime, ACP, "hello", SessionCaller("agent:main:main"))


@pytest.mark.spec("K4")
async def test_a_harness_session_from_elsewhere_can_be_read_and_not_written_to(runtime: Runtime) -> None:
    await runtime.store.write(lambda tx: sessions.create(tx, sessions.SessionInsert(ACP, "main", origin="import")))
    await runtime.append(ACP, Draft("assistant", (text_block("as it was"),)), OPERATOR)
    await send(runtime, "main", "hello")
    for caller in (OPERATOR, SessionCaller("agent:main:main")):
        with pytest.raises(Invalid, match="external harness"):
            await runtime.start_run(RunRequest((await session(runtime, ACP)).session_id, "hello"), OPERATOR)
        with pytest.raises((Invalid, NotFound)):
            await runtime.start_run(RunRequest(ACP, "hello"), caller)
    with pytest.raises(Invalid, match="external harness"):
        await call(runtime, "sessions_send", type(OPERATOR)(ACP), sessionKey="main", message="hello")
    assert await words(runtime, ACP) == [("assistant", "as it was")]
    read = await call(runtime, "sessions_history", sessionKey=ACP)
    assert "as it was" in json.dumps(read["messages"])
    assert (await runtime.patch(ACP, SessionPatch({"label": "theirs"}), OPERATOR)).label == "theirs"
    assert (await begin(runtime, ACP, "/archive")).reply
    assert (await runtime.get_session(ACP, ALL)).archived_at is not None
