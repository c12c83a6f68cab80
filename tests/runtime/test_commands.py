"""P2, P3, P5: the commands of a session, through the same door as messages."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, TextDelta, Turn
from core.config.settings import ModelSettings, Settings
from core.model.access import ALL, OPERATOR, Operator, SessionCaller
from core.model.errors import Conflict, Forbidden, Invalid, NotFound
from core.model.sessions import SessionPatch
from core.rules.policy import Rule, SendPolicy
from core.rules.ruleset import RuleSet
from core.rules.visibility import VisibilityRules
from core.runtime.gateway import Runtime
from tests.support.invariants import look
from tests.support.runtimes import MAIN, Agent, begin, call, running, send, session, until, words

OTHER = "agent:main:other"
ALL_DENIED = Settings(rules=RuleSet(send_policy=SendPolicy((Rule("deny"),))))
AGENT_WIDE = Settings(rules=RuleSet(visibility=VisibilityRules("agent")))
WITH_MODEL = Settings(models={"p/m": ModelSettings("p", "m", "openai-completions", "http://x")})


@pytest.mark.spec("P2", "P3")
async def test_send_off_on_inherit(state: Path) -> None:
    agent = Agent()
    async with running(state, ALL_DENIED, agent) as runtime:
        assert (await send(runtime, "main", "hello"))["status"] == "forbidden"
        for word, override, answer in (
            ("on", "allow", "send policy allow"),
            ("off", "deny", "send policy deny"),
            ("inherit", None, "send policy inherited from the configuration"),
        ):
            told = await send(runtime, "main", f"/send {word}")
            assert told == {"runId": told["runId"], "status": "ok", "reply": answer}
            assert (await session(runtime, MAIN)).send_policy == override
            after = await send(runtime, "main", "hello")
            assert after["status"] == ("ok" if word == "on" else "forbidden")
        assert [turn.transcript[-1].text for turn in agent.turns] == ["hello"]
        said = await words(runtime, MAIN)
        assert [text for role, text in said if role == "user"] == ["hello"], "no command is a message"
        assert [text for role, text in said if role == "system"] == [
            "/send on: send policy allow",
            "/send off: send policy deny",
            "/send inherit: send policy inherited from the configuration",
        ]


@pytest.mark.spec("P3")
async def test_a_command_is_for_the_owner_alone(state: Path) -> None:
    agent = Agent()
    async with running(state, AGENT_WIDE, agent) as runtime:
        await send(runtime, "main", "hello")
        await send(runtime, OTHER, "hello")
        refused = await send(runtime, MAIN, "/send off", SessionCaller(OTHER))
        assert refused == {
            "status": "forbidden",
            "error": "only the owner can use /send in a session",
            "decidedBy": ["owner"],
        }
        assert (await session(runtime, MAIN)).send_policy is None
        assert len(agent.turns) == 2, "and it never reaches the model"
        for change in (
            runtime.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), SessionCaller(OTHER)),
            runtime.reset(MAIN, SessionCaller(OTHER)),
            runtime.archive(MAIN, SessionCaller(OTHER), archived=True),
        ):
            with pytest.raises(Forbidden, match="only the owner"):
                await change


@pytest.mark.spec("P3", "S13")
async def test_the_operator_stays_the_owner_when_acting_for_a_session(runtime: Runtime) -> None:
    await send(runtime, OTHER, "hello")
    assert (await send(runtime, "main", "/send off", Operator(OTHER)))["status"] == "ok"
    assert (await session(runtime, MAIN)).send_policy == "deny"


@pytest.mark.spec("P3")
async def test_patching_the_send_policy(runtime: Runtime) -> None:
    await send(runtime, "main", "hello")
    assert (await runtime.patch(MAIN, SessionPatch({"sendPolicy": "deny"}), OPERATOR)).send_policy == "deny"
    assert (await send(runtime, "main", "hello"))["decidedBy"] == ["sendPolicy override"]
    assert (await runtime.patch(MAIN, SessionPatch({"sendPolicy": None}), OPERATOR)).send_policy is None
    assert (await send(runtime, "main", "hello"))["status"] == "ok"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"sendPolicy": "maybe"}, 'sendPolicy cannot be "maybe": use one of allow, deny'),
        ({"thinkingLevel": "lots"}, "use one of off, minimal, low, medium, high"),
        ({"verboseLevel": "loud"}, "use one of off, on, full"),
        ({"updatedAt": "1"}, 'no field "updatedAt" to change: use one of label, model'),
        ({"label": "x" * 121}, "121 characters long and at most 120 fit"),
        ({"label": "fine", "sendPolicy": "maybe"}, "sendPolicy"),
    ],
)
async def test_a_wrong_change_changes_nothing(runtime: Runtime, fields: dict[str, str | None], error: str) -> None:
    await send(runtime, "main", "hello")
    before = await session(runtime, MAIN)
    with pytest.raises(Invalid, match=error):
        await runtime.patch(MAIN, SessionPatch(fields), OPERATOR)
    assert await session(runtime, MAIN) == before


async def test_levels_and_labels(runtime: Runtime) -> None:
    await send(runtime, "main", "hello")
    changed = await runtime.patch(
        MAIN, SessionPatch({"thinkingLevel": "high", "verboseLevel": "full", "label": "half \ud83d"}), OPERATOR
    )
    assert (changed.thinking_level, changed.verbose_level, changed.label) == ("high", "full", "half \ufffd")
    cleared = await runtime.patch(MAIN, SessionPatch({"thinkingLevel": None, "label": ""}), OPERATOR)
    assert (cleared.thinking_level, cleared.verbose_level, cleared.label) == (None, "full", None)


async def test_label(runtime: Runtime) -> None:
    assert (await send(runtime, "main", "/label The boss"))["reply"] == "label: The boss"
    assert (await session(runtime, MAIN)).label == "The boss"
    assert (await send(runtime, "main", "/label"))["reply"] == "label: removed"
    assert (await session(runtime, MAIN)).label is None


async def test_model(state: Path) -> None:
    agent = Agent()
    async with running(state, WITH_MODEL, agent) as runtime:
        assert (await send(runtime, "main", "/model p/m"))["reply"] == "model: p/m"
        await send(runtime, "main", "hello")
        assert (await send(runtime, "main", "/model"))["reply"] == "model: the agent’s own"
        await send(runtime, "main", "hello")
        used = [turn.model.ref if turn.model else None for turn in agent.turns]
        assert used == ["p/m", None]
        with pytest.raises(NotFound, match='model "p/x" is not configured: use one of p/m, builtin'):
            await send(runtime, "main", "/model p/x")
        assert (await session(runtime, MAIN)).model is None


async def test_reset(runtime: Runtime) -> None:
    await send(runtime, "main", "say hi")
    old = (await session(runtime, MAIN)).session_id
    assert "stays readable by its id" in (await send(runtime, "main", "/reset"))["reply"]
    assert [role for role, _ in await words(runtime, MAIN)] == ["system"]
    assert [message.text for message in (await runtime.history(old, ALL, limit=5)).messages] == ["say hi", "hi"]


async def hangs(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say something and never end."""
    yield TextDelta("half")
    await asyncio.Event().wait()


async def test_abort(state: Path) -> None:
    async with running(state, backends=Agent(hangs)) as runtime:
        await begin(runtime, MAIN, "one")
        await begin(runtime, MAIN, "two")
        await until(lambda: runtime.reply_under_way(MAIN))
        with pytest.raises(Conflict, match="is at work"):
            await send(runtime, "main", "/reset")
        assert (await send(runtime, "main", "/abort"))["reply"] == "stopped 2 runs"
        assert (await send(runtime, "main", "/abort"))["reply"] == "stopped 0 runs"
        row = await session(runtime, MAIN)
        assert (row.status, row.aborted_last_run) == ("aborted", True), "a command says nothing of the session's work"


async def test_archive(runtime: Runtime) -> None:
    await send(runtime, "main", "say hi")
    assert (await send(runtime, "main", "/archive"))["status"] == "ok"
    assert (await call(runtime, "sessions_list"))["count"] == 0
    await send(runtime, "main", "say back")
    assert (await call(runtime, "sessions_list"))["count"] == 1


async def test_spawn(runtime: Runtime) -> None:
    answer = await send(runtime, "main", "/spawn say found it")
    assert (answer["status"], answer["reply"]) == ("ok", "found it")
    await runtime.drained()
    (told,) = [text for role, text in await words(runtime, MAIN) if role == "user"]
    assert "Result: found it" in told


async def test_a_command_is_done_once_for_its_run_id(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        await send(runtime, "main", "one")
        first = await begin(runtime, MAIN, "/reset", run_id="mine")
        await send(runtime, "main", "two")
        again = await begin(runtime, MAIN, "/reset", run_id="mine")
        assert (first.run_id, first.reply) == (again.run_id, again.reply)
        assert ("user", "two") in await words(runtime, MAIN), "the second did not reset again"
        for message in ("/archive", "hello"):
            with pytest.raises(Conflict, match="run id mine was used for another message"):
                await begin(runtime, MAIN, message, run_id="mine")
        spawned = await begin(runtime, MAIN, "/spawn look", run_id="look")
        assert (await begin(runtime, MAIN, "/spawn look", run_id="look")).key == spawned.key


@pytest.mark.spec("P3")
async def test_a_command_that_is_sent_twice_at_once_is_done_once(state: Path) -> None:
    async with running(state, backends=Agent()) as runtime:
        await send(runtime, MAIN, "hello")
        for number, command in enumerate(("/reset", "/label mine", "/abort")):
            both = [begin(runtime, MAIN, command, run_id=f"mine {number}") for _ in range(2)]
            first, again = await asyncio.gather(*both)
            assert (first.run_id, first.session_id, first.reply) == (again.run_id, again.session_id, again.reply)
        message, command = [begin(runtime, MAIN, text, run_id="which") for text in ("hello", "/status")]
        done = await asyncio.gather(message, command, return_exceptions=True)
        assert sorted(type(each).__name__ for each in done) == ["Conflict", "RunTicket"]
        await runtime.drained()
    assert list(look(state, {}, [], over=True)) == []


@pytest.mark.spec("P3", "S9")
async def test_a_command_does_not_take_the_place_of_a_step_of_an_exchange(state: Path) -> None:
    agent = Agent(held=True)
    async with running(state, backends=agent) as runtime:
        await begin(runtime, OTHER, "hello", Operator(acting_for=MAIN), run_id="mine")
        for taken in ("mine:1", "mine:announce"):
            with pytest.raises(Conflict, match="belongs to an exchange"):
                await begin(runtime, MAIN, "/status", run_id=taken)
        agent.release()
        await runtime.drained()
        with pytest.raises(Conflict, match="belongs to an exchange"):
            await begin(runtime, MAIN, "/status", run_id="mine:9")
    assert list(look(state, {}, [], over=True)) == []


async def test_a_wrong_command_is_explained_and_never_sent(state: Path) -> None:
    agent = Agent()
    async with running(state, backends=agent) as runtime:
        with pytest.raises(Invalid, match=r"usage: /send on\|off\|inherit"):
            await send(runtime, "main", "/send maybe")
        assert agent.turns == []
        assert (await call(runtime, "sessions_list"))["count"] == 0
        await send(runtime, "main", "/unknown thing")
        assert agent.turns[0].transcript[-1].text == "/unknown thing"


@pytest.mark.spec("K6")
async def test_a_command_creates_the_session_the_operator_names(runtime: Runtime) -> None:
    assert (await send(runtime, "agent:main:discord:group:ops", "/send off"))["status"] == "ok"
    assert (await send(runtime, "agent:main:discord:group:ops", "hello"))["status"] == "forbidden"


async def test_status_is_told_and_no_question_for_the_model(state: Path) -> None:
    agent = Agent()
    async with running(state, WITH_MODEL, agent) as runtime:
        await send(runtime, "main", "hello")
        turns = len(agent.turns)
        told = await send(runtime, "main", "/status")
        assert re.fullmatch(
            r"agent main, model builtin, \d+ tokens(, \$[0-9.]+)?, send policy allow \(default\)", told["reply"]
        )
        assert len(agent.turns) == turns


@pytest.mark.parametrize("written", ["/compact", " /Compact\n"])
async def test_what_there_is_nothing_to_do_for_is_said(state: Path, written: str) -> None:
    agent = Agent()
    async with running(state, None, agent) as runtime:
        with pytest.raises(Invalid, match=r"^/compact is not needed here: .* /reset begins an empty one$"):
            await send(runtime, "main", written)
        assert agent.turns == []
        assert (await send(runtime, "main", "/compact this text"))["status"] == "ok"
