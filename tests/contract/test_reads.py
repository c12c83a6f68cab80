"""What the port answers is the same whichever way it is asked (architecture#port)."""

from pathlib import Path

import pytest

from core.config.settings import ModelSettings, Settings
from core.gateway import AgentInfo, ModelInfo
from core.model.access import ALL, OPERATOR, Agents, One, Operator, SessionCaller, Tree
from core.model.errors import Invalid, NotFound
from core.model.messages import Draft, text_block, tool_call_block
from core.model.sessions import SessionQuery
from core.rules.policy import Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.store.messages import append
from tests.contract.ways import Way, way
from tests.support.runtimes import MAIN, Agent, call, send
from tests.support.stores import create, say

OTHER = "agent:main:other"


async def test_sessions_are_listed_newest_first_and_by_page(port: Way) -> None:
    for key in ("main", OTHER, "agent:main:third"):
        await send(port.runtime, key, f"say {key}")
    page = await port.gateway.list_sessions(SessionQuery(limit=2), ALL)
    assert [session.key for session in page.sessions] == ["agent:main:third", OTHER]
    assert page.has_more
    rest = await port.gateway.list_sessions(SessionQuery(limit=2, offset=2), ALL)
    assert ([session.key for session in rest.sessions], rest.has_more) == ([MAIN], False)
    assert page == await port.runtime.list_sessions(SessionQuery(limit=2), ALL)
    found = await port.gateway.list_sessions(SessionQuery(search="other", kinds=("other",)), ALL)
    assert [session.key for session in found.sessions] == [OTHER]
    every = await port.gateway.list_sessions(SessionQuery(), ALL)
    assert every == await port.runtime.list_sessions(SessionQuery(), ALL)


async def test_a_gateway_that_takes_messages_says_so(port: Way) -> None:
    assert port.gateway.unready() is None
    await send(port.runtime, "main", "hello")
    assert port.gateway.unready() is None


async def test_a_scope_limits_what_is_seen(port: Way) -> None:
    for key in ("main", OTHER):
        await send(port.runtime, key, "hello")
    for scope, keys in (
        (One(OTHER), {OTHER}),
        (Tree(MAIN), {MAIN}),
        (Agents(frozenset({"main"})), {MAIN, OTHER}),
        (Agents(frozenset({"ghost"})), set[str]()),
    ):
        page = await port.gateway.list_sessions(SessionQuery(), scope)
        assert {session.key for session in page.sessions} == keys
    with pytest.raises(NotFound):
        await port.gateway.get_session(MAIN, One(OTHER))
    with pytest.raises(NotFound):
        await port.gateway.history(MAIN, One(OTHER), limit=5)


async def test_a_session_is_found_by_key_and_by_id(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    session = await port.gateway.get_session(MAIN, ALL)
    assert session == await port.runtime.get_session(MAIN, ALL)
    assert await port.gateway.get_session(session.session_id, ALL) == session
    with pytest.raises(NotFound, match='no session has the key or id "agent:main:nope"'):
        await port.gateway.get_session("agent:main:nope", ALL)


async def test_history_comes_in_pages_whole_or_in_brief(port: Way) -> None:
    drafts = [
        Draft("user", (text_block("look"),)),
        Draft("assistant", (tool_call_block("c1", "look", {"at": "it"}),)),
        Draft("toolResult", (text_block("x" * 20_000),), tool_call_id="c1", tool_name="look"),
        Draft("assistant", (text_block("seen"),)),
    ]
    await port.runtime.store.write(lambda tx: create(tx, MAIN))
    for draft in drafts:
        await port.runtime.store.write(lambda tx, draft=draft: append(tx, MAIN, draft))
    last = await port.gateway.history(MAIN, ALL, limit=2)
    assert [message.seq for message in last.messages] == [3, 4]
    assert last.before is not None
    first = await port.gateway.history(MAIN, ALL, limit=2, before=last.before)
    assert [message.seq for message in first.messages] == [1, 2]
    assert first.before is None
    assert first.messages[1].content == drafts[1].content
    plain = await port.gateway.history(MAIN, ALL, limit=9, include_tools=False)
    assert [message.seq for message in plain.messages] == [1, 2, 4]
    brief = await port.gateway.history(MAIN, ALL, limit=9, in_brief=True)
    assert brief.messages[2].content[0]["cut"] == 12_000
    assert await port.gateway.history(MAIN, ALL, limit=9) == await port.runtime.history(MAIN, ALL, limit=9)


async def test_search_finds_words_in_all_sessions_or_one(port: Way) -> None:
    for key in (MAIN, OTHER):
        await port.runtime.store.write(lambda tx, key=key: (create(tx, key), say(tx, key, f"the zebra of {key}")))
    assert {hit.key for hit in await port.gateway.search("zebra", ALL)} == {MAIN, OTHER}
    (hit,) = await port.gateway.search("zebra", ALL, key=OTHER, limit=5, redacted=True)
    assert hit.snippet[slice(*hit.spans[0])] == "zebra"
    assert await port.gateway.search("zebra", ALL) == await port.runtime.search("zebra", ALL)


async def test_agents_models_rules_and_policies_are_told(how: str, state: Path) -> None:
    rules = RuleSet(
        agents={"main": AgentRules("main"), "helper": AgentRules("helper", "Helper", sandboxed=True)},
        send_policy=SendPolicy((Rule("deny"),), "allow"),
    )
    settings = Settings(rules=rules, models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")})
    async with way(how, state, settings, Agent()) as port:
        assert port.gateway.rules == port.runtime.rules
        assert await port.gateway.agents() == await port.runtime.agents()
        assert all(isinstance(agent, AgentInfo) for agent in await port.gateway.agents())
        assert ModelInfo("builtin", None) in await port.gateway.models()
        assert await port.gateway.models() == await port.runtime.models()
        await port.runtime.store.write(lambda tx: create(tx, MAIN))
        session = await port.gateway.get_session(MAIN, ALL)
        decision = port.gateway.policy_of(session)
        assert decision is not None
        assert (decision.effective, decision.decided_by) == ("deny", ("session.sendPolicy.rules[0]",))
        assert port.gateway.rules.grant(SessionCaller(MAIN)) == port.runtime.rules.grant(SessionCaller(MAIN))


async def test_runs_are_told_newest_first(port: Way) -> None:
    await send(port.runtime, "main", "say one")
    await send(port.runtime, "main", "say two")
    runs = await port.gateway.runs(MAIN, ALL, limit=1)
    assert runs == await port.runtime.runs(MAIN, ALL, limit=1)
    assert (runs[0].state, runs[0].input_seq) == ("done", 3)
    with pytest.raises(NotFound):
        await port.gateway.runs(OTHER, ALL, limit=1)


async def test_exchanges_and_deliveries_are_told_as_they_stand(port: Way) -> None:
    for key in ("main", OTHER):
        await send(port.runtime, key, "hello")
    sent = await call(port.runtime, "sessions_send", Operator(MAIN), sessionKey=OTHER, message="say hi")
    await port.runtime.drained()
    exchanges = await port.gateway.exchanges(MAIN, limit=5)
    assert exchanges == await port.runtime.exchanges(MAIN, limit=5)
    ((exchange, _),) = exchanges
    assert exchange.exchange_id == sent["runId"]
    assert await port.gateway.exchange(sent["runId"]) == await port.runtime.exchange(sent["runId"])
    assert await port.gateway.exchange("nothing") is None
    assert await port.gateway.deliveries(limit=5) == await port.runtime.deliveries(limit=5)
    assert await port.gateway.deliveries(OTHER, states=("failed",), limit=5) == []


async def test_where_the_transcript_is_is_told_on_the_same_machine_only(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    session = await port.gateway.get_session(MAIN, ALL)
    path = await port.gateway.transcript_path(session)
    assert path == (None if port.name in {"web", "profile"} else await port.runtime.transcript_path(session))


async def test_the_gateway_tells_its_time_and_how_it_is(port: Way) -> None:
    assert abs(port.gateway.now_ms() - port.runtime.now_ms()) < 2_000
    assert port.gateway.connection.state == "live"
    assert port.gateway.refusal("send") is None
    assert port.gateway.refusal("delete", MAIN) is None


async def test_the_session_tools_give_the_same_results(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    here = await call(port.runtime, "sessions_list")
    there = await call(port.gateway, "sessions_list", OPERATOR)
    assert there["count"] == here["count"] == 1
    assert there == here
    answer = await call(port.gateway, "sessions_send", sessionKey="main", message="say boo")
    assert (answer["status"], answer["reply"]) == ("ok", "boo")
    with pytest.raises(NotFound, match="no session has the key"):
        await call(port.gateway, "sessions_history", sessionKey=OTHER)
    await send(port.runtime, OTHER, "hello")
    refused = await call(port.gateway, "sessions_history", SessionCaller(MAIN), sessionKey=OTHER)
    assert refused == await call(port.runtime, "sessions_history", SessionCaller(MAIN), sessionKey=OTHER)
    assert refused["status"] == "forbidden"
    with pytest.raises(Invalid, match="limit"):
        await call(port.gateway, "sessions_list", limit="many")
