"""The fleet: keys tell which gateway is meant, reads hold nothing up, writes go to one."""

import asyncio
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.gateway import Reads, Writes
from core.model.access import ALL, OPERATOR, One, Operator, Tree
from core.model.errors import Forbidden, NotFound, Unavailable
from core.model.events import (
    ConnectionChanged,
    Delta,
    Event,
    Gap,
    MessageAppended,
    Reloaded,
    RunChanged,
    SessionChanged,
)
from core.model.keys import joined, split
from core.model.messages import Message, Provenance, user_draft
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import NewSession, SessionPatch, SessionQuery, Unsearched, unsearched
from core.multi import MultiGateway, asking, prefix
from core.tools.dispatch import dispatch
from tests.multi.conftest import Two
from tests.support.runtimes import MAIN, Agent, Listener, begin, running, send, until

OPS = "agent:main:discord:group:ops"
THERE = "@prod:agent:main:main"
REF_NAMES = {name for fields in prefix.REFS.values() for name in fields} - {"message"}
"""Fields that hold a key or an id, or something that does, wherever they stand; a `message` is often only words."""
OWN = {Message: {"run_id"}}
"""What is looked at in one session only, and so needs no name."""
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@given(NAMES, st.text())
def test_a_name_comes_off_as_it_was_put_on(name: str, ref: str) -> None:
    assert split(joined(name, ref)) == (name, ref)


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_without_a_name_a_key_is_what_it_was(ref: str) -> None:
    assert split(ref) == ("", ref)
    assert joined("", ref) == ref


@pytest.mark.parametrize("kind", get_args(Event))
def test_every_kind_of_event_gets_the_name(kind: type) -> None:
    assert kind in prefix.REFS or kind in prefix.NAMED


def test_every_ref_that_passes_the_port_is_in_the_table() -> None:
    looked: set[Any] = set()
    todo = [hint for port in (Reads, Writes) for each in vars(port).values() for hint in hints(each).values()]
    todo += get_args(Event)
    while todo:
        kind = todo.pop()
        if kind in looked:
            continue
        looked.add(kind)
        todo += get_args(kind)
        fields = hints(kind) if isinstance(kind, type) and kind.__module__.startswith("core.") else {}
        todo += fields.values()
        refs = {name for name in fields if name in REF_NAMES}
        assert refs <= {*prefix.REFS.get(kind, ()), *OWN.get(kind, ())}, kind
    assert looked >= prefix.REFS.keys() - {Provenance}, "what is in the table passes the port"


def hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a class, or of the parameters and the result of a method."""
    return get_type_hints(kind) if callable(kind) else {}


async def test_one_gateway_without_a_name_is_passed_through(tmp_path: Path) -> None:
    async with running(tmp_path / "here") as here:
        fleet = MultiGateway({"": here})
        await send(here, "main", "hello")
        query = SessionQuery()
        assert await fleet.list_sessions(query, ALL) == await here.list_sessions(query, ALL)
        assert (await fleet.get_session(MAIN, ALL)).key == MAIN
        assert fleet.member("") is here
        assert fleet.native_tool("sessions_send") is None
        assert fleet.rules is here.rules
        assert (await dispatch(fleet, OPERATOR, "sessions_send", {"sessionKey": "main", "message": "and"}))["reply"]
        with pytest.raises(NotFound):
            await fleet.get_session("@prod:agent:main:main", ALL)


async def test_every_ref_of_a_named_gateway_carries_its_name(two: Two) -> None:
    await send(two.here, "main", "here")
    await send(two.prod, "main", "there")
    arguments = {"sessionKey": OPS, "message": "hello", "timeoutSeconds": 0}
    await begin(two.prod, OPS, "hello")
    await dispatch(two.prod, Operator(MAIN), "sessions_send", arguments)
    ticket = await two.prod.start_run(RunRequest("", "task", spawn=SpawnSpec(MAIN, "main")), OPERATOR)
    await two.prod.drained()
    fleet = two.fleet
    page = await fleet.list_sessions(SessionQuery(archived=None), ALL)
    assert {row.key for row in page.sessions} == {MAIN, THERE, f"@prod:{OPS}", f"@prod:{ticket.key}"}
    assert list(page.sessions) == sorted(page.sessions, key=lambda row: -row.updated_at)
    assert page.children == {THERE: (f"@prod:{ticket.key}",)}
    child = await fleet.get_session(f"@prod:{ticket.key}", ALL)
    assert child.spawned_by == THERE
    assert child.session_id == f"@prod:{ticket.session_id}"
    assert (await fleet.get_session(child.session_id, ALL)).key == child.key
    history = await fleet.history(f"@prod:{OPS}", ALL, limit=50)
    assert history.key == f"@prod:{OPS}"
    sources = {m.provenance.source_session_key for m in history.messages if m.provenance is not None}
    assert sources == {THERE}
    runs = await fleet.runs(f"@prod:{OPS}", ALL, limit=50)
    assert all(run.run_id.startswith("@prod:") and run.key == f"@prod:{OPS}" for run in runs)
    exchange, delivery = (await fleet.exchanges(f"@prod:{OPS}", limit=5))[0]
    assert (exchange.requester, exchange.target) == (THERE, f"@prod:{OPS}")
    assert await fleet.exchange(exchange.exchange_id) == (exchange, delivery)
    told = await fleet.deliveries(limit=10)
    assert {each.key for each in told} <= {THERE, f"@prod:{OPS}"}
    assert await fleet.deliveries(f"@prod:{OPS}", limit=10) == [each for each in told if each.key == f"@prod:{OPS}"]
    hits = await fleet.search("hello", ALL)
    assert f"@prod:{OPS}" in {hit.key for hit in hits} <= {THERE, f"@prod:{OPS}"}
    outcome = await fleet.wait_run(f"@prod:{ticket.run_id}", 1)
    assert (outcome.run_id, outcome.key) == (f"@prod:{ticket.run_id}", child.key)
    assert await fleet.transcript_path(child) == await two.prod.transcript_path(
        child._replace(session_id=ticket.session_id)
    )


async def test_writes_reach_the_gateway_that_the_key_names(two: Two) -> None:
    fleet = two.fleet
    ticket = await fleet.start_run(RunRequest(f"@prod:{OPS}", "hello", run_id="mine", create=True), OPERATOR)
    assert (ticket.run_id, ticket.key) == ("@prod:mine", f"@prod:{OPS}")
    assert (await fleet.wait_run(ticket.run_id, 5)).status == "ok"
    changed = await fleet.patch(ticket.key, SessionPatch({"label": "ops", "sendPolicy": "deny"}), OPERATOR)
    assert (changed.key, changed.label) == (f"@prod:{OPS}", "ops")
    decision = fleet.policy_of(changed)
    assert decision is not None
    assert not decision.allowed
    made = await fleet.create(NewSession(key=f"@prod:{MAIN}", label="made"), OPERATOR)
    assert made.key == THERE
    source = Provenance(THERE, "webchat", "test")
    appended = await fleet.append(THERE, user_draft("a note", source), OPERATOR)
    assert appended.provenance == source
    assert (await two.prod.history(MAIN, ALL, limit=5)).messages[-1].provenance == Provenance(MAIN, "webchat", "test")
    assert (await fleet.reset(THERE, OPERATOR)).session_id.startswith("@prod:")
    assert (await fleet.archive(f"@prod:{OPS}", OPERATOR, archived=True)).archived_at is not None
    assert await fleet.abort(f"@prod:{OPS}", OPERATOR) == []
    await fleet.delete(f"@prod:{OPS}", OPERATOR)
    with pytest.raises(NotFound):
        await two.prod.get_session(OPS, ALL)
    assert (await two.here.list_sessions(SessionQuery(archived=None), ALL)).sessions == ()


async def test_pages_and_scopes_go_over_all_of_them(two: Two) -> None:
    for number in range(4):
        await send(two.here, f"agent:main:h{number}", "hello")
        await send(two.prod, f"agent:main:p{number}", "hello")
    fleet = two.fleet
    whole = [row.key for row in (await fleet.list_sessions(SessionQuery(), ALL)).sessions]
    assert len(whole) == 8
    paged: list[str] = []
    more = True
    while more:
        page = await fleet.list_sessions(SessionQuery(limit=3, offset=len(paged)), ALL)
        paged += [row.key for row in page.sessions]
        more = page.has_more
    assert paged == whole
    one = await fleet.list_sessions(SessionQuery(), One("@prod:agent:main:p1"))
    assert [row.key for row in one.sessions] == ["@prod:agent:main:p1"]
    tree = await fleet.list_sessions(SessionQuery(), Tree("agent:main:h1"))
    assert [row.key for row in tree.sessions] == ["agent:main:h1"]
    assert len(await fleet.search("hello", ALL, limit=5)) == 5
    assert {hit.key for hit in await fleet.search("hello", ALL, key="@prod:agent:main:p1")} == {"@prod:agent:main:p1"}


# Tools


async def test_a_tool_runs_at_the_gateway_it_names(two: Two) -> None:
    await send(two.prod, OPS, "hello")
    await send(two.here, "main", "hello")
    fleet = two.fleet
    sent = await dispatch(fleet, OPERATOR, "sessions_send", {"sessionKey": f"@prod:{OPS}", "message": "again"})
    assert sent["reply"]
    assert sent["runId"].startswith("@prod:")
    await dispatch(fleet, OPERATOR, "sessions_send", {"sessionKey": "@prod:main", "message": "new"})
    assert (await two.prod.get_session(MAIN, ALL)).last_seq == 2
    spawned = await dispatch(fleet, Operator("@prod:main"), "sessions_spawn", {"task": "say hello"})
    assert spawned["childSessionKey"].startswith("@prod:agent:main:subagent:")
    between = {"sessionKey": f"@prod:{OPS}", "message": "between", "timeoutSeconds": 0}
    sent = await dispatch(fleet, Operator(THERE), "sessions_send", between)
    assert sent["exchange"]["id"] == sent["runId"]
    assert await fleet.exchange(sent["runId"]) is not None
    history = await dispatch(fleet, OPERATOR, "sessions_history", {"sessionKey": f"@prod:{OPS}"})
    assert history["sessionKey"] == f"@prod:{OPS}"
    assert history["messages"][-1]["provenance"]["sourceSessionKey"] in {THERE}
    listed = await dispatch(fleet, OPERATOR, "sessions_list", {"spawnedBy": "@prod:main"})
    assert [row["key"] for row in listed["sessions"]] == [spawned["childSessionKey"]]
    assert listed["sessions"][0]["spawnedBy"] == "@prod:main"
    here = await dispatch(fleet, OPERATOR, "sessions_list", {})
    assert [row["key"] for row in here["sessions"]] == ["main"]


@pytest.mark.parametrize(("sender", "to"), [(THERE, "main"), (MAIN, f"@prod:{OPS}"), (THERE, MAIN)])
async def test_a_send_stays_within_one_gateway(two: Two, sender: str, to: str) -> None:
    await send(two.here, "main", "hello")
    await send(two.prod, "main", "hello")
    result = await dispatch(two.fleet, Operator(sender), "sessions_send", {"sessionKey": to, "message": "over"})
    assert result["status"] == "forbidden"
    assert "sends stay within one gateway" in result["error"]
    request = RunRequest(to, "over", provenance=Provenance(sender, "webchat", "sessions_send"))
    with pytest.raises(Forbidden, match="sends stay within one gateway"):
        await two.fleet.start_run(request, Operator(sender))
    await two.here.drained()
    await two.prod.drained()
    words = [m.text for g in (two.here, two.prod) for m in (await g.history(MAIN, ALL, limit=50)).messages]
    assert "over" not in words


async def test_without_a_home_of_no_name_a_bare_key_is_meant_where_the_sender_is(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as one, running(tmp_path / "b") as other:
        await send(other, "main", "hello")
        fleet = MultiGateway({"a": one, "b": other})
        assert fleet.home == "a"
        sent = await dispatch(
            fleet, Operator("@b:main"), "sessions_send", {"sessionKey": "agent:main:x", "message": "m"}
        )
        assert sent["runId"].startswith("@b:")
        await dispatch(fleet, OPERATOR, "sessions_send", {"sessionKey": "agent:main:y", "message": "m"})
        assert (await one.get_session("agent:main:y", ALL)).last_seq == 2


# What is slow, or gone


async def test_a_gateway_that_does_not_answer_holds_nothing_up(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 1.0)  # here it is answered in some milliseconds
    await send(two.here, "main", "hello")
    await send(two.prod, "main", "hello")
    listener = Listener(two.fleet.subscribe())
    two.line.answers.clear()
    page = await two.fleet.list_sessions(SessionQuery(), ALL)
    assert [row.key for row in page.sessions] == [MAIN]
    await until(lambda: Reloaded("prod") in listener.events)
    two.line.answers.set()
    prod = two.fleet.member("prod")
    assert prod is not None
    assert [row.key for row in (await prod.list_sessions(SessionQuery(), ALL)).sessions] == [THERE]
    await listener.close()


async def test_what_a_search_did_not_look_into_is_named(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(two.here, "main", "hello")
    await send(two.prod, "main", "hello")
    hits = await two.fleet.search("hello", ALL)
    assert ({hit.key for hit in hits}, unsearched(hits)) == ({MAIN, THERE}, ())
    monkeypatch.setattr(asking, "SEARCH_SECONDS", 1.5)  # here it is answered in some milliseconds
    two.line.answers.clear()
    hits = await two.fleet.search("hello", ALL)
    assert unsearched(hits) == (Unsearched("prod", "it did not answer within 1.5 s"),)
    two.line.become(state="refused")
    alone = MultiGateway({"prod": two.line.gateway})
    with pytest.raises(Unavailable, match="prod refused the connection"):
        await alone.search("hello", ALL)
    two.line.answers.set()


async def test_a_gateway_that_is_lost_is_left_out_and_read_when_it_is_back(two: Two) -> None:
    await send(two.prod, "main", "hello")
    listener = Listener(two.fleet.subscribe())
    two.line.become(state="lost")
    assert (await two.fleet.list_sessions(SessionQuery(), ALL)).sessions == ()
    hits = await two.fleet.search("hello", ALL)
    assert (hits, unsearched(hits)) == ([], (Unsearched("prod", "prod is lost and being reached again"),))
    assert await two.fleet.deliveries(limit=5) == []
    with pytest.raises(Unavailable):
        await two.fleet.get_session(THERE, ALL)
    reason = two.fleet.refusal("send", THERE)
    assert reason is not None
    assert reason.startswith("prod is lost")
    assert two.fleet.refusal("send") is None
    await until(lambda: len(listener.of(ConnectionChanged)) == 1)
    assert listener.of(ConnectionChanged)[0].connection.name == "prod"
    assert listener.of(Reloaded) == []
    two.line.become(state="live")
    await until(lambda: listener.of(Reloaded) == [Reloaded("prod")])
    assert [each.state for each in two.fleet.connections()] == ["live", "live"]
    await listener.close()


async def test_what_is_refused_is_refused_for_one_gateway(two: Two) -> None:
    two.line.denied["spawn"] = "gateway.tools.allow does not name sessions_spawn"
    assert two.fleet.refusal("spawn", THERE) == "gateway.tools.allow does not name sessions_spawn"
    assert two.fleet.refusal("spawn", MAIN) is None
    assert two.fleet.refusal("spawn") is None
    two.line.tells_rules = False
    await send(two.prod, "main", "hello")
    await send(two.here, "main", "hello")
    assert two.fleet.policy_of(await two.fleet.get_session(THERE, ALL)) is None
    assert two.fleet.policy_of(await two.fleet.get_session(MAIN, ALL)) is not None


# The stream


def said(listener: Listener, kind: type[Any]) -> list[str]:
    return [event.key for event in listener.of(kind)]


async def test_one_stream_tells_of_all(two: Two) -> None:
    listener = Listener(two.fleet.subscribe())
    listener.feed.watch(THERE)
    await send(two.here, "main", "hello")
    await send(two.prod, "main", "hello")
    await until(lambda: sum(event.run.state == "done" for event in listener.of(RunChanged)) == 2)
    assert {event.session.key for event in listener.of(SessionChanged)} == {MAIN, THERE}
    assert said(listener, MessageAppended) == [THERE, THERE]
    assert set(said(listener, Delta)) <= {THERE}
    assert {event.run.run_id[0] == "@" for event in listener.of(RunChanged) if event.run.key == THERE} == {True}
    listener.feed.unwatch(THERE)
    listener.feed.watch(None)
    await send(two.here, "main", "hello")
    await until(lambda: MAIN in said(listener, MessageAppended))
    await listener.close()


async def test_gateways_come_and_go_while_somebody_listens(two: Two, tmp_path: Path) -> None:
    listener = Listener(two.fleet.subscribe())
    listener.feed.watch("@lab:agent:main:main")
    async with running(tmp_path / "lab") as lab:
        two.fleet.add("lab", lab)
        await until(lambda: listener.of(Reloaded) == [Reloaded("lab")])
        await send(lab, "main", "hello")
        await until(lambda: "@lab:agent:main:main" in said(listener, MessageAppended))
        two.fleet.remove("lab")
        await until(lambda: listener.of(Reloaded) == [Reloaded("lab")] * 2)
        heard = len(listener.events)
        await send(lab, "main", "again")
        await lab.drained()
    await send(two.here, "main", "hello")
    await until(lambda: any(event.run.state == "done" for event in listener.of(RunChanged) if event.run.key == MAIN))
    assert not any(
        event.session.key.startswith("@lab:") for event in listener.events[heard:] if isinstance(event, SessionChanged)
    )
    assert two.fleet.member("lab") is None
    await listener.close()


async def test_a_reader_that_falls_behind_gets_a_gap_from_each_and_misses_nothing(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core import event_stream
    from core.multi import feed as fleet_feed

    monkeypatch.setattr(fleet_feed, "QUEUE_EVENTS", 8)
    monkeypatch.setattr(event_stream, "QUEUE_EVENTS", 8)
    feed = two.fleet.subscribe()
    events = aiter(feed)
    first = asyncio.ensure_future(anext(events))
    for number in range(10):
        await send(two.here, "main", str(number))
        await send(two.prod, "main", str(number))
    heard: list[Any] = [await first]
    ends = {MAIN: 20, THERE: 20}

    def missing() -> bool:
        seen = {e.session.key: e.session.last_seq for e in heard if isinstance(e, SessionChanged)}
        return seen != ends

    while missing():
        heard.append(await asyncio.wait_for(anext(events), 5))
    assert {event.gateway for event in heard if isinstance(event, Gap)} == {"", "prod"}
    for gateway in ("", "prod"):
        revs = [e.rev for e in heard if isinstance(e, SessionChanged) and split(e.session.key)[0] == gateway]
        assert revs == sorted(revs)
    feed.close()


async def test_a_stream_ends_when_all_gateways_have_ended_theirs(tmp_path: Path) -> None:
    async with running(tmp_path / "here", backends=Agent()) as here:
        listener = Listener(MultiGateway({"": here}).subscribe())
        await send(here, "main", "hello")
        await until(lambda: listener.of(RunChanged))
    await asyncio.wait_for(listener.ended(), 5)
