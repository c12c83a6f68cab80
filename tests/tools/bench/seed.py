"""Stores of the sizes that the budgets speak of, written through the real store."""

import asyncio
from pathlib import Path

from core.clock import SystemClock
from core.model.messages import Draft, Usage, text_block, tool_call_block, user_draft
from core.store import messages, sessions
from core.store.database import Store, Tx
from core.store.sessions import SessionInsert

PROSE = (
    "The gateway accepted the **request** and the session moved on; see `core/store.py` for the *append* path,"
    " which fsyncs once a turn. "
)
LAST_WORDS = "these are the newest words of all"
FIRST_WORDS = "these are the oldest words of all"
BIG_RESULT = 5_000_000


def seed(state: Path, *, session_count: int = 1_000, message_count: int = 10_000, tool_results: int = 500) -> None:
    """Write that many sessions; the newest, main, has that many messages, tool results of 2-50 KB and one of 5 MB."""
    asyncio.run(_seed(state, session_count, message_count, tool_results))


def seed_talk(state: Path, key: str, message_count: int) -> None:
    """Write one more session of short messages: users say 120 bytes, assistants 330."""
    asyncio.run(_seed_talk(state, key, message_count))


def markdown(number: int) -> str:
    """Return an answer of about 800 characters with heading, list and code."""
    return (
        f"## Finding {number}\n\n{PROSE * 2}\n\n- first point with `code`\n- second point\n- third point\n\n"
        "```python\ndef f(x: int) -> int:\n    return x + 1\n```\n"
    )


async def _seed(state: Path, session_count: int, message_count: int, tool_results: int) -> None:
    store = Store.open(state, SystemClock())
    store.start_writer(sessions.finish)
    try:
        for start in range(0, session_count - 1, 200):
            numbers = range(start, min(start + 200, session_count - 1))
            await store.write(lambda tx, numbers=numbers: _sessions(tx, numbers))
        await store.write(lambda tx: sessions.create(tx, SessionInsert("agent:main:main", "main", "webchat")))
        drafts = list(_drafts(message_count, tool_results))
        for start in range(0, len(drafts), 500):
            part = drafts[start : start + 500]
            await store.write(lambda tx, part=part: [messages.append(tx, "agent:main:main", draft) for draft in part])
    finally:
        store.close()


async def _seed_talk(state: Path, key: str, message_count: int) -> None:
    store = Store.open(state, SystemClock())
    store.start_writer(sessions.finish)

    def write(tx: Tx, numbers: range) -> None:
        for number in numbers:
            said = f"{number}: {PROSE * 3}"
            is_user = number % 2 == 0
            draft = user_draft(said[:120]) if is_user else Draft("assistant", (text_block(said[:330]),), model="p/m")
            messages.append(tx, key, draft)

    try:
        await store.write(lambda tx: sessions.create(tx, SessionInsert(key, "main", "webchat")))
        for start in range(0, message_count, 500):
            numbers = range(start, min(start + 500, message_count))
            await store.write(lambda tx, numbers=numbers: write(tx, numbers))
    finally:
        store.close()


def _sessions(tx: Tx, numbers: range) -> None:
    for number in numbers:
        key = f"agent:main:discord:group:g{number}"
        sessions.create(tx, SessionInsert(key, "main", label=f"session {number}"))
        messages.append(tx, key, user_draft(f"question {number}: which region first, eu or us?"))
        messages.append(tx, key, Draft("assistant", (text_block(PROSE),), usage=Usage(100, 30, cost_usd=0.01)))


def _drafts(count: int, tool_results: int):
    every = max(2, count // tool_results) if tool_results else 0
    yield user_draft(FIRST_WORDS)
    number = 1
    while number < count - 1:
        if every and number % every == 0 and number + 2 < count:
            call_id = f"call-{number}"
            call = tool_call_block(call_id, "web_search", {"query": f"prices {number}"})
            yield Draft("assistant", (text_block("Looking."), call), model="p/m", stop_reason="toolUse")
            size = BIG_RESULT if number == every * (tool_results // 2) else 2_000 + number * 37 % 48_000
            text = (f"result line {number}: {PROSE}\n" * (size // 140 + 1))[:size]
            yield Draft("toolResult", (text_block(text),), tool_call_id=call_id, tool_name="web_search")
            number += 2
        elif number % 2:
            yield user_draft(f"Question {number}: why does the replay skip the event after a reconnect?")
            number += 1
        else:
            yield Draft("assistant", (text_block(markdown(number)),), model="p/m", stop_reason="stop")
            number += 1
    yield Draft("assistant", (text_block(LAST_WORDS),), model="p/m", stop_reason="stop")
