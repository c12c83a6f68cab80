"""P3, K6: making, deleting and writing into sessions, and who may."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.config.settings import ModelSettings, Settings
from core.model.access import ALL, OPERATOR, Caller, Operator, SessionCaller
from core.model.errors import Conflict, Forbidden, Invalid, NotFound
from core.model.events import MessageAppended, SessionChanged
from core.model.messages import Draft, text_block, user_draft
from core.model.runs import RunRequest, SpawnSpec
from core.model.sessions import NewSession, SessionPatch
from core.runtime.gateway import Runtime
from core.runtime.transcript_files import TranscriptFiles
from core.store import sessions
from core.store.jsonl import transcript_path
from tests.support.channel_sink import ChannelSink, Hang
from tests.support.clock import FakeClock
from tests.support.runtimes import MAIN, Agent, begin, call, listening, running, send, session, transcript, until, words

OPS = "agent:main:discord:group:ops"
NOT_OWNER = Operator(owner=False)
AGENT = SessionCaller(MAIN)
WITH_MODEL = Settings(models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")})

Deed = Callable[[Runtime, Caller], Awaitable[object]]
OF_THE_OWNER: dict[str, Deed] = {
    "change the send policy of a session": lambda r, who: r.patch(OPS, SessionPatch({"sendPolicy": "deny"}), who),
    "reset a session": lambda r, who: r.reset(OPS, who),
    "archive a session": lambda r, who: r.archive(OPS, who, archived=True),
    "delete a session": lambda r, who: r.delete(OPS, who),
    "append to a session": lambda r, who: r.append(OPS, user_draft("hi"), who),
    "retry or drop a delivery": lambda r, who: r.drop_delivery("x", who),
    "use /send in a session": lambda r, who: r.start_run(RunRequest(OPS, "/send off"), who),
    "use /reset in a session": lambda r, who: r.start_run(RunRequest(OPS, "/reset"), who),
    "use /archive in a session": lambda r, who: r.start_run(RunRequest(OPS, "/archive"), who),
}
OF_THE_OPERATOR: dict[str, Deed] = {
    "change a session's settings": lambda r, who: r.patch(OPS, SessionPatch({"label": "x", "verboseLevel": "on"}), who),
    "create a session": lambda r, who: r.create(NewSession("agent:main:discord:group:new"), who),
    "use /label in a session": lambda r, who: r.start_run(RunRequest(OPS, "/label x"), who),
    "use /abort in a session": lambda r, who: r.start_run(RunRequest(OPS, "/abort"), who),
}


# Who may


@pytest.mark.spec("P3")
@pytest.mark.parametrize("deed", OF_THE_OWNER)
@pytest.mark.parametrize("caller", [NOT_OWNER, AGENT], ids=["operator", "agent"])
async def test_what_is_the_owners_is_refused_to_everybody_else(runtime: Runtime, deed: str, caller: Caller) -> None:
    await send(runtime, MAIN, "hello")
    await send(runtime, OPS, "hello")
    before = await session(runtime, OPS)
    with pytest.raises(Forbidden, match=f"only the owner can {deed}") as caught:
        await OF_THE_OWNER[deed](runtime, caller)
    assert caught.value.decided_by == ("owner",)
    assert await session(runtime, OPS) == before


@pytest.mark.parametrize("deed", OF_THE_OPERATOR)
async def test_what_is_the_operators_is_refused_to_agents_only(runtime: Runtime, deed: str) -> None:
    await send(runtime, MAIN, "hello")
    await send(runtime, OPS, "hello")
    with pytest.raises(Forbidden, match=f"only the operator can {deed}"):
        await OF_THE_OPERATOR[deed](runtime, AGENT)
    await OF_THE_OPERATOR[deed](runtime, NOT_OWNER)


@pytest.mark.spec("P3")
async def test_send_off_without_the_right_is_answered_that_it_is_the_owners(runtime: Runtime) -> None:
    await send(runtime, OPS, "hello")
    before = await words(runtime, OPS)
    for caller in (NOT_OWNER, Operator("main", owner=False)):
        await send(runtime, MAIN, "hello")
        answer = await send(runtime, OPS, "/send off", caller)
        assert answer["status"] == "forbidden"
        assert answer["error"] == "only the owner can use /send in a session"
    assert await words(runtime, OPS) == before, "it reached no model"


# Making


@pytest.mark.spec("K6")
async def test_a_session_is_made_with_what_is_asked_for(state: Path) -> None:
    async with running(state, WITH_MODEL) as runtime:
        await send(runtime, MAIN, "hello")
        async with listening(runtime) as listener:
            made = await runtime.create(NewSession(OPS, label="Operations", model="p/m", parent=MAIN), OPERATOR)
            assert (made.key, made.label, made.model, made.spawned_by) == (OPS, "Operations", "p/m", MAIN)
            assert (made.kind, made.channel, made.last_seq) == ("group", "discord", 0)
            await until(lambda: [event.session for event in listener.of(SessionChanged)] == [made])
        assert await session(runtime, OPS) == made
        again = await runtime.create(
            NewSession(OPS.upper().replace("DISCORD:GROUP:OPS", "discord:group:ops")), OPERATOR
        )
        assert again == made, "one that exists is returned as it is"
        found = await call(runtime, "sessions_list", search="Operations")
        assert [row["key"] for row in found["sessions"]] == [OPS]


async def test_a_key_of_its_own_and_names_of_the_agent(runtime: Runtime) -> None:
    one, two = (
        await runtime.create(NewSession(), OPERATOR),
        await runtime.create(NewSession(agent_id="Main"), NOT_OWNER),
    )
    assert one.key.startswith("agent:main:dashboard:")
    assert one.key != two.key
    assert (one.kind, one.channel, one.last_channel) == ("other", "webchat", "webchat")
    assert (await send(runtime, one.key, "say hi"))["reply"] == "hi"
    assert (await runtime.create(NewSession("main"), OPERATOR)).kind == "main"
    assert (await runtime.create(NewSession("cron:nightly"), OPERATOR)).kind == "cron"


@pytest.mark.parametrize(
    ("new", "error", "sentence"),
    [
        (NewSession("agent:main:x:..:y"), Invalid, "which no key may"),
        (NewSession("global"), Invalid, "reserved"),
        (NewSession("nothing"), Invalid, "not one in full: write it as agent:main:<name>"),
        (NewSession("agent:main:subagent:1"), NotFound, "made by spawning only"),
        (NewSession("agent:nope:discord:group:x"), NotFound, 'agent "nope" is not configured: use one of main'),
        (NewSession(agent_id="nope"), NotFound, 'agent "nope" is not configured'),
        (NewSession("agent:other:x", agent_id="main"), Invalid, 'is not of agent "main"'),
        (NewSession(model="p/x"), NotFound, 'model "p/x" is not configured'),
        (NewSession(parent="agent:main:nobody"), NotFound, "no session has the key"),
        (NewSession(label="taken"), Invalid, "label already in use: taken"),
        (NewSession(label="x" * 121), Invalid, "at most 120 fit"),
    ],
)
async def test_what_cannot_be_made_leaves_nothing(
    runtime: Runtime, new: NewSession, error: type[Exception], sentence: str
) -> None:
    await runtime.create(NewSession(OPS, label="taken"), OPERATOR)
    with pytest.raises(error, match=sentence):
        await runtime.create(new, OPERATOR)
    assert (await call(runtime, "sessions_list"))["count"] == 1


async def test_a_label_in_the_archive_is_free(runtime: Runtime) -> None:
    await runtime.create(NewSession(OPS, label="taken"), OPERATOR)
    await runtime.archive(OPS, OPERATOR, archived=True)
    assert (await runtime.create(NewSession(label="taken"), OPERATOR)).label == "taken"


async def test_a_session_made_below_another_is_no_sub_agent_that_goes_to_the_archive(state: Path) -> None:
    clock = FakeClock()
    async with running(state, Settings(archive_after_ms=1000), clock=clock) as runtime:
        await send(runtime, MAIN, "hello")
        made = await runtime.create(NewSession(parent=MAIN), OPERATOR)
        await send(runtime, made.key, "hello")
        assert sessions.first_finished_child(runtime.store.db) is None
        assert sessions.finished_children(runtime.store.db, clock.now_ms() + 10_000) == []


# Deleting


async def test_a_deleted_session_is_gone_with_its_files(runtime: Runtime) -> None:
    await send(runtime, OPS, "one")
    first = (await session(runtime, OPS)).session_id
    await runtime.reset(OPS, OPERATOR)
    await send(runtime, OPS, "two")
    second = (await session(runtime, OPS)).session_id
    await runtime.drained()
    files = [transcript_path(runtime.store.directory, session_id) for session_id in (first, second)]
    assert all(file.exists() for file in files)
    await runtime.delete(OPS, OPERATOR)
    assert not any(file.exists() for file in files)
    for ref in (OPS, first, second):
        with pytest.raises(NotFound):
            await runtime.history(ref, ALL, limit=5)
        with pytest.raises(NotFound):
            await runtime.delete(ref, OPERATOR)
    assert await runtime.search("one", ALL) == []


async def test_a_file_that_is_still_to_be_written_does_not_come_back(runtime: Runtime) -> None:
    await send(runtime, OPS, "one")
    row = await session(runtime, OPS)
    await runtime.delete(OPS, OPERATOR)
    files = TranscriptFiles(runtime.store)
    files.bring_up_to_date(OPS, row.session_id)
    await files.written()
    assert not transcript_path(runtime.store.directory, row.session_id).exists()


async def test_a_key_can_be_used_again_and_starts_from_nothing(runtime: Runtime) -> None:
    await send(runtime, OPS, "say one")
    old = await session(runtime, OPS)
    await runtime.delete(OPS, OPERATOR)
    await send(runtime, OPS, "say two")
    new = await session(runtime, OPS)
    assert new.session_id != old.session_id
    assert [(message.seq, message.text) for message in await transcript(runtime, OPS)] == [(1, "say two"), (2, "two")]
    with pytest.raises(NotFound):
        await runtime.delete(old.session_id, OPERATOR)


async def test_the_main_session_is_not_deleted(runtime: Runtime) -> None:
    await send(runtime, MAIN, "hello")
    with pytest.raises(
        Invalid, match=r"cannot delete the main session \(agent:main:main\): it always exists; reset it"
    ):
        await runtime.delete(MAIN, OPERATOR)
    assert len(await transcript(runtime, MAIN)) == 2


async def test_a_session_at_work_or_in_an_exchange_is_not_deleted(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, MAIN, "hello")
        await begin(runtime, "agent:main:other", "hello")
        await begin(runtime, OPS, "hello", Operator("agent:main:other"))
        await until(lambda: agent.at_work)
        with pytest.raises(Conflict, match=f"session {OPS} is at work: abort it first"):
            await runtime.delete(OPS, OPERATOR)
        await runtime.abort("agent:main:other", OPERATOR)
        with pytest.raises(Conflict, match=f"has an exchange with {OPS}: abort it first, or wait"):
            await runtime.delete("agent:main:other", OPERATOR)
        await runtime.abort(OPS, OPERATOR)
        await runtime.delete("agent:main:other", OPERATOR)
        ((exchange, _),) = await runtime.exchanges(OPS, limit=5)
        assert (exchange.requester, exchange.outcome) == ("agent:main:other", "aborted")
        old = (await session(runtime, OPS)).session_id
        await runtime.reset(OPS, OPERATOR)
        with pytest.raises(Conflict, match="was reset meanwhile"):
            await runtime.delete(old, OPERATOR)
        agent.release()


async def test_a_session_whose_announce_is_being_sent_is_not_deleted(state: Path) -> None:
    async with ChannelSink() as sink:
        sink.script(Hang())
        channels = {"discord": sink.channel("discord")}
        async with running(state, Settings(max_ping_pong_turns=0), channels=channels) as runtime:
            await send(runtime, MAIN, "hello")
            await send(runtime, OPS, "say hi")
            await send(runtime, OPS, "say hi", Operator(MAIN))
            await until(lambda: sink.posts)
            with pytest.raises(Conflict, match=r"an announce of session .* is being sent: wait"):
                await runtime.delete(OPS, OPERATOR)


async def test_an_idempotency_key_of_an_exchange_that_is_left_is_not_given_again(state: Path) -> None:
    async with running(state, Settings(max_ping_pong_turns=0)) as runtime:
        await send(runtime, MAIN, "hello")
        await send(runtime, OPS, "hello")
        await begin(runtime, OPS, "say hi", Operator(MAIN), run_id="mine")
        await runtime.drained()
        await runtime.delete(OPS, OPERATOR)
        again = await begin(runtime, OPS, "say hi", Operator(MAIN), run_id="mine")
        assert (again.state, again.created) == ("done", False)
        with pytest.raises(Conflict, match="was used for another message"):
            await begin(runtime, OPS, "say something else", Operator(MAIN), run_id="mine")
        with pytest.raises(Conflict, match="give the message another one"):
            await begin(runtime, OPS, "say hi", Operator(MAIN), run_id="mine:1")


async def test_what_a_deleted_session_spawned_stays(runtime: Runtime) -> None:
    await send(runtime, OPS, "hello")
    spawn = SpawnSpec(OPS, "main")
    child = (await runtime.start_run(RunRequest("", "say found", spawn=spawn), OPERATOR)).key
    await runtime.drained()
    await runtime.delete(OPS, OPERATOR)
    assert (await session(runtime, child)).spawned_by == OPS
    ((exchange, _),) = await runtime.exchanges(child, limit=5)
    assert exchange.kind == "spawn"


# Appending


async def test_a_message_is_appended_without_a_run(runtime: Runtime) -> None:
    await send(runtime, OPS, "hello")
    before = await session(runtime, OPS)
    async with listening(runtime, OPS) as listener:
        message = await runtime.append(OPS, Draft("assistant", (text_block("by hand"),)), OPERATOR)
        row = await session(runtime, OPS)
        await until(lambda: len(listener.events) == 2)
        (changed,), (appended,) = listener.of(SessionChanged), listener.of(MessageAppended)
        assert (changed.session, appended.message) == (row, message)
    assert (row.preview, row.last_seq) == ("by hand", before.last_seq + 1)
    assert row.rev > before.rev
    assert row.updated_at >= before.updated_at
    assert (await transcript(runtime, OPS))[-1] == message
    assert row.status == before.status
    assert [hit.seq for hit in await runtime.search("by hand", ALL)] == [message.seq]


async def test_nothing_is_appended_to_a_session_that_is_not_there_or_was_reset(runtime: Runtime) -> None:
    with pytest.raises(NotFound):
        await runtime.append(OPS, user_draft("hi"), OPERATOR)
    await send(runtime, OPS, "hello")
    old = (await session(runtime, OPS)).session_id
    await runtime.reset(OPS, OPERATOR)
    with pytest.raises(Conflict):
        await runtime.append(old, user_draft("hi"), OPERATOR)


async def test_the_store_says_who_it_is_and_how_far(runtime: Runtime) -> None:
    first = runtime.last_rev
    await send(runtime, OPS, "hello")
    assert runtime.last_rev > first
    assert len(runtime.store_id) == 36


async def test_a_message_that_is_sent_again_after_its_session_was_deleted_does_not_run_again(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        request = RunRequest(OPS, "do it once", create=True, run_id="the-key")
        ticket = await runtime.start_run(request, OPERATOR)
        assert (await runtime.wait_run(ticket.run_id, 10)).status == "ok"
        await runtime.delete(OPS, OPERATOR)
    async with running(state, backends=agent) as runtime:
        again = await runtime.start_run(request, OPERATOR)
        assert (again.run_id, again.session_id, again.state, again.created) == (
            "the-key",
            ticket.session_id,
            "done",
            False,
        )
        assert (await runtime.wait_run("the-key", 0)).status == "ok"
        assert len(agent.turns) == 1
        with pytest.raises(NotFound):
            await runtime.get_session(OPS, ALL)
        with pytest.raises(Conflict, match="was used for another message"):
            await runtime.start_run(RunRequest(OPS, "something else", create=True, run_id="the-key"), OPERATOR)
        new = await runtime.start_run(RunRequest(OPS, "do it once", create=True, run_id="another"), OPERATOR)
        assert (await runtime.wait_run(new.run_id, 10)).status == "ok"
        assert len(agent.turns) == 2
