"""What the port changes, refuses and repeats is the same whichever way it is asked (architecture#port)."""

import asyncio
from pathlib import Path

import pytest

from core.config.settings import Settings
from core.model.access import ALL, OPERATOR, Operator, SessionCaller
from core.model.attachments import Attachment
from core.model.errors import Conflict, Forbidden, Invalid, NotFound
from core.model.messages import user_draft
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import NewSession, SessionPatch, SessionQuery
from core.rules.policy import Rule, SendPolicy
from core.rules.ruleset import RuleSet
from tests.contract.ways import Way, way
from tests.support.runtimes import MAIN, Agent, send, until, words

OPS = "agent:main:discord:group:ops"
NOT_OWNER = Operator(owner=False)


async def test_a_run_is_accepted_waited_for_and_answers(port: Way) -> None:
    ticket = await port.gateway.start_run(RunRequest(MAIN, "say hi", create=True), OPERATOR)
    assert (ticket.key, ticket.created, ticket.reply) == (MAIN, True, None)
    outcome = await port.gateway.wait_run(ticket.run_id, 10)
    assert (outcome.status, outcome.state, outcome.reply) == ("ok", "done", "hi")
    assert await words(port.runtime, MAIN) == [("user", "say hi"), ("assistant", "hi")]
    command = await port.gateway.start_run(RunRequest(MAIN, "/label home"), OPERATOR)
    assert command.reply is not None
    assert (await port.gateway.get_session(MAIN, ALL)).label == "home"


async def test_the_same_run_id_is_the_same_run(port: Way) -> None:
    request = RunRequest(MAIN, "say hi", run_id="mine", create=True)
    tickets = await asyncio.gather(*(port.gateway.start_run(request, OPERATOR) for _ in range(5)))
    assert {ticket.run_id for ticket in tickets} == {"mine"}
    assert sorted(ticket.created for ticket in tickets) == [False] * 4 + [True]
    await port.gateway.wait_run("mine", 10)
    assert (await port.gateway.start_run(request, OPERATOR)).state == "done"
    assert await words(port.runtime, MAIN) == [("user", "say hi"), ("assistant", "hi")]
    for target, message in ((MAIN, "say ho"), ("agent:main:other", "say hi")):
        with pytest.raises(Conflict, match="run id mine was used for another message"):
            await port.gateway.start_run(RunRequest(target, message, run_id="mine", create=True), OPERATOR)


async def test_what_cannot_be_meant_is_refused_with_its_sentence(port: Way) -> None:
    for request, error, says in (
        (RunRequest(MAIN, "", create=True), Invalid, "the message is empty"),
        (RunRequest("agent:main:nope", "hi"), NotFound, "no session has the key"),
        (RunRequest("..", "hi", create=True), Invalid, "no key may"),
    ):
        with pytest.raises(error, match=says):
            await port.gateway.start_run(request, OPERATOR)
    with pytest.raises(NotFound, match="no run has the id"):
        await port.gateway.wait_run("nothing", 1)
    with pytest.raises(NotFound):
        await port.gateway.abort("agent:main:nope", OPERATOR)


@pytest.mark.spec("P1", "P5")
async def test_a_denied_send_names_what_decided(how: str, state: Path) -> None:
    settings = Settings(rules=RuleSet(send_policy=SendPolicy((Rule("deny"),))))
    async with way(how, state, settings, Agent()) as port:
        with pytest.raises(Forbidden, match="send policy denies messages to this session") as caught:
            await port.gateway.start_run(RunRequest(MAIN, "hi", create=True), OPERATOR)
        assert caught.value.decided_by == ("session.sendPolicy.rules[0]",)


@pytest.mark.spec("S4")
async def test_a_wait_that_runs_out_leaves_the_run_alone(how: str, state: Path) -> None:
    agent = Agent(held=True)
    async with way(how, state, backends=agent) as port:
        ticket = await port.gateway.start_run(RunRequest(MAIN, "go", create=True), OPERATOR)
        for timeout in (0, 0.05):
            outcome = await port.gateway.wait_run(ticket.run_id, timeout)
            assert (outcome.status, outcome.reply) == ("timeout", None)
            assert outcome.state in {"queued", "running"}
        agent.release()
        assert (await port.gateway.wait_run(ticket.run_id, None)).reply == "echo go"


async def test_a_wait_that_is_given_up_leaves_the_run_alone(how: str, state: Path) -> None:
    agent = Agent(held=True)
    async with way(how, state, backends=agent) as port:
        ticket = await port.gateway.start_run(RunRequest(MAIN, "go", create=True), OPERATOR)
        waiting = asyncio.create_task(port.gateway.wait_run(ticket.run_id, None))
        await until(lambda: agent.at_work)
        waiting.cancel()
        await asyncio.wait([waiting])
        agent.release()
        assert (await port.gateway.wait_run(ticket.run_id, 10)).status == "ok"


async def test_aborting_returns_what_was_stopped(how: str, state: Path) -> None:
    agent = Agent(held=True)
    async with way(how, state, backends=agent) as port:
        first, second, third = [
            (await port.gateway.start_run(RunRequest(MAIN, text, create=True), OPERATOR)).run_id for text in "abc"
        ]
        await until(lambda: agent.at_work)
        assert await port.gateway.abort(MAIN, OPERATOR, run_id=second) == [second]
        assert sorted(await port.gateway.abort(MAIN, OPERATOR)) == sorted([first, third])
        assert [run.state for run in await port.gateway.runs(MAIN, ALL, limit=5)] == ["aborted"] * 3
        assert await port.gateway.abort(MAIN, OPERATOR) == []


async def test_settings_are_changed_and_wrong_ones_refused(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    changed = await port.gateway.patch(MAIN, SessionPatch({"label": "Home", "sendPolicy": "deny"}), OPERATOR)
    assert (changed.label, changed.send_policy) == ("Home", "deny")
    cleared = await port.gateway.patch(changed.session_id, SessionPatch({"sendPolicy": None}), OPERATOR)
    assert (cleared.label, cleared.send_policy) == ("Home", None)
    assert await port.gateway.get_session(MAIN, ALL) == cleared
    for fields in ({"mood": "good"}, {"sendPolicy": "maybe"}, {"model": "no/such"}):
        with pytest.raises((Invalid, NotFound)):
            await port.gateway.patch(MAIN, SessionPatch(dict(fields)), OPERATOR)
    assert await port.gateway.get_session(MAIN, ALL) == cleared


async def test_a_reset_keeps_the_old_transcript_and_guards_against_a_second(port: Way) -> None:
    await send(port.runtime, "main", "say one")
    before = await port.gateway.get_session(MAIN, ALL)
    fresh = await port.gateway.reset(before.session_id, OPERATOR)
    assert fresh.session_id != before.session_id
    assert (await port.gateway.history(MAIN, ALL, limit=9)).messages == ()
    assert len((await port.gateway.history(before.session_id, ALL, limit=9)).messages) == 2
    for change in (
        port.gateway.reset(before.session_id, OPERATOR),
        port.gateway.patch(before.session_id, SessionPatch({"label": "x"}), OPERATOR),
        port.gateway.delete(before.session_id, OPERATOR),
    ):
        with pytest.raises(Conflict, match="was reset meanwhile"):
            await change


async def test_a_session_goes_to_the_archive_and_back(port: Way) -> None:
    await send(port.runtime, OPS, "hello")
    assert (await port.gateway.archive(OPS, OPERATOR, archived=True)).archived_at is not None
    assert (await port.gateway.list_sessions(SessionQuery(), ALL)).sessions == ()
    assert len((await port.gateway.list_sessions(SessionQuery(archived=True), ALL)).sessions) == 1
    assert len((await port.gateway.list_sessions(SessionQuery(archived=None), ALL)).sessions) == 1
    assert (await port.gateway.archive(OPS, OPERATOR, archived=False)).archived_at is None


@pytest.mark.spec("K6")
async def test_sessions_are_made_and_deleted(port: Way) -> None:
    made = await port.gateway.create(NewSession(OPS, label="Operations"), OPERATOR)
    assert (made.key, made.label, made.last_seq) == (OPS, "Operations", 0)
    assert await port.gateway.create(NewSession(OPS), OPERATOR) == made
    own = await port.gateway.create(NewSession(agent_id="main"), NOT_OWNER)
    assert own.key.startswith("agent:main:dashboard:")
    await port.gateway.delete(OPS, OPERATOR)
    with pytest.raises(NotFound):
        await port.gateway.get_session(OPS, ALL)
    with pytest.raises(NotFound):
        await port.gateway.delete(OPS, OPERATOR)
    await send(port.runtime, "main", "hello")
    with pytest.raises(Invalid):
        await port.gateway.delete(MAIN, OPERATOR)


async def test_a_message_is_appended_without_a_run(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    message = await port.gateway.append(MAIN, user_draft("a note ☎ \u202e"), OPERATOR)
    assert message == (await port.gateway.history(MAIN, ALL, limit=1)).messages[0]
    assert len(await port.gateway.runs(MAIN, ALL, limit=9)) == 1


@pytest.mark.spec("W1", "W8")
async def test_a_sub_agent_is_spawned_with_its_files(how: str, state: Path) -> None:
    async with way(how, state, backends=Agent()) as port:
        await send(port.runtime, "main", "hello")
        spec = SpawnSpec(MAIN, "main", "Helper", attachments=(Attachment("note.txt", "hello"),))
        ticket = await port.gateway.start_run(RunRequest("", "do it", spawn=spec), OPERATOR)
        assert ticket.key.startswith("agent:main:subagent:")
        assert ticket.attachments is not None
        assert [file.name for file in ticket.attachments.files] == ["note.txt"]
        assert (await port.gateway.wait_run(ticket.run_id, 10)).status == "ok"
        assert (await port.gateway.get_session(ticket.key, ALL)).spawned_by == MAIN


@pytest.mark.spec("P3")
async def test_what_is_the_owners_is_refused_to_everybody_else(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    await send(port.runtime, OPS, "hello")
    before = await port.runtime.get_session(OPS, ALL)
    for caller in (NOT_OWNER, SessionCaller(MAIN)):
        for change in (
            port.gateway.patch(OPS, SessionPatch({"sendPolicy": "deny"}), caller),
            port.gateway.reset(OPS, caller),
            port.gateway.archive(OPS, caller, archived=True),
            port.gateway.delete(OPS, caller),
            port.gateway.append(OPS, user_draft("hi"), caller),
            port.gateway.drop_delivery("x", caller),
            port.gateway.retry_delivery("x", caller),
        ):
            with pytest.raises(Forbidden, match="only the owner can") as caught:
                await change
            assert caught.value.decided_by == ("owner",)
    assert await port.runtime.get_session(OPS, ALL) == before


async def test_a_delivery_that_is_not_there_is_not_found(port: Way) -> None:
    for change in (port.gateway.retry_delivery("x", OPERATOR), port.gateway.drop_delivery("x", OPERATOR)):
        with pytest.raises(NotFound):
            await change


async def test_an_agent_never_creates_a_session(port: Way) -> None:
    await send(port.runtime, "main", "hello")
    with pytest.raises(NotFound):
        await port.gateway.start_run(RunRequest(OPS, "hi", create=True), SessionCaller(MAIN))
    with pytest.raises(Forbidden):
        await port.gateway.create(NewSession(OPS), SessionCaller(MAIN))
