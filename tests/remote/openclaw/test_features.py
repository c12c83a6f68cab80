"""Gateways of every generation, and those between: what one does not take is left out, and nothing fails for it."""

from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR
from core.model.errors import Forbidden, Invalid, NotFound, Unavailable
from core.model.events import MessageAppended, SessionChanged
from core.model.messages import Draft, text_block
from core.model.runs import RunRequest
from core.model.sessions import SessionPatch, SessionQuery, unsearched
from core.multi import MultiGateway
from core.tools.dispatch import dispatch
from tests.remote.generations import EARLIEST, NEWEST, VERSIONS
from tests.remote.openclaw.test_gateway import Ear
from tests.remote.theirs import KEY, Theirs, row, serving
from tests.support.clock import FakeClock
from tests.support.runtimes import until

OPTIONAL = [
    *(("sessions.list", f"include{name}") for name in ("Global", "Unknown", "LastMessage")),
    *(("sessions.list", name) for name in ("limit", "offset", "archived")),
    ("chat.history", "maxChars"),
    ("chat.history", "offset"),
]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_generation_can_be_connected_to_and_read(tmp_path: Path, version: str) -> None:
    theirs = Theirs(version)
    theirs.rows += [row(f"agent:main:n{n}", sessionId=f"n{n}") for n in range(450)]
    for place in range(1, 31):
        theirs.say("assistant", f"n{place}", place)
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        page = await gateway.list_sessions(SessionQuery(), ALL)
        assert len(page.sessions) == 451
        history = await gateway.history(KEY, ALL, limit=10, before=11)
        assert [message.text for message in history.messages] == [f"n{n}" for n in range(1, 11)]
        assert (await gateway.start_run(RunRequest(KEY, "hello"), OPERATOR)).state == "running"
        assert (await gateway.start_run(RunRequest("t-1", "hello"), OPERATOR)).state == "running"
        assert gateway.connection.state == "live"


@pytest.mark.parametrize("version", VERSIONS)
async def test_archived_sessions_are_there_where_a_gateway_has_any(tmp_path: Path, version: str) -> None:
    theirs = Theirs(version)
    archives = VERSIONS.index(version) >= VERSIONS.index("2026.7.35")
    if archives:
        theirs.rows.append(row("agent:main:old", sessionId="t-2", archived=True))
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        rows = {each.key: each for each in (await gateway.list_sessions(SessionQuery(archived=None), ALL)).sessions}
        assert rows.keys() == {each["key"] for each in theirs.rows}
        assert (gateway.refusal("archive") is None) == archives
        if not archives:
            with pytest.raises(Unavailable, match="cannot archive"):
                await gateway.archive(KEY, OPERATOR, archived=True)
            return
        assert rows["agent:main:old"].archived_at is not None
        assert (await gateway.archive(KEY, OPERATOR, archived=True)).archived_at is not None
        (taken,) = theirs.taken("sessions.patch")
        assert taken["archived"] is True


@pytest.mark.parametrize(("method", "name"), OPTIONAL)
async def test_any_one_optional_parameter_may_be_refused(tmp_path: Path, method: str, name: str) -> None:
    theirs = Theirs()
    theirs.lacks[method] = {name}
    theirs.rows += [row(f"agent:main:n{n}", sessionId=f"n{n}") for n in range(450)]
    theirs.say("user", "hello")
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        assert len((await gateway.list_sessions(SessionQuery(), ALL)).sessions) == 451
        for _ in range(3):
            assert (await gateway.history(KEY, ALL, limit=5)).messages[0].text == "hello"
    assert len([each for each in theirs.asked if name in each["params"] and each["method"] == method]) == 1


@pytest.mark.parametrize("method", ["sessions.subscribe", "agents.list", "config.get", "chat.history", "agent.wait"])
async def test_no_connection_fails_for_a_method_that_is_not_there(tmp_path: Path, method: str) -> None:
    theirs = Theirs()
    theirs.refuses[method] = {"code": "INVALID_REQUEST", "message": f"unknown method: {method}"}
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        assert gateway.connection.state == "live"
        assert [each.key for each in (await gateway.list_sessions(SessionQuery(), ALL)).sessions] == [KEY]
        assert gateway.policy_of(await gateway.get_session(KEY, ALL)) is None or method != "config.get"


async def test_a_gateway_that_tells_of_no_changes_is_read_again_when_something_ends(tmp_path: Path) -> None:
    theirs = Theirs(EARLIEST)
    clock = FakeClock()
    async with serving(theirs, tmp_path, clock) as (gateway, _):
        ear = Ear(gateway.subscribe())
        ear.feed.watch(KEY)
        await gateway.get_session(KEY, ALL)
        for number in range(2):
            key = f"agent:main:new{number}"
            theirs.rows.append(row(key, sessionId=f"new{number}"))
            theirs.say("assistant", f"said {number}")
            await theirs.tell("chat", {"runId": f"r{number}", "sessionKey": KEY, "state": "final", "message": {}})
            await until(lambda number=number: len(ear.of(MessageAppended)) > number)
        for _ in range(20):
            await clock.advance(1)
        await until(lambda: {each.session.key for each in ear.of(SessionChanged)} >= {"agent:main:new1"})


async def test_what_the_connection_needs_and_is_refused_is_said_whole_and_is_no_mistake_of_the_caller(
    tmp_path: Path,
) -> None:
    theirs = Theirs()
    theirs.refuses["sessions.list"] = {"code": "INVALID_REQUEST", "message": "Multiple agents are configured: name one"}
    with pytest.raises(
        Unavailable, match=r"prod refuses what a connection needs: Multiple agents are configured: name one"
    ):
        async with serving(theirs, tmp_path, FakeClock()):
            pass
    theirs.refuses["sessions.list"] = {"code": "INVALID_REQUEST", "message": "unknown method: sessions.list"}
    with pytest.raises(Unavailable, match=r"prod does not take sessions.list: unknown method: sessions.list"):
        async with serving(theirs, tmp_path, FakeClock()):
            pass


async def test_what_the_operator_got_wrong_stays_said_as_that(tmp_path: Path) -> None:
    theirs = Theirs()
    told = "invalid sessions.patch params: at /label: must be string"
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        theirs.refuses["sessions.patch"] = {
            "code": "INVALID_REQUEST",
            "message": 'thinkingLevel "high" is not supported',
        }
        with pytest.raises(Invalid, match="is not supported"):
            await gateway.patch(KEY, SessionPatch({"thinkingLevel": "high"}), OPERATOR)
        theirs.refuses["sessions.patch"]["message"] = told
        with pytest.raises(Unavailable, match=r"does not take sessions.patch"):
            await gateway.patch(KEY, SessionPatch({"label": "x"}), OPERATOR)
        theirs.refuses["chat.inject"] = {"code": "INVALID_REQUEST", "message": "missing scope: operator.admin"}
        with pytest.raises(Forbidden):
            await gateway.append(KEY, Draft("assistant", (text_block("note"),)), OPERATOR)
        with pytest.raises(NotFound):
            await gateway.get_session("agent:main:nope", ALL)


async def test_where_an_agent_must_be_named_each_is_asked(tmp_path: Path) -> None:
    theirs = Theirs()
    theirs.selection = True
    theirs.rows.append(row("agent:helper:b", sessionId="t-2"))
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        assert [model.ref for model in await gateway.models()] == ["of-main", "common", "of-helper"]
        hits = await gateway.search("zebra", ALL)
        assert ({hit.key for hit in hits}, unsearched(hits)) == ({KEY, "agent:helper:b"}, ())


@pytest.mark.parametrize(
    ("lacks", "found"),
    [
        (set[str](), {KEY, "agent:helper:b"}),
        ({"scope"}, {KEY, "agent:helper:b"}),
        ({"scope", "agentId"}, {KEY, "agent:helper:b"}),
        ({"scope", "agentId", "sessionKeys"}, {KEY}),
    ],
)
async def test_a_search_looks_into_every_agents_sessions_or_says_whose_it_did_not(
    tmp_path: Path, lacks: set[str], found: set[str]
) -> None:
    theirs = Theirs()
    theirs.lacks["sessions.search"] = lacks
    theirs.rows.append(row("agent:helper:b", sessionId="t-2"))
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        places = [] if len(found) == 2 else ["agent helper"]
        for _ in range(2):
            hits = await gateway.search("zebra", ALL)
            assert {hit.key for hit in hits} == found
            assert [each.place for each in unsearched(hits)] == places
        result = await dispatch(gateway, OPERATOR, "sessions_search", {"query": "zebra"})
        assert [each["place"] for each in result.get("unsearched", [])] == places
        fleet = MultiGateway({"prod": gateway})
        assert [each.place for each in unsearched(await fleet.search("zebra", ALL))] == [f"{p} of prod" for p in places]


@pytest.mark.parametrize("version", VERSIONS)
async def test_words_in_one_session_are_found_on_every_generation(tmp_path: Path, version: str) -> None:
    theirs = Theirs(version)
    theirs.say("user", "where is the zebra")
    async with serving(theirs, tmp_path, FakeClock()) as (gateway, _):
        (hit,) = await gateway.search("zebra", ALL, key=KEY)
        assert (hit.seq, hit.role) == (1, "user")
        if version != NEWEST:
            with pytest.raises(Unavailable, match="cannot search its transcripts: search in one session"):
                await gateway.search("zebra", ALL)
