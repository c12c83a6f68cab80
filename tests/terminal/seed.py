"""A state directory full of payloads: in labels, names, keys, models, errors, messages, tools and their arguments."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from core.clock import SystemClock
from core.model.errors import Invalid
from core.model.json_codec import encodable
from core.model.keys import parse
from core.model.messages import Draft, Provenance, text_block, thinking_block, tool_call_block, user_draft
from core.store import messages, runs, sessions
from core.store.database import Store, Tx
from tests.terminal.payloads import marked

ALL = "agent:main:everything"
LIVE = "agent:main:live"
HELPER_MODEL = "evil/model"


class _Ticking(SystemClock):
    """Time in which every write has a moment of its own, so that the order of the sessions is always the same."""

    def __init__(self) -> None:
        self._writes = itertools.count(super().now_ms() - 60_000, 10)

    def now_ms(self) -> int:
        """Return the next moment, from a minute ago on."""
        return next(self._writes)


def seed(state: Path) -> None:
    """Write it."""
    asyncio.run(_seed(state))


def configure(file: Path, url: str) -> None:
    """Write a configuration with a model at that address."""
    provider = {"baseUrl": f"{url}/v1", "apiKey": "sk-none", "api": "openai-completions", "models": [{"id": "model"}]}
    file.write_text(
        json.dumps(
            {
                "models": {"providers": {"evil": provider}},
                "agents": {"defaults": {"model": {"primary": HELPER_MODEL}}},
                "tools": {"sessions": {"visibility": "all"}},
            }
        )
    )


async def _seed(state: Path) -> None:
    store = Store.open(state, _Ticking())
    store.start_writer(sessions.finish)
    try:
        await store.write(lambda tx: _create(tx, ALL, label="everything"))
        for drafts in _transcript():
            await store.write(lambda tx, drafts=drafts: [messages.append(tx, ALL, draft) for draft in drafts])
        await store.write(_sessions)
        await store.write(lambda tx: _create(tx, LIVE, label="live"))
    finally:
        store.close()


def _create(tx: Tx, key: str, label: str | None = None, **more: str | None) -> None:
    sessions.create(tx, sessions.SessionInsert(key, "main", label=label, **more))


def _transcript() -> Iterator[list[Draft]]:
    """Yield messages around each payload, in turn as words, as a tool and as where they came from."""
    for number, (marker, payload) in enumerate(marked().items()):
        yield [_words, _tool, _origin][number % 3](marker, payload)


def _words(_: str, payload: str) -> list[Draft]:
    blocks = (text_block(f"# {payload}\n\n- {payload}"), thinking_block(payload))
    return [user_draft(payload), Draft("assistant", blocks, model=payload, stop_reason=payload)]


def _tool(marker: str, payload: str) -> list[Draft]:
    call = tool_call_block(f"call-{marker}", payload, {"argument": payload, payload: payload})
    answer = (text_block(payload),)
    return [
        Draft("assistant", (text_block(payload), call), stop_reason="toolUse"),
        Draft("toolResult", answer, tool_call_id=f"call-{marker}", tool_name=payload),
        Draft("toolResult", answer, tool_call_id="none", tool_name=payload, is_error=True),
        Draft("assistant", (tool_call_block("open", payload, {"argument": payload}),), stop_reason="stop"),
    ]


def _origin(_: str, payload: str) -> list[Draft]:
    return [
        user_draft(payload, Provenance(f"agent:main:{payload}", payload, payload)),
        Draft("assistant", ({"type": payload}, {"type": "image", "mimeType": payload}), stop_reason="stop"),
        Draft("system", (text_block(payload),)),
        Draft("system", (text_block(payload),), stop_reason="error"),
    ]


def _sessions(tx: Tx) -> None:
    """Write a session for each payload, a third of them spawned by another, all of them failed with it."""
    above = None
    for number, (marker, raw) in enumerate(marked().items()):
        payload = encodable(raw)
        key = _key(marker, payload)
        named = {"label": payload} if number % 2 else {"display_name": payload}
        _create(
            tx,
            key,
            **named,
            channel=payload,
            model=payload,
            thinking_level=payload,
            spawned_by=above if number % 3 else None,
        )
        above = above if number % 3 else key
        messages.append(tx, key, user_draft(payload))
        session = sessions.by_key(tx.db, key)
        assert session is not None, "it was just made"
        runs.accept(tx, session, runs.NewRun(f"run-{marker}", "turn", 1, "", model=payload))
        runs.start(tx, f"run-{marker}")
        runs.end(tx, f"run-{marker}", runs.End("error", error=payload, model=payload))


def _key(marker: str, payload: str) -> str:
    """Return a key that holds the payload, where a key can."""
    try:
        return parse(f"agent:main:{payload}").text
    except Invalid:
        return f"agent:main:{marker}"
