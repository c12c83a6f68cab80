"""`POST /tools/invoke`: one tool for one client (G7, PROTOCOL I.9)."""

import asyncio
from typing import Any, Final, cast

from starlette.requests import ClientDisconnect, Request

from core.model.errors import Invalid, Unavailable
from core.model.keys import quoted
from core.server.answers import Json, dumps, problem
from core.server.auth import READ
from core.server.context import ServerContext
from core.server.run_tool import run_tool
from core.server.visitor import admit
from core.wire.frames import loads

BODY_SECONDS: Final = 30.0
"""How long a client may take to send what it asks."""
_FIELDS: Final = frozenset({"tool", "name", "args", "sessionKey", "action", "dryRun"})
"""Of the body; the last two have no effect, as on other gateways."""


class TooLarge(Invalid):
    """The request is larger than the gateway takes."""


async def invoke(context: ServerContext, request: Request) -> Json:
    """Answer the route.

    Raises:
        SwitchboardError: The body or the arguments are wrong, there is no such tool, or the sender may not use it.
    """
    access = admit(context, request, READ)
    try:
        body = _fields(await _body(request, context.limits.body))
    except TooLarge as error:
        return problem(request.url.path, 413, "invalid_request", error.message)
    name, args = body.get("tool", body.get("name")), body.get("args", {})
    session_key = body.get("sessionKey")
    if not isinstance(name, str) or not name:
        raise Invalid("tools.invoke needs tool, the name of one")
    if not isinstance(args, dict):
        raise Invalid("tools.invoke: args must be an object")
    if session_key is not None and not isinstance(session_key, str):
        raise Invalid("tools.invoke: sessionKey must be text")
    result = await run_tool(context, access, name, cast("dict[str, Any]", args), session_key)
    text = dumps(result)
    return Json(f'{{"ok":true,"result":{{"content":[{{"type":"text","text":{dumps(text)}}}],"details":{text}}}}}')


async def _body(request: Request, limit: int) -> bytes:
    """Read the body.

    Raises:
        TooLarge: It holds more than `limit` bytes.
        Invalid: It does not come in time.
        Unavailable: The client went away.
    """
    if int(request.headers.get("content-length", "0")) > limit:
        raise TooLarge(f"the request is larger than {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise TooLarge(f"the request is larger than {limit} bytes")
    except TimeoutError:
        raise Invalid(f"the request did not come within {BODY_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise Unavailable("the client went away") from None
    return bytes(body)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        data = loads(body.decode())
    except UnicodeDecodeError:
        raise Invalid("the body is not UTF-8 text") from None
    if not isinstance(data, dict):
        raise Invalid("the body must be a JSON object: {tool, args, sessionKey}")
    fields = cast("dict[str, Any]", data)
    if unknown := sorted(set(fields) - _FIELDS):
        raise Invalid(f"tools.invoke has no parameter {quoted(unknown[0])}")
    return fields
