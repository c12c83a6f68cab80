"""Methods over runs: `agent` begins one and answers twice, `agent.wait` waits for one (S4, S6)."""

from typing import Any, Final

from pydantic import Field

from core.model.access import ALL
from core.model.errors import Invalid, NotFound
from core.model.keys import main_key
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.server.auth import READ, WRITE
from core.server.conversation.client import Client
from core.server.method import Later, Method
from core.server.openclaw.chat import start
from core.server.openclaw.find import found_key
from core.server.params import MethodParams

MAX_WAIT_MS: Final = 24 * 3600 * 1000
RUNS_SEEN: Final = 50


class AgentRunParams(MethodParams):
    """Parameters of `agent`; those about channels say how a reply would be delivered, and mean nothing here.

    Attributes:
        timeout: Seconds after which the run is aborted, 0 for never.
    """

    message: str
    idempotency_key: str = Field(min_length=1, max_length=200)
    session_key: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timeout: int | None = Field(default=None, ge=0)
    thinking: str | None = None
    label: str | None = None
    deliver: bool | None = None
    channel: str | None = None
    to: str | None = None
    reply_channel: str | None = None
    reply_to: str | None = None
    account_id: str | None = None
    lane: str | None = None
    best_effort_deliver: bool | None = None
    attachments: list[Any] = Field(default_factory=list[Any], max_length=0)


class _WaitParams(MethodParams):
    run_id: str = Field(min_length=1)
    timeout_ms: int = Field(default=30_000, ge=0, le=MAX_WAIT_MS)


async def _agent(client: Client, params: AgentRunParams) -> Later:
    gateway = client.gateway
    seconds = params.timeout
    request = RunRequest(
        await _target(client, params),
        params.message,
        run_id=params.idempotency_key,
        create=True,
        timeout_ms=seconds * 1000 if seconds is not None else None,
        agent_id=params.agent_id.lower() if params.agent_id else None,
    )
    ticket = await start(client, request)

    async def second() -> dict[str, Any]:
        return await _final(client, ticket, await gateway.wait_run(ticket.run_id, None))

    accepted = {
        "runId": ticket.run_id,
        "sessionKey": ticket.key,
        "sessionId": ticket.session_id,
        "status": "accepted",
        "acceptedAt": gateway.now_ms(),
    }
    return Later(accepted, second)


async def _target(client: Client, params: AgentRunParams) -> str:
    if params.session_key is not None:
        return await found_key(client, params.session_key, params.agent_id)
    if params.session_id is not None:
        return params.session_id
    if params.agent_id is None:
        return client.gateway.rules.main_key
    if params.agent_id not in {agent.agent_id for agent in await client.gateway.agents()}:
        raise Invalid(f'Unknown agent id "{params.agent_id[:80]}"')
    return client.gateway.rules.resolve(main_key(params.agent_id))


async def _final(client: Client, ticket: RunTicket, outcome: RunOutcome) -> dict[str, Any]:
    run = await _run(client, ticket.run_id, ticket.key)
    model = run.model if run is not None else None
    return {
        "runId": ticket.run_id,
        "status": "ok" if outcome.status == "ok" else "error",
        "summary": "completed" if outcome.status == "ok" else outcome.error or outcome.state,
        "result": {
            "payloads": [{"text": outcome.reply}] if outcome.reply else [],
            "meta": {
                "durationMs": _duration(run),
                "aborted": outcome.state == "aborted",
                "agentMeta": {"sessionId": ticket.session_id, "sessionKey": ticket.key, "model": model},
            },
        },
    }


def _duration(run: Run | None) -> int | None:
    if run is None or run.started_at is None or run.ended_at is None:
        return None
    return run.ended_at - run.started_at


async def _wait(client: Client, params: _WaitParams) -> dict[str, Any]:
    try:
        outcome = await client.gateway.wait_run(params.run_id, params.timeout_ms / 1000)
    except NotFound as error:  # `timeout` is what their protocol has for it; the sentence says that no wait will help
        return {"runId": params.run_id, "status": "timeout", "error": error.message}
    if outcome.status == "timeout":
        return {"runId": params.run_id, "status": "timeout"}
    run = await _run(client, params.run_id, outcome.key)
    found: dict[str, Any] = {
        "runId": params.run_id,
        "status": outcome.status,
        "startedAt": run.started_at if run is not None else None,
        "endedAt": run.ended_at if run is not None else None,
        "error": outcome.error,
        "stopReason": _stop_reason(outcome),
        "terminalReply": {"disposition": "visible", "text": outcome.reply} if outcome.reply else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _stop_reason(outcome: RunOutcome) -> str:
    if outcome.status == "ok":
        return "length" if outcome.stop_reason == "length" else "stop"
    return "rpc" if outcome.state == "aborted" else "error"


async def _run(client: Client, run_id: str, key: str) -> Run | None:
    try:
        newest = await client.gateway.runs(key, ALL, limit=RUNS_SEEN)
    except NotFound:  # the session was deleted meanwhile
        return None
    return next((run for run in newest if run.run_id == run_id), None)


RUNS: Final = (
    Method("agent", WRITE, AgentRunParams, _agent),
    Method("agent.wait", READ, _WaitParams, _wait),
)
