"""`agents_list`: the agents whose sub-agents a caller may spawn (W4)."""

from typing import Any

from core.gateway import Gateway
from core.model.access import Caller
from core.tools.params import ToolParams
from core.tools.target import agent_acting

NAME = "agents_list"
DESCRIPTION = "List the agents that sessions_spawn may be given as agentId here."


class AgentsListParams(ToolParams):
    """`agents_list` has no parameters."""


async def run(gateway: Gateway, caller: Caller, params: AgentsListParams) -> dict[str, Any]:  # noqa: ARG001
    """Return `{requester, agents: [{id, name?, model, default}]}`."""
    rules = gateway.rules
    agent_id = await agent_acting(gateway, caller)
    allowed = rules.spawn_targets(agent_id)
    rows: list[dict[str, Any]] = []
    for agent in await gateway.agents():
        if agent.agent_id in allowed:
            row = {"id": agent.agent_id, "name": agent.name, "model": agent.model, "default": agent.default}
            rows.append({name: value for name, value in row.items() if value is not None})
    return {"requester": agent_id, "agents": rows}
