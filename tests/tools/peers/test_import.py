"""What real gateways of all generations have kept is here what their own `sessions.list` and `chat.history` say it is.

While the gateway runs its directory is read and left as it is.
"""

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from core.imports.importer import Progress, import_directory
from core.model.messages import Message, read_content, text_of
from core.model.sessions import Session
from core.model.wrappers import unwrapped
from core.store import messages, sessions
from core.store.database import Store
from tests.imports.here import found
from tests.support.stores import opened
from tests.tools.bench.wire import Address, Wire
from tests.tools.peers.gateways import running

pytestmark = [pytest.mark.peer, pytest.mark.timeout(1200)]
MAIN, OTHER, HELPER = "agent:main:main", "agent:main:other", "agent:helper:main"
STATES: Final = {"done": "done", "failed": "error", "killed": "aborted", "timeout": "timed_out"}
SKIPS: Final = {"REPLY_SKIP", "ANNOUNCE_SKIP"}


@dataclass
class Theirs:
    """What a gateway says of itself.

    Attributes:
        history: By key, as `chat.history` answers.
    """

    version: str
    folder: Path
    rows: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])


@pytest.fixture(scope="module")
def theirs(generation: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    """Start a gateway, live in it a little, and ask it what came of that."""
    with running(generation, tmp_path_factory.mktemp("peer")) as peer:
        address = Address(peer.url, peer.token, peer.home / "device")
        yield asyncio.run(_live(address, Theirs(generation, peer.home / "oc")))


async def _live(address: Address, theirs: Theirs) -> Theirs:
    wire = await _opened(address)
    try:
        await _talk(wire)
        rows = (await wire.call("sessions.list", {"limit": 200}))["sessions"]
        theirs.rows = {row["key"]: row for row in rows}
        for key in theirs.rows:
            answer = await wire.call("chat.history", {"sessionKey": key, "limit": 1000})
            theirs.history[key] = answer["messages"]
    finally:
        await wire.close()
    return theirs


async def _opened(address: Address) -> Wire:
    """Connect once the gateway has started: it answers before it can serve."""
    for _ in range(120):
        try:
            return await Wire.open(address)
        except RuntimeError as error:
            if "starting" not in str(error):
                raise
            await asyncio.sleep(0.5)
    raise TimeoutError("the gateway did not begin to serve")


async def _talk(wire: Wire) -> None:
    """Let something of everything happen."""
    ends: dict[str, asyncio.Event] = {}

    def heard(name: str, payload: Any) -> None:
        if name == "chat" and payload.get("state") in {"final", "error", "aborted"}:
            ends.setdefault(payload["runId"], asyncio.Event()).set()

    async def chat(key: str, message: str, *, wait: bool = True) -> str:
        run_id = str(uuid.uuid4())
        end = ends.setdefault(run_id, asyncio.Event())
        await wire.call("chat.send", {"sessionKey": key, "message": message, "idempotencyKey": run_id})
        if wait:
            await asyncio.wait_for(end.wait(), 60)
        return run_id

    wire.on_event = heard
    await chat(MAIN, "hello")
    await chat(MAIN, "TOOL sessions_list {}")
    await chat(OTHER, "SAY **bold** words")
    await chat(HELPER, "hello helper")
    for key in (OTHER, HELPER):
        await chat(MAIN, f'TOOL sessions_send {{"sessionKey":"{key}","message":"ping","timeoutSeconds":20}}')
        await _settled(wire)  # the newer generation fails a run that a late reply comes into
    await chat(MAIN, 'TOOL sessions_spawn {"task":"SAY spawned","label":"the child"}')
    await chat("agent:main:short", "before")
    await wire.call("sessions.reset", {"key": "agent:main:short"})
    await chat("agent:main:short", "after " + "and more " * 300)
    await chat("agent:main:gone", "to be deleted")
    await wire.call("sessions.delete", {"key": "agent:main:gone"})
    run_id = await chat("agent:main:slow", "SLOW 200 50", wait=False)
    await asyncio.sleep(3)
    await wire.call("chat.abort", {"sessionKey": "agent:main:slow", "runId": run_id})
    await chat("agent:main:discord:group:ops", "in the room")
    await _settled(wire)
    await wire.call("sessions.patch", {"key": OTHER, "label": "The Other", "verboseLevel": "on"})
    await wire.call("sessions.patch", {"key": OTHER, "model": "fake/fake-2"})
    await wire.call("sessions.patch", {"key": HELPER, "sendPolicy": "deny"})
    await wire.call("chat.inject", {"sessionKey": OTHER, "message": "by hand", "label": "note"})


async def _settled(wire: Wire) -> None:
    """Wait until what agents began among themselves has come to rest: no row has changed for some seconds."""
    before, still = "", 0
    while still < 4:
        await asyncio.sleep(1)
        rows = (await wire.call("sessions.list", {"limit": 200}))["sessions"]
        now = json.dumps(sorted((row["key"], row["updatedAt"]) for row in rows))
        before, still = now, still + 1 if now == before else 0


def _messages(store: Store, session: Session) -> list[Message]:
    return list(messages.page(store.db, session, session.session_id, limit=10_000).messages)


async def test_everything_is_as_their_gateway_says(theirs: Theirs, state: Path) -> None:
    before = _contents(theirs.folder)
    async with opened(state) as store:
        report = await import_directory(store, theirs.folder, Progress())
        assert report.failed == []
        for key, row in theirs.rows.items():
            session = sessions.by_key(store.db, key)
            assert session is not None, key
            _check_row(session, row)
            _check_history(_messages(store, session), theirs.history[key], key)
        _check_what_happened(store)
        if theirs.version != "2026.5.28":  # which calls an abort a timeout
            slow = found(store, "agent:main:slow")
            assert (slow.status, slow.aborted_last_run) == ("aborted", True)
        again = await import_directory(store, theirs.folder, Progress())
        assert (again.imported, again.extended, again.messages) == (0, 0, 0)
        assert again.unchanged == report.imported
    assert _contents(theirs.folder) == before


def _contents(folder: Path) -> dict[str, int]:
    """Return the stores of the agents by size; the gateway that runs may still touch times and locks."""
    return {str(path): path.stat().st_size for path in (folder / "agents").rglob("*") if path.name != "models.json"}


def _check_row(session: Session, row: dict[str, Any]) -> None:
    ours = (session.label, session.send_policy, session.spawned_by, session.updated_at, session.verbose_level)
    names = ("label", "sendPolicy", "spawnedBy", "updatedAt", "verboseLevel")
    assert ours == tuple(row.get(name) for name in names), session.key
    if row.get("status") in STATES:
        assert session.status == STATES[row["status"]], session.key
    if row.get("totalTokens"):
        assert session.total_tokens == row["totalTokens"], session.key


def _check_history(ours: list[Message], told: list[dict[str, Any]], key: str) -> None:
    """Every message they show is here, in their order and with their words, and nothing else that somebody said."""
    told = [message for message in told if message["__openclaw"].get("kind") != "reset"]
    by_id = {message.id: message for message in ours}
    # 2026.4.14 shows what an abort cut off a second time, before its own question.
    told = [message for message in told if message["__openclaw"]["id"] in by_id or not _is_shown_again(message, told)]
    assert [m.id for m in ours if m.id in {t["__openclaw"]["id"] for t in told}] == [
        t["__openclaw"]["id"] for t in told
    ], key
    for message in told:
        mine = by_id[message["__openclaw"]["id"]]
        provenance: dict[str, Any] = message.get("provenance") or {}
        content = read_content(message["content"])
        if message.get("stopReason") != "error":
            is_sent = provenance.get("kind") == "inter_session"  # 2026.5.28 shows its wrapper
            said = unwrapped(text_of(content), inter_session=True) if is_sent else text_of(content)
            assert mine.text == said, key
        assert [block["name"] for block in mine.content if block.get("type") == "toolCall"] == [
            block["name"] for block in content if block.get("type") == "toolCall"
        ]
        assert mine.timestamp == message["timestamp"]
        assert (mine.provenance is not None) == (provenance.get("kind") == "inter_session")
        if mine.provenance is not None:
            assert mine.provenance.source_session_key == provenance["sourceSessionKey"]
            assert mine.role == "user"
    shown = {message["__openclaw"]["id"] for message in told}
    hidden = [message for message in ours if message.id not in shown]
    assert all(
        message.role == "system" or message.text in SKIPS or (message.provenance and message.role == "user")
        for message in hidden
    ), key


def _is_shown_again(message: dict[str, Any], told: list[dict[str, Any]]) -> bool:
    """Whether the run's own entry of a reply that was cut off is shown too."""
    words = text_of(read_content(message["content"])).strip()
    return "openclawAbort" in message and any(
        other.get("stopReason") == "aborted" and text_of(read_content(other["content"])).strip().startswith(words)
        for other in told
    )


def _check_what_happened(store: Store) -> None:
    main, other = sessions.by_key(store.db, MAIN), sessions.by_key(store.db, OTHER)
    assert main is not None
    assert other is not None
    said = _messages(store, main)
    calls = [block["name"] for message in said for block in message.content if block.get("type") == "toolCall"]
    assert set(calls) >= {
        "sessions_list",
        "sessions_send",
        "sessions_spawn",
    }  # a run that a late reply met may fail there
    assert [message.tool_name for message in said if message.role == "toolResult"] == calls
    assert (other.label, other.model, other.verbose_level) == ("The Other", "fake/fake-2", "on")
    ping = next(message for message in _messages(store, other) if message.provenance is not None)
    assert (ping.text, ping.provenance and ping.provenance.source_session_key) == ("ping", MAIN)
    children = store.db.execute("SELECT label FROM sessions WHERE spawned_by = ?", (MAIN,)).fetchall()
    assert children == [("the child",)]
    short = sessions.by_key(store.db, "agent:main:short")
    assert short is not None
    assert [message.text[:6] for message in _messages(store, short) if message.role == "user"] == ["after "]
    older = [row[0] for row in store.db.execute("SELECT session_id FROM transcripts WHERE last_seq IS NOT NULL")]
    earlier = [
        messages.page(store.db, short, session_id, limit=9).messages for session_id in older if _owns(store, session_id)
    ]
    assert [message.text for page in earlier for message in page if message.role == "user"] == ["before"]
    assert sessions.by_key(store.db, "agent:main:gone") is None


def _owns(store: Store, session_id: str) -> bool:
    found = store.db.execute("SELECT key FROM transcripts WHERE session_id = ?", (session_id,)).fetchone()
    return found == ("agent:main:short",)
