"""Methods over the session tools: which there are, which a session has, and running one (protocol#methods,
protocol#our-methods)."""

from typing import Any, Final, Literal

from pydantic import Field

from core.model.access import SessionCaller
from core.model.tools import Tool
from core.server.auth import READ
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.openclaw.find import key_of
from core.server.params import MethodParams
from core.server.run_tool import run_tool
from core.tools.dispatch import TOOL_NAMES, schemas
from core.tools.target import identified
from core.wire.frames import RawJson, encode

GROUP: Final = {"id": "sessions", "label": "Sessions", "source": "core"}


class _CatalogParams(MethodParams):
    agent_id: str | None = None
    include_plugins: bool = True


class _EffectiveParams(MethodParams):
    session_key: str
    agent_id: str | None = None


class InvokeParams(MethodParams):
    """Parameters of `tools.invoke`.

    Attributes:
        session_key: The session that the operator sends or spawns from (S13).
        as_: Act as that session instead, with its rights and no others.
    """

    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    session_key: str | None = None
    as_: Literal["session"] | None = Field(default=None, alias="as")
    agent_id: str | None = None
    confirm: bool | None = None
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)


async def _catalog(client: Client, params: _CatalogParams) -> dict[str, Any]:
    agent_id = params.agent_id or client.gateway.rules.default_agent
    tools = [_tool(tool) | {"defaultProfiles": list[str]()} for tool in schemas()]
    return {"agentId": agent_id, "profiles": [], "groups": [GROUP | {"tools": tools}]}


async def _effective(client: Client, params: _EffectiveParams) -> dict[str, Any]:
    gateway = client.gateway
    key = await key_of(client, params.session_key, params.agent_id)
    caller = await identified(gateway, SessionCaller(key))
    tools = [_tool(tool) for tool in schemas() if gateway.rules.withheld(tool.name, caller) is None]
    agent_id = gateway.rules.agent_of(caller)
    return {"agentId": agent_id, "profile": "full", "groups": [GROUP | {"tools": tools}]}


def _tool(tool: Tool) -> dict[str, Any]:
    words = {"description": tool.description, "rawDescription": tool.description}
    return {"id": tool.name, "label": tool.name, "source": "core"} | words


async def _invoke(client: Client, params: InvokeParams) -> RawJson:
    if params.name not in TOOL_NAMES:
        error = {"code": "not_found", "message": f"Tool not available: {params.name[:80]}"}
        return RawJson(encode({"ok": False, "toolName": params.name, "error": error}))
    result = encode(
        await run_tool(
            client.context,
            client.access,
            params.name,
            params.args,
            params.session_key,
            as_session=params.as_ == "session",
            once=params.idempotency_key,
        )
    )
    output = f'{{"content":[{{"type":"text","text":{encode(result)}}}],"details":{result}}}'
    return RawJson(f'{{"ok":true,"toolName":{encode(params.name)},"output":{output}}}')


TOOLS: Final = (
    Method("tools.catalog", READ, _CatalogParams, _catalog),
    Method("tools.effective", READ, _EffectiveParams, _effective),
    Method("tools.invoke", READ, InvokeParams, _invoke),
)
