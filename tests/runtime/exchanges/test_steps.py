"""S9-S13: what follows a send: the loop, the announce step, and what becomes of both."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, Turn
from core.config.settings import AgentSettings, Settings
from core.model.access import OPERATOR, Operator
from core.model.errors import Conflict
from core.model.exchanges import Delivery, Exchange
from core.model.messages import text_block
from core.model.runs import RunState
from core.model.sessions import SessionPatch
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules
from core.runtime.exchanges.steps import Announce, Deliver, Over, Silent, Wait, transition
from core.runtime.exchanges.steps import ReplyStep as NextReply
from core.runtime.gateway import Runtime
from tests.support.runtimes import MAIN, Agent, begin, running, send, session, transcript, until, words

OTHER = "agent:other:main"
GROUP = "agent:main:discord:group:ops"
OPEN = RuleSet(
    agents={"main": AgentRules("main"), "other": AgentRules("other")},
    visibility=VisibilityRules("all", AgentToAgent(enabled=True)),
)
SETTINGS = Settings(rules=OPEN, agents={name: AgentSettings(name) for name in ("main", "other")})
FROM_MAIN = Operator(MAIN)


def name(key: str) -> str:
    """Return the short name of a session in these tests."""
    return key.split(":")[1] if key.endswith(":main") else key.rpartition(":")[2]


def talks(**lines: str) -> Agent:
    """Return an agent that says one line per kind of run."""

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        said = lines.get(turn.kind, f"{turn.kind} of {name(turn.key)}")
        yield TextDelta(said)
        yield Reply((text_block(said),))

    return Agent(play)


async def both(runtime: Runtime, target: str = OTHER) -> None:
    """Make the two sessions of an exchange, webchat both."""
    for key in (MAIN, target):
        await send(runtime, key, "hello")


async def the_exchange(runtime: Runtime, run_id: str) -> tuple[Exchange, Delivery | None]:
    """Return an exchange and its delivery once it has ended."""
    await runtime.drained()
    found = await runtime.exchange(run_id)
    assert found is not None
    assert found[0].state == "ended"
    return found


# The transition


BLANK = Exchange(
    "x", 1, "send", "first", None, MAIN, OTHER, 0, 5, 1, "x", cleanup=False, reason=None, started_at=0, ended_at=None
)
STATES: tuple[RunState, ...] = ("done", "error", "aborted", "timed_out", "interrupted")


@pytest.mark.spec("S9", "S10")
@given(
    max_turns=st.integers(0, 5),
    ends=st.lists(st.sampled_from(STATES), min_size=12, max_size=12),
    said=st.lists(
        st.sampled_from(["", "words", "REPLY_SKIP", "ANNOUNCE_SKIP", "REPLY_SKIP."]), min_size=12, max_size=12
    ),
)
def test_every_exchange_ends_and_keeps_the_rules(max_turns: int, ends: list[RunState], said: list[str]) -> None:
    exchange, turns, announced = BLANK._replace(max_turns=max_turns), 0, 0
    for end, words_ in zip(ends, said, strict=True):
        match transition(exchange, end, words_):
            case NextReply(turn):
                turns += 1
                assert (turn, end, announced) == (turns, "done", 0)
                assert words_ not in {"", "REPLY_SKIP"}, "a skip ends the loop"
                exchange = exchange._replace(state="replying", turn=turn)
                assert exchange.next_key == (MAIN if turn % 2 else OTHER), "they alternate, the requester first"
            case Announce():
                announced += 1
                assert exchange.state != "first" or end == "done", "only after a first run that ended well"
                exchange = exchange._replace(state="announcing")
            case Deliver(text):
                assert (exchange.state, end, text) == ("announcing", "done", words_)
                break
            case Silent():
                assert (exchange.state, end) == ("announcing", "done")
                assert words_ in {"", "ANNOUNCE_SKIP"}
                break
            case Wait():
                pytest.fail("only what was spawned waits")
            case Over(outcome, reason):
                assert end != "done"
                assert outcome in {"error", "aborted", "interrupted"}
                assert reason
                break
    else:
        pytest.fail("an exchange of at most seven runs is over after twelve")
    assert turns <= max_turns
    assert announced <= 1


# The loop


@pytest.mark.spec("S9", "S10", "S13")
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_the_two_sides_take_turns_and_the_target_announces(state: Path, turns: int) -> None:
    async with running(state, replace(SETTINGS, max_ping_pong_turns=turns), talks()) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        assert (answer["status"], answer["reply"]) == ("ok", "turn of other")
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.turn, ended.outcome, ended.max_turns) == (turns, "done", turns)
        runs = [run for key in (MAIN, OTHER) for run in await runtime.runs(key, OPEN.grant(OPERATOR).scope, limit=50)]
        steps = {run.run_id.removeprefix(answer["runId"]): (run.kind, run.key) for run in runs if run.exchange}
        loop = {f":{n}": ("reply", MAIN if n % 2 else OTHER) for n in range(1, turns + 1)}
        assert steps == {"": ("turn", OTHER), ":announce": ("announce", OTHER)} | loop
        assert delivery is not None
        assert (delivery.state, delivery.channel, delivery.text) == ("sent", "webchat", "announce of other")
        if turns:
            assert ("user", "turn of other") in await words(runtime, MAIN)
            (first,) = [m for m in await transcript(runtime, MAIN) if m.text == "turn of other"]
            assert first.provenance is not None
            assert first.provenance.source_session_key == OTHER


@pytest.mark.spec("S9")
async def test_exactly_reply_skip_ends_the_loop(state: Path) -> None:
    async with running(state, SETTINGS, talks(reply="  REPLY_SKIP\n")) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.turn, ended.reason) == (1, "REPLY_SKIP in turn 1")
        assert delivery is not None
        assert delivery.state == "sent", "the announce step comes all the same"


@pytest.mark.spec("S9")
async def test_words_around_reply_skip_do_not_end_the_loop(state: Path) -> None:
    async with running(state, SETTINGS, talks(reply="no REPLY_SKIP yet")) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        assert (await the_exchange(runtime, answer["runId"]))[0].turn == 5


@pytest.mark.spec("S9", "S13")
async def test_the_operators_own_message_has_no_loop(state: Path) -> None:
    async with running(state, SETTINGS, talks()) as runtime:
        answer = await send(runtime, "main", "hello")
        assert set(answer) == {"runId", "status", "reply"}
        assert await runtime.exchange(answer["runId"]) is None


@pytest.mark.spec("S4", "S9")
@pytest.mark.parametrize("wait", [0, 0.05])
async def test_the_loop_runs_after_accepted_and_timeout_too(state: Path, wait: float) -> None:
    async with running(state, SETTINGS, talks()) as runtime:
        await both(runtime)
    agent = talks()
    agent.hold()
    async with running(state, SETTINGS, agent) as runtime:
        answer = await send(runtime, OTHER, "who?", FROM_MAIN, timeoutSeconds=wait)
        assert answer["status"] == ("timeout" if wait else "accepted")
        assert answer["exchange"]["state"] == "first"
        agent.release()
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.turn, ended.outcome) == (5, "done")
        assert delivery is not None


@pytest.mark.spec("S5", "S9")
async def test_a_first_run_that_fails_ends_the_exchange(state: Path) -> None:
    async def fails(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.transcript[-1].text == "hello":
            yield Reply((text_block("hi"),))
            return
        raise AgentFailure("the model hung up")

    async with running(state, SETTINGS, Agent(fails)) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        assert (answer["status"], answer["error"]) == ("error", "the model hung up")
        assert answer["exchange"] == {
            "id": answer["runId"],
            "state": "ended",
            "outcome": "error",
            "turn": 0,
            "maxTurns": 5,
            "reason": "the first run ended: error",
        }
        assert "delivery" not in answer
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.turn, delivery) == (0, None)


@pytest.mark.spec("S9", "S10")
async def test_a_turn_that_fails_ends_the_loop_and_is_announced(state: Path) -> None:
    async def fails(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "reply":
            raise AgentFailure("the model hung up")
        yield Reply((text_block(turn.kind),))

    async with running(state, SETTINGS, Agent(fails)) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.outcome, ended.reason) == ("done", "turn 1 ended: error")
        assert delivery is not None
        assert delivery.text == "announce"


async def test_a_turn_that_is_aborted_ends_the_exchange(state: Path) -> None:
    async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "reply":
            await asyncio.Event().wait()
        yield Reply((text_block(turn.kind),))

    agent = Agent(hangs)
    async with running(state, SETTINGS, agent) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        await until(lambda: agent.turns[-1].kind == "reply")
        await runtime.abort(MAIN, OPERATOR)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert (ended.outcome, ended.reason, delivery) == ("aborted", "turn 1 ended: aborted", None)


@pytest.mark.spec("P4", "S9")
async def test_a_denied_requester_gets_no_reply_and_its_transcript_says_so(state: Path) -> None:
    async with running(state, SETTINGS, talks()) as runtime:
        await both(runtime)
        await runtime.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        ended, _ = await the_exchange(runtime, answer["runId"])
        assert (ended.turn, ended.reason) == (0, f"{MAIN} is denied by override")
        assert (await words(runtime, MAIN))[-1] == (
            "system",
            f"A reply from {OTHER} was not delivered here: denied by override.",
        )


# What each step is told


@pytest.mark.spec("S7", "S9")
async def test_each_turn_is_told_both_sides_and_how_many_are_left(state: Path) -> None:
    agent = talks()
    async with running(state, replace(SETTINGS, max_ping_pong_turns=2), agent) as runtime:
        await both(runtime, GROUP)
        await send(runtime, GROUP, "who?", FROM_MAIN)
        await runtime.drained()
        first, second = [turn.system for turn in agent.turns if turn.kind == "reply"]
        for told in (
            f"requester: session {MAIN}, channel webchat (yours)",
            f"target: session {GROUP}, channel discord",
            "you are the requester; this is turn 1 of at most 2",
            "exactly REPLY_SKIP",
        ):
            assert told in first
        assert "you are the target; this is turn 2 of at most 2" in second
        assert f"target: session {GROUP}, channel discord (yours)" in second


@pytest.mark.spec("S10")
async def test_the_announce_step_sees_the_request_and_the_first_and_the_latest_reply(state: Path) -> None:
    agent = talks()
    async with running(state, replace(SETTINGS, max_ping_pong_turns=1), agent) as runtime:
        await both(runtime)
        await send(runtime, OTHER, "who goes?", FROM_MAIN)
        await runtime.drained()
        (turn,) = [turn for turn in agent.turns if turn.kind == "announce"]
        asked = turn.transcript[-1]
        for part in (
            "The request was:\nwho goes?",
            "The first reply was:\nturn of other",
            "The latest reply was:\nreply of main",
            "ANNOUNCE_SKIP",
        ):
            assert part in asked.text
        assert asked.provenance is not None
        assert "posted on the channel webchat" in turn.system


async def test_the_row_of_a_session_never_shows_what_the_announce_step_is_asked(state: Path) -> None:
    async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == "announce":
            await asyncio.Event().wait()
        yield Reply((text_block(turn.kind),))

    agent = Agent(hangs)
    async with running(state, replace(SETTINGS, max_ping_pong_turns=0), agent) as runtime:
        await both(runtime)
        await send(runtime, OTHER, "who goes?", FROM_MAIN)
        await until(lambda: agent.turns[-1].kind == "announce")
        assert (await session(runtime, OTHER)).preview == "turn"


# The announce


@pytest.mark.spec("S10", "S11")
@pytest.mark.parametrize(
    ("said", "reason"), [(" ANNOUNCE_SKIP ", "ANNOUNCE_SKIP"), ("", "the announce step said nothing")]
)
async def test_a_target_may_stay_silent(state: Path, said: str, reason: str) -> None:
    async with running(state, SETTINGS, talks(announce=said)) as runtime:
        await both(runtime)
        answer = await send(runtime, OTHER, "who?", FROM_MAIN)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert ended.outcome == "done"
        assert delivery is not None
        assert (delivery.state, delivery.reason, delivery.text) == ("skipped", reason, "")


@pytest.mark.spec("P4", "S11")
async def test_a_target_that_was_denied_meanwhile_announces_nothing_and_says_so(state: Path) -> None:
    agent = talks()
    async with running(state, SETTINGS, agent) as runtime:
        await both(runtime)
        agent.hold()
        ticket = await begin(runtime, OTHER, "who?", FROM_MAIN)
        await until(lambda: agent.at_work)
        await runtime.patch(OTHER, SessionPatch({"sendPolicy": "deny"}), OPERATOR)
        agent.release()
        _, delivery = await the_exchange(runtime, ticket.run_id)
        assert delivery is not None
        assert (delivery.state, delivery.reason) == ("skipped", "denied by override")
        assert (await words(runtime, OTHER))[-1] == ("system", "Nothing was announced: denied by override.")
        assert "announce" not in {turn.kind for turn in agent.turns}, "nobody is asked for what cannot be said"


@pytest.mark.spec("S10", "S11")
@pytest.mark.parametrize(("target", "channel"), [("cron:nightly", "internal"), ("agent:main:foo", "unknown")])
async def test_a_target_without_a_channel_writes_its_announce_and_keeps_it(
    state: Path, target: str, channel: str
) -> None:
    agent = talks()
    async with running(state, replace(SETTINGS, max_ping_pong_turns=0), agent) as runtime:
        await both(runtime, target)
        answer = await send(runtime, target, "who?", FROM_MAIN)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert ended.outcome == "done"
        said = f"announce of {name(target)}"
        assert (await words(runtime, target))[-1] == ("assistant", said)
        assert delivery is not None
        assert (delivery.state, delivery.channel, delivery.text) == ("skipped", channel, said)
        assert delivery.reason == f"the session has no channel of its own ({channel})"
        assert "is kept here: nobody reads along" in agent.turns[-1].system


@pytest.mark.spec("S10")
async def test_a_target_without_a_channel_may_stay_silent_too(state: Path) -> None:
    async with running(state, SETTINGS, talks(announce="ANNOUNCE_SKIP")) as runtime:
        await both(runtime, "cron:nightly")
        answer = await send(runtime, "cron:nightly", "who?", FROM_MAIN)
        _, delivery = await the_exchange(runtime, answer["runId"])
        assert delivery is not None
        assert (delivery.state, delivery.reason, delivery.text) == ("skipped", "ANNOUNCE_SKIP", "")


@pytest.mark.spec("S11")
async def test_a_channel_that_is_not_configured_is_a_failed_delivery(state: Path) -> None:
    async with running(state, SETTINGS, talks()) as runtime:
        await both(runtime, GROUP)
        answer = await send(runtime, GROUP, "who?", FROM_MAIN)
        ended, delivery = await the_exchange(runtime, answer["runId"])
        assert ended.outcome == "done", "the exchange and its delivery are two things"
        assert delivery is not None
        assert delivery.delivery_id == f"{answer['runId']}:announce:discord:group:ops"
        assert (delivery.state, delivery.text) == ("failed", "announce of ops")
        assert delivery.reason == "no route to discord:group:ops: the channel is not configured"


# Hops


@pytest.mark.spec("S9")
async def test_a_ring_of_sessions_stops_at_the_hop_budget(state: Path) -> None:
    keys = [f"agent:main:ring{n}" for n in range(3)]

    async def passes_on(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind != "turn" or turn.transcript[-1].text == "hello":
            yield Reply((text_block("REPLY_SKIP"),))
            return
        following = keys[(keys.index(turn.key) + 1) % 3]
        result = await turn.call_tool(
            "c", "sessions_send", {"sessionKey": following, "message": "pass it on", "timeoutSeconds": 0}
        )
        yield Reply((text_block(result.text),))

    async with running(state, replace(SETTINGS, max_hops=7), Agent(passes_on)) as runtime:
        for key in keys:
            await send(runtime, key, "hello")
        await send(runtime, keys[0], "go")
        await runtime.drained()
        said = [text for key in keys for role, text in await words(runtime, key) if role == "assistant"]
        (refused,) = [text for text in said if "forbidden" in text]
        assert "one message has already caused 7 sends between sessions" in refused
        assert "session.agentToAgent.maxHops" in refused
        assert sum('"accepted"' in text for text in said) == 7
        await send(runtime, keys[0], "go")
        await runtime.drained()
        said = [text for key in keys for role, text in await words(runtime, key) if role == "assistant"]
        assert sum('"accepted"' in text for text in said) == 14, "another message has a budget of its own"


# Ids


async def test_nobody_can_take_the_id_of_a_step(state: Path) -> None:
    async with running(state, SETTINGS, talks()) as runtime:
        await both(runtime)
        await begin(runtime, OTHER, "who?", run_id="mine:1")
        with pytest.raises(Conflict, match="belongs to an exchange"):
            await begin(runtime, OTHER, "who?", FROM_MAIN, run_id="mine")
        ticket = await begin(runtime, OTHER, "who?", FROM_MAIN)
        with pytest.raises(Conflict, match="belongs to an exchange"):
            await begin(runtime, OTHER, "who?", run_id=f"{ticket.run_id}:5")
        assert (await the_exchange(runtime, ticket.run_id))[0].outcome == "done"


# Restart


@pytest.mark.spec("S11")
@pytest.mark.parametrize("kind", ["reply", "announce"])
async def test_an_exchange_goes_on_after_a_restart_at_the_step_that_was_not_done(state: Path, kind: str) -> None:
    hold, stopped = asyncio.Event(), asyncio.Event()

    async def play(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        if turn.kind == kind and turn.transcript[-1].text != "hello" and not hold.is_set():
            hold.set()
            yield TextDelta("half")
            await stopped.wait()
        said = f"{turn.kind} of {name(turn.key)}"
        yield Reply((text_block(said),))

    agent = Agent(play)
    async with running(state, replace(SETTINGS, max_ping_pong_turns=2), agent) as runtime:
        await both(runtime)
        ticket = await begin(runtime, OTHER, "who?", FROM_MAIN)
        await hold.wait()
    async with running(state, SETTINGS, agent) as runtime:
        ended, delivery = await the_exchange(runtime, ticket.run_id)
        assert (ended.outcome, ended.turn) == ("done", 2)
        assert delivery is not None
        assert delivery.state == "sent"
        said = [text for key in (MAIN, OTHER) for role, text in await words(runtime, key) if role == "assistant"]
        assert sorted(said) == sorted(
            ["turn of main", "turn of other", "turn of other", "reply of main", "reply of other", "announce of other"]
        ), "each step exactly once"


async def test_a_first_run_that_is_stopped_with_its_process_ends_the_exchange(state: Path) -> None:
    agent = talks()
    async with running(state, SETTINGS, agent) as runtime:
        await both(runtime)
        agent.hold()
        ticket = await begin(runtime, OTHER, "who?", FROM_MAIN)
        await until(lambda: agent.at_work)
    agent.release()
    async with running(state, SETTINGS, agent) as runtime:
        ended, delivery = await the_exchange(runtime, ticket.run_id)
        assert (ended.outcome, ended.reason, delivery) == ("interrupted", "the first run ended: interrupted", None)
