"""The session tools for any client of the Model Context Protocol, over stdin and stdout.

Needs the extra `mcp`. The client gets the tools, rules and results of `core.tools.dispatch`, as the operator or as one
session. Nothing but protocol messages goes to stdout: the library points it elsewhere while it serves.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from importlib.metadata import version
from typing import Any, Final, cast

from anyio import AsyncFile
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from core.gateway import Gateway
from core.model.access import Caller, SessionCaller
from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.tools.dispatch import dispatch, schemas

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Of one request; the largest attachments take 7 MB."""


async def serve(gateway: Gateway, caller: Caller) -> None:
    """Answer one client until it closes its end.

    Args:
        caller: Who the client is: the operator, or a session with that session's rights and no others.

    Raises:
        Invalid: Stdin is no pipe.
        Unavailable: The client was lost, or said what cannot be read.
    """

    async def list_tools(_context: object, _params: object) -> ListToolsResult:
        return ListToolsResult(tools=tools_of(gateway, caller))

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        return await call(gateway, caller, params.name, params.arguments or {})

    server: Server[dict[str, Any]] = Server(
        "switchboard",
        version=version("switchboard-console"),
        instructions="Sessions of AI agents: list and read them, send messages to them, start sub-agents.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    serving = asyncio.create_task(_converse(server), name="mcp")
    try:
        await asyncio.wait([serving])
    except asyncio.CancelledError:
        serving.cancel()  # what it raises then, the library's own streams that broke, is of no interest
        await asyncio.wait([serving])
        _ = serving.cancelled() or serving.exception()
        raise
    if isinstance(error := serving.exception(), SwitchboardError):
        raise error
    if error is not None:
        raise Unavailable("the conversation with the client broke off") from error


async def _converse(server: Server[dict[str, Any]]) -> None:
    async with _lines() as lines, stdio_server(stdin=lines) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@contextlib.asynccontextmanager
async def _lines() -> AsyncGenerator[AsyncFile[str]]:
    """Read stdin on the loop: the library's own reader is a thread that no signal can end."""
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
    except ValueError:
        raise Invalid("`switchboard mcp` talks over pipes: let the client start it") from None

    async def lines() -> AsyncGenerator[str]:
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")

    try:
        async with contextlib.aclosing(lines()) as read:
            yield cast("AsyncFile[str]", read)  # the library only iterates over it
    finally:
        transport.close()


def tools_of(gateway: Gateway, caller: Caller) -> list[Tool]:
    """Return the tools that a caller has, as clients see them."""
    found = [
        tool
        for tool in schemas()
        if not isinstance(caller, SessionCaller) or gateway.rules.withheld(tool.name, caller.key) is None
    ]
    return [Tool(name=tool.name, description=tool.description, input_schema=dict(tool.parameters)) for tool in found]


async def call(gateway: Gateway, caller: Caller, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Run a tool: what a rule refuses is a result with its status, what is wrong is an error of one sentence."""
    try:
        result = await dispatch(gateway, caller, name, arguments)
    except SwitchboardError as error:
        failed = {"status": "error", "code": error.code, "error": error.message}
        return CallToolResult(content=[TextContent(text=error.message)], structured_content=failed, is_error=True)
    text = json.dumps(result, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=result)
