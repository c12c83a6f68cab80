"""`sessions_spawn`: a sub-agent on a task of its own (W1, W2, W4)."""

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from core.gateway import Gateway
from core.model.access import Caller, Operator
from core.model.errors import Forbidden
from core.model.keys import parse
from core.model.runs import RunRequest, SpawnSpec
from core.tools.params import Params, Text
from core.tools.target import Refusal

NAME = "sessions_spawn"
DESCRIPTION = (
    "Start a sub-agent in a session of its own on one task. It returns at once; the result is posted to this session"
    " when the sub-agent is done."
)
MAX_SECONDS = 366 * 86_400.0


class SessionsSpawnParams(Params):
    """Parameters of `sessions_spawn`."""

    task: str = Field(description="What the sub-agent is to do; it knows nothing else.")
    label: Text | None = Field(default=None, max_length=120, description="A short name for lists and logs.")
    agent_id: Text | None = Field(default=None, description="Whose sub-agent, as agents_list shows; default your own.")
    model: Text | None = Field(default=None, description="Another model than the agent's own.")
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = Field(
        default=None, description="Another thinking level than the agent's own."
    )
    run_timeout_seconds: float | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="Stop the sub-agent after that long; 0 for never."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_older_names(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if name != "timeoutSeconds"}  # has no effect (W1)


async def run(gateway: Gateway, caller: Caller, params: SessionsSpawnParams) -> dict[str, Any]:
    """Return `{status: "accepted", runId, childSessionKey}`."""
    requester = _requester(gateway, caller)
    agent_id = (params.agent_id or parse(requester).agent_id or gateway.rules.default_agent).lower()
    limit = None if params.run_timeout_seconds is None else math.ceil(params.run_timeout_seconds * 1000)
    spec = SpawnSpec(requester, agent_id, params.label, params.model, params.thinking)
    try:
        ticket = await gateway.start_run(RunRequest("", params.task, spawn=spec, timeout_ms=limit), caller)
    except Forbidden as error:
        raise Refusal(error.message, error.decided_by) from None
    return {"status": "accepted", "runId": ticket.run_id, "childSessionKey": ticket.key}


def _requester(gateway: Gateway, caller: Caller) -> str:
    """Return who spawns: the calling session, the one the operator acts for, or the operator's main session."""
    if not isinstance(caller, Operator):
        return caller.key
    return caller.acting_for or gateway.rules.main_key
