"""L4, L5: the row of a session."""

import pytest

from core.model.sessions import Session

FULL = Session(
    key="agent:main:discord:group:ops",
    session_id="s1",
    rev=9,
    agent_id="main",
    kind="group",
    chat_type="group",
    channel="discord",
    origin="discord",
    display_name="Ops",
    label="boss",
    created_at=1,
    updated_at=2,
    archived_at=None,
    first_seq=1,
    last_seq=4,
    model=None,
    used_model="p/m",
    thinking_level="low",
    verbose_level="on",
    system_sent=True,
    aborted_last_run=False,
    send_policy="deny",
    last_channel="discord",
    last_to="room-1",
    last_account_id="acc",
    spawned_by="agent:main:main",
    status="done",
    queued=0,
    started_at=3,
    ended_at=7,
    runtime_ms=4,
    context_tokens=1000,
    total_tokens=10,
    spent_tokens=20,
    cost_usd=0.25,
    preview="hi",
    error=None,
)


@pytest.mark.spec("L4")
def test_a_full_row_has_exactly_these_fields() -> None:
    row = FULL.row("main", children=("agent:main:main", "agent:ops:subagent:1"), transcript_path="/t.jsonl")
    assert row == {
        "key": "agent:main:discord:group:ops",
        "kind": "group",
        "channel": "discord",
        "displayName": "Ops",
        "label": "boss",
        "updatedAt": 2,
        "sessionId": "s1",
        "model": "p/m",
        "contextTokens": 1000,
        "totalTokens": 10,
        "thinkingLevel": "low",
        "verboseLevel": "on",
        "systemSent": True,
        "abortedLastRun": False,
        "sendPolicy": "deny",
        "lastChannel": "discord",
        "lastTo": "room-1",
        "lastAccountId": "acc",
        "deliveryContext": {"channel": "discord", "to": "room-1", "accountId": "acc"},
        "transcriptPath": "/t.jsonl",
        "spawnedBy": "main",
        "childSessions": ["main", "agent:ops:subagent:1"],
        "status": "done",
        "startedAt": 3,
        "endedAt": 7,
        "runtimeMs": 4,
        "estimatedCostUsd": 0.25,
    }
