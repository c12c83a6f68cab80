"""The session tools for any client of the Model Context Protocol, over stdin and stdout.

Needs the extra `mcp`. The client gets the tools, rules and results of `core.tools.dispatch`, as the operator or as one
session. Nothing but protocol messages goes to stdout: the library points it elsewhere while it serves.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib.metadata import version
from typing import Any, Final, cast

from anyio import AsyncFile
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from core.gateway import Gateway
from core.model import json_codec
from core.model.access import Caller
from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.tools.dispatch import FAILED, READING, dispatch, schemas

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Of one request; the largest attachments take 7 MB."""
PROGRESS_SECONDS: Final = 2.0
"""Between two tellings that a call is still at work, to clients that want to know."""


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

    async def call_tool(context: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams) -> CallToolResult:
        async with _telling(context.session.report_progress):
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
async def _telling(report: Callable[[float, float | None, str | None], Awaitable[None]]) -> AsyncGenerator[None]:
    """Tell a client that asked for it now and then that its call is at work, so that it does not give up a wait."""
    begun = asyncio.get_running_loop().time()

    async def tell() -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            seconds = round(asyncio.get_running_loop().time() - begun, 1)
            await report(seconds, None, f"at work for {seconds:.0f} s")

    telling = asyncio.create_task(tell(), name="mcp progress")
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)  # a client that is gone is noticed where it is read


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
    found = [tool for tool in schemas() if gateway.rules.withheld(tool.name, caller) is None]
    return [
        Tool(
            name=tool.name,
            description=tool.description,
            input_schema=dict(tool.parameters),
            annotations=_about(tool.name),
        )
        for tool in found
    ]


def _about(name: str) -> ToolAnnotations:
    """Return what clients may tell their user before a call; what a session does with a message is anything."""
    reads = name in READING
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=False, idempotent_hint=reads, open_world_hint=not reads
    )


async def call(gateway: Gateway, caller: Caller, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Run a tool: what a rule refuses is a result with its status, what is wrong is one sentence; both are errors."""
    try:
        result = await dispatch(gateway, caller, name, arguments)
    except SwitchboardError as error:
        failed = {"status": "error", "code": error.code, "error": error.message}
        return CallToolResult(content=[TextContent(text=error.message)], structured_content=failed, is_error=True)
    text = json_codec.encode(result)
    is_error = result.get("status") in FAILED
    return CallToolResult(content=[TextContent(text=text)], structured_content=result, is_error=is_error)
