"""H5: history, list and search give an agent what is bounded and redacted, and the operator everything."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, Turn
from core.config.settings import Settings
from core.model.access import OPERATOR, Caller, Operator, SessionCaller
from core.model.messages import text_block, user_draft
from core.rules.redact import MAX_BYTES
from core.rules.ruleset import RuleSet
from core.rules.visibility import VisibilityRules
from core.runtime.gateway import Runtime
from core.store import messages
from core.store.database import Tx
from tests.support.runtimes import MAIN, Agent, call, running, transcript
from tests.support.stores import create

GROUP = "agent:main:discord:group:ops"
KEY = "sk-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIE copperkey\nIBAA\n-----END PRIVATE KEY-----"
AGENT = SessionCaller(MAIN)
ALL_OF_AGENT = Settings(rules=RuleSet(visibility=VisibilityRules("agent")))


async def write(runtime: Runtime, texts: dict[str, list[str]]) -> None:
    """Make sessions with these messages."""

    def fill(tx: Tx) -> None:
        for key, said in texts.items():
            create(tx, key)
            for text in said:
                messages.append(tx, key, user_draft(text))

    await runtime.store.write(fill)


def size(shown: object) -> int:
    """Bytes of an answer's messages."""
    return len(json.dumps(shown, ensure_ascii=False).encode())


async def read(runtime: Runtime, caller: Caller) -> tuple[str, str]:
    """Return the text of one message as history and as list show it."""
    history = await call(runtime, "sessions_history", caller, sessionKey=GROUP, limit=1)
    listed = await call(runtime, "sessions_list", caller, messageLimit=1, kinds=["group"])
    return history["messages"][0]["content"][0]["text"], listed["sessions"][0]["messages"][0]["content"][0]["text"]


@pytest.mark.spec("H5", "L3")
@pytest.mark.parametrize("caller", [AGENT, OPERATOR, Operator(MAIN)])
async def test_an_agent_reads_no_secrets_and_the_operator_reads_all(state: Path, caller: Caller) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        text = f"the key is {KEY}, {'x' * 5_000}"
        await write(runtime, {MAIN: ["hello"], GROUP: [text]})
        expected = f"the key is [redacted], {'x' * 5_000}"[:4_000] if caller is AGENT else text
        assert await read(runtime, caller) == (expected, expected)


@pytest.mark.spec("H5")
async def test_a_long_history_is_cut_at_its_old_end_and_says_so(state: Path) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        await write(runtime, {MAIN: [f"{n} {'ü' * 1_000}" for n in range(150)]})
        whole = await call(runtime, "sessions_history", sessionKey=MAIN, limit=150)
        assert (len(whole["messages"]), set(whole)) == (150, {"sessionKey", "sessionId", "messages"})
        cut = await call(runtime, "sessions_history", AGENT, sessionKey=MAIN, limit=150)
        count = len(cut["messages"])
        assert cut["messages"] == whole["messages"][-count:]
        assert (cut["truncated"], cut["omitted"]) == (True, 150 - count)
        assert MAX_BYTES - 2_500 < size(cut["messages"]) <= MAX_BYTES
        few = await call(runtime, "sessions_history", AGENT, sessionKey=MAIN, limit=5)
        assert "truncated" not in few


@pytest.mark.spec("H5", "L3")
async def test_the_messages_of_a_list_share_one_allowance(state: Path) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        keys = [MAIN, *(f"{GROUP}{n}" for n in range(5))]
        await write(runtime, dict.fromkeys(keys, ["x" * 3_900] * 10))
        listed = await call(runtime, "sessions_list", AGENT, messageLimit=20)
        shown = [row["messages"] for row in listed["sessions"]]
        assert sum(map(size, shown)) <= MAX_BYTES + 12
        assert [bool(rows) for rows in shown] == [True, True, False, False, False, False] or shown[2]
        assert listed["omitted"] == 60 - sum(map(len, shown))
        assert listed["truncated"] is True
        whole = await call(runtime, "sessions_list", messageLimit=20)
        assert sum(len(row["messages"]) for row in whole["sessions"]) == 60
        assert "truncated" not in whole


@pytest.mark.spec("H5", "T1")
@pytest.mark.parametrize(
    ("text", "query", "seen"),
    [
        (f"copper {KEY} end", "copper", "copper [redacted] end"),
        (f"{PEM} copper", "copper", "[redacted] copper"),
        (f"{'x ' * 30}{PEM}\ncopper tin", "tin", None),
        (PEM, "copperkey", ""),
        ("the café is open", "cafe", "the café is open"),
    ],
)
async def test_snippets_hold_no_secrets(state: Path, text: str, query: str, seen: str | None) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        await write(runtime, {MAIN: ["hello"], GROUP: [text]})
        found: dict[str, Any] = await call(runtime, "sessions_search", AGENT, query=query)
        snippets = [hit["snippet"] for hit in found["results"]]
        assert snippets == ([seen] if seen else []) or (seen is None and len(snippets) == 1)
        assert not any("MIIE" in snippet or KEY[4:] in snippet or "IBAA" in snippet for snippet in snippets)
        operator = await call(runtime, "sessions_search", query=query)
        assert operator["count"] == 1
        assert "[redacted]" not in operator["results"][0]["snippet"]


@pytest.mark.spec("T1", "V5")
async def test_a_search_of_an_agent_ends_at_what_it_may_see(state: Path) -> None:
    async with running(state) as runtime:
        await write(runtime, {MAIN: ["copper here"], GROUP: ["copper there"]})
        found = await call(runtime, "sessions_search", AGENT, query="copper")
        assert [hit["snippet"] for hit in found["results"]] == ["copper here"]
        refused = await call(runtime, "sessions_search", AGENT, query="copper", sessionKey=GROUP)
        assert (refused["status"], refused["decidedBy"]) == ("forbidden", ["tools.sessions.visibility=tree"])


SAYS_A_KEY = Settings(rules=RuleSet(visibility=VisibilityRules("agent")), max_ping_pong_turns=1)


async def tell_a_key(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say a key and much more, or fail with it."""
    if "fail" in turn.transcript[-1].text:
        raise AgentFailure(f"no access with {KEY} {'y' * 5_000}")
    yield Reply((text_block(f"use {KEY} {'x' * 5_000}"),), None, "p/m")


@pytest.mark.spec("H5", "S3", "S5")
@pytest.mark.parametrize("caller", [AGENT, OPERATOR, Operator(MAIN)])
async def test_a_reply_and_an_error_are_bounded_and_hold_no_secrets(state: Path, caller: Caller) -> None:
    agent = Agent(tell_a_key)
    async with running(state, SAYS_A_KEY, agent) as runtime:
        await write(runtime, {MAIN: ["hello"], GROUP: ["hello"]})
        done = await call(runtime, "sessions_send", caller, sessionKey=GROUP, message="go")
        failed = await call(runtime, "sessions_send", caller, sessionKey=GROUP, message="fail")
        whole = f"use {KEY} {'x' * 5_000}", f"no access with {KEY} {'y' * 5_000}"
        if caller is AGENT:
            short = [text.replace(KEY, "[redacted]") for text in whole]
            assert (done["reply"], done["cut"]) == (short[0][:4_000], len(short[0]) - 4_000)
            assert (failed["error"], failed["cut"]) == (short[1][:4_000], len(short[1]) - 4_000)
        else:
            assert (done["reply"], failed["error"]) == whole
            assert "cut" not in done
        await runtime.drained()
        if caller is not OPERATOR:  # the loop hands the reply on, and the announce asks about it
            told = [turn.transcript[-1].text for turn in agent.turns if turn.kind != "turn"]
            assert told
            assert any("use [redacted] x" in text for text in told)
            assert not any(KEY in text for text in told)
            assert any(KEY in message.text for message in await transcript(runtime, MAIN)), "the operator reads it"


@pytest.mark.spec("H5", "W6")
async def test_what_a_sub_agent_reports_reaches_its_requester_without_secrets(state: Path) -> None:
    agent = Agent(tell_a_key)
    async with running(state, SAYS_A_KEY, agent) as runtime:
        await call(runtime, "sessions_spawn", OPERATOR, task="look")
        await runtime.drained()
        await call(runtime, "sessions_send", sessionKey=MAIN, message="well?")
        posted = agent.turns[-1].transcript[0].text
        assert "Result: use [redacted] x" in posted
        history = await call(runtime, "sessions_history", AGENT, sessionKey=MAIN)
        assert KEY not in json.dumps(history)


@pytest.mark.spec("H5", "L4")
async def test_a_label_holds_no_secret_for_an_agent(state: Path) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        await write(runtime, {MAIN: ["hello"], GROUP: ["hello"]})
        await call(runtime, "sessions_send", sessionKey=GROUP, message=f"/label {KEY}")
        for caller, label in ((AGENT, "[redacted]"), (OPERATOR, KEY)):
            (row,) = (await call(runtime, "sessions_list", caller, kinds=["group"]))["sessions"]
            assert row["label"] == label


@pytest.mark.spec("H5", "T1")
async def test_a_snippet_is_short_however_long_its_word_is(state: Path) -> None:
    async with running(state, ALL_OF_AGENT) as runtime:
        await write(runtime, {MAIN: ["hello"], GROUP: [f"copper{'x' * 60_000}"]})
        found = await call(runtime, "sessions_search", AGENT, query="copper")
        assert found["count"] == 1
        assert len(json.dumps(found)) < 1_000
